package pmtu

import (
	"fmt"
	"testing"

	"github.com/whyslow/whyslow/internal/netprobe"
	"github.com/whyslow/whyslow/internal/simnet"
)

// TestHeavyLossIsTakenForABlackHole draws paths that lose most of what is sent,
// of any size: whatever is said must be true, but for one time in a hundred.
func TestHeavyLossIsTakenForABlackHole(t *testing.T) {
	seeds := uint64(60)
	if testing.Short() {
		seeds = 20
	}
	for _, method := range []netprobe.Method{netprobe.Auto, netprobe.ICMP, netprobe.UDP} {
		for _, loss := range []float64{0.1, 0.3, 0.5, 0.7, 0.9} {
			for _, mtu := range []int{1500, 1400} {
				t.Run(fmt.Sprintf("%v/loss=%v/mtu=%d", method, loss, mtu), func(t *testing.T) {
					wrong, told := 0, 0
					for seed := range seeds {
						inLab(t, plan{seed: seed, mtu: map[int]int{5: mtu}, router: policy(simnet.TooBigPolicy(seed%2), 0),
							link: func(ttl int, there, back *simnet.Link) {
								if ttl == 3 {
									there.Loss = loss
								}
							}}, func(t *testing.T, l *lab) {
							res := measured(t, l, Options{Method: method})
							if res.MTU != nil {
								told++
							}
							if res.MTU != nil && *res.MTU != mtu || mtu == 1500 && (res.BlackHole || res.Limiter != nil) {
								wrong++
								t.Logf("seed %d: MTU %s, black hole %v, limiter %+v, %d packets in %v: %q", seed, show(res.MTU), res.BlackHole,
									res.Limiter, res.Packets, res.Elapsed, res.Warnings)
							}
						})
					}
					t.Logf("told %d, wrong %d of %d", told, wrong, seeds)
					if wrong > 1 {
						t.Errorf("wrong in %d of %d runs", wrong, seeds)
					}
				})
			}
		}
	}
}
