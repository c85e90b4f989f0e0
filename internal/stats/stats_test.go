package stats_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/whyslow/whyslow/internal/stats"
)

const ms = time.Millisecond

func TestMedian(t *testing.T) {
	tests := []struct {
		name string
		in   []time.Duration
		want time.Duration
	}{
		{"empty", nil, 0},
		{"one", []time.Duration{7 * ms}, 7 * ms},
		{"odd, unsorted", []time.Duration{9 * ms, 1 * ms, 5 * ms}, 5 * ms},
		{"even is the mean of two", []time.Duration{4 * ms, 1 * ms, 2 * ms, 100 * ms}, 3 * ms},
		{"odd difference truncates below a nanosecond", []time.Duration{1, 2}, 1},
		{"negative", []time.Duration{-3, -1}, -2},
		{"extremes do not overflow", []time.Duration{math.MinInt64, math.MaxInt64}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in := slices.Clone(tt.in)
			if got := stats.Median(in); got != tt.want {
				t.Errorf("Median = %v, want %v", got, tt.want)
			}
			if !slices.Equal(in, tt.in) {
				t.Errorf("Median changed its argument to %v", in)
			}
		})
	}
}

func TestMedianFloat(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	tests := []struct {
		name string
		in   []float64
		want float64
	}{
		{"empty", nil, nan},
		{"only NaN", []float64{nan, nan}, nan},
		{"NaN left out", []float64{nan, 3, nan, 1}, 2},
		{"infinite neighbours", []float64{inf, inf}, inf},
		{"half", []float64{0, 0.5}, 0.25},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := stats.Median(tt.in); !same(got, tt.want) {
				t.Errorf("Median(%v) = %v, want %v", tt.in, got, tt.want)
			}
		})
	}
}

func TestQuantile(t *testing.T) {
	// Reference values: R, quantile(c(1,2,4,8,16), q, type=7).
	in := []float64{16, 1, 8, 2, 4}
	for q, want := range map[float64]float64{
		-1: 1, 0: 1, 0.1: 1.4, 0.25: 2, 0.5: 4, 0.9: 12.8, 0.95: 14.4, 1: 16, 2: 16, math.Inf(1): 16,
	} {
		if got := stats.Quantile(in, q); math.Abs(got-want) > 1e-12 {
			t.Errorf("Quantile(%v) = %v, want %v", q, got, want)
		}
	}
	if got := stats.Quantile(in, math.NaN()); !math.IsNaN(got) {
		t.Errorf("Quantile(NaN) = %v, want NaN", got)
	}
	if got := stats.Quantile([]time.Duration{0, 10 * ms}, 0.95); got != 9500*time.Microsecond {
		t.Errorf("Quantile of durations = %v, want 9.5ms", got)
	}
	if got, want := stats.Quantiles(in, 1, 0, 0.5), []float64{16, 1, 4}; !slices.Equal(got, want) {
		t.Errorf("Quantiles = %v, want %v", got, want)
	}
}

func TestMAD(t *testing.T) {
	if got := stats.MAD([]time.Duration{1, 1, 2, 2, 4, 6, 9}); got != 1 {
		t.Errorf("MAD = %d, want 1", got)
	}
	if got := stats.MAD([]time.Duration{10 * ms, 10 * ms, 10 * ms, time.Hour}); got != 0 {
		t.Errorf("MAD with one wild value = %v, want 0", got)
	}
	if got := stats.MAD([]float64(nil)); !math.IsNaN(got) {
		t.Errorf("MAD of nothing = %v, want NaN", got)
	}
	if got := stats.MAD([]time.Duration(nil)); got != 0 {
		t.Errorf("MAD of no durations = %v, want 0", got)
	}
}

func TestMedianRank(t *testing.T) {
	tests := []struct {
		n      int
		conf   float64
		lo, hi int
		ok     bool
	}{
		{0, 0.95, 0, 0, false},
		{-1, 0.95, 0, 0, false},
		{1, 0.95, 1, 1, false},
		{5, 0.95, 1, 5, false},
		{6, 0.95, 1, 6, true},
		{8, 0.95, 1, 8, true},
		{9, 0.95, 2, 8, true},
		{10, 0.95, 2, 9, true},
		{20, 0.95, 6, 15, true},
		{30, 0.95, 10, 21, true},
		{100, 0.95, 40, 61, true},
		{7, 0.99, 1, 7, false},
		{8, 0.99, 1, 8, true},
		{10000, 0.95, 4902, 5099, true},
		{10, 0, 5, 6, true},
		{10, 1, 1, 10, false},
		{10, math.NaN(), 1, 10, false},
	}
	for _, tt := range tests {
		lo, hi, ok := stats.MedianRank(tt.n, tt.conf)
		if lo != tt.lo || hi != tt.hi || ok != tt.ok {
			t.Errorf("MedianRank(%d, %v) = %d, %d, %t, want %d, %d, %t", tt.n, tt.conf, lo, hi, ok, tt.lo, tt.hi, tt.ok)
		}
	}
}

// The promise itself: at every n the interval covers the median at least as
// often as asked, and the next narrower one does not.
func TestMedianRankCoverage(t *testing.T) {
	for n := 1; n <= 60; n++ {
		lo, hi, ok := stats.MedianRank(n, 0.95)
		if !ok {
			continue
		}
		if got := coverage(n, lo, hi); got < 0.95 {
			t.Errorf("n=%d: ranks %d–%d cover %.4f", n, lo, hi, got)
		}
		if got := coverage(n, lo+1, hi-1); lo+1 <= hi-1 && got >= 0.95 {
			t.Errorf("n=%d: ranks %d–%d would do with %.4f", n, lo+1, hi-1, got)
		}
	}
}

// coverage is P(lo ≤ Bin(n, ½) < hi), by Pascal's triangle.
func coverage(n, lo, hi int) float64 {
	row := []float64{1}
	for range n {
		next := make([]float64, len(row)+1)
		for i, p := range row {
			next[i] += p / 2
			next[i+1] += p / 2
		}
		row = next
	}
	var sum float64
	for k := lo; k < hi; k++ {
		sum += row[k]
	}
	return sum
}

func TestMedianInterval(t *testing.T) {
	xs := []float64{10, 9, 8, 7, 6, 5, 4, 3, 2, 1, math.NaN()}
	if lo, hi, ok := stats.MedianInterval(xs, 0.95); lo != 2 || hi != 9 || !ok {
		t.Errorf("MedianInterval = %v, %v, %t, want 2, 9, true", lo, hi, ok)
	}
	if lo, hi, ok := stats.MedianInterval([]time.Duration{3, 1, 2}, 0.95); lo != 1 || hi != 3 || ok {
		t.Errorf("MedianInterval of 3 = %v, %v, %t, want 1, 3, false", lo, hi, ok)
	}
	if lo, hi, ok := stats.MedianInterval([]float64(nil), 0.95); !math.IsNaN(lo) || !math.IsNaN(hi) || ok {
		t.Errorf("MedianInterval of nothing = %v, %v, %t, want NaN, NaN, false", lo, hi, ok)
	}
}

func TestWilson(t *testing.T) {
	tests := []struct {
		k, n   int
		lo, hi float64
	}{
		{0, 0, 0, 1},
		{0, 20, 0, 0.16113},
		{20, 20, 0.83887, 1},
		{1, 10, 0.01788, 0.40415},
		{5, 10, 0.23659, 0.76341},
		{-3, 20, 0, 0.16113},
		{30, 20, 0.83887, 1},
	}
	for _, tt := range tests {
		lo, hi := stats.Wilson(tt.k, tt.n, stats.Z95)
		if math.Abs(lo-tt.lo) > 1e-5 || math.Abs(hi-tt.hi) > 1e-5 {
			t.Errorf("Wilson(%d, %d) = %.5f, %.5f, want %.5f, %.5f", tt.k, tt.n, lo, hi, tt.lo, tt.hi)
		}
	}
	for _, z := range []float64{math.NaN(), math.Inf(1), 1e300} {
		if lo, hi := stats.Wilson(1, 2, z); lo != 0 || hi != 1 {
			t.Errorf("Wilson with z=%v = %v, %v, want 0, 1", z, lo, hi)
		}
	}
}

func same(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) }
