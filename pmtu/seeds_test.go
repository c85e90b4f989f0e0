package pmtu

import (
	"fmt"
	"testing"
	"time"

	"github.com/whyslow/whyslow/internal/simnet"
)

// TestManySeeds draws paths that lose packets: loss is not a size limit.
func TestManySeeds(t *testing.T) {
	seeds := uint64(120)
	if testing.Short() {
		seeds = 10
	}
	sizes := []int{1500, 1492, 1411, 1400, 1337, 1280}
	for _, loss := range []float64{0, 0.01, 0.05} {
		t.Run(fmt.Sprintf("loss=%v", loss), func(t *testing.T) {
			wrong, misplaced := 0, 0
			for seed := range seeds {
				mtu := sizes[seed%6]
				at := 2 + int(seed%7)
				inLab(t, plan{seed: seed, mtu: map[int]int{at: mtu}, v6: seed%4 == 3,
					router: func(ttl int, r *simnet.Router) {
						r.TooBig = simnet.TooBigPolicy(seed % 3)
						r.TooBigClaim = int(seed % 1600)
					},
					link: func(ttl int, there, back *simnet.Link) {
						there.Jitter, back.Jitter = 2*time.Millisecond, 2*time.Millisecond
						if ttl == 3 {
							there.Loss, back.Loss = loss, loss
						}
					}}, func(t *testing.T, l *lab) {
					res := measured(t, l, Options{})
					if show(res.MTU) != fmt.Sprint(mtu) {
						wrong++
						t.Logf("seed %d: MTU %s, want %d; %q", seed, show(res.MTU), mtu, res.Warnings)
						return
					}
					if mtu < 1500 && (res.Limiter == nil || res.Limiter.TTL != at-1) {
						misplaced++
						t.Logf("seed %d: limiter %+v, want hop %d; %q", seed, res.Limiter, at-1, res.Warnings)
					}
				})
			}
			if wrong > int(loss*float64(seeds))/3 || misplaced > int(loss*float64(seeds)) {
				t.Errorf("wrong MTU in %d, wrong limiter in %d of %d runs", wrong, misplaced, seeds)
			}
		})
	}
}
