package lookups

import "time"

// replayed is how often the lookups of one address found the resolver's cache
// empty, and how often filled.
type replayed struct{ misses, hits int }

// replay sends the lookups through a cache that keeps each answer for as long
// as it may be kept. Failures are not cached. The forward lookups of Double have
// a cache of their own; pick says which of the two is replayed.
func replay(order []lookup, fates []Fate, sureOnly bool, pick func(*Fate) *Cost) []replayed {
	byID := make(map[int32]int, len(fates))
	for i := range fates {
		byID[fates[i].id] = i
	}
	out := make([]replayed, len(fates))
	expires := make([]uint64, len(fates)) // in ticks, plus one; 0 is empty
	for _, l := range order {
		id := l.id
		if id < 0 {
			if sureOnly {
				continue
			}
			id = -id
		}
		i, ok := byID[id]
		if !ok {
			continue
		}
		now := uint64(l.at) + 1
		if now < expires[i] {
			out[i].hits++
			continue
		}
		out[i].misses++
		if keeps := pick(&fates[i]).Keeps; keeps > 0 {
			expires[i] = now + uint64(keeps/tick)
		}
	}
	return out
}

// weighted is a set of values that stand for several each.
type weighted struct {
	values []weightedValue
	total  float64
}

type weightedValue struct {
	v time.Duration
	w float64
}
