package trace

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/whyslow/whyslow/internal/netprobe/modelnet"
	"github.com/whyslow/whyslow/internal/simnet"
)

// forest is a network of many hosts: a trunk of routers, branches of routers,
// and as many hosts behind each branch.
type forest struct {
	trunk, branches, twigs, hosts int
	limited                       bool
	v6                            bool
}

// tree is a forest built.
type tree struct {
	*modelnet.Network
	net  *simnet.Net
	dsts []netip.Addr
	ways [][]netip.Addr // the true routers to each
}

func (f forest) build() *tree {
	n := simnet.New(1)
	t := &tree{net: n}
	link := simnet.Link{Delay: 2500 * time.Microsecond}
	addr := func(a, b, c byte) netip.Addr {
		if f.v6 {
			return netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, a, b, c, 15: 1})
		}
		return netip.AddrFrom4([4]byte{10, a, b, c})
	}
	client := n.AddHost(simnet.Host{Name: "client", Addrs: []netip.Addr{addr(0, 0, 1)}})
	router := func(from simnet.NodeID, a netip.Addr) simnet.NodeID {
		r := simnet.Router{ErrorBurst: -1}
		if f.limited {
			r.ErrorBurst = 0
		}
		if f.v6 {
			r.Addr6 = a
		} else {
			r.Addr4 = a
		}
		id := n.AddRouter(r)
		n.Connect(from, id, link, link)
		return id
	}
	at, trunk := client, []netip.Addr{}
	for i := range f.trunk {
		trunk = append(trunk, addr(1, byte(i), 1))
		at = router(at, trunk[i])
	}
	for b := range f.branches {
		tip, way := at, slices.Clone(trunk)
		for i := range f.twigs {
			way = append(way, addr(2, byte(b), byte(i+1)))
			tip = router(tip, way[len(way)-1])
		}
		for h := range f.hosts {
			dst := addr(3, byte(b), byte(h+1))
			n.Connect(tip, n.AddHost(simnet.Host{Addrs: []netip.Addr{dst}}), link, link)
			t.dsts, t.ways = append(t.dsts, dst), append(t.ways, append(slices.Clone(way), dst))
		}
	}
	t.Network = modelnet.New(n, client)
	return t
}

func (t *tree) options(o Options) []Options {
	var opts []Options
	for _, d := range t.dsts {
		o.Network, o.Dst = t.Network, d
		opts = append(opts, o)
	}
	return opts
}

var forests = map[string]forest{
	"hosts behind one router":  {trunk: 11, branches: 1, hosts: 64},
	"all parts after hop 4":    {trunk: 4, branches: 64, twigs: 7, hosts: 1},
	"eight branches of eight":  {trunk: 3, branches: 8, twigs: 8, hosts: 8},
	"all parts at once":        {trunk: 1, branches: 64, twigs: 10, hosts: 1},
	"two branches, like roots": {trunk: 1, branches: 2, twigs: 10, hosts: 32},
}

// Sixty-four traces at once find every router and every destination, and no
// hop looks lossy, although the first routers send six errors in a row.
func TestGroupFindsAllPathsThroughLimitedRouters(t *testing.T) {
	for name, f := range forests {
		for _, v6 := range []bool{false, true} {
			for _, m := range everyMethod {
				t.Run(fmt.Sprintf("%s v6=%v %v", name, v6, m), func(t *testing.T) {
					f.v6, f.limited = v6, true
					synctest.Test(t, func(t *testing.T) {
						w := f.build()
						defer w.Close()
						for i, o := range RunGroup(t.Context(), w.options(Options{Method: m})) {
							if o.Err != nil {
								t.Fatal(o.Err)
							}
							if got := addrs(o.Result); !slices.Equal(got, w.ways[i]) {
								t.Errorf("path %d is\n%v, want\n%v", i, got, w.ways[i])
							}
							for _, h := range o.Result.Hops {
								if h.Received < h.Sent {
									t.Errorf("path %d: hop %d answered %d of %d", i, h.TTL, h.Received, h.Sent)
								}
							}
						}
					})
				})
			}
		}
	}
}

// Where routers have no limits, sixty-four traces take no more than twice the
// time of one.
func TestGroupTakesTwiceTheTimeOfOne(t *testing.T) {
	for name, f := range forests {
		for _, q := range []int{1, 3} {
			t.Run(fmt.Sprintf("%s q=%d", name, q), func(t *testing.T) {
				var took [2]time.Duration
				for i := range took {
					synctest.Test(t, func(t *testing.T) {
						w := f.build()
						defer w.Close()
						opts := w.options(Options{Queries: q})
						if i == 0 {
							opts = opts[:1]
						}
						start := time.Now()
						RunGroup(t.Context(), opts)
						took[i] = time.Since(start)
					})
				}
				if took[1] > 2*took[0] {
					t.Errorf("%d traces take %v, one %v", len(f.build().dsts), took[1], took[0])
				}
			})
		}
	}
}

// What the paths have in common is asked for once, not by each, and the
// results say so.
func TestGroupAsksSharedHopsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := forests["hosts behind one router"].build()
		defer w.Close()
		asked := make(map[int]int)
		shared := 0
		for ev, err := range Group(t.Context(), w.options(Options{Queries: 1})) {
			if err != nil {
				t.Fatal(err)
			}
			switch ev.Kind {
			case Sent:
				asked[ev.TTL]++
			case Shared:
				shared++
				if ev.RTT.Duration() != time.Duration(ev.TTL)*5*time.Millisecond {
					t.Errorf("the round trip taken over for hop %d is %v, want what was measured", ev.TTL, ev.RTT)
				}
			}
		}
		for ttl := 1; ttl <= 10; ttl++ {
			if asked[ttl] > 2 {
				t.Errorf("hop %d was asked %d times for 64 traces, want at most twice", ttl, asked[ttl])
			}
		}
		if shared < 62*10 {
			t.Errorf("%d answers were taken over, want 62 traces with 10 each", shared)
		}
	})
}

// The error of one trace is its own.
func TestGroupOutlivesAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := forest{trunk: 3, branches: 1, hosts: 4}.build()
		defer w.Close()
		for bad := range 4 {
			opts := w.options(Options{})
			opts[bad].Dst = netip.Addr{}
			for i, o := range RunGroup(t.Context(), opts) {
				switch {
				case o.Result == nil:
					t.Fatal("no result")
				case i == bad && !errors.Is(o.Err, ErrNoDestination):
					t.Errorf("trace %d without a destination: %v", i, o.Err)
				case i != bad && (o.Err != nil || !o.Result.Reached):
					t.Errorf("trace %d ends with trace %d: %v, reached %v", i, bad, o.Err, o.Result.Reached)
				}
			}
		}
	})
}

func TestGroupInterrupted(t *testing.T) {
	for _, after := range []time.Duration{0, 30 * time.Millisecond, 70 * time.Millisecond, 90 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			w := forests["eight branches of eight"].build()
			defer w.Close()
			ctx, cancel := context.WithTimeout(t.Context(), after)
			defer cancel()
			start := time.Now()
			for _, o := range RunGroup(ctx, w.options(Options{})) {
				if o.Err == nil {
					t.Errorf("after %v: no error", after)
				}
			}
			if d := time.Since(start) - after; d > 50*time.Millisecond {
				t.Errorf("returned %v after the end", d)
			}
		})
	}
	for n := range 40 {
		synctest.Test(t, func(t *testing.T) {
			w := forest{trunk: 3, branches: 1, hosts: 6}.build()
			defer w.Close()
			for range Group(t.Context(), w.options(Options{})) {
				if n--; n < 0 {
					break // synctest fails the test if a goroutine is left behind
				}
			}
		})
	}
}

// Two traces at the same time to one destination keep their replies apart.
// (mtr#344, mtr#278)
func TestConcurrentTracesDoNotMix(t *testing.T) {
	for _, m := range everyMethod {
		inLab(t, plan{server: simnet.Host{ErrorBurst: -1}}, func(t *testing.T, l *lab) {
			opts := make([]Options, 4)
			for i := range opts {
				opts[i] = Options{Network: l.Network, Dst: l.dst, Method: m, MaxHops: 12 + i}
			}
			for _, o := range RunGroup(t.Context(), opts) {
				if o.Err != nil {
					t.Fatal(o.Err)
				}
				checkSound(t, l, o.Result)
				for _, h := range o.Result.Hops {
					if least := time.Duration(h.TTL) * 5 * time.Millisecond; h.Replies[0].Min.Duration() != least {
						t.Errorf("%v: hop %d: least round trip %v, want %v", m, h.TTL, h.Replies[0].Min, least)
					}
				}
			}
		})
	}
}
