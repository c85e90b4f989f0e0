package trace

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/whyslow/whyslow/internal/netprobe"
	"github.com/whyslow/whyslow/internal/netprobe/modelnet"
	"github.com/whyslow/whyslow/internal/simnet"
)

// forAll runs a test for every method and both address families.
func forAll(t *testing.T, f func(t *testing.T, m netprobe.Method, v6 bool)) {
	for _, m := range everyMethod {
		for _, v6 := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v v6=%v", m, v6), func(t *testing.T) { f(t, m, v6) })
		}
	}
}

func TestOnePassTakesOneRoundTrip(t *testing.T) {
	forAll(t, func(t *testing.T, m netprobe.Method, v6 bool) {
		for _, routers := range []int{1, 11, 29} {
			rtt := time.Duration(routers+1) * 5 * time.Millisecond
			inLab(t, plan{routers: routers, v6: v6}, func(t *testing.T, l *lab) {
				res := traced(t, l, Options{Method: m, Queries: 1})
				checkSound(t, l, res)
				if e := elapsed(res); e > rtt*11/10 {
					t.Errorf("%d hops: one pass takes %v, want at most 1.1 × %v", l.ttl, e, rtt)
				}
			})
			inLab(t, plan{routers: routers, v6: v6}, func(t *testing.T, l *lab) {
				res := traced(t, l, Options{Method: m})
				checkSound(t, l, res)
				// Hops beyond the usual number are asked as the answers come.
				bound := rtt + 45*time.Millisecond
				if l.ttl > likelyHops {
					bound = 2 * rtt
				}
				if e := elapsed(res); e > bound {
					t.Errorf("%d hops: three probes a hop take %v, want at most %v", l.ttl, e, bound)
				}
				for _, h := range res.Hops {
					if h.Sent != 3 || h.Received != 3 {
						t.Errorf("%d hops: hop %d answered %d of %d, want 3 of 3", l.ttl, h.TTL, h.Received, h.Sent)
					}
				}
			})
		}
	})
}

func TestSilentHopTakesLessThanThreeTenths(t *testing.T) {
	forAll(t, func(t *testing.T, m netprobe.Method, v6 bool) {
		for _, q := range []int{1, 3} {
			for _, silent := range []int{1, 7, 11} {
				inLab(t, plan{v6: v6, router: func(ttl int, r *simnet.Router) { r.Silent = ttl == silent }}, func(t *testing.T, l *lab) {
					res := traced(t, l, Options{Method: m, Queries: q})
					if res.HopCount == nil || *res.HopCount != l.ttl || !res.Hops[silent-1].Silent {
						t.Fatalf("hop %d silent, destination at %v: %v", silent, show(res.HopCount), addrs(res))
					}
					if e := elapsed(res); e > 300*time.Millisecond {
						t.Errorf("q=%d, hop %d silent: took %v, want at most 0.3 s", q, silent, e)
					}
				})
			}
		}
	})
}

// Rounds at one a second lose nothing to the routers' limits, nor to the
// destination's, and end when the last answer is in. (mtr#145, mtr#516,
// mtr#380, mtr#258)
func TestLongRunLosesNothingToLimits(t *testing.T) {
	forAll(t, func(t *testing.T, m netprobe.Method, v6 bool) {
		jitter := func(ttl int, there, back *simnet.Link) {
			there.Jitter, back.Jitter = time.Millisecond, time.Millisecond
		}
		inLab(t, plan{v6: v6, link: jitter}, func(t *testing.T, l *lab) {
			res := traced(t, l, Options{Method: m, Queries: 60, Interval: time.Second})
			if res.HopCount == nil || *res.HopCount != l.ttl {
				t.Fatalf("destination at %v, want %d", show(res.HopCount), l.ttl)
			}
			for _, h := range res.Hops {
				if h.Received != h.Sent || h.Sent < 55 {
					t.Errorf("hop %d answered %d of %d, want all of 60 or nearly", h.TTL, h.Received, h.Sent)
				}
			}
			if e := elapsed(res); e > 59*time.Second+100*time.Millisecond {
				t.Errorf("took %v: it waited although all answers were in", e)
			}
		})
	})
}

// Where rounds follow faster than routers regain errors they leave them out,
// and no loss is shown.
func TestQuickRoundsLeaveSpentRoutersOut(t *testing.T) {
	forAll(t, func(t *testing.T, m netprobe.Method, v6 bool) {
		inLab(t, plan{v6: v6}, func(t *testing.T, l *lab) {
			res := traced(t, l, Options{Method: m, Queries: 50, Interval: 40 * time.Millisecond})
			if res.HopCount == nil || *res.HopCount != l.ttl {
				t.Fatalf("destination at %v, want %d", show(res.HopCount), l.ttl)
			}
			for _, h := range res.Hops {
				if h.Received != h.Sent || h.Sent < 6 {
					t.Errorf("hop %d answered %d of %d", h.TTL, h.Received, h.Sent)
				}
			}
			if n := res.Hops[l.ttl-1].Sent; m != netprobe.UDP && n != 50 {
				t.Errorf("the destination was asked %d times, want 50", n)
			}
		})
	})
}

// Each Sent event says its round, and rounds without end end with the context.
func TestRoundsWithoutEnd(t *testing.T) {
	inLab(t, plan{}, func(t *testing.T, l *lab) {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second+500*time.Millisecond)
		defer cancel()
		start, rounds := time.Now(), 0
		for ev, err := range Events(ctx, Options{Network: l.Network, Dst: l.dst, Queries: -1}) {
			if err != nil || ev.Kind != Sent {
				continue
			}
			rounds = max(rounds, ev.Round+1)
			if want := ev.At.Sub(start).Truncate(time.Second); time.Duration(ev.Round)*time.Second != want {
				t.Fatalf("round %d is sent after %v", ev.Round, ev.At.Sub(start))
			}
		}
		if rounds != 31 {
			t.Errorf("%d rounds in 30.5 s, want 31", rounds)
		}
	})
}

func TestFirstHop(t *testing.T) {
	forAll(t, func(t *testing.T, m netprobe.Method, v6 bool) {
		inLab(t, plan{v6: v6}, func(t *testing.T, l *lab) {
			for ev := range Events(t.Context(), Options{Network: l.Network, Dst: l.dst, Method: m, FirstHop: 5}) {
				if ev.Kind == Sent && ev.TTL < 5 {
					t.Fatalf("TTL %d was sent", ev.TTL)
				}
			}
			res := traced(t, l, Options{Method: m, FirstHop: 5})
			if len(res.Hops) != 8 || res.Hops[0].TTL != 5 || res.HopCount == nil || *res.HopCount != l.ttl {
				t.Errorf("hops %v, destination at %v", addrs(res), show(res.HopCount))
			}
		})
	})
}

// The path gets longer and shorter again while it is traced: new hops appear,
// and none is left behind.
func TestPathOfChangingLength(t *testing.T) {
	for _, m := range everyMethod {
		inLab(t, plan{routers: 9, after: func(l *lab) {
			from := l.routers[4]
			for i := range 3 { // a way round hop 6 that is two hops longer
				id := l.net.AddRouter(simnet.Router{Addr4: addr4(byte(60 + i))})
				l.net.Connect(from, id, simnet.Link{Delay: time.Millisecond}, simnet.Link{Delay: time.Millisecond})
				from = id
				l.routers = append(l.routers, id)
			}
			l.net.Connect(from, l.routers[6], simnet.Link{}, simnet.Link{})
			for _, hop := range [][2]int{{4, 5}, {5, 6}, {6, 7}, {7, 8}} {
				l.net.Route(l.routers[hop[0]], netip.PrefixFrom(addr4(200), 32), l.routers[hop[1]])
			}
		}}, func(t *testing.T, l *lab) {
			dst := netip.PrefixFrom(addr4(200), 32)
			routers := append([]simnet.NodeID{}, l.routers...)
			lengths := map[int]int{}
			var f Fold
			opt := Options{Network: l.Network, Dst: l.dst, Method: m, Queries: 30, Interval: time.Second}
			for ev, err := range Events(t.Context(), opt) {
				if err != nil {
					t.Fatal(err)
				}
				f.Add(ev)
				if ev.Kind != Sent || ev.TTL != 1 {
					continue
				}
				lengths[ev.Round] = f.best().destTTL()
				l.Model(func(n *simnet.Net) {
					switch ev.Round {
					case 10:
						n.Route(routers[4], dst, routers[9])
						n.Route(routers[9], dst, routers[10])
						n.Route(routers[10], dst, routers[11])
						n.Route(routers[11], dst, routers[6])
					case 20:
						n.Route(routers[4], dst, routers[5])
					}
				})
			}
			for round, want := range map[int]int{9: 10, 14: 12, 19: 12, 26: 10, 29: 10} {
				if lengths[round] != want {
					t.Errorf("%v: before round %d the destination is at %d, want %d", m, round, lengths[round], want)
				}
			}
		})
	}
}

// The destination is found at its place in every run where nothing but limits
// on errors stands in the way. WHYSLOW_SEEDS asks for more than 60 networks a method and family.
func TestLimitsNeverHideTheDestination(t *testing.T) {
	seeds, err := strconv.Atoi(os.Getenv("WHYSLOW_SEEDS"))
	if err != nil {
		seeds = 60
	}
	if testing.Short() {
		seeds = 20
	}
	forAll(t, func(t *testing.T, m netprobe.Method, v6 bool) {
		for seed := range seeds {
			checkLimits(t, m, v6, seed)
		}
	})
}

// The look for a destination whose limit has passed was put off, for answers
// that might still come, until nobody looked any more.
func TestLastLookIsNotPutOffPastTheWait(t *testing.T) {
	checkLimits(t, netprobe.UDP, false, 300)
}

// checkLimits traces a drawn network twice: the second run meets what the first
// has left of the errors.
func checkLimits(t *testing.T, m netprobe.Method, v6 bool, seed int) {
	draw := uint64(seed)*0x9e3779b97f4a7c15 ^ uint64(m)<<32
	p := plan{seed: uint64(seed), v6: v6, routers: 1 + int(draw>>8%25), delay: time.Duration(draw>>16%8000) * time.Microsecond,
		host: modelnet.Options{Unprivileged: seed%3 == 0}}
	p.link = func(ttl int, there, back *simnet.Link) {
		there.Jitter, back.Jitter = 3*time.Millisecond, 3*time.Millisecond
	}
	p.router = func(ttl int, r *simnet.Router) {
		switch (draw >> ttl) % 7 {
		case 0:
			r.ErrorBurst, r.ErrorEvery = 1, 10*time.Second
		case 1:
			r.ControlDelay, r.ControlJitter = 20*time.Millisecond, 40*time.Millisecond
		case 2:
			r.Silent = ttl > 1
		}
	}
	p.server.ErrorBurst = int(draw>>40%3) * 3 // 6, 3 or 6 in a row
	inLab(t, p, func(t *testing.T, l *lab) {
		for run := range 2 {
			res := traced(t, l, Options{Method: m, Queries: 1 + seed%4})
			if res.HopCount == nil || *res.HopCount != l.ttl {
				t.Errorf("seed %d, run %d: destination at %v, want %d: %v", seed, run, show(res.HopCount), l.ttl, addrs(res))
			}
		}
	})
}
