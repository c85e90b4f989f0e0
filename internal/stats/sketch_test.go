package stats

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

func TestSketch(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{0, 1, 2, 7, SketchExact, SketchExact + 1, 100_000} {
		var s Sketch
		var all []time.Duration
		for range n {
			// Round trips: a floor, a long tail, now and then a wild one.
			d := 20*time.Millisecond + time.Duration(rng.ExpFloat64()*float64(5*time.Millisecond))
			if rng.IntN(50) == 0 {
				d *= 30
			}
			s.Add(d)
			all = append(all, d)
		}
		if s.Len() != n {
			t.Errorf("%d values: Len is %d", n, s.Len())
		}
		for _, q := range []float64{0, 0.05, 0.5, 0.95, 0.99, 1} {
			want, got := Quantile(all, q), s.Quantile(q)
			limit := 0.0
			if n > SketchExact {
				limit = SketchError * 1.02 // and what lies between two ranks
			}
			if off := math.Abs(float64(got-want)) / math.Max(float64(want), 1); off > limit {
				t.Errorf("%d values: quantile %v is %v, want %v: off by %.4f", n, q, got, want, off)
			}
		}
		if size := len(s.exact) + len(s.buckets); size > SketchExact {
			t.Errorf("%d values take %d places", n, size)
		}
	}
}

func TestSketchOfExtremes(t *testing.T) {
	for _, d := range []time.Duration{-time.Second, 0, 1, time.Microsecond, time.Hour, math.MaxInt64} {
		var s Sketch
		for range SketchExact + 1 {
			s.Add(d)
		}
		if got := s.Quantile(0.5); math.Abs(float64(got-max(d, 0))) > SketchError*1.001*math.Max(float64(d), 1e5) {
			t.Errorf("the median of %v is %v", d, got)
		}
	}
}

func TestSketchClone(t *testing.T) {
	for _, n := range []int{10, 2 * SketchExact} {
		var s Sketch
		for i := range n {
			s.Add(time.Duration(i) * time.Millisecond)
		}
		c := s.Clone()
		before := s.Quantile(0.5)
		for range 3 * n {
			c.Add(time.Hour)
		}
		if s.Quantile(0.5) != before || s.Len() != n || c.Quantile(0.5) < time.Minute {
			t.Errorf("of %d values, a clone is not independent: %v, %v", n, s.Quantile(0.5), c.Quantile(0.5))
		}
	}
}

func TestSketchRank(t *testing.T) {
	for _, n := range []int{0, 1, 100, SketchExact, 3 * SketchExact} {
		var s Sketch
		for i := range n {
			s.Add(time.Duration(i+1) * 100 * time.Microsecond)
		}
		for _, at := range []int{0, 1, 50, 1000, 5000, 10000} {
			d := time.Duration(at) * 100 * time.Microsecond
			want, off := min(at, n), 0
			if n > SketchExact {
				off = at/100*2 + 1
			}
			if got := s.Rank(d); got < want-off || got > min(want+off, n) {
				t.Errorf("%d values: %d are %v or less, want %d", n, got, d, want)
			}
		}
	}
}
