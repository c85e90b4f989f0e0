package trace

import "math"

// mostBranches bounds the branches of one router that are told apart. Routers
// spread flows over 64 ways at most, as a rule over 16.
const mostBranches = 64

// stopRule says how many flows through a router are enough. It is the stopping
// rule of the Multipath Detection Algorithm (Augustin, Friedman, Teixeira,
// "Measuring load-balanced paths in the Internet", IMC 2007; its failure
// probability: Veitch et al., "Failure control in multipath route tracing",
// INFOCOM 2009): having found k branches, follow flows until a router of k+1
// equal branches would have shown them all, but for a chance of at most
// failure.
type stopRule struct {
	failure float64
	points  []int // by the number of branches to be ruled out; 0 and 1 unused
}

// newStopRule returns the rule for a chance of failure at each router. At 5 %
// the stopping points are 6, 11, 16, 21, 27, 33 flows against 2, 3, 4, 5, 6, 7
// branches.
func newStopRule(failure float64) *stopRule {
	return &stopRule{failure: failure, points: []int{0, 0}}
}

// need is the number of flows that rules out k branches.
func (r *stopRule) need(k int) int {
	k = min(max(k, 2), mostBranches+1)
	for next := len(r.points); next <= k; next++ {
		n := max(r.points[next-1], 1)
		for unseen(next, n) > r.failure {
			n++
		}
		r.points = append(r.points, n)
		// The rule stops at the first point that is met, so a router of k
		// branches has k−1 occasions to be misjudged, and their sum may pass
		// the bound by a little though no single one does.
		for stopsEarly(next, r.points) > r.failure {
			n++
			r.points[next] = n
		}
	}
	return r.points[k]
}

// unseen is the probability that n flows, spread evenly over k branches, leave
// at least one of them out, by inclusion and exclusion: of any i branches, all
// flows miss those with probability (1 − i/k)ⁿ.
func unseen(k, n int) float64 {
	if n < k {
		return 1
	}
	p, sign := 0.0, 1.0
	choose := 1.0 // k over i
	for i := 1; i <= k; i++ {
		choose *= float64(k-i+1) / float64(i)
		p += sign * choose * math.Pow(1-float64(i)/float64(k), float64(n))
		sign = -sign
	}
	return min(max(p, 0), 1)
}

// stopsEarly is the probability that following flows one by one through a
// router of k equal branches meets a stopping point before all are found.
func stopsEarly(k int, points []int) float64 {
	found := make([]float64, k+1) // probability of having found so many
	found[0] = 1
	stopped := 0.0
	for n := 1; n <= points[k]; n++ {
		for j := k; j >= 1; j-- {
			found[j] = found[j]*float64(j)/float64(k) + found[j-1]*float64(k-j+1)/float64(k)
		}
		found[0] = 0
		for j := 1; j < k; j++ {
			if n >= points[j+1] {
				stopped += found[j]
				found[j] = 0
			}
		}
	}
	return stopped
}

// repeats is how often the choice of a router of k branches has to be seen
// repeated before one that chooses anew for each packet is ruled out, but for
// a chance of failure.
func (r *stopRule) repeats(k int) int {
	return max(1, int(math.Ceil(math.Log(r.failure)/math.Log(1/float64(max(k, 2)))-1e-9)))
}
