package trace

import (
	"fmt"
	"testing"
	"time"

	"github.com/whyslow/whyslow/internal/simnet"
)

// TestManySeeds draws networks and checks that the destination is found at
// its TTL and that no hop has a wrong address, by every method.
func TestManySeeds(t *testing.T) {
	seeds := uint64(60)
	if testing.Short() {
		seeds = 10
	}
	for _, m := range everyMethod {
		for _, loss := range []float64{0, 0.01, 0.03} {
			t.Run(fmt.Sprintf("%v loss=%v", m, loss), func(t *testing.T) {
				wrong := 0
				for seed := range seeds {
					inLab(t, plan{seed: seed, routers: 3 + int(seed%17), v6: seed%5 == 4,
						link: func(ttl int, there, back *simnet.Link) {
							there.Jitter, back.Jitter = 2*time.Millisecond, 2*time.Millisecond
							if ttl%5 == 2 {
								there.Loss, back.Loss = loss, loss
							}
						},
						router: func(ttl int, r *simnet.Router) {
							switch (uint64(ttl) + seed) % 9 {
							case 0:
								r.Silent = ttl > 1
							case 1:
								r.ControlDelay, r.ControlJitter = 30*time.Millisecond, 30*time.Millisecond
							case 2:
								r.ErrorBurst, r.ErrorEvery = 2, time.Second
							case 3:
								r.Quote = 8
							}
						}}, func(t *testing.T, l *lab) {
						res := traced(t, l, Options{Method: m})
						if res.HopCount == nil || *res.HopCount != l.ttl {
							wrong++
						}
						for i, a := range addrs(res) {
							if a.IsValid() && a != router(l, i+1) && a != l.dst {
								t.Errorf("seed %d: hop %d is %v", seed, i+1, a)
							}
						}
					})
				}
				// Loss of both ways of three links adds up to a fifth of the
				// probes at most; all of them are rarely lost at one TTL.
				if allowed := int(loss * float64(seeds)); wrong > allowed {
					t.Errorf("destination not at its TTL in %d of %d runs, want at most %d", wrong, seeds, allowed)
				}
			})
		}
	}
}
