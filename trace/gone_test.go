package trace

import (
	"context"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/whyslow/whyslow/internal/netprobe"
	"github.com/whyslow/whyslow/internal/wire"
)

// searching is a network whose last router finds nobody where the destination
// should be, and says so three seconds after the first probe that got past it.
type searching struct {
	netprobe.Network
	last   netip.Addr
	behind int // the TTL of the destination
	quick  bool
}

func (s searching) Open(ctx context.Context, dst netip.Addr, cfg netprobe.Config) (netprobe.Conn, error) {
	c, err := s.Network.Open(ctx, dst, cfg)
	return &searchingConn{Conn: c, searching: s, v6: dst.Is6(), begun: make(chan struct{})}, err
}

type searchingConn struct {
	netprobe.Conn
	searching
	v6    bool
	begun chan struct{} // closed when probe seq has been sent
	seq   uint16
	sent  time.Time
	said  bool
}

func (c *searchingConn) Send(p wire.Probe) (time.Time, error) {
	at, err := c.Conn.Send(p)
	if c.sent.IsZero() && p.TTL >= c.behind {
		c.seq, c.sent = p.Seq, at
		close(c.begun)
	}
	return at, err
}

func (c *searchingConn) Recv(ctx context.Context) (wire.Reply, error) {
	<-c.begun
	if c.said {
		return c.Conn.Recv(ctx)
	}
	took := 3 * time.Second
	if c.quick {
		took = 50 * time.Millisecond
	}
	until, cancel := context.WithDeadline(ctx, c.sent.Add(took))
	defer cancel()
	r, err := c.Conn.Recv(until)
	if err == nil || ctx.Err() != nil {
		return r, err
	}
	c.said = true
	r = wire.Reply{QuotedTTL: 8, QuotedTOS: -1, QuotedLen: 28, Kind: wire.Unreachable, Type: 3, Code: 1, From: c.last, Seq: c.seq, TTL: 60, Received: time.Now(), Sent: c.sent}
	if c.v6 {
		r.Type, r.Code = 1, 3
	}
	return r, nil
}

// A router that looked for the destination in vain says so after three seconds,
// when nobody listened any more: the destination was called silent.
func TestHostThatIsDownIsToldFromSilence(t *testing.T) {
	forAll(t, func(t *testing.T, m netprobe.Method, v6 bool) {
		for _, tt := range []struct {
			wait, most time.Duration
			quick      bool
			want       string
		}{
			{wait: 0, most: 1500 * time.Millisecond, want: "-w 4 gives the last router time"},
			{wait: 4 * time.Second, most: 3500 * time.Millisecond, want: "found nobody: the host is down"},
			{wait: 5 * time.Second, most: 3500 * time.Millisecond, want: "!H"},
			{wait: 0, quick: true, most: 1500 * time.Millisecond, want: "or a filter says so"},
		} {
			inLab(t, plan{v6: v6, router: dropAll(11)}, func(t *testing.T, l *lab) {
				network := searching{l.Network, router(l, 11), l.ttl, tt.quick}
				res, err := Run(t.Context(), Options{Network: network, Dst: l.dst, Method: m, Wait: tt.wait})
				if err != nil || len(res.Warnings) > 0 {
					t.Fatalf("%v, %q", err, res.Warnings)
				}
				if got := sentences(res); !strings.Contains(got, tt.want) || rules(res.Reading)["R5"]+rules(res.Reading)["N5"] > 0 {
					t.Errorf("wait %v: %q, want %q, no R5 and no N5", tt.wait, got, tt.want)
				}
				if e := elapsed(res); e > tt.most {
					t.Errorf("wait %v: took %v, want at most %v", tt.wait, e, tt.most)
				}
			})
		}
	})
}
