package pmtu

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/whyslow/whyslow/internal/netprobe"
	"github.com/whyslow/whyslow/internal/simnet"
	"github.com/whyslow/whyslow/internal/wire"
)

// onlyTCP filters echo and UDP before the server; what runs out on the way is
// still reported.
func onlyTCP(ttl int, r *simnet.Router) {
	if ttl == 8 {
		r.Filters = []simnet.Filter{{Echo: true}, {Proto: wire.UDP}}
	}
}

func TestOnlyTCPAnswers(t *testing.T) {
	for _, tt := range []struct {
		mtu, at int
		policy  simnet.TooBigPolicy
		claim   int
	}{
		{1500, 0, simnet.Honest, 0},
		{1400, 4, simnet.Honest, 0},
		{1400, 4, simnet.Absent, 0},
		{1400, 4, simnet.Lying, 0},
		{1400, 4, simnet.Lying, 68},
		{1337, 4, simnet.Absent, 0},
		{1400, 8, simnet.Absent, 0},
	} {
		for _, v6 := range []bool{false, true} {
			for _, m := range []netprobe.Method{netprobe.Auto, netprobe.TCP} {
				t.Run(fmt.Sprintf("%+v v6=%v %v", tt, v6, m), func(t *testing.T) {
					p := plan{v6: v6, mtu: map[int]int{tt.at + 1: tt.mtu}, router: func(ttl int, r *simnet.Router) {
						r.TooBig, r.TooBigClaim = tt.policy, tt.claim
						onlyTCP(ttl, r)
					}}
					if tt.at == 0 {
						p.mtu = nil
					}
					inLab(t, p, func(t *testing.T, l *lab) {
						res := measured(t, l, Options{Method: m})
						if show(res.MTU) != fmt.Sprint(tt.mtu) || res.Method != "tcp" {
							t.Fatalf("MTU %s by %s, want %d by tcp: %q", show(res.MTU), res.Method, tt.mtu, res.Warnings)
						}
						at := 0
						if res.Limiter != nil {
							at = res.Limiter.TTL
						}
						if at != tt.at || tt.at > 0 && res.BlackHole != (tt.policy == simnet.Absent) {
							t.Errorf("limiter %+v, black hole %v: %q", res.Limiter, res.BlackHole, res.Warnings)
						}
						t.Logf("%d packets, %v %q", res.Packets, res.Elapsed, res.Warnings)
					})
				})
			}
		}
	}
}

// bounded is a network whose destination takes TCP packets of a size at most.
type bounded struct {
	netprobe.Network
	largest int
}

type boundedConn struct {
	netprobe.Conn
	largest int
}

func (b bounded) Open(ctx context.Context, dst netip.Addr, cfg netprobe.Config) (netprobe.Conn, error) {
	c, err := b.Network.Open(ctx, dst, cfg)
	if err != nil || !cfg.Segments {
		return c, err
	}
	return boundedConn{c, b.largest}, nil
}

func (c boundedConn) Info() netprobe.Info {
	i := c.Conn.(netprobe.Informer).Info()
	i.Largest = c.largest
	return i
}

// pscheduler#1540, the other half: what TCP cannot test is not claimed.
func TestLargerThanTheServersMSSIsNotClaimed(t *testing.T) {
	jumbo := map[int]int{}
	for ttl := 1; ttl <= 9; ttl++ {
		jumbo[ttl] = 9000
	}
	inLab(t, plan{mtu: jumbo, router: onlyTCP}, func(t *testing.T, l *lab) {
		res, err := Run(context.Background(), Options{Network: bounded{l.Network, 1500}, Dst: l.dst})
		if err != nil || res.MTU != nil || show(res.AtLeast) != "1500" || show(res.InterfaceMTU) != "9000" {
			t.Errorf("MTU %s, at least %s, interface %s, %v", show(res.MTU), show(res.AtLeast), show(res.InterfaceMTU), err)
		}
		if all := strings.Join(res.Warnings, "\n"); !strings.Contains(all, "more than 1500 bytes (its MSS)") {
			t.Errorf("warnings %q", res.Warnings)
		}
	})
	inLab(t, plan{mtu: map[int]int{5: 1400}, router: onlyTCP}, func(t *testing.T, l *lab) {
		res, err := Run(context.Background(), Options{Network: bounded{l.Network, 1500}, Dst: l.dst})
		if err != nil || show(res.MTU) != "1400" {
			t.Errorf("MTU %s, %v: %q", show(res.MTU), err, res.Warnings)
		}
	})
}

// obedient is a network whose TCP is the kernel's: it believes routers, down to
// min_pmtu, and from then on sends nothing larger.
type obedient struct{ netprobe.Network }

type obedientConn struct {
	netprobe.Conn
	mu    sync.Mutex
	sizes map[uint16]int
	mtu   int
	own   chan wire.Reply
}

func (o obedient) Open(ctx context.Context, dst netip.Addr, cfg netprobe.Config) (netprobe.Conn, error) {
	c, err := o.Network.Open(ctx, dst, cfg)
	if err != nil || !cfg.Segments {
		return c, err
	}
	return &obedientConn{Conn: c, sizes: make(map[uint16]int), mtu: 1500, own: make(chan wire.Reply, 100)}, nil
}

func (c *obedientConn) Info() netprobe.Info { return c.Conn.(netprobe.Informer).Info() }

func (c *obedientConn) Send(p wire.Probe) (time.Time, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sizes[p.Seq] = p.Size
	if p.Size > c.mtu {
		c.own <- wire.Reply{Seq: p.Seq, Kind: wire.TooBig, From: c.Info().Source, MTU: c.mtu, Received: time.Now()}
		return time.Now(), nil
	}
	return c.Conn.Send(p)
}

func (c *obedientConn) Recv(ctx context.Context) (wire.Reply, error) {
	select {
	case r := <-c.own:
		return r, nil
	default:
	}
	wait, cancel := context.WithTimeout(ctx, 5*time.Millisecond)
	defer cancel()
	r, err := c.Conn.Recv(wait)
	if err != nil && ctx.Err() == nil {
		return c.Recv(ctx)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil && r.Kind == wire.TooBig {
		if r.MTU < c.mtu {
			c.mtu = max(r.MTU, 552)
		}
		r.From, r.MTU = c.Info().Source, c.mtu
	}
	return r, err
}

// Over TCP the kernel obeys what routers say: what it will not send is not
// called too large for the path, and an absurd claim is no path MTU.
func TestTCPOfAnObedientKernel(t *testing.T) {
	for _, tt := range []struct {
		mtu    int
		policy simnet.TooBigPolicy
		claim  int
		want   string
	}{
		{1500, simnet.Honest, 0, "1500"},
		{1400, simnet.Honest, 0, "1400"},
		{1411, simnet.Honest, 0, "1411"},
		{1411, simnet.Absent, 0, "1411"},
		{1411, simnet.Lying, 1500, "1411"},
		{1411, simnet.Lying, 68, "null"},
		{1411, simnet.Lying, 0, "null"},
		{1411, simnet.Lying, 1280, "null"},
	} {
		p := plan{mtu: map[int]int{5: tt.mtu}, router: func(ttl int, r *simnet.Router) {
			r.TooBig, r.TooBigClaim = tt.policy, tt.claim
			onlyTCP(ttl, r)
		}}
		inLab(t, p, func(t *testing.T, l *lab) {
			res, err := Run(context.Background(), Options{Network: obedient{l.Network}, Dst: l.dst, Method: netprobe.TCP})
			if err != nil || show(res.MTU) != tt.want {
				t.Errorf("%+v: MTU %s, at least %s, %v: %q", tt, show(res.MTU), show(res.AtLeast), err, res.Warnings)
			}
			if tt.want != "null" && tt.mtu < 1500 && (res.Limiter == nil || res.Limiter.TTL != 4) {
				t.Errorf("%+v: limiter %+v", tt, res.Limiter)
			}
			if tt.want == "null" && len(res.Warnings) == 0 {
				t.Errorf("%+v: nothing says why", tt)
			}
		})
	}
}
