package trace

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/whyslow/whyslow/internal/millis"
	"github.com/whyslow/whyslow/internal/netprobe"
)

// ReadPaths says in plain language what parallel paths mean (R7, see
// docs/reading.md). It is a pure function of the paths.
func ReadPaths(p *Paths) []Sentence {
	out := []Sentence{}
	if len(p.Nodes) == 0 {
		return append(out, say("R4", "nobody answered any of %d flows: no path is known", p.FlowCount))
	}
	out = append(out, p.spread()...)
	out = append(out, p.lengths()...)
	out = append(out, p.perPacket()...)
	suspects := p.suspects()
	for _, s := range suspects {
		out = append(out, s.sentence())
	}
	if len(suspects) == 0 {
		out = append(out, p.alike()...)
	}
	return append(out, p.doubt()...)
}

// spread tells where flows part. Routers that do not keep to flows, and what lies
// behind them, are told of by perPacket.
func (p *Paths) spread() []Sentence {
	var out []Sentence
	loose := make(map[Place]bool)
	for _, n := range p.Nodes {
		loose[n.Place()] = n.PerPacket || n.Unsure
	}
	loose[Place{}] = p.FirstPerPacket
	branches, told := 0, 0
	for from, n := range p.branching() {
		branches++
		if loose[from] {
			continue
		}
		if told++; told > 8 {
			continue
		}
		text := fmt.Sprintf("%s spreads flows over %d next hops", placeName(from), n)
		if to, ok := p.meet(from); ok {
			text += fmt.Sprintf(", which all lead to %s: parallel links or routers, or one router that answers from %d addresses", placeName(to), n)
		}
		out = append(out, say("R7", "%s", text))
	}
	if told > 8 {
		out = append(out, say("R7", "%d more routers spread flows", told-8))
	}
	if branches == 0 {
		text := fmt.Sprintf("all of %d flows were seen to take one path", p.FlowCount)
		if p.Method == netprobe.ICMP.String() {
			text += "; but many routers spread echoes by their addresses alone, where UDP and TCP go by their ports: probe with these to see their paths"
		}
		out = append(out, say("R7", "%s", text))
	}
	return out
}

// meet is where all next hops of a place lead to, if that is one place: what
// parts and meets at once may be one router by several names.
func (p *Paths) meet(from Place) (Place, bool) {
	to, found := Place{}, false
	for _, l := range p.Links {
		if l.From != from {
			continue
		}
		on, ok := p.only(l.To)
		if !ok || !l.To.Addr.IsValid() || found && on != to {
			return Place{}, false
		}
		to, found = on, true
	}
	return to, found
}

// only is the one next hop of a place, if it has but one.
func (p *Paths) only(from Place) (to Place, ok bool) {
	for _, l := range p.Links {
		if l.From == from {
			if ok {
				return Place{}, false
			}
			to, ok = l.To, true
		}
	}
	return to, ok
}

// branching yields the places from which more than one link leads on, in order.
func (p *Paths) branching() func(yield func(Place, int) bool) {
	count := make(map[Place]int)
	for _, l := range p.Links {
		count[l.From]++
	}
	places := slices.SortedFunc(maps.Keys(count), comparePlaces)
	return func(yield func(Place, int) bool) {
		for _, from := range places {
			if count[from] > 1 && !yield(from, count[from]) {
				return
			}
		}
	}
}

func comparePlaces(a, b Place) int {
	if a.TTL != b.TTL {
		return a.TTL - b.TTL
	}
	return a.Addr.Compare(b.Addr)
}

func placeName(p Place) string {
	if p.TTL == 0 {
		return "this host"
	}
	if !p.Addr.IsValid() {
		return fmt.Sprintf("hop %d (silent)", p.TTL)
	}
	return hopName(p.TTL, p.Addr)
}

// lengths tells that the destination's TTL depends on the flow.
func (p *Paths) lengths() []Sentence {
	flows := make(map[int]int)
	for _, f := range p.Flows {
		if f.HopCount != nil {
			flows[*f.HopCount]++
		}
	}
	if len(flows) < 2 {
		return nil
	}
	var parts []string
	for _, hops := range slices.Sorted(maps.Keys(flows)) {
		parts = append(parts, fmt.Sprintf("%d hops away for %d of the flows", hops, flows[hops]))
	}
	return []Sentence{say("R7", "the parallel ways differ in length: the destination is %s, which is no change of route",
		strings.Join(parts, " and "))}
}

// perPacket tells of routers that do not keep to flows, as far as addresses can
// tell it.
func (p *Paths) perPacket() []Sentence {
	var out []Sentence
	places := []Place{}
	if p.FirstPerPacket {
		places = append(places, Place{})
	}
	for _, n := range p.Nodes {
		if n.PerPacket {
			places = append(places, n.Place())
		}
	}
	for _, from := range places {
		if to, ok := p.meet(from); ok {
			out = append(out, say("R7", "behind %s one flow was answered from several addresses, which all lead to %s: one router that answers from each, or packets spread one by one over parallel ways; addresses alone cannot tell",
				placeName(from), placeName(to)))
			continue
		}
		out = append(out, say("R7", "%s sent packets of one flow to different next hops: it spreads packets, not flows, or its route changed meanwhile, or who answers there has several addresses; which links lie behind it cannot be told",
			placeName(from)))
	}
	return out
}

// alike tells that no path was found worse than the others, if that was looked
// at.
func (p *Paths) alike() []Sentence {
	sent, received, flows := 0, 0, 0
	for _, f := range p.Flows {
		if f.Sample != nil {
			sent, received, flows = sent+f.Sample.Sent, received+f.Sample.Received, flows+1
		}
	}
	branched := false
	for range p.branching() {
		branched = true
	}
	if flows < 2 || !branched {
		return nil
	}
	text := fmt.Sprintf("no parallel path stands out: %d flows were sampled, and %d of %d probes were answered", flows, received, sent)
	unseen := 0.0 // what the least sampled router may lose for all that was seen
	for _, n := range p.Nodes {
		if n.Passed != nil {
			unseen = max(unseen, n.Passed.LossHigh)
		}
	}
	if received == sent {
		text += fmt.Sprintf("; a member that loses less than %s may not have shown", percent(unseen))
	}
	return []Sentence{say("R7", "%s", text)}
}

// doubt states what may have been missed.
func (p *Paths) doubt() []Sentence {
	if !p.Confirmed {
		return []Sentence{say("R7", "the search is not complete: see the warnings for the hops behind which more branches may begin")}
	}
	routers := 1 // this host has a choice too
	for _, n := range p.Nodes {
		if n.Tested > 0 {
			routers++
		}
	}
	return []Sentence{say("R7", "one more branch of equal share would have been missed with a probability of at most %s; over all %d that choose a next hop, if each had one, %s",
		percent(p.RouterFailure), routers, percent(p.Failure))}
}

// suspect is a way that only flows take which do worse than the others.
type suspect struct {
	links []PathLink // in order; all are of the same flows
	flows int
	// Of the flows that take it, and of all others.
	lost, sent, otherLost, otherSent int
	// extra is by how much its fastest flow is slower than the slowest other;
	// zero if the suspicion is loss. queued says that it is so of the medians
	// only.
	extra  millis.Value
	queued bool
	// scattered says that no link is of the bad flows alone.
	scattered bool
	keys      []string
}

func (s suspect) sentence() Sentence {
	if s.scattered {
		return say("R7", "%s, but no link on the way there is theirs alone: a parallel path on the way back may be at fault, or a link of a bundle that is one hop to IP",
			s.scatteredText())
	}
	where := s.where()
	if s.extra.Known() {
		what := "even their least round trip is"
		if s.queued {
			what = "packets wait in a queue, their median round trip is"
		}
		return say("R7", "the %d flows that take %s are slower than all others: %s %v longer", s.flows, where, what, s.extra)
	}
	return say("R7", "the %d flows that take %s lose %d of %d probes, all others %d of %d: that member of the parallel paths is bad, and the average hides it",
		s.flows, where, s.lost, s.sent, s.otherLost, s.otherSent)
}

func (s suspect) scatteredText() string {
	return fmt.Sprintf("some flows lose %d of %d probes (%s) and others %d of %d", s.lost, s.sent, list(s.keys), s.otherLost, s.otherSent)
}

// where names the links of a suspect: the one, or the routers between.
func (s suspect) where() string {
	links, beyond := s.links, ""
	// Where nothing is heard any more there is nothing to name.
	for len(links) > 1 && !links[len(links)-1].To.Addr.IsValid() {
		links, beyond = links[:len(links)-1], " and beyond"
	}
	first, last := links[0], links[len(links)-1]
	if len(links) == 1 {
		return fmt.Sprintf("the link from %s to %s%s", placeName(first.From), placeName(last.To), beyond)
	}
	var via []string
	for _, l := range links[:len(links)-1] {
		via = append(via, placeName(l.To))
	}
	return fmt.Sprintf("the way from %s through %s to %s%s", placeName(first.From), list(via), placeName(last.To), beyond)
}
