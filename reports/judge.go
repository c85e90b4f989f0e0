package reports

import (
	"cmp"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/whyslow/whyslow/internal/millis"
)

// maxCauses bounds the suspects that share the blame: 2^8 evaluations.
const maxCauses = 8

// Judge says what a report means. It reads only what the report holds, so the
// same report always gets the same verdict; it does not change r. A report
// without any measurement gets an inconclusive verdict that says so.
func Judge(r *Report) Verdict {
	v := newView(r)
	out, done := v.failureVerdict()
	if _, stalls := v.stallCause(); stalls {
		done = false // not a dead server: it answers when it must send small packets
	}
	if !done {
		if len(v.visits)+len(v.stalled) == 0 {
			out = v.nothingMeasured()
		} else {
			out = v.weigh()
		}
	}
	v.finish(&out)
	return out
}

// weigh finds the suspects, divides the excess among them and decides.
func (v *view) weigh() Verdict {
	l := v.newLoad(v.suspects())
	parts := l.blame()
	d := decision{view: v, load: l}
	for i, c := range l.causes {
		if parts[i] > 0 {
			d.suspects = append(d.suspects, suspect{cause: c, part: parts[i], saves: l.saves(i)})
			d.excess += parts[i]
		}
	}
	slices.SortStableFunc(d.suspects, func(a, b suspect) int { return cmp.Compare(b.part, a.part) })
	d.typical = max(v.typicalVisit(), d.excess) // causes of chance count by their mean
	d.unexplained = max(d.typical-l.predict(l.all())-v.healthyFixed(), 0)
	return d.verdict()
}

// suspects gathers every cause that has evidence, the costliest first.
func (v *view) suspects() []cause {
	var all []cause
	stall, stalled := v.stallCause()
	if stalled {
		// What a stall delays (handshake, first byte, body) is its doing.
		all = append(all, v.dnsCauses()...)
		all = append(all, stall)
	} else {
		all = append(all, v.dnsCauses()...)
		all = append(all, v.networkCauses()...)
		all = append(all, v.serverCauses()...)
	}
	all = v.mergeLoss(all)
	all = slices.DeleteFunc(all, func(c cause) bool { return !c.supported() })
	slices.SortStableFunc(all, func(a, b cause) int {
		return cmp.Compare(max(b.extra, 4*b.perRTT), max(a.extra, 4*a.perRTT))
	})
	return all[:min(len(all), maxCauses)]
}

// mergeLoss drops the lookups' losses where the path's own loss is charged
// with them, and the body's where the path's covers it.
func (v *view) mergeLoss(all []cause) []cause {
	network := slices.ContainsFunc(all, func(c cause) bool { return c.layer == Network && c.component == "loss" })
	if !network {
		return all
	}
	seen := false
	return slices.DeleteFunc(all, func(c cause) bool {
		if c.layer == DNS && c.component == "resolver-loss" {
			return v.pathLoses()
		}
		if c.layer == Network && c.component == "loss" {
			again := seen
			seen = true
			return again
		}
		return false
	})
}

// newLoad builds the model of one visit.
func (v *view) newLoad(causes []cause) load {
	l := load{rtt: v.rtt, causes: causes}
	for _, c := range causes {
		if c.component == "latency" {
			l.rtt = max(l.rtt-c.perRTT, 0) // the yardstick holds the slow link
		}
	}
	if len(v.visits) == 0 {
		return l
	}
	one := v.visits[0]
	rounds := one.conns + one.tlsTrips + one.waits + receiveRounds(one.bytes)
	l.redirectRounds = v.redirectRounds(one)
	l.rounds = rounds - l.redirectRounds
	if !slices.ContainsFunc(causes, func(c cause) bool { return c.component == redirects }) {
		l.rounds, l.redirectRounds = rounds, 0
	}
	return l
}

// redirectRounds are the round trips of all exchanges but the last.
func (v *view) redirectRounds(one visit) int {
	n := 0
	for i := 0; i < one.redirects; i++ {
		e := one.sample.Exchanges[i]
		n++
		if e.Phases.Connect.Known() {
			n++
		}
		if e.TLS != nil && e.Phases.TLS.Known() {
			n += max(e.TLS.RoundTrips, 1)
		}
	}
	return n
}

// typicalVisit is how long a visit takes: the lookup, the page, and what a
// second request on the connection would wait for. Under loss the mean counts,
// since the median hides the loads that were hit.
func (v *view) typicalVisit() time.Duration {
	sum := v.resolution()
	totals := v.phase(func(one visit) time.Duration { return one.total })
	switch {
	case v.stalls() || len(v.visits) == 0 || len(v.stalled) > len(v.visits):
		sum += v.plainTime()
	case v.pathLoses() || v.segmentsLost():
		sum += totals.mean() + max(v.expectedLoss()-v.chance(), 0)
	default:
		sum += totals.typical()
		if _, ok := v.acceptOverflow(); ok {
			sum = max(sum, v.resolution()+totals.mean())
		}
		if c, ok := v.intermittent(); ok {
			sum = max(sum, v.resolution()+totals.structural()+c.extra) // as for loss
		}
	}
	if p := v.pattern(); p.second >= onceCost {
		sum += p.second
	} else if p.further >= onceCost {
		sum += p.further
	}
	return sum
}

// stalls reports a black hole: some loads stall until they are given up.
func (v *view) stalls() bool {
	_, ok := v.stallCause()
	return ok
}

// healthyFixed is the part of a visit that no suspect and no round trip
// explains but that is as it should be: a healthy lookup, the server's own
// healthy work, the host's.
func (v *view) healthyFixed() time.Duration {
	fixed := v.resolution()
	for _, c := range v.dnsCauses() {
		fixed -= c.extra
	}
	if len(v.visits) > 0 {
		p := v.pattern()
		first := series(v.server[1]).structural()
		fixed += max(first-p.every-max(p.once, 0), 0) + lineTime(v.visits[0].bytes)
	}
	return max(fixed, 0) + 20*time.Millisecond
}

func (v *view) nothingMeasured() Verdict {
	summary := "Nothing could be measured."
	if v.r.Interrupted {
		summary = "The measurement was ended before anything was known."
	}
	return Verdict{Layer: Inconclusive, Summary: summary, Next: []string{"run the report again with more time (--max-time)"}}
}

// finish fills what every verdict has and bounds what it says.
func (v *view) finish(out *Verdict) {
	out.Blame = nonNil(out.Blame)
	out.Evidence = nonNil(out.Evidence)
	out.RuledOut = nonNil(out.RuledOut)
	out.Next = nonNil(slices.Compact(out.Next))
	out.Warnings = nonNil(out.Warnings)
	if status, ok := v.errorStatus(); ok {
		out.Warnings = append(out.Warnings, "the server answers "+status+": this is the time of an error, not of the page that was meant")
	}
	if v.r.Interrupted {
		out.Warnings = append(out.Warnings, "the measurement was interrupted; the verdict rests on what was known by then")
		out.Confidence = min(out.Confidence, 0.7)
	}
	if !utf8.ValidString(out.Summary) {
		out.Summary = string([]rune(out.Summary))
	}
	if !out.Typical.Known() && len(v.visits) > 0 {
		out.Typical = millis.Of(v.typicalVisit())
	}
}

func nonNil[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}
