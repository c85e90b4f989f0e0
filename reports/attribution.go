package reports

import (
	"math/bits"
	"time"
)

// load is a prediction of how long one visit takes, as a sum over what it must
// do: resolve, connect, shake hands, ask, wait, receive.
type load struct {
	// fixed is time that no suspect explains: the healthy resolution, the
	// healthy server, what remains unexplained.
	fixed time.Duration
	// rtt is the healthy round trip and rounds how many of them a load needs
	// one after the other, redirects not counted.
	rtt    time.Duration
	rounds int
	// redirectRounds are the round trips that redirects add; they vanish
	// together with the cause named "redirects".
	redirectRounds int
	causes         []cause
}

// redirects is the component whose removal also removes its round trips.
const redirects = "redirects"

// predict returns the time of a load in which the causes of the set (bit i for
// causes[i]) are at work and the others are healthy.
func (l load) predict(set uint) time.Duration {
	rtt, rounds, sum := l.rtt, l.rounds, l.fixed
	for i, c := range l.causes {
		if set&(1<<i) == 0 {
			continue
		}
		rtt += c.perRTT
		sum += c.extra
		if c.component == redirects {
			rounds += l.redirectRounds
		}
	}
	return sum + time.Duration(rounds)*rtt
}

// all is the set of every cause.
func (l load) all() uint { return 1<<len(l.causes) - 1 }

// saves returns how much faster a load would be if only cause i were healed.
func (l load) saves(i int) time.Duration {
	return l.predict(l.all()) - l.predict(l.all()&^(1<<i))
}

// blame divides the excess over a healthy load among the causes: the Shapley
// value, the average over all orders in which the causes could be healed. So
// the parts sum exactly to predict(all) − predict(0), and a slow link that
// makes three round trips slow is charged for all three.
func (l load) blame() []time.Duration {
	n := len(l.causes)
	parts := make([]time.Duration, n)
	weight := shapleyWeights(n)
	for i := range parts {
		var sum float64
		for set := uint(0); set <= l.all(); set++ {
			if set&(1<<i) != 0 {
				continue
			}
			gain := l.predict(set|1<<i) - l.predict(set)
			sum += weight[bits.OnesCount(set)] * float64(gain)
		}
		parts[i] = time.Duration(sum + 0.5)
	}
	return parts
}

// shapleyWeights returns, for each size s of a coalition among n players, the
// share of the n! orders in which exactly those s come first: s!(n−s−1)!/n!.
func shapleyWeights(n int) []float64 {
	w := make([]float64, n)
	for s := range w {
		w[s] = 1 / float64(n)
		for k := 1; k <= s; k++ {
			w[s] *= float64(k) / float64(n-k)
		}
	}
	return w
}
