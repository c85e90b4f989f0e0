package reports

import (
	"fmt"
	"net/http"
	"time"

	"github.com/whyslow/whyslow/dnscheck"
	"github.com/whyslow/whyslow/internal/stats"
)

// briefLook is too short to see what comes and goes every few seconds.
const briefLook = 3 * time.Second

// healthy is the verdict that nothing is wrong: either near and quick, or far
// and as quick as the distance allows.
func (d *decision) healthy(out *Verdict) {
	v := d.view
	component := "healthy"
	out.Layer, out.Confidence = None, 0.93
	if v.r.Elapsed.Duration() < briefLook {
		out.Confidence = 0.9
	}
	out.Summary = fmt.Sprintf("Nothing is wrong: a load takes %s, as it should at %s of round trip.", ms(d.typical), ms(v.rtt))
	if v.rttKnown && v.rtt >= farAway {
		component = "distance"
		rounds := d.load.rounds + d.load.redirectRounds
		out.Summary = fmt.Sprintf("Nothing is wrong but the distance: %d round trips of %s make %s of %s.",
			rounds, ms(v.rtt), ms(time.Duration(rounds)*v.rtt), ms(d.typical))
		out.Next = append(out.Next, "only fewer round trips help: connection reuse, TLS 1.3, a server or cache nearer to the visitor")
	}
	out.Component, out.Where = &component, v.where()
	d.tellOfOddities(out)
	d.doubtHealth(out)
	d.showHealth(out)
	for _, s := range d.suspects {
		for _, e := range s.evidence {
			e.Supports = false
			out.Evidence = append(out.Evidence, e)
		}
	}
}

// doubtHealth lowers the confidence in health by what was not looked at or is
// near a threshold.
func (d *decision) doubtHealth(out *Verdict) {
	v := d.view
	if v.rttKnown && v.rtt > farAway*9/10 && v.rtt < farAway*11/10 {
		out.Confidence = min(out.Confidence, 0.8) // which of the two healths
	}
	if len(v.visits) < 3 {
		out.Confidence = min(out.Confidence, 0.6)
		out.Warnings = append(out.Warnings, fmt.Sprintf("only %d loads could be measured: n too small", len(v.visits)))
	}
	if v.r.Trace == nil && v.rtt >= farAway {
		out.Confidence = min(out.Confidence, 0.55)
		out.Next = append(out.Next, "trace the path: whether the delay is spread over it or lies at one link")
	}
	if len(v.stalled) > 0 {
		out.Confidence = min(out.Confidence, 0.5)
	}
	if odd, all, _ := v.oddRequests(); odd > 0 {
		out.Confidence = min(out.Confidence, 0.75)
		out.Evidence = append(out.Evidence, against("odd-requests", "the server is slow for some requests only",
			fmt.Sprintf("%d of %d", odd, all), "counts from 2 of them"))
		out.Next = append(out.Next, "repeat with --budget deep: whether the server is slow now and then")
	}
	if v.pathLoses() {
		out.Confidence = min(out.Confidence, 0.7) // little loss costs a visit now and then
		out.Next = append(out.Next, "repeat with --budget deep: a path that loses packets makes some loads slow and spares others")
	}
	if seg, ok := v.longestSegment(); ok && out.Component != nil && *out.Component == "distance" &&
		seg.Delay > plainLink*3/4 && seg.Delay > v.rtt/2 {
		nearly := float64(seg.Delay-plainLink*3/4) / float64(plainLink/4)
		out.Confidence = min(out.Confidence, 0.85-0.25*min(nearly, 1))
		out.Evidence = append(out.Evidence, against("suffix-minimum", "one link holds much of the delay",
			ms(seg.Delay)+" at "+segmentPlace(seg), "< "+ms(plainLink)))
	}
	if seg, ok := v.longestSegment(); ok && seg.ToTTL-seg.FromTTL > 1 && seg.Delay > plainLink && seg.Delay > v.rtt/2 {
		out.Confidence = min(out.Confidence, 0.7)
		out.Next = append(out.Next, fmt.Sprintf("whyslow trace -T %s: the hops between %d and %d are silent, so the delay may be distance or one slow link",
			v.r.Target.Host, seg.FromTTL, seg.ToTTL))
	}
	if len(d.suspects) > 0 && d.suspects[0].part > pinned/2 {
		out.Confidence = min(out.Confidence, 0.7)
	}
	if rest := float64(d.unexplained) / float64(max(d.typical, 1)); rest > 0.2 && d.unexplained > noticeable {
		out.Confidence = min(out.Confidence, 0.65)
	}
}

// showHealth says what health rests on: how much of a load is round trips, and
// how long was looked.
func (d *decision) showHealth(out *Verdict) {
	v := d.view
	if v.rttKnown {
		rounds := d.load.rounds + d.load.redirectRounds
		out.Evidence = append(out.Evidence, fact("physics", fmt.Sprintf("a load needs %d round trips, and takes hardly longer", rounds),
			fmt.Sprintf("%s, of which round trips %s", ms(d.typical), ms(time.Duration(rounds)*v.rtt)), ""))
	}
	probes := 0
	if s := v.destinationSample(); s != nil {
		probes = s.Sent
	}
	out.Evidence = append(out.Evidence, fact("watched", "nothing went wrong while it was watched",
		fmt.Sprintf("%d loads and %d probes within %s", len(v.visits), probes, v.r.Elapsed), ""))
	out.Next = append(out.Next, "if it is slow only at times, measure again while it is, or with --budget deep, which watches longer")
}

// tellOfOddities adds to a verdict of health what was not in order all the same.
func (d *decision) tellOfOddities(out *Verdict) {
	v := d.view
	switch {
	case d.excess < noticeable:
		out.Blame, out.Healthy = nil, out.Typical
	case len(d.suspects) > 0:
		out.Summary = fmt.Sprintf("Nothing large is wrong: a load takes %s at %s of round trip. What could be better: %s (%s).",
			ms(d.typical), ms(v.rtt), d.suspects[0].phrase, ms(d.suspects[0].part))
	}
	if first, ok := v.slowStart(); ok {
		out.Confidence = min(out.Confidence, 0.75)
		out.Summary += fmt.Sprintf(" But the very first load took %s: a cache was cold, something had to wake up, or it comes and goes.", ms(first))
		out.Evidence = append(out.Evidence, against("first-load", "the first load of all was slow, and none after it", ms(first), "< 300 ms more than the others"))
		out.Next = append(out.Next, "measure again after a pause as long as visitors leave; on the server: look at the first request after a pause, at caches, and at what sleeps when idle")
	}
	if f, ok := v.unwellResolver(); ok {
		out.Confidence = min(out.Confidence, 0.7)
		out.Summary += fmt.Sprintf(" But the resolver is not well, though it spared this lookup: %s.", lowerFirst(trimStop(f.Text)))
		out.Evidence = append(out.Evidence, against("dns-"+f.Component, trimStop(f.Text), "this lookup was spared", ""))
		out.Next = append(out.Next, "whyslow dns "+v.r.Target.Host+", several times: what a lookup costs when it is not spared")
	}
	if status, ok := v.errorStatus(); ok {
		out.Summary += fmt.Sprintf(" But the server answers %s.", status)
		out.Confidence = min(out.Confidence, 0.85)
	}
}

// unwellResolver is a fault of the first resolver that cost this lookup nothing.
func (v *view) unwellResolver() (dnscheck.Finding, bool) {
	d := v.r.DNS
	if d == nil || d.Stub == nil || len(d.Config.Nameservers) == 0 {
		return dnscheck.Finding{}, false
	}
	for _, f := range d.Findings {
		first := d.Config.Nameservers[0] == f.Where || d.Config.Nameservers[0] == f.Where+":53" || d.Config.Nameservers[0] == "["+f.Where+"]:53"
		if first && f.Cost.Duration() < minDNSCost && (f.Component == dnscheck.ResolverSlow || f.Component == dnscheck.ResolverLoss) {
			return f, true
		}
	}
	return dnscheck.Finding{}, false
}

// slowStart is how long the very first load took, if it was slow and none of
// the others was: what it filled or woke up is not to be had again at once.
func (v *view) slowStart() (time.Duration, bool) {
	if len(v.visits) < 3 || len(v.r.HTTP.Samples) == 0 || v.visits[0].sample != &v.r.HTTP.Samples[0] {
		return 0, false
	}
	first := v.visits[0]
	var others []time.Duration
	for _, one := range v.visits[1:] {
		others = append(others, one.total)
	}
	usual := stats.Median(others)
	if first.synLost > 0 || showsLoss(first.sample) || first.total < 2*usual || first.total-usual < 300*time.Millisecond {
		return 0, false
	}
	return first.total, true
}

// errorStatus is the status that most loads ended with, if it is an error:
// then what was timed is not the page that was meant.
func (v *view) errorStatus() (string, bool) {
	count := map[int]int{}
	for _, one := range v.visits {
		if n := len(one.sample.Exchanges); n > 0 {
			count[one.sample.Exchanges[n-1].Status]++
		}
	}
	for status, n := range count {
		if status >= 400 && 2*n > len(v.visits) {
			text := fmt.Sprint(status)
			if name := http.StatusText(status); name != "" {
				text += " (" + name + ")"
			}
			return text, true
		}
	}
	return "", false
}

// tellOfRest says of a body that was not read to its end what the verdict does
// not cover.
func (d *decision) tellOfRest(out *Verdict) {
	what := d.view.unread()
	if what == "" {
		return
	}
	out.Warnings = append(out.Warnings, "the body was not read to its end, only "+what+": the time of the whole load is not known")
	if out.Layer != None {
		out.Summary += fmt.Sprintf(" Of the body only %s was read.", what)
		return
	}
	out.Confidence = min(out.Confidence, 0.6)
	out.Summary = fmt.Sprintf("As far as the body was read, which is only %s: %s", what, lowerFirst(out.Summary))
	out.Next = append(out.Next, "fetch all of it once and compare the rate: curl -so /dev/null -w '%{size_download} bytes, %{time_total} s' URL")
}
