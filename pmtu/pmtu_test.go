package pmtu

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/whyslow/whyslow/internal/netprobe/modelnet"
	"github.com/whyslow/whyslow/internal/simnet"
)

// plan describes a chain client – routers – server for a test.
type plan struct {
	seed    uint64
	routers int           // zero means 8
	delay   time.Duration // of each link, one way; zero means 2.5 ms
	v6      bool
	mtu     map[int]int // of the link to the hop at a TTL, both ways
	back    map[int]int // of the way back alone
	router  func(ttl int, r *simnet.Router)
	link    func(ttl int, there, back *simnet.Link)
	server  simnet.Host
	host    modelnet.Options
	detour  int // further routers on the way back
}

type lab struct {
	*modelnet.Network
	dst netip.Addr
	ttl int // of the server
}

func addr4(b byte) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, b, 1}) }
func addr6(b byte) netip.Addr {
	return netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 0, b, 15: 1})
}

func (l *lab) router(ttl int) netip.Addr {
	if l.dst.Is6() {
		return addr6(byte(ttl))
	}
	return addr4(byte(ttl))
}

// inLab runs f in virtual time with a plan built.
func inLab(t *testing.T, p plan, f func(t *testing.T, l *lab)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := build(p)
		defer l.Close()
		f(t, l)
	})
}

func build(p plan) *lab {
	if p.routers == 0 {
		p.routers = 8
	}
	if p.delay == 0 {
		p.delay = 2500 * time.Microsecond
	}
	net := simnet.New(p.seed)
	l := &lab{ttl: p.routers + 1, dst: addr4(200)}
	if p.v6 {
		l.dst = addr6(200)
	}
	client := net.AddHost(simnet.Host{Name: "client", Addrs: []netip.Addr{addr4(100), addr6(100)}})
	before := client
	connect := func(ttl int, to simnet.NodeID) {
		there := simnet.Link{Delay: p.delay, MTU: p.mtu[ttl]}
		back := there
		if p.back[ttl] > 0 {
			back.MTU = p.back[ttl]
		}
		if p.link != nil {
			p.link(ttl, &there, &back)
		}
		net.Connect(before, to, there, back)
		before = to
	}
	for ttl := 1; ttl <= p.routers; ttl++ {
		r := simnet.Router{Addr4: addr4(byte(ttl)), Addr6: addr6(byte(ttl))}
		if p.router != nil {
			p.router(ttl, &r)
		}
		connect(ttl, net.AddRouter(r))
	}
	p.server.Addrs = []netip.Addr{addr4(200), addr6(200)}
	server := net.AddHost(p.server)
	connect(l.ttl, server)
	for ; p.detour > 0; p.detour-- {
		// server → d1 → d2 … → the first router, and from there home
		b := byte(200 + p.detour)
		d := net.AddRouter(simnet.Router{Addr4: addr4(b), Addr6: addr6(b)})
		link := simnet.Link{Delay: p.delay}
		net.Connect(server, d, link, link)
		for _, to := range []netip.Addr{addr4(100), addr6(100)} {
			net.Route(server, netip.PrefixFrom(to, to.BitLen()), d)
		}
		server = d
		if p.detour == 1 {
			net.Connect(d, client, link, link)
		}
	}
	l.Network = modelnet.NewWith(net, client, p.host)
	return l
}

func measured(t *testing.T, l *lab, opt Options) *Result {
	t.Helper()
	opt.Network, opt.Dst = l.Network, l.dst
	res, err := Run(context.Background(), opt)
	if err != nil {
		t.Fatalf("Run: %v", err)
	}
	return res
}

func show(n *int) string {
	if n == nil {
		return "null"
	}
	return fmt.Sprint(*n)
}

// policy makes every router answer "too big" in one way.
func policy(p simnet.TooBigPolicy, claim int) func(int, *simnet.Router) {
	return func(_ int, r *simnet.Router) { r.TooBig, r.TooBigClaim = p, claim }
}

func TestWholePath(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		inLab(t, plan{v6: v6}, func(t *testing.T, l *lab) {
			res := measured(t, l, Options{})
			if show(res.MTU) != "1500" || res.BlackHole || res.Signalled || res.Limiter != nil || len(res.Warnings) > 0 {
				t.Errorf("v6=%v: %+v", v6, res)
			}
			if e := res.Elapsed.Duration(); e > 50*time.Millisecond {
				t.Errorf("v6=%v: took %v, want one round trip of 45 ms", v6, e)
			}
			if mtu, ok := res.HopMTU(5); !ok || mtu != 1500 {
				t.Errorf("v6=%v: hop 5 has %d, %v", v6, mtu, ok)
			}
		})
	}
}

func TestNarrowPath(t *testing.T) {
	for _, tt := range []struct {
		name      string
		policy    simnet.TooBigPolicy
		claim     int
		signalled bool
		claimed   string
		warning   string
	}{
		{"honest", simnet.Honest, 0, true, "", ""},
		{"claims 0", simnet.Lying, 0, true, "0", "without saying what fits"},
		{"claims 68", simnet.Lying, 68, true, "68", "claims an MTU of 68"},
		{"claims 1500", simnet.Lying, 1500, true, "1500", "claims an MTU of 1500"},
		{"claims 1600", simnet.Lying, 1600, true, "1600", "claims an MTU of 1600"},
		{"black hole", simnet.Absent, 0, false, "null", ""},
	} {
		for _, mtu := range []int{1499, 1492, 1400, 1399, 1381, 1300, 1281, 1280, 1000, 577, 100} {
			for _, v6 := range []bool{false, true} {
				if v6 && mtu < 1280 || v6 && tt.claim == 68 {
					continue
				}
				t.Run(fmt.Sprintf("%s %d v6=%v", tt.name, mtu, v6), func(t *testing.T) {
					inLab(t, plan{v6: v6, mtu: map[int]int{5: mtu}, router: policy(tt.policy, tt.claim)}, func(t *testing.T, l *lab) {
						res := measured(t, l, Options{})
						want := tt.claimed
						if want == "" {
							want = fmt.Sprint(mtu)
						}
						if show(res.MTU) != fmt.Sprint(mtu) || show(res.ClaimedMTU) != want || res.Signalled != tt.signalled || res.BlackHole == tt.signalled {
							t.Fatalf("MTU %s, claimed %s, signalled %v, black hole %v; want %d, %s: %q",
								show(res.MTU), show(res.ClaimedMTU), res.Signalled, res.BlackHole, mtu, want, res.Warnings)
						}
						if res.Limiter == nil || *res.Limiter != (Limiter{4, l.router(4)}) {
							t.Errorf("limiter %+v, want hop 4", res.Limiter)
						}
						if all := strings.Join(res.Warnings, "\n"); !strings.Contains(all, tt.warning) || tt.warning == "" && all != "" {
							t.Errorf("warnings %q, want %q", all, tt.warning)
						}
						if res.Packets > 120 {
							t.Errorf("%d packets", res.Packets)
						}
						checkHops(t, res, map[int]int{1: 1500, 4: 1500, 5: mtu, 9: mtu})
						t.Logf("%d packets, %v", res.Packets, res.Elapsed)
					})
				})
			}
		}
	}
}

func checkHops(t *testing.T, res *Result, want map[int]int) {
	t.Helper()
	got := make(map[int]int)
	for ttl := range want {
		got[ttl], _ = res.HopMTU(ttl)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("MTU by hop (-want +got):\n%s", diff)
	}
}

func TestTwoNarrowings(t *testing.T) {
	for _, tt := range []struct {
		name      string
		router    func(int, *simnet.Router)
		signalled bool
		hole      bool
		hops      map[int]int
	}{
		{"both honest", nil, true, false, map[int]int{3: 1500, 4: 1450, 6: 1450, 7: 1400}},
		{"the second is a black hole", func(ttl int, r *simnet.Router) {
			if ttl == 6 {
				r.TooBig = simnet.Absent
			}
		}, false, true, map[int]int{3: 1500, 4: 1450, 6: 1450, 7: 1400}},
		{"the first is a black hole", func(ttl int, r *simnet.Router) {
			if ttl == 3 {
				r.TooBig = simnet.Absent
			}
		}, true, true, map[int]int{7: 1400, 9: 1400}}, // what hosts send first vanishes, though the second speaks
	} {
		t.Run(tt.name, func(t *testing.T) {
			inLab(t, plan{mtu: map[int]int{4: 1450, 7: 1400}, router: tt.router}, func(t *testing.T, l *lab) {
				res := measured(t, l, Options{HopCount: l.ttl})
				if show(res.MTU) != "1400" || res.Limiter == nil || res.Limiter.TTL != 6 || res.Signalled != tt.signalled || res.BlackHole != tt.hole {
					t.Errorf("MTU %s, limiter %+v, signalled %v: %q", show(res.MTU), res.Limiter, res.Signalled, res.Warnings)
				}
				checkHops(t, res, tt.hops)
			})
		})
	}
}

func TestJumbo(t *testing.T) {
	for _, mtu := range []int{9000, 8000, 2000, 1500} {
		inLab(t, plan{mtu: map[int]int{1: 9000, 2: 9000, 3: 9000, 4: 9000, 5: mtu, 6: 9000, 7: 9000, 8: 9000, 9: 9000}}, func(t *testing.T, l *lab) {
			if res := measured(t, l, Options{}); show(res.MTU) != fmt.Sprint(mtu) {
				t.Errorf("MTU %s, want %d", show(res.MTU), mtu)
			}
		})
	}
}

// The host says what its interface carries even if it was not known before.
func TestNarrowInterface(t *testing.T) {
	inLab(t, plan{mtu: map[int]int{1: 1420}}, func(t *testing.T, l *lab) {
		res := measured(t, l, Options{})
		if show(res.MTU) != "1420" || show(res.InterfaceMTU) != "1420" || res.BlackHole || res.Limiter != nil {
			t.Errorf("%+v", res)
		}
	})
}

func TestCachedMTU(t *testing.T) {
	inLab(t, plan{host: modelnet.Options{CachedMTU: 552}}, func(t *testing.T, l *lab) {
		res := measured(t, l, Options{})
		if show(res.MTU) != "1500" || show(res.CachedMTU) != "552" || len(res.Warnings) != 1 || !strings.Contains(res.Warnings[0], "552") {
			t.Errorf("MTU %s, cached %s, warnings %q", show(res.MTU), show(res.CachedMTU), res.Warnings)
		}
	})
}

func TestSilentEcho(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		for _, p := range []simnet.TooBigPolicy{simnet.Honest, simnet.Absent} {
			for _, mtu := range []int{1500, 1400, 1287} {
				t.Run(fmt.Sprintf("v6=%v policy=%d %d", v6, p, mtu), func(t *testing.T) {
					inLab(t, plan{v6: v6, server: simnet.Host{EchoSilent: true}, mtu: map[int]int{5: mtu}, router: policy(p, 0)}, func(t *testing.T, l *lab) {
						res := measured(t, l, Options{RTT: 45 * time.Millisecond})
						if show(res.MTU) != fmt.Sprint(mtu) || res.Method != "udp" {
							t.Fatalf("MTU %s by %s, want %d by udp: %q", show(res.MTU), res.Method, mtu, res.Warnings)
						}
						if mtu < 1500 && (res.Limiter == nil || res.Limiter.TTL != 4) {
							t.Errorf("limiter %+v, want hop 4", res.Limiter)
						}
						t.Logf("%d packets, %v", res.Packets, res.Elapsed)
					})
				})
			}
		}
	}
}

func TestSilentDestination(t *testing.T) {
	inLab(t, plan{router: func(ttl int, r *simnet.Router) {
		if ttl == 5 {
			r.Filters = []simnet.Filter{{}}
		}
	}}, func(t *testing.T, l *lab) {
		res := measured(t, l, Options{})
		if res.MTU != nil || res.BlackHole || len(res.Warnings) != 1 || !strings.Contains(res.Warnings[0], "not measured") {
			t.Errorf("MTU %s, black hole %v, warnings %q", show(res.MTU), res.BlackHole, res.Warnings)
		}
		if e := res.Elapsed.Duration(); e > 3500*time.Millisecond {
			t.Errorf("took %v", e)
		}
	})
}

// Routers of every temper: the place is still found.
func TestLocate(t *testing.T) {
	for _, tt := range []struct {
		name   string
		router func(ttl int, r *simnet.Router)
		addr   int // of the limiter; 0 is silence
	}{
		{"slow control plane", func(ttl int, r *simnet.Router) { r.ControlDelay = 150 * time.Millisecond }, 4},
		{"slow limiter", func(ttl int, r *simnet.Router) {
			if ttl == 4 {
				r.ControlDelay = 300 * time.Millisecond
			}
		}, 4},
		{"minimal quotes", func(ttl int, r *simnet.Router) { r.Quote = 8 }, 4},
		{"silent hop before", func(ttl int, r *simnet.Router) { r.Silent = ttl == 2 }, 4},
		{"silent hop behind", func(ttl int, r *simnet.Router) { r.Silent = ttl == 7 }, 4},
		{"few errors", func(ttl int, r *simnet.Router) { r.ErrorBurst = 3 }, 4},
	} {
		for _, p := range []simnet.TooBigPolicy{simnet.Honest, simnet.Absent} {
			t.Run(fmt.Sprintf("%s policy=%d", tt.name, p), func(t *testing.T) {
				inLab(t, plan{mtu: map[int]int{5: 1400}, router: func(ttl int, r *simnet.Router) {
					r.TooBig = p
					tt.router(ttl, r)
				}}, func(t *testing.T, l *lab) {
					res := measured(t, l, Options{})
					if show(res.MTU) != "1400" || res.Signalled != (p == simnet.Honest) {
						t.Fatalf("MTU %s, signalled %v: %q", show(res.MTU), res.Signalled, res.Warnings)
					}
					if res.Limiter == nil || *res.Limiter != (Limiter{4, l.router(tt.addr)}) {
						t.Errorf("limiter %+v, want hop %d: %q", res.Limiter, tt.addr, res.Warnings)
					}
				})
			})
		}
	}
	t.Run("limiter on the last hop", func(t *testing.T) {
		inLab(t, plan{mtu: map[int]int{9: 1400}, router: policy(simnet.Absent, 0)}, func(t *testing.T, l *lab) {
			res := measured(t, l, Options{})
			if show(res.MTU) != "1400" || res.Limiter == nil || res.Limiter.TTL != 8 || !res.BlackHole {
				t.Errorf("MTU %s, limiter %+v, black hole %v: %q", show(res.MTU), res.Limiter, res.BlackHole, res.Warnings)
			}
		})
	})
	t.Run("silent limiter", func(t *testing.T) {
		inLab(t, plan{mtu: map[int]int{5: 1400}, router: func(ttl int, r *simnet.Router) { r.Silent = ttl == 4 }}, func(t *testing.T, l *lab) {
			res := measured(t, l, Options{})
			if show(res.MTU) != "1400" || res.Limiter == nil || res.Limiter.TTL != 3 || !res.BlackHole || len(res.Warnings) != 1 {
				t.Errorf("MTU %s, limiter %+v, black hole %v: %q; want hop 3 and a warning that hop 4 is silent",
					show(res.MTU), res.Limiter, res.BlackHole, res.Warnings)
			}
		})
	})
}

// Only the way back is narrow, and drops what it cannot fragment: large echoes
// fail, yet the way there is whole.
func TestNarrowWayBack(t *testing.T) {
	dropFragments := func(ttl int, r *simnet.Router) { r.TooBig = simnet.Absent }
	inLab(t, plan{v6: true, back: map[int]int{5: 1400}, router: dropFragments}, func(t *testing.T, l *lab) {
		res := measured(t, l, Options{})
		if show(res.MTU) != "1500" || res.BlackHole || show(res.Backward.EchoLimit) != "1400" || res.Limiter != nil || len(res.Warnings) != 1 {
			t.Errorf("MTU %s, black hole %v, echo limit %s, limiter %+v: %q", show(res.MTU), res.BlackHole,
				show(res.Backward.EchoLimit), res.Limiter, res.Warnings)
		}
	})
}

// Narrow both ways, and not alike: the way there is found to be a black hole, as
// it is by UDP alone.
func TestNarrowBothWays(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		silent := func(ttl int, r *simnet.Router) { r.TooBig = simnet.Absent }
		// With IPv4 answers leave without DF and are fragmented, whatever the way back carries.
		inLab(t, plan{v6: v6, mtu: map[int]int{5: 1400}, back: map[int]int{3: 1300}, router: silent}, func(t *testing.T, l *lab) {
			res := measured(t, l, Options{})
			if show(res.MTU) != "1400" || !res.BlackHole || res.Limiter == nil || res.Limiter.TTL != 4 {
				t.Errorf("v6=%v: MTU %s, black hole %v, limiter %+v: %q", v6, show(res.MTU), res.BlackHole, res.Limiter, res.Warnings)
			}
		})
	}
}

func TestSlowLink(t *testing.T) {
	for _, mtu := range []int{1500, 1400} {
		inLab(t, plan{mtu: map[int]int{5: mtu}, link: func(ttl int, there, back *simnet.Link) {
			if ttl == 3 {
				there.Rate, back.Rate = 1_000_000, 1_000_000
			}
		}}, func(t *testing.T, l *lab) {
			if res := measured(t, l, Options{}); show(res.MTU) != fmt.Sprint(mtu) {
				t.Errorf("MTU %s, want %d: %q", show(res.MTU), mtu, res.Warnings)
			}
		})
	}
}

func TestInterrupted(t *testing.T) {
	for _, after := range []time.Duration{0, time.Millisecond, 50 * time.Millisecond, 80 * time.Millisecond, 150 * time.Millisecond, 250 * time.Millisecond} {
		t.Run(after.String(), func(t *testing.T) {
			inLab(t, plan{mtu: map[int]int{5: 1400}, router: policy(simnet.Absent, 0)}, func(t *testing.T, l *lab) {
				ctx, cancel := context.WithTimeout(context.Background(), after)
				defer cancel()
				start := time.Now()
				res, err := Run(ctx, Options{Network: l.Network, Dst: l.dst})
				if !errors.Is(err, context.DeadlineExceeded) || res == nil {
					t.Fatalf("result %v, error %v", res, err)
				}
				if took := time.Since(start); took > after+50*time.Millisecond {
					t.Errorf("returned %v after the end", took-after)
				}
				if after >= 80*time.Millisecond && (show(res.AtLeast) != "1400") {
					t.Errorf("at least %s, want 1400", show(res.AtLeast))
				}
			})
		})
	}
}
