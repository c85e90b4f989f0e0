package trace

import (
	"strings"
	"testing"
	"time"

	"github.com/whyslow/whyslow/internal/netprobe"
	"github.com/whyslow/whyslow/internal/simnet"
)

// Traces that follow each other within seconds showed loss at every router, and
// nothing said that the errors were spent by the one before. Each is a process
// of its own, which knows nothing of the others.
func TestErrorsSpentByTheTraceBeforeAreNotLoss(t *testing.T) {
	for _, m := range []netprobe.Method{netprobe.ICMP, netprobe.UDP, netprobe.TCP} {
		for _, q := range []int{3, 4, 5} {
			inLab(t, plan{routers: 8}, func(t *testing.T, l *lab) {
				for run := range 3 {
					res := traced(t, l, Options{Method: m, Queries: q})
					partly := 0
					for _, h := range res.Hops {
						if !h.Silent && h.Received < h.Sent && h.TTL < l.ttl {
							partly++
						}
					}
					told := strings.Contains(sentences(res), "ICMP errors were spent, most likely by a trace just before")
					if told != (partly > 0) {
						t.Errorf("%v, %d probes, run %d: %d hops lost some, said is %q", m, q, run, partly, sentences(res))
					}
					last := res.Hops[len(res.Hops)-1]
					if got := strings.Contains(sentences(res), "that tells nothing of loss; -I or -T does"); got != (last.Received < last.Sent) {
						t.Errorf("%v, %d probes, run %d: the destination answered %d of %d, said is %q", m, q, run, last.Received, last.Sent, sentences(res))
					}
					if rules(res.Reading)["R2"] > 0 {
						t.Errorf("%v, %d probes, run %d: loss is claimed: %q", m, q, run, sentences(res))
					}
					time.Sleep(time.Second)
				}
			})
		}
	}
}

// Packets that are really lost are not taken for errors that were spent.
func TestLossIsNotTakenForSpentErrors(t *testing.T) {
	wrong := 0
	for seed := range uint64(200) {
		lossy := func(ttl int, there, back *simnet.Link) {
			if ttl == 3 {
				there.Loss = 0.3
			}
		}
		inLab(t, plan{seed: seed, link: lossy}, func(t *testing.T, l *lab) {
			res := traced(t, l, Options{Method: netprobe.ICMP})
			if strings.Contains(sentences(res), "were spent") {
				wrong++
			}
		})
	}
	if wrong > 10 {
		t.Errorf("%d of 200 lossy paths are called spent errors, want 10 at most", wrong)
	}
}

func TestListOfHops(t *testing.T) {
	for _, tt := range []struct {
		ttls []int
		want string
	}{
		{[]int{7}, "7"}, {[]int{2, 3}, "2 and 3"}, {[]int{2, 3, 4}, "2 to 4"}, {[]int{1, 3, 4, 5, 6, 9, 10}, "1, 3 to 6, 9 and 10"},
	} {
		if got := ttlList(tt.ttls); got != tt.want {
			t.Errorf("ttlList(%v) is %q, want %q", tt.ttls, got, tt.want)
		}
	}
}
