package trace

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/whyslow/whyslow/internal/millis"
)

const (
	// badPath is the chance at which a difference in loss between flows is
	// believed, shared among all links that might be blamed.
	badPath = 0.001
	// mixedFlows is the chance at which the flows of one link are held to
	// differ among themselves.
	mixedFlows = 0.001
)

// edge is a link without its counts.
type edge struct{ from, to Place }

// suspects finds the links whose flows do worse than all others. Links that
// the same flows take cannot be told apart and are one suspect.
func (p *Paths) suspects() []suspect {
	flows := slices.DeleteFunc(slices.Clone(p.Flows), func(f FlowPath) bool { return f.Sample == nil || f.Sample.Sent == 0 })
	groups := groupLinks(p, flows)
	var out []suspect
	if s, ok := lossy(flows, groups); ok {
		out = append(out, s)
	}
	if s, ok := slower(flows, groups, false); ok {
		out = append(out, s)
	} else if s, ok := slower(flows, groups, true); ok {
		out = append(out, s)
	}
	return out
}

// group is the links of one set of flows.
type group struct {
	links []PathLink
	takes []bool // by the index of the flow
	flows int
}

// groupLinks puts together the links that the same flows take. Links of all
// flows, or of none, tell nothing.
func groupLinks(p *Paths, flows []FlowPath) []group {
	sets := make(map[edge][]bool)
	for i, f := range flows {
		from := Place{}
		for _, h := range f.Hops {
			to := Place{TTL: h.TTL}
			if len(h.Replies) > 0 {
				to.Addr = h.Replies[0].Addr
			}
			e := edge{from, to}
			if sets[e] == nil {
				sets[e] = make([]bool, len(flows))
			}
			sets[e][i] = true
			from = to
		}
	}
	edges := slices.SortedFunc(maps.Keys(sets), func(a, b edge) int {
		if c := comparePlaces(a.to, b.to); c != 0 {
			return c
		}
		return comparePlaces(a.from, b.from)
	})
	var groups []group
next:
	for _, e := range edges {
		g := group{takes: sets[e]}
		for _, in := range g.takes {
			if in {
				g.flows++
			}
		}
		if g.flows == len(flows) {
			continue
		}
		l := PathLink{TTL: e.to.TTL, From: e.from, To: e.to}
		for i := range groups {
			if slices.Equal(groups[i].takes, g.takes) {
				groups[i].links = append(groups[i].links, l)
				continue next
			}
		}
		g.links = []PathLink{l}
		groups = append(groups, g)
	}
	return groups
}

// lossy finds the group whose flows lose more than all others, as no chance
// explains (Fisher's exact test).
func lossy(flows []FlowPath, groups []group) (suspect, bool) {
	best, least := -1, badPath/float64(max(len(groups), 1))
	var found suspect
	for i, g := range groups {
		s := suspect{links: g.links, flows: g.flows}
		for j, f := range flows {
			lost := f.Sample.Sent - f.Sample.Received
			if g.takes[j] {
				s.lost, s.sent = s.lost+lost, s.sent+f.Sample.Sent
			} else {
				s.otherLost, s.otherSent = s.otherLost+lost, s.otherSent+f.Sample.Sent
			}
		}
		if p := moreByChance(s.lost, s.sent, s.otherLost, s.otherSent); p < least {
			best, least, found = i, p, s
		}
	}
	if best >= 0 && homogeneous(flows, groups[best]) {
		return found, true
	}
	return scatteredLoss(flows)
}

// homogeneous reports whether the flows of a group all lose alike: if one of
// them loses nothing, the link is not to blame.
func homogeneous(flows []FlowPath, g group) bool {
	var worst, rest *Sampled
	for j, f := range flows {
		if !g.takes[j] {
			continue
		}
		if worst == nil || f.Sample.Loss > worst.Loss {
			worst = f.Sample
		}
		if rest == nil || f.Sample.Loss < rest.Loss {
			rest = f.Sample
		}
	}
	return moreByChance(worst.Sent-worst.Received, worst.Sent, rest.Sent-rest.Received, rest.Sent) > mixedFlows
}

// scatteredLoss tells of flows that lose while others do not, without a link
// of their own.
func scatteredLoss(flows []FlowPath) (suspect, bool) {
	s := suspect{scattered: true}
	lost, sent := 0, 0
	for _, f := range flows {
		lost, sent = lost+f.Sample.Sent-f.Sample.Received, sent+f.Sample.Sent
	}
	bad := 0
	for _, f := range flows {
		l, n := f.Sample.Sent-f.Sample.Received, f.Sample.Sent
		if moreByChance(l, n, lost-l, sent-n) < badPath/float64(len(flows)) {
			s.lost, s.sent = s.lost+l, s.sent+n
			s.keys = append(s.keys, f.Key)
			bad++
		}
	}
	s.flows, s.otherLost, s.otherSent = bad, lost-s.lost, sent-s.sent
	return s, bad > 0 && bad < len(flows)
}

// slower finds the group all whose flows are slower than every other flow.
func slower(flows []FlowPath, groups []group, medians bool) (suspect, bool) {
	var found suspect
	most := time.Duration(0)
	for _, g := range groups {
		least, other, known := time.Duration(math.MaxInt64), time.Duration(0), 0
		for j, f := range flows {
			v := f.Sample.Min
			if medians {
				v = f.Sample.Median
			}
			if !v.Known() {
				continue
			}
			known++
			if g.takes[j] {
				least = min(least, v.Duration())
			} else {
				other = max(other, v.Duration())
			}
		}
		extra := least - other
		if least == math.MaxInt64 || other == 0 || known < len(flows)/2 || extra <= max(leastStep, other/20) || extra <= most {
			continue
		}
		most = extra
		found = suspect{links: g.links, flows: g.flows, extra: millis.Of(extra), queued: medians}
	}
	return found, most > 0
}

// moreByChance is the probability that, of lost losses in all, so many or more
// fall on the first sent probes by chance.
func moreByChance(lost, sent, otherLost, otherSent int) float64 {
	all, n := lost+otherLost, sent+otherSent
	if lost == 0 || otherSent == 0 {
		return 1
	}
	logChoose := func(n, k int) float64 {
		a, _ := math.Lgamma(float64(n) + 1)
		b, _ := math.Lgamma(float64(k) + 1)
		c, _ := math.Lgamma(float64(n-k) + 1)
		return a - b - c
	}
	p := 0.0
	for k := lost; k <= min(all, sent); k++ {
		if all-k <= otherSent {
			p += math.Exp(logChoose(sent, k) + logChoose(otherSent, all-k) - logChoose(n, all))
		}
	}
	return min(p, 1)
}
