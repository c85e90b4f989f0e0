package pmtu

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/whyslow/whyslow/internal/netprobe"
	"github.com/whyslow/whyslow/internal/netprobe/modelnet"
	"github.com/whyslow/whyslow/internal/simnet"
	"github.com/whyslow/whyslow/internal/wire"
)

func TestBounds(t *testing.T) {
	narrow := plan{mtu: map[int]int{5: 1337}, router: policy(simnet.Absent, 0)}
	t.Run("packets", func(t *testing.T) {
		inLab(t, narrow, func(t *testing.T, l *lab) {
			res := measured(t, l, Options{MaxPackets: 25})
			if res.Packets > 25 || res.MTU != nil || len(res.Warnings) == 0 {
				t.Errorf("%d packets, MTU %s, warnings %q", res.Packets, show(res.MTU), res.Warnings)
			}
		})
	})
	t.Run("time", func(t *testing.T) {
		inLab(t, narrow, func(t *testing.T, l *lab) {
			res := measured(t, l, Options{Budget: 100 * time.Millisecond})
			if res.Elapsed.Duration() > 200*time.Millisecond || len(res.Warnings) == 0 {
				t.Errorf("took %v, warnings %q", res.Elapsed, res.Warnings)
			}
		})
	})
	t.Run("options", func(t *testing.T) {
		for _, o := range []Options{{}, {Dst: addr4(1), Method: netprobe.TCP + 1}, {Dst: addr4(1), Wait: -1}} {
			if res, err := Run(context.Background(), o); err == nil || res == nil {
				t.Errorf("%+v: %v, %v", o, res, err)
			}
		}
	})
	t.Run("denied", func(t *testing.T) {
		inLab(t, plan{host: modelnet.Options{Deny: []netprobe.Method{netprobe.ICMP, netprobe.UDP, netprobe.TCP}}}, func(t *testing.T, l *lab) {
			if _, err := Run(context.Background(), Options{Network: l.Network, Dst: l.dst}); !errors.Is(err, netprobe.ErrNotPermitted) {
				t.Errorf("error %v, want ErrNotPermitted", err)
			}
		})
	})
	t.Run("icmp denied", func(t *testing.T) {
		inLab(t, plan{host: modelnet.Options{Deny: []netprobe.Method{netprobe.ICMP}}}, func(t *testing.T, l *lab) {
			if res := measured(t, l, Options{}); show(res.MTU) != "1500" || res.Method != wire.UDP.String() ||
				!strings.Contains(strings.Join(res.Warnings, "\n"), "cannot be sent from this host") {
				t.Errorf("MTU %s by %s: %q", show(res.MTU), res.Method, res.Warnings)
			}
		})
	})
}

// forger is a network on which somebody calls every packet too big that in
// truth arrives, and is believed to be first.
type forger struct {
	netprobe.Network
	claim int
}

type forgedConn struct {
	netprobe.Conn
	claim int
	mu    sync.Mutex
	held  []wire.Reply
}

func (f forger) Open(ctx context.Context, dst netip.Addr, cfg netprobe.Config) (netprobe.Conn, error) {
	c, err := f.Network.Open(ctx, dst, cfg)
	if err != nil {
		return nil, err
	}
	return &forgedConn{Conn: c, claim: f.claim}, nil
}

func (c *forgedConn) Info() netprobe.Info { return c.Conn.(netprobe.Informer).Info() }

func (c *forgedConn) Recv(ctx context.Context) (wire.Reply, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.held) > 0 {
		r := c.held[0]
		c.held = nil
		return r, nil
	}
	r, err := c.Conn.Recv(ctx)
	if err != nil || r.Kind == wire.TooBig {
		return r, err
	}
	c.held = []wire.Reply{r}
	forged := r
	forged.Kind, forged.MTU, forged.From = wire.TooBig, c.claim, netip.MustParseAddr("192.0.2.66")
	return forged, nil
}

func TestForgedTooBig(t *testing.T) {
	for _, claim := range []int{0, 1, 552, 1280, 1400, 1 << 20, -1} {
		for _, mtu := range []string{"1500", "1400"} {
			p := plan{}
			if mtu == "1400" {
				p.mtu = map[int]int{5: 1400}
			}
			inLab(t, p, func(t *testing.T, l *lab) {
				res, err := Run(context.Background(), Options{Network: forger{l.Network, claim}, Dst: l.dst})
				if err != nil || show(res.MTU) != mtu {
					t.Fatalf("claim %d: MTU %s, want %s: %v %q", claim, show(res.MTU), mtu, err, res.Warnings)
				}
				if !strings.Contains(strings.Join(res.Warnings, "\n"), "192.0.2.66") {
					t.Errorf("claim %d on a path of %s: the forger is not named: %q", claim, mtu, res.Warnings)
				}
				if mtu == "1500" && (res.BlackHole || res.Signalled || res.Limiter != nil) {
					t.Errorf("claim %d: a whole path is called narrow: %+v", claim, res)
				}
				if mtu == "1400" && (res.Limiter == nil || res.Limiter.TTL != 4) {
					t.Errorf("claim %d: limiter %+v, want hop 4", claim, res.Limiter)
				}
			})
		}
	}
}
