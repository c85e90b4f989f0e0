package trace

import (
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"
)

// paced gives the answers of a router with a token bucket to probes at these
// times.
func paced(burst int, every time.Duration, times []time.Duration) *pace {
	var p pace
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	tokens, last := float64(burst), time.Duration(0)
	for _, at := range times {
		tokens = min(tokens+float64(at-last)/float64(every), float64(burst))
		last = at
		ok := tokens >= 1
		if ok {
			tokens--
		}
		p.add(probe{at: start.Add(at), answered: ok})
	}
	return &p
}

func steadily(n int, every time.Duration) []time.Duration {
	var ts []time.Duration
	for i := range n {
		ts = append(ts, time.Duration(i)*every)
	}
	return ts
}

func TestPaceOfErrors(t *testing.T) {
	hurried := steadily(10, 100*time.Millisecond)
	for i := range 40 {
		hurried = append(hurried, time.Second+time.Duration(i)*1500*time.Millisecond)
	}
	for _, tt := range []struct {
		name  string
		pace  *pace
		burst int
		every time.Duration // 0 is none
	}{
		{"six, then one a second", paced(6, time.Second, steadily(80, 100*time.Millisecond)), 6, time.Second},
		{"in the long run", paced(6, time.Second, steadily(2000, 100*time.Millisecond)), 6, time.Second},
		{"two a second", paced(1, 500*time.Millisecond, steadily(60, 100*time.Millisecond)), 1, 500 * time.Millisecond},
		{"slow enough for it", paced(6, time.Second, steadily(60, time.Second)), 0, 0},
		{"loss that falls when the interval grows", paced(1, time.Second, hurried), 0, 1500 * time.Millisecond},
		{"silent", paced(0, time.Hour, steadily(60, time.Second)), 0, 0},
		{"nothing", new(pace), 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := tt.pace.limit()
			switch {
			case got == nil && tt.every == 0:
			case got == nil || tt.every == 0:
				t.Errorf("limit %+v, want one each %v", got, tt.every)
			case got.Burst != tt.burst && tt.burst > 0 || (got.Every.Duration()-tt.every).Abs() > 120*time.Millisecond:
				t.Errorf("%d and then one each %v, want %d and %v", got.Burst, got.Every, tt.burst, tt.every)
			}
		})
	}
}

// Chance is not taken for a limit.
func TestLossIsNoPace(t *testing.T) {
	wrong, n := 0, 0
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 5))
		for _, loss := range []float64{0.02, 0.1, 0.3, 0.6, 0.8} {
			for _, probes := range []int{20, 80, 300} {
				var p pace
				for i := range probes {
					at := time.Unix(0, 0).Add(time.Duration(i) * 100 * time.Millisecond)
					if i < 10 {
						at = time.Unix(0, 0).Add(time.Duration(i) * 50 * time.Millisecond)
					}
					p.add(probe{at: at, answered: rng.Float64() >= loss})
				}
				n++
				if p.limit() != nil {
					wrong++
				}
			}
		}
	}
	if wrong > n/100 {
		t.Errorf("%d of %d lossy hops are taken for limited", wrong, n)
	}
	t.Logf("%d of %d", wrong, n)
}

// mtr#145, mtr#516: a router that sends one error a second looks lossy in a
// fast trace, although it is pingable and forwards everything.
func TestLimitedRouterIsReadAsSuch(t *testing.T) {
	tokens, last := 6.0, 0
	var f Fold
	rounds(&f, 0, 80, 5, detourAt(2, func(r, ttl int) (netip.Addr, time.Duration) {
		tokens, last = min(tokens+float64(r-last)/10, 6), r
		if tokens < 1 {
			return netip.Addr{}, 0
		}
		tokens--
		return hopAddr(2), 2 * time.Millisecond
	}, straight(0, 4)))
	f.Add(Event{Kind: End, At: f.last})
	res := f.Result()
	if res.Hops[1].Loss < 0.5 {
		t.Fatalf("the model loses %v", res.Hops[1].Loss)
	}
	got := rules(res.Reading)
	if got["R3"] != 1 || got["R2"] != 0 || got["R10"] != 1 {
		t.Errorf("reading: %q", res.Reading)
	}
	if l := LossAt(res); l.Found {
		t.Errorf("loss is found: %+v", l)
	}
}
