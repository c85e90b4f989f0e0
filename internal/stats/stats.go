// Package stats holds the order statistics that the instruments and the judge
// share: medians, quantiles, the median absolute deviation, and two intervals.
//
// Latencies are skewed and a few of them are always wild, so nothing here is a
// mean or a standard deviation, and nothing assumes a shape: the interval of
// the median is by ranks and exact, whatever the distribution.
//
// No function changes its argument. NaN means "unmeasured" and is left out
// everywhere; infinities are ordered like other numbers. A statistic of
// nothing is NaN as a float64 and 0 as a time.Duration: ask len first where a
// duration of 0 would be believed.
package stats

import (
	"math"
	"slices"
)

// Number is what can be summarised: float64 or time.Duration, and types made
// of either.
type Number interface{ ~int64 | ~float64 }

// Median returns the middle value, the mean of the middle two if their number
// is even.
func Median[T Number](xs []T) T { return quantileSorted(sorted(xs), 0.5) }

// Quantile returns the value below which the share q of the values lies,
// interpolated linearly between neighbours (type 7 of Hyndman and Fan 1996,
// the default of R and NumPy). q outside 0…1 is taken as the nearer end, a NaN
// q as a quantile of nothing.
func Quantile[T Number](xs []T, q float64) T { return quantileSorted(sorted(xs), q) }

// Quantiles is Quantile for several q at the cost of one sort.
func Quantiles[T Number](xs []T, qs ...float64) []T {
	s := sorted(xs)
	out := make([]T, len(qs))
	for i, q := range qs {
		out[i] = quantileSorted(s, q)
	}
	return out
}

// MAD returns the median absolute deviation from the median: the spread of the
// middle half, unmoved by outliers. It is not scaled; 1.4826·MAD estimates the
// standard deviation of a normal distribution.
func MAD[T Number](xs []T) T {
	s := sorted(xs)
	m := quantileSorted(s, 0.5)
	for i, x := range s {
		if s[i] = x - m; s[i] < 0 {
			s[i] = m - x
		}
	}
	// Inf − Inf is NaN: drop it as any other unmeasured value.
	return Median(s)
}

// sorted returns a sorted copy without NaN.
func sorted[T Number](xs []T) []T {
	s := make([]T, 0, len(xs))
	for _, x := range xs {
		if x == x {
			s = append(s, x)
		}
	}
	slices.Sort(s)
	return s
}

func quantileSorted[T Number](s []T, q float64) T {
	if len(s) == 0 || math.IsNaN(q) {
		return nothing[T]()
	}
	at := min(max(q, 0), 1) * float64(len(s)-1)
	lo := int(at)
	if lo == len(s)-1 {
		return s[lo]
	}
	frac := at - float64(lo)
	a, b := s[lo], s[lo+1]
	if frac == 0 || a == b {
		return a // also keeps Inf out of Inf − Inf
	}
	if d := b - a; d >= 0 {
		return a + T(frac*float64(d))
	}
	// b − a overflowed its integer type: the two parts cannot.
	return T((1-frac)*float64(a)) + T(frac*float64(b))
}

// nothing is the statistic of no values: NaN where T has one, else 0.
func nothing[T Number]() T {
	var zero T
	if half := 0.5; T(half) != zero { // a floating-point type keeps the half
		return T(math.NaN())
	}
	return zero
}
