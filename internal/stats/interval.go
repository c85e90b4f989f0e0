package stats

import "math"

// Z95 is the two-sided 95 % point of the standard normal distribution, for
// Wilson.
const Z95 = 1.959963984540054

// MedianRank returns the 1-based ranks of the two order statistics of a sample
// of n that enclose the median of its distribution with probability conf at
// least, by the exact binomial distribution. The interval is the narrowest
// that leaves out no more than (1 − conf)/2 on either side. ok is false where
// even the whole sample is not enough, as with 5 values at 0.95; lo and hi are
// then 1 and n (0 and 0 for an empty sample).
func MedianRank(n int, conf float64) (lo, hi int, ok bool) {
	if n <= 0 {
		return 0, 0, false
	}
	tail := (1 - conf) / 2
	// Each value lies below the median with probability ½, so the rank lo lies
	// above it with P(Bin(n, ½) < lo).
	logN, _ := math.Lgamma(float64(n) + 1)
	var below float64
	for k := 0; 2*k < n; k++ {
		a, _ := math.Lgamma(float64(k) + 1)
		b, _ := math.Lgamma(float64(n-k) + 1)
		below += math.Exp(logN - a - b - float64(n)*math.Ln2)
		if !(below <= tail) { // also when conf is NaN
			break
		}
		lo = k + 1
	}
	if lo == 0 {
		return 1, n, false
	}
	return lo, n + 1 - lo, true
}

// MedianInterval returns the values at the ranks of MedianRank. If ok is false
// lo and hi are the least and the greatest value, and cover less than conf.
func MedianInterval[T Number](xs []T, conf float64) (lo, hi T, ok bool) {
	s := sorted(xs)
	if len(s) == 0 {
		return nothing[T](), nothing[T](), false
	}
	i, j, ok := MedianRank(len(s), conf)
	return s[i-1], s[j-1], ok
}

// Wilson returns the score interval of a proportion of which k of n were seen,
// for the normal quantile z (Wilson 1927). Unlike the textbook interval it is
// honest at 0 of n and n of n: 0 losses in 20 probes still allow 16 % loss.
// k outside 0…n is taken as the nearer end; without observations the interval
// is 0…1.
func Wilson(k, n int, z float64) (lo, hi float64) {
	if n <= 0 || math.IsNaN(z) {
		return 0, 1
	}
	k = min(max(k, 0), n)
	fn, p := float64(n), float64(k)/float64(n)
	z2 := z * z
	if math.IsInf(z2, 1) {
		return 0, 1
	}
	mid := p + z2/(2*fn)
	half := math.Abs(z) * math.Sqrt(p*(1-p)/fn+z2/(4*fn*fn))
	den := 1 + z2/fn
	lo, hi = max((mid-half)/den, 0), min((mid+half)/den, 1)
	// Rounding must not exclude what was observed.
	if k == 0 {
		lo = 0
	}
	if k == n {
		hi = 1
	}
	return lo, hi
}
