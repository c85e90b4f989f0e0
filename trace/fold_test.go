package trace

import (
	"math/rand/v2"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/whyslow/whyslow/internal/stats"
)

// noisy is straight(0, 12) with a long tail of round trips and a share of
// answers lost at every router.
func noisy(rng *rand.Rand, lost float64) answerOf {
	return func(r, ttl int) (netip.Addr, time.Duration) {
		a, d := straight(0, 12)(r, ttl)
		if a != theEnd && rng.Float64() < lost {
			return netip.Addr{}, 0
		}
		return a, d + time.Duration(rng.ExpFloat64()*float64(time.Millisecond))
	}
}

// A live view may run for days: what the fold holds does not grow.
func TestLongRunsStayBounded(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	var f Fold
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	path := noisy(rng, 0.02)
	rounds(&f, 0, 6000, 12, path)
	before := heap()
	rounds(&f, 6000, 30000, 12, path)
	if after := heap(); after > before+before/4+1<<18 {
		t.Errorf("after 6000 rounds %d kB, after 30000 %d kB", before>>10, after>>10)
	}
	v := f.views[0]
	if len(v.probes) > 4096 || len(v.index) > 4096 {
		t.Errorf("%d probes and %d numbers are held", len(v.probes), len(v.index))
	}
	f.Add(Event{Kind: End, At: f.last})
	res := f.Result()
	for _, h := range res.Hops {
		if h.Sent != 30000 || len(h.Replies) != 1 || len(h.Replies[0].RTTs) != keptRTTs {
			t.Errorf("hop %d: %d sent, %d addresses, %d round trips listed", h.TTL, h.Sent, len(h.Replies), len(h.Replies[0].RTTs))
		}
		if want := 0.02; h.TTL < 12 && (h.Loss < want-0.01 || h.Loss > want+0.01) {
			t.Errorf("hop %d: loss %v, want %v", h.TTL, h.Loss, want)
		}
	}
}

// The sums are those of all the samples, as if they had been kept.
func TestSumsAreExact(t *testing.T) {
	for _, n := range []int{1, 2, 5, 30, 1500} {
		rng := rand.New(rand.NewPCG(uint64(n), 1))
		var all []time.Duration
		var f Fold
		rounds(&f, 0, n, 3, func(r, ttl int) (netip.Addr, time.Duration) {
			a, d := straight(0, 3)(r, ttl)
			d += time.Duration(rng.IntN(20000)) * time.Microsecond
			if ttl == 2 {
				all = append(all, d)
			}
			return a, d
		})
		f.Add(Event{Kind: End, At: f.last})
		got := f.Result().Hops[1].Replies[0]
		q := stats.Quantiles(all, 0, 0.5, 0.95, 1)
		var sum, changes time.Duration
		for i, d := range all {
			sum += d
			if i > 0 {
				changes += (d - all[i-1]).Abs()
			}
		}
		want := []time.Duration{q[0], q[1], q[2], q[3], all[n-1], sum / time.Duration(n), changes / time.Duration(max(n-1, 1))}
		have := []time.Duration{got.Min.Duration(), got.Median.Duration(), got.P95.Duration(), got.Max.Duration(), got.Last.Duration(),
			got.Mean.Duration(), got.Jitter.Duration()}
		near := cmp.Comparer(func(a, b time.Duration) bool { return (a - b).Abs() <= time.Microsecond })
		if diff := cmp.Diff(want, have, near); diff != "" {
			t.Errorf("%d rounds: min, median, p95, max, last, mean, jitter (-want +got):\n%s", n, diff)
		}
		if n == 1 && (got.Jitter.Known() || got.StdDev.Known()) {
			t.Errorf("one answer has jitter %v, deviation %v", got.Jitter, got.StdDev)
		}
	}
}

// What several addresses answered is summed up for the hop, too.
func TestOverallOfSeveralAddresses(t *testing.T) {
	var f Fold
	rounds(&f, 0, 20, 5, detourAt(3, func(r, ttl int) (netip.Addr, time.Duration) {
		return hopAddr(3 + 90*(r%2)), time.Duration(3+10*(r%2)) * time.Millisecond
	}, straight(0, 5)))
	f.Add(Event{Kind: End, At: f.last})
	h := f.Result().Hops[2]
	if len(h.Replies) != 2 || h.Overall == nil || h.Replies[0].Max.Duration() != ms(3) || h.Replies[1].Min.Duration() != ms(13) {
		t.Fatalf("%+v", h)
	}
	if o := h.Overall; o.Min.Duration() != ms(3) || o.Max.Duration() != ms(13) || o.Mean.Duration() != ms(8) || o.Jitter.Duration() != ms(10) {
		t.Errorf("overall %+v", *o)
	}
	if f.Result().Hops[1].Overall != nil {
		t.Error("one address needs no sum of its own")
	}
}

// Origins and names come when they come, also after the end.
func TestOriginsAreFolded(t *testing.T) {
	var f Fold
	rounds(&f, 0, 3, 3, straight(0, 3))
	f.Add(Event{Kind: End, At: f.last})
	f.Add(Event{Kind: Origin, Addr: hopAddr(2), AS: &AS{Number: 64500, Name: "EXAMPLE", Prefix: "192.0.2.0/24"}})
	f.Add(Event{Kind: Origin, Addr: hopAddr(1)})
	res := f.Result()
	if as := res.Hops[1].Replies[0].AS; as == nil || as.Number != 64500 {
		t.Errorf("hop 2: %+v", as)
	}
	if as := res.Hops[0].Replies[0].AS; as != nil {
		t.Errorf("hop 1: %+v", as)
	}
}

func TestNoFloodOfAddresses(t *testing.T) {
	var f Fold
	rounds(&f, 0, 2000, 3, detourAt(2, func(r, _ int) (netip.Addr, time.Duration) {
		return netip.AddrFrom4([4]byte{10, 0, byte(r >> 8), byte(r)}), time.Millisecond
	}, straight(0, 3)))
	res := f.Result()
	if n := len(res.Hops[1].Replies); n != maxRepliers {
		t.Errorf("%d addresses at one hop, want %d", n, maxRepliers)
	}
	if h := res.Hops[1]; h.Loss != 0 || len(res.Epochs) > maxEpochs+1 {
		t.Errorf("loss %v, %d epochs", h.Loss, len(res.Epochs))
	}
}

func BenchmarkResult(b *testing.B) {
	var f Fold
	rounds(&f, 0, 4000, 30, noisy(rand.New(rand.NewPCG(1, 1)), 0.02))
	for b.Loop() {
		f.Result()
	}
}

func BenchmarkAdd(b *testing.B) {
	var f Fold
	path := noisy(rand.New(rand.NewPCG(1, 1)), 0.02)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		rounds(&f, i, i+1, 30, path)
	}
}
