package trace

import (
	"strings"
	"testing"
	"time"

	"github.com/whyslow/whyslow/internal/netprobe"
	"github.com/whyslow/whyslow/internal/simnet"
)

// late is a plan of six hops with a path of 6 ms, on which the router at TTL 3
// sends what it says itself so much later.
func late(v6 bool, by time.Duration) plan {
	return plan{v6: v6, routers: 5, delay: 500 * time.Microsecond, router: func(ttl int, r *simnet.Router) {
		if ttl == 3 {
			r.ControlDelay = by
		}
	}}
}

// A router with a slow control plane was called silent, since it was waited for
// by the round trips of its quick neighbours.
func TestRouterThatAnswersLateIsNotSilent(t *testing.T) {
	forAll(t, func(t *testing.T, m netprobe.Method, v6 bool) {
		for _, q := range []int{1, 3} {
			for _, by := range []time.Duration{100, 200, 230} {
				inLab(t, late(v6, by*time.Millisecond), func(t *testing.T, l *lab) {
					res := traced(t, l, Options{Method: m, Queries: q})
					checkSound(t, l, res)
					if h := res.Hops[2]; h.Silent || h.Received != h.Sent || h.Waited.Known() {
						t.Errorf("q=%d, %v ms late: hop 3 answered %d of %d", q, int(by), h.Received, h.Sent)
					}
					if n := rules(res.Reading)["R1"]; n == 0 {
						t.Errorf("q=%d, %v ms late: nothing says that it only answers slowly: %q", q, int(by), res.Reading)
					}
				})
			}
		}
	})
}

// -w was obeyed for the destination alone.
func TestWaitIsObeyedForHops(t *testing.T) {
	forAll(t, func(t *testing.T, m netprobe.Method, v6 bool) {
		for _, tt := range []struct {
			by, wait time.Duration
			found    bool
		}{
			{1500 * time.Millisecond, 2 * time.Second, true},
			{4900 * time.Millisecond, 5 * time.Second, true},
			{200 * time.Millisecond, 150 * time.Millisecond, false},
			{1500 * time.Millisecond, 0, false},
		} {
			inLab(t, late(v6, tt.by), func(t *testing.T, l *lab) {
				res := traced(t, l, Options{Method: m, Wait: tt.wait})
				checkEnd(t, l, res)
				h := res.Hops[2]
				if h.Silent == tt.found {
					t.Errorf("%v late, waited %v: silent is %v", tt.by, tt.wait, h.Silent)
				}
				if tt.found && h.Received != h.Sent {
					t.Errorf("%v late, waited %v: answered %d of %d", tt.by, tt.wait, h.Received, h.Sent)
				}
				if got := h.Waited.Known(); got == tt.found {
					t.Errorf("%v late, waited %v: the result says %v", tt.by, tt.wait, h.Waited)
				}
				bound := tt.wait + 100*time.Millisecond
				if tt.found {
					bound = tt.by + time.Second
				}
				if e := elapsed(res); e > max(bound, 300*time.Millisecond) {
					t.Errorf("%v late: took %v, want at most %v", tt.by, e, bound)
				}
			})
		}
	})
}

// checkEnd checks that the destination is where it is.
func checkEnd(t *testing.T, l *lab, res *Result) {
	t.Helper()
	if res.HopCount == nil || *res.HopCount != l.ttl {
		t.Fatalf("destination found at %v, want %d: %v", show(res.HopCount), l.ttl, addrs(res))
	}
}

// A hop was called silent without a word on how long it had been given.
func TestSilenceSaysHowLongWasWaited(t *testing.T) {
	for _, tt := range []struct {
		wait time.Duration
		want string
	}{
		{0, "hop 3 answers no probe within 250 ms, but what lies behind does: silent or slow to answer, not broken; -w 2 waits longer"},
		{3 * time.Second, "hop 3 answers no probe within 3000 ms, but what lies behind does: silent or slow to answer, not broken"},
	} {
		inLab(t, late(false, time.Hour), func(t *testing.T, l *lab) {
			res := traced(t, l, Options{Wait: tt.wait})
			if len(res.Reading) == 0 || !strings.Contains(sentences(res), tt.want) {
				t.Errorf("reading %q, want %q", sentences(res), tt.want)
			}
		})
	}
}

func sentences(res *Result) string {
	var all []string
	for _, s := range res.Reading {
		all = append(all, s.Text)
	}
	return strings.Join(all, "\n")
}

// The wait for a silent destination is the one that was asked for, and what
// would tell more is named.
func TestSilentDestinationIsWaitedForAsAsked(t *testing.T) {
	forAll(t, func(t *testing.T, m netprobe.Method, v6 bool) {
		for _, tt := range []struct {
			wait, least, most time.Duration
			want              string
		}{
			{0, time.Second, 1500 * time.Millisecond, `-w 4 gives the last router time to say "host unreachable"`},
			{300 * time.Millisecond, 250 * time.Millisecond, 650 * time.Millisecond, "-w 4"},
			{4 * time.Second, 3900 * time.Millisecond, 4500 * time.Millisecond, `no router said "host unreachable" within 4`},
		} {
			inLab(t, plan{v6: v6, router: dropAll(8)}, func(t *testing.T, l *lab) {
				res := traced(t, l, Options{Method: m, Wait: tt.wait})
				if e := elapsed(res); e < tt.least || e > tt.most {
					t.Errorf("wait %v: took %v, want %v to %v", tt.wait, e, tt.least, tt.most)
				}
				if got := sentences(res); !strings.Contains(got, tt.want) {
					t.Errorf("wait %v: %q, want %q", tt.wait, got, tt.want)
				}
			})
		}
	})
}
