package lookups

import (
	"math/rand/v2"
)

// Chosen is an address whose lookups are measured. It stands for Weight
// addresses like it: one that was sure to be chosen for itself alone.
type Chosen struct {
	Visitor
	Weight float64
}

// Sample chooses n addresses: all if there are no more, else those with so many
// lookups that they matter by themselves, and of the others each with a
// probability in proportion to its lookups (systematic sampling in random order;
// the weights are Horvitz's and Thompson's).
func Sample(visitors []Visitor, n int, seed uint64) []Chosen {
	if len(visitors) <= n {
		out := make([]Chosen, len(visitors))
		for i, v := range visitors {
			out[i] = Chosen{v, 1}
		}
		return out
	}
	if n <= 0 {
		return nil
	}
	total := 0.0
	for _, v := range visitors {
		total += size(v)
	}
	// Those whose share of what is left is a whole place or more; visitors are
	// sorted by it.
	certain := 0
	for certain < n && size(visitors[certain])*float64(n-certain) >= total {
		total -= size(visitors[certain])
		certain++
	}
	out := make([]Chosen, 0, n)
	for _, v := range visitors[:certain] {
		out = append(out, Chosen{v, 1})
	}
	places := n - certain
	if places == 0 || total <= 0 {
		return out
	}
	rest := visitors[certain:]
	rng := rand.New(rand.NewPCG(seed, 99))
	step := total / float64(places)
	next := rng.Float64() * step
	sum := 0.0
	for _, i := range rng.Perm(len(rest)) {
		v := rest[i]
		if sum += size(v); sum > next {
			next += step
			out = append(out, Chosen{v, step / size(v)})
		}
	}
	return out
}

// size is what an address counts by.
func size(v Visitor) float64 { return float64(max(v.High, 1)) }
