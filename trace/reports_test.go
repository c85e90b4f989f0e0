package trace

import (
	"context"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/whyslow/whyslow/internal/netprobe"
	"github.com/whyslow/whyslow/internal/netprobe/modelnet"
	"github.com/whyslow/whyslow/internal/simnet"
	"github.com/whyslow/whyslow/internal/wire"
)

// Mistakes that users reported of other tools.

// A first hop whose errors bear the destination's address is not the
// destination. (ovn#316)
func TestRouterAnsweringAsTheDestinationIsNoArrival(t *testing.T) {
	forAll(t, func(t *testing.T, m netprobe.Method, v6 bool) {
		inLab(t, plan{v6: v6, router: func(ttl int, r *simnet.Router) { r.ErrorAsDst = ttl == 1 }}, func(t *testing.T, l *lab) {
			res := traced(t, l, Options{Method: m})
			if res.HopCount == nil || *res.HopCount != l.ttl || res.Hops[0].Replies[0].Addr != l.dst {
				t.Errorf("destination at %v, want %d: %v", show(res.HopCount), l.ttl, addrs(res))
			}
		})
	})
}

// A destination behind a NAT that leaves errors their inner source has been
// reached when its port unreachable comes. (NTrace-dev#204)
func TestPortUnreachableFromBehindDNATIsArrival(t *testing.T) {
	inside := netip.MustParseAddr("192.168.0.9")
	inLab(t, plan{router: func(ttl int, r *simnet.Router) {
		if ttl == 11 {
			r.NAT = &simnet.NAT{Leak: true, Forwards: []simnet.Forward{{Addr: addr4(201), To: inside}}}
		}
	}, after: func(l *lab) {
		host := l.net.AddHost(simnet.Host{Addrs: []netip.Addr{inside}})
		l.net.Connect(l.routers[10], host, simnet.Link{}, simnet.Link{})
		for i, r := range l.routers[:10] {
			l.net.Route(r, netip.PrefixFrom(addr4(201), 32), l.routers[i+1])
		}
		l.net.Route(l.client, netip.PrefixFrom(addr4(201), 32), l.routers[0])
		l.dst = addr4(201)
	}}, func(t *testing.T, l *lab) {
		res := traced(t, l, Options{Method: netprobe.UDP})
		if res.HopCount == nil || *res.HopCount != l.ttl || res.Hops[l.ttl-1].Replies[0].Addr != inside {
			t.Errorf("destination at %v, want %d from %v: %v", show(res.HopCount), l.ttl, inside, addrs(res))
		}
	})
}

// A refused connection is an arrival like any other, and says so. (mtr#326)
func TestRefusedTCPIsArrival(t *testing.T) {
	for port, want := range map[uint16]string{443: "syn-ack", 81: "reset"} {
		inLab(t, plan{}, func(t *testing.T, l *lab) {
			res := traced(t, l, Options{Method: netprobe.TCP, Port: port})
			checkSound(t, l, res)
			if got := res.Hops[l.ttl-1].Replies[0].ICMP; got != want {
				t.Errorf("port %d answers %q, want %q", port, got, want)
			}
		})
	}
}

// A destination that sends few errors does not draw in the path: the hops
// before it stay, and its place. (lance0/ttl#12)
func TestLimitedDestinationDoesNotCollapseTheTrace(t *testing.T) {
	for _, burst := range []int{1, 2, 6} {
		inLab(t, plan{server: simnet.Host{ErrorBurst: burst, ErrorEvery: time.Second}}, func(t *testing.T, l *lab) {
			checkSound(t, l, traced(t, l, Options{Method: netprobe.UDP, Queries: 20, Interval: 200 * time.Millisecond}))
		})
	}
}

// Ways of different lengths to one destination: the longer keeps its hops.
// (trippy#269)
func TestShorterWayDoesNotCutTheLongerOff(t *testing.T) {
	build := plan{seed: 3, routers: 6, after: func(l *lab) {
		dst := netip.PrefixFrom(addr4(200), 32)
		far := []simnet.NodeID{}
		for i := range 2 {
			far = append(far, l.net.AddRouter(simnet.Router{Addr4: addr4(byte(70 + i))}))
		}
		link := simnet.Link{Delay: 2500 * time.Microsecond}
		l.net.Connect(l.routers[2], far[0], link, link)
		l.net.Connect(far[0], far[1], link, link)
		l.net.Connect(far[1], l.routers[3], link, link)
		l.net.Route(far[0], dst, far[1])
		l.net.Route(far[1], dst, l.routers[3])
		l.net.RouteVia(l.routers[2], dst, simnet.Multipath{Via: []simnet.NodeID{l.routers[3], far[0]}, Hash: simnet.PerPacket})
	}}
	inLab(t, build, func(t *testing.T, l *lab) {
		res := traced(t, l, Options{Method: netprobe.ICMP, Queries: 20, Interval: time.Second})
		if res.HopCount == nil || *res.HopCount != 9 {
			t.Fatalf("destination at %v, want 9, where the longer way ends: %v", show(res.HopCount), addrs(res))
		}
		if last := res.Hops[7].Replies; !slices.ContainsFunc(last, func(r Replier) bool { return r.Addr == addr4(6) }) {
			t.Errorf("hop 8 of the longer way is lost: %v", last)
		}
	})
}

// stray passes on replies that a filter has changed, and may add some.
type stray struct {
	netprobe.Network
	change func(wire.Reply) []wire.Reply
}

func (s stray) Open(ctx context.Context, dst netip.Addr, cfg netprobe.Config) (netprobe.Conn, error) {
	c, err := s.Network.Open(ctx, dst, cfg)
	return &strayConn{Conn: c, change: s.change}, err
}

type strayConn struct {
	netprobe.Conn
	change func(wire.Reply) []wire.Reply
	queue  []wire.Reply
}

func (c *strayConn) Recv(ctx context.Context) (wire.Reply, error) {
	for len(c.queue) == 0 {
		r, err := c.Conn.Recv(ctx)
		if err != nil {
			return r, err
		}
		c.queue = c.change(r)
	}
	r := c.queue[0]
	c.queue = c.queue[1:]
	return r, nil
}

// A router that quotes too little to tell its replies apart is asked alone,
// and then found.
func TestUnnumberedRepliesAreAskedForAlone(t *testing.T) {
	inLab(t, plan{}, func(t *testing.T, l *lab) {
		network := stray{l.Network, func(r wire.Reply) []wire.Reply {
			if r.From == addr4(4) || r.From == addr4(9) {
				r.Unnumbered, r.Seq = true, 7 // which means nothing
			}
			return []wire.Reply{r}
		}}
		res, err := Run(t.Context(), Options{Network: network, Dst: l.dst, Method: netprobe.UDP})
		if err != nil {
			t.Fatal(err)
		}
		checkSound(t, l, res)
	})
}

// The same with sockets that see no more than the 8 bytes.
func TestShortQuotesWithoutPrivilege(t *testing.T) {
	forAll(t, func(t *testing.T, m netprobe.Method, v6 bool) {
		short := func(ttl int, r *simnet.Router) {
			if ttl%3 == 0 {
				r.Quote = 8
			}
		}
		inLab(t, plan{v6: v6, router: short, host: modelnet.Options{Unprivileged: true}}, func(t *testing.T, l *lab) {
			checkSound(t, l, traced(t, l, Options{Method: m}))
		})
	})
}

// A reply that is stamped before its probe has no negative round trip.
// (tkjaer/etr#79)
func TestRoundTripIsNeverNegative(t *testing.T) {
	inLab(t, plan{}, func(t *testing.T, l *lab) {
		network := stray{l.Network, func(r wire.Reply) []wire.Reply {
			r.Sent = r.Received.Add(time.Millisecond)
			return []wire.Reply{r, r} // and twice: a duplicate counts once
		}}
		res, err := Run(t.Context(), Options{Network: network, Dst: l.dst})
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range res.Hops {
			if h.Received > h.Sent || h.Replies[0].Min.Duration() < 0 {
				t.Errorf("hop %d: %d of %d, least round trip %v", h.TTL, h.Received, h.Sent, h.Replies[0].Min)
			}
		}
	})
}

// Lookups that take half a minute delay nothing. (NTrace-core#78)
func TestSlowOriginsDelayNothing(t *testing.T) {
	inLab(t, plan{}, func(t *testing.T, l *lab) {
		start := time.Now()
		res := traced(t, l, Options{Origin: func(ctx context.Context, a netip.Addr) *AS {
			if a == addr4(2) {
				return &AS{Number: 64500}
			}
			select {
			case <-time.After(30 * time.Second):
			case <-ctx.Done():
			}
			return nil
		}})
		if took := time.Since(start); took > 410*time.Millisecond || elapsed(res) > 110*time.Millisecond {
			t.Errorf("took %v, returned after %v", elapsed(res), took)
		}
		if as := res.Hops[1].Replies[0].AS; as == nil || as.Number != 64500 {
			t.Errorf("hop 2 is of %v, want AS64500", as)
		}
	})
}
