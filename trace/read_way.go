package trace

import (
	"net/netip"
)

// several is R7: more than one address at one TTL, which are no epochs.
func (r *reader) several() []Sentence {
	var out []Sentence
	for _, h := range r.res.Hops {
		if len(h.Replies) < 2 {
			continue
		}
		why := "packets of one flow take several paths, or a router answers by several addresses"
		switch {
		case !r.res.FlowStable:
			why = "the probes were several flows, and flows are spread over parallel paths (ECMP)"
		case h.Sent < keptRounds:
			why = "the path changed during the trace, or packets of one flow take several paths"
		}
		out = append(out, say("R7", "%d addresses answer at hop %d: %s; do not compare their times", len(h.Replies), h.TTL, why))
	}
	return out
}

// labels is R8: routers inside a label-switched path send their errors on to
// its end, and the answers come back from there, after nearly equal times.
func (r *reader) labels() []Sentence {
	var out []Sentence
	for _, run := range r.labelled() {
		first, last := run[0], run[len(run)-1]
		least, most := first.min.Duration(), first.min.Duration()
		for _, p := range run {
			least, most = min(least, p.min.Duration()), max(most, p.min.Duration())
		}
		what := "answer after nearly the same time, from its end: read them as one segment"
		if most-least > max(leastStep, least/10) {
			what = "do not answer all from its end: the steps between them are as real as any (R1)"
		}
		out = append(out, say("R8", "hops %d to %d are one MPLS path and %s", first.hop.TTL, last.hop.TTL, what))
	}
	return out
}

// labelled are the runs of two or more hops whose errors carried labels. Silent
// hops do not end a run.
func (r *reader) labelled() [][]point {
	var runs [][]point
	var run []point
	for _, p := range append(points(r.res), point{hop: &Hop{}}) {
		if len(p.hop.Replies) > 0 && len(p.hop.Replies[0].Labels) > 0 {
			run = append(run, p)
			continue
		}
		if len(run) > 1 {
			runs = append(runs, run)
		}
		run = nil
	}
	return runs
}

// loop is R9: addresses that repeat up to the last hop.
func (r *reader) loop() []Sentence {
	if r.res.Reached {
		return nil
	}
	var addrs []netip.Addr
	for _, h := range r.res.Hops {
		a := netip.Addr{}
		if len(h.Replies) > 0 {
			a = h.Replies[0].Addr
		}
		addrs = append(addrs, a)
	}
	// Routers in a loop soon have no errors left for what comes round again.
	for len(addrs) > 0 && !addrs[len(addrs)-1].IsValid() {
		addrs = addrs[:len(addrs)-1]
	}
	for period := 2; period <= 8 && 2*period <= len(addrs); period++ {
		n := 0 // length of the tail that repeats with the period
		for i := len(addrs) - 1; i >= period && addrs[i].IsValid() && addrs[i] == addrs[i-period]; i-- {
			n++
		}
		if n >= period && addrs[len(addrs)-1] != addrs[len(addrs)-2] {
			first := len(addrs) - n - period
			return []Sentence{say("R9", "a routing loop of %d routers: from hop %d on the same addresses repeat up to the last hop",
				period, r.res.Hops[first].TTL)}
		}
	}
	return r.comesBack()
}

// comesBack tells of a router met again where the repetition cannot be seen,
// because those between have no errors left to send.
func (r *reader) comesBack() []Sentence {
	first := make(map[netip.Addr]int)
	for _, h := range r.res.Hops {
		if len(h.Replies) == 0 || h.Replies[0].ICMP != "time exceeded" { // who refuses may have been met before
			continue
		}
		a := h.Replies[0].Addr
		was, ok := first[a]
		if ok && h.TTL-was >= 2 {
			return []Sentence{say("R9", "hop %d is the router of hop %d again (%s), and the destination is not reached: probably a routing loop, whose routers have no errors left for what comes round again",
				h.TTL, was, a)}
		}
		if !ok {
			first[a] = h.TTL
		}
	}
	return nil
}
