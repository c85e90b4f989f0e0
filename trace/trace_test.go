package trace

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/whyslow/whyslow/internal/netprobe"
	"github.com/whyslow/whyslow/internal/netprobe/modelnet"
	"github.com/whyslow/whyslow/internal/simnet"
	"github.com/whyslow/whyslow/internal/wire"
)

var everyMethod = []netprobe.Method{netprobe.Auto, netprobe.ICMP, netprobe.UDP, netprobe.TCP}

func TestSoundPath(t *testing.T) {
	for _, m := range everyMethod {
		for _, v6 := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v v6=%v", m, v6), func(t *testing.T) {
				inLab(t, plan{v6: v6}, func(t *testing.T, l *lab) {
					res := traced(t, l, Options{Method: m, Name: "www.example.com"})
					checkSound(t, l, res)
					for _, h := range res.Hops {
						if h.Loss != 0 || h.Sent != 3 {
							t.Errorf("hop %d: %d probes, loss %v; want 3 and none", h.TTL, h.Sent, h.Loss)
						}
						want := time.Duration(h.TTL) * 5 * time.Millisecond
						if got := h.Replies[0].Min.Duration(); got != want {
							t.Errorf("hop %d: least round trip %v, want %v", h.TTL, got, want)
						}
					}
					bound := 300 * time.Millisecond
					if m == netprobe.UDP || m == netprobe.TCP {
						bound = 450 * time.Millisecond
					}
					if e := elapsed(res); e > bound {
						t.Errorf("took %v, want at most %v", e, bound)
					}
					if res.BackCount == nil || *res.BackCount != l.ttl {
						t.Errorf("way back %v, want %d", res.BackCount, l.ttl)
					}
				})
			})
		}
	}
}

// checkSound checks that every hop and the destination are where they are.
func checkSound(t *testing.T, l *lab, res *Result) {
	t.Helper()
	if res.HopCount == nil || *res.HopCount != l.ttl || !res.Reached {
		t.Fatalf("destination found at %v, want %d: %v", show(res.HopCount), l.ttl, addrs(res))
	}
	var want []netip.Addr
	for ttl := 1; ttl < l.ttl; ttl++ {
		want = append(want, router(l, ttl))
	}
	want = append(want, l.dst)
	if got := addrs(res); !slices.Equal(got, want) {
		t.Errorf("hops %v, want %v", got, want)
	}
}

func show(n *int) string {
	if n == nil {
		return "none"
	}
	return fmt.Sprint(*n)
}

func router(l *lab, ttl int) netip.Addr {
	if l.dst.Is6() {
		return addr6(byte(ttl))
	}
	return addr4(byte(ttl))
}

// addrs are the first answers of each hop, the zero Addr for silence.
func addrs(res *Result) []netip.Addr {
	var as []netip.Addr
	for _, h := range res.Hops {
		a := netip.Addr{}
		if len(h.Replies) > 0 {
			a = h.Replies[0].Addr
		}
		as = append(as, a)
	}
	return as
}

func TestSilentHop(t *testing.T) {
	for _, m := range everyMethod {
		t.Run(m.String(), func(t *testing.T) {
			var took [2]time.Duration
			for i, silent := range []bool{false, true} {
				inLab(t, plan{router: func(ttl int, r *simnet.Router) { r.Silent = silent && ttl == 7 }}, func(t *testing.T, l *lab) {
					res := traced(t, l, Options{Method: m})
					if res.HopCount == nil || *res.HopCount != l.ttl {
						t.Fatalf("destination at %v, want %d", show(res.HopCount), l.ttl)
					}
					if silent && (!res.Hops[6].Silent || res.Hops[6].Loss != 1 || rules(res.Reading)["R4"] != 1) {
						t.Errorf("hop 7 is not called silent: %+v, %q", res.Hops[6], res.Reading)
					}
					took[i] = elapsed(res)
				})
			}
			if cost := took[1] - took[0]; cost > 300*time.Millisecond {
				t.Errorf("a silent hop costs %v, want at most 0.3 s", cost)
			}
		})
	}
}

func TestRunOfSilentHops(t *testing.T) {
	for _, m := range everyMethod {
		t.Run(m.String(), func(t *testing.T) {
			inLab(t, plan{router: func(ttl int, r *simnet.Router) { r.Silent = ttl >= 3 && ttl <= 10 }}, func(t *testing.T, l *lab) {
				res := traced(t, l, Options{Method: m})
				if res.HopCount == nil || *res.HopCount != l.ttl {
					t.Errorf("destination at %v, want %d", show(res.HopCount), l.ttl)
				}
			})
		})
	}
}

func dropAll(ttl int) func(int, *simnet.Router) {
	return func(at int, r *simnet.Router) {
		if at == ttl {
			r.Filters = []simnet.Filter{{}}
		}
	}
}

func TestSilentDestination(t *testing.T) {
	for _, m := range everyMethod {
		t.Run(m.String(), func(t *testing.T) {
			inLab(t, plan{router: dropAll(8)}, func(t *testing.T, l *lab) {
				res := traced(t, l, Options{Method: m})
				if res.Reached || res.HopCount != nil {
					t.Fatalf("reached what nothing reaches: %v", addrs(res))
				}
				if e := elapsed(res); e > 1500*time.Millisecond {
					t.Errorf("took %v, want at most 1.5 s", e)
				}
				if len(res.Hops) != 9 || res.Hops[7].Silent || !res.Hops[8].Silent {
					t.Errorf("hops %v, want 8 that answer and a silent one", addrs(res))
				}
				if got := rules(res.Reading)["R4"]; got != 1 {
					t.Errorf("%d sentences by R4, want 1: %q", got, res.Reading)
				}
				for _, h := range res.Hops[:8] {
					if h.Loss != 0 {
						t.Errorf("hop %d: loss %v, want none", h.TTL, h.Loss)
					}
				}
			})
		})
	}
}

func TestNothingAnswers(t *testing.T) {
	inLab(t, plan{router: func(ttl int, r *simnet.Router) { r.Silent = true; dropAll(1)(ttl, r) }}, func(t *testing.T, l *lab) {
		res := traced(t, l, Options{})
		if res.Reached || len(res.Hops) != 1 || !res.Hops[0].Silent {
			t.Errorf("hops %v, want one silent hop", addrs(res))
		}
		if e := elapsed(res); e > 1500*time.Millisecond {
			t.Errorf("took %v, want at most 1.5 s", e)
		}
	})
}

func TestAutoFallsBack(t *testing.T) {
	filter := func(fs ...simnet.Filter) func(int, *simnet.Router) {
		return func(ttl int, r *simnet.Router) {
			if ttl == 9 {
				r.Filters = fs
			}
		}
	}
	for _, tt := range []struct {
		name   string
		plan   plan
		want   string
		silent int // hops that cannot be seen
	}{
		{"no echo at the destination", plan{server: simnet.Host{EchoSilent: true}}, "udp", 0},
		{"echo filtered", plan{router: filter(simnet.Filter{Proto: wire.ICMP, Echo: true})}, "udp", 0},
		{"echo and udp filtered", plan{router: filter(simnet.Filter{Proto: wire.ICMP, Echo: true}, simnet.Filter{Proto: wire.UDP})}, "tcp", 0},
		{"all icmp and udp filtered", plan{router: filter(simnet.Filter{Proto: wire.ICMP}, simnet.Filter{Proto: wire.UDP})}, "tcp", 2},
		{"icmp denied on the host", plan{host: modelnet.Options{Deny: []netprobe.Method{netprobe.ICMP}}}, "udp", 0},
		{"only tcp permitted", plan{host: modelnet.Options{Deny: []netprobe.Method{netprobe.ICMP, netprobe.UDP}}}, "tcp", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.plan.open = []uint16{8443}
			inLab(t, tt.plan, func(t *testing.T, l *lab) {
				res := traced(t, l, Options{Port: 8443})
				if res.HopCount == nil || *res.HopCount != l.ttl || res.Method != tt.want {
					t.Fatalf("destination at %v by %s, want %d by %s", show(res.HopCount), res.Method, l.ttl, tt.want)
				}
				if tt.want == "tcp" && res.Target.Port != 8443 {
					t.Errorf("TCP to port %d, want 8443", res.Target.Port)
				}
				silent := 0
				for _, h := range res.Hops {
					if h.Silent {
						silent++
					}
				}
				if silent != tt.silent {
					t.Errorf("%d silent hops, want %d: %v", silent, tt.silent, addrs(res))
				}
				if e := elapsed(res); e > 1500*time.Millisecond {
					t.Errorf("took %v, want at most 1.5 s", e)
				}
			})
		})
	}
}

func TestNothingPermitted(t *testing.T) {
	deny := []netprobe.Method{netprobe.ICMP, netprobe.UDP, netprobe.TCP}
	for _, m := range everyMethod {
		inLab(t, plan{host: modelnet.Options{Deny: deny}}, func(t *testing.T, l *lab) {
			res, err := Run(context.Background(), Options{Network: l.Network, Dst: l.dst, Method: m})
			if !errors.Is(err, netprobe.ErrNotPermitted) || res == nil {
				t.Errorf("%v: result %v and error %v, want ErrNotPermitted", m, res, err)
			}
		})
	}
}

func TestNoRoute(t *testing.T) {
	inLab(t, plan{after: func(l *lab) {
		l.net.Route(l.client, netip.MustParsePrefix("203.0.113.0/24"), simnet.Nowhere)
	}}, func(t *testing.T, l *lab) {
		_, err := Run(context.Background(), Options{Network: l.Network, Dst: netip.MustParseAddr("203.0.113.9")})
		if !errors.Is(err, netprobe.ErrUnreachable) {
			t.Errorf("error %v, want ErrUnreachable", err)
		}
	})
}

func TestOptions(t *testing.T) {
	for _, opt := range []Options{
		{},
		{Dst: addr4(1), Method: 9},
		{Dst: addr4(1), Interval: -1},
		{Dst: addr4(1), FirstHop: 9, MaxHops: 8},
	} {
		if res, err := Run(context.Background(), opt); err == nil || res == nil {
			t.Errorf("%+v: result %v, error %v; want both", opt, res, err)
		}
	}
}

// A slow control plane delays a router's answers and nothing else.
func TestSlowControlPlane(t *testing.T) {
	slow := func(d time.Duration) plan {
		return plan{router: func(ttl int, r *simnet.Router) {
			if ttl == 4 {
				r.ControlDelay = d
			}
		}}
	}
	for _, d := range []time.Duration{50 * time.Millisecond, 220 * time.Millisecond, 300 * time.Millisecond} {
		t.Run(d.String(), func(t *testing.T) {
			inLab(t, slow(d), func(t *testing.T, l *lab) {
				// A trace that takes its time waits longer.
				res := traced(t, l, Options{Interval: d / 3})
				checkSound(t, l, res)
				for _, s := range Segments(res) {
					if s.Delay > 11*time.Millisecond {
						t.Errorf("hop %d is charged %v, want about 5 ms a hop", s.ToTTL, s.Delay)
					}
				}
				if rules(res.Reading)["R1"] != 2 {
					t.Errorf("the slow answer is not explained: %q", res.Reading)
				}
			})
		})
	}
}

func TestSlowLink(t *testing.T) {
	inLab(t, plan{link: func(ttl int, there, back *simnet.Link) {
		if ttl == 6 {
			there.Delay, back.Delay = 40*time.Millisecond, 40*time.Millisecond
		}
	}, router: func(ttl int, r *simnet.Router) {
		if ttl == 4 {
			r.ControlDelay = 200 * time.Millisecond
		}
	}}, func(t *testing.T, l *lab) {
		for _, s := range Segments(traced(t, l, Options{})) {
			if got := s.Delay > 60*time.Millisecond; got != (s.ToTTL == 6) {
				t.Errorf("segment to hop %d is charged %v", s.ToTTL, s.Delay)
			}
		}
	})
}

// Routers that send one error and then one in ten seconds still each appear.
func TestStingyRouters(t *testing.T) {
	for _, m := range everyMethod {
		t.Run(m.String(), func(t *testing.T) {
			inLab(t, plan{router: func(ttl int, r *simnet.Router) { r.ErrorBurst, r.ErrorEvery = 1, 10*time.Second }}, func(t *testing.T, l *lab) {
				checkSound(t, l, traced(t, l, Options{Method: m}))
			})
		})
	}
}

// A UDP destination that has spent its errors on others answers again within
// a second.
func TestUDPDestinationLimited(t *testing.T) {
	for _, burst := range []int{1, 2} {
		inLab(t, plan{server: simnet.Host{ErrorBurst: burst}}, func(t *testing.T, l *lab) {
			checkSound(t, l, traced(t, l, Options{Method: netprobe.UDP}))
		})
	}
	t.Run("spent before", func(t *testing.T) {
		inLab(t, plan{routers: 3}, func(t *testing.T, l *lab) {
			for range 2 {
				res := traced(t, l, Options{Method: netprobe.UDP, Queries: 3})
				if res.HopCount == nil || *res.HopCount != l.ttl {
					t.Errorf("destination at %v, want %d", show(res.HopCount), l.ttl)
				}
			}
		})
	})
}

func TestNeighbour(t *testing.T) {
	for _, m := range everyMethod {
		inLab(t, plan{routers: 1, delay: 100 * time.Microsecond}, func(t *testing.T, l *lab) {
			res := traced(t, l, Options{Method: m})
			checkSound(t, l, res)
			if last := res.Hops[len(res.Hops)-1]; last.Loss != 0 {
				t.Errorf("%v: the destination loses %v", m, last.Loss)
			}
		})
	}
}

func TestFarDestination(t *testing.T) {
	inLab(t, plan{link: func(ttl int, there, back *simnet.Link) {
		if ttl == 12 { // a satellite as the last link
			there.Delay, back.Delay = 300*time.Millisecond, 300*time.Millisecond
		}
	}}, func(t *testing.T, l *lab) {
		checkSound(t, l, traced(t, l, Options{}))
	})
}

func TestOtherWayBack(t *testing.T) {
	inLab(t, plan{after: func(l *lab) {
		// From router 6 on, answers to the client take three routers more.
		from := l.routers[5]
		for i := range 3 {
			id := l.net.AddRouter(simnet.Router{Addr4: addr4(byte(50 + i)), Addr6: addr6(byte(50 + i))})
			slow := simnet.Link{Delay: 10 * time.Millisecond}
			l.net.Connect(from, id, slow, slow)
			l.net.Route(from, netip.PrefixFrom(addr4(100), 32), id)
			from = id
		}
		l.net.Connect(from, l.client, simnet.Link{}, simnet.Link{})
		l.net.Route(from, netip.PrefixFrom(addr4(100), 32), l.client)
		l.net.Route(l.client, netip.MustParsePrefix("10.0.0.0/16"), l.routers[0])
		for i := range 5 {
			l.net.Route(l.routers[i], netip.PrefixFrom(addr4(200), 32), l.routers[i+1])
		}
	}}, func(t *testing.T, l *lab) {
		res := traced(t, l, Options{})
		if res.HopCount == nil || *res.HopCount != l.ttl {
			t.Fatalf("destination at %v, want %d: %v", show(res.HopCount), l.ttl, addrs(res))
		}
		suspected := []int{}
		for _, s := range Segments(res) {
			if s.ReturnSuspect {
				suspected = append(suspected, s.ToTTL)
			}
		}
		if diff := cmp.Diff([]int{6}, suspected); diff != "" {
			t.Errorf("the way back changes at (-want +got):\n%s", diff)
		}
	})
}

func TestLoop(t *testing.T) {
	inLab(t, plan{after: func(l *lab) {
		l.net.Route(l.routers[5], netip.PrefixFrom(addr4(200), 32), l.routers[4])
	}}, func(t *testing.T, l *lab) {
		res := traced(t, l, Options{MaxHops: 16})
		if res.Reached || rules(res.Reading)["R9"] != 1 {
			t.Errorf("a loop is read as %q", res.Reading)
		}
	})
}

func TestRefused(t *testing.T) {
	inLab(t, plan{after: func(l *lab) {
		l.net.Route(l.routers[5], netip.PrefixFrom(addr4(200), 32), simnet.Nowhere)
	}}, func(t *testing.T, l *lab) {
		res := traced(t, l, Options{})
		last := res.Hops[len(res.Hops)-1]
		if res.Reached || last.Silent || last.Replies[0].Addr != addr4(6) || last.Replies[0].ICMP == "time exceeded" {
			t.Errorf("the refusal of hop 6 is not the end: %v %+v", addrs(res), last)
		}
		if rules(res.Reading)["R4"] != 1 {
			t.Errorf("the refusal is not read: %q", res.Reading)
		}
	})
}
