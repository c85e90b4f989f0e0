package stats

import (
	"math"
	"slices"
	"time"
)

const (
	// SketchExact is up to how many values a Sketch is exact.
	SketchExact = 2048
	// SketchError is the largest relative error of its quantiles beyond that.
	SketchError = 0.01
)

// sketchGrowth is the ratio of the bounds of a bucket: its middle, weighted
// harmonically, is within SketchError of whatever is in it.
const sketchGrowth = (1 + SketchError) / (1 - SketchError)

// sketchLeast is the least duration told apart from zero.
const sketchLeast = time.Microsecond

// Sketch keeps a sample of durations for its quantiles in bounded memory,
// however many there are: all of them up to SketchExact, and counts in buckets
// of constant relative width then (DDSketch; Masson, Rim and Lee, VLDB 2019).
// Unlike a random reservoir it is a function of the values alone: a recorded
// run gives the same quantiles again. The zero Sketch is empty and ready.
type Sketch struct {
	n       int
	exact   []time.Duration // sorted; nil once there are buckets
	buckets []uint32
}

// Len is the number of values added.
func (s *Sketch) Len() int { return s.n }

// Add adds a value. Negative ones count as zero.
func (s *Sketch) Add(d time.Duration) {
	d = max(d, 0)
	s.n++
	if s.buckets != nil {
		s.count(d)
		return
	}
	i, _ := slices.BinarySearch(s.exact, d)
	s.exact = slices.Insert(s.exact, i, d)
	if len(s.exact) > SketchExact {
		for _, d := range s.exact {
			s.count(d)
		}
		s.exact = nil
	}
}

// bucketOf is the bucket that counts d.
func bucketOf(d time.Duration) int {
	if d <= sketchLeast {
		return 0
	}
	return int(math.Ceil(math.Log(float64(d)/float64(sketchLeast)) / math.Log(sketchGrowth)))
}

func (s *Sketch) count(d time.Duration) {
	i := bucketOf(d)
	if i >= len(s.buckets) {
		s.buckets = append(s.buckets, make([]uint32, i+1-len(s.buckets))...)
	}
	if s.buckets[i] < math.MaxUint32 {
		s.buckets[i]++
	}
}

// Clone returns an independent copy.
func (s *Sketch) Clone() Sketch {
	return Sketch{n: s.n, exact: slices.Clone(s.exact), buckets: slices.Clone(s.buckets)}
}

// Quantile is Quantile of the values added: exactly so up to SketchExact of
// them, and within SketchError of the value at the nearest rank beyond. 0 if
// there is none.
func (s *Sketch) Quantile(q float64) time.Duration {
	if s.buckets == nil {
		return quantileSorted(s.exact, q)
	}
	rank := uint64(math.Round(min(max(q, 0), 1) * float64(s.n-1)))
	seen := uint64(0)
	for i, n := range s.buckets {
		if seen += uint64(n); seen > rank {
			if i == 0 {
				return sketchLeast
			}
			upper := math.Pow(sketchGrowth, float64(i))
			return time.Duration(2 * upper / (1 + sketchGrowth) * float64(sketchLeast))
		}
	}
	return 0
}

// Rank is how many of the values are d or less: exactly so up to SketchExact of
// them, and counting values within SketchError of d either way beyond.
func (s *Sketch) Rank(d time.Duration) int {
	if s.buckets == nil {
		n, _ := slices.BinarySearch(s.exact, d+1)
		return n
	}
	n := 0
	for _, c := range s.buckets[:min(bucketOf(d)+1, len(s.buckets))] {
		n += int(c)
	}
	return n
}
