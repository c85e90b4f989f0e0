package reports

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/whyslow/whyslow/internal/millis"
)

// suspect is a cause with its part of the excess.
type suspect struct {
	cause
	part  time.Duration // Shapley share
	saves time.Duration // if only this were healed
}

// decision turns weighed suspects into a verdict.
type decision struct {
	view        *view
	load        load
	suspects    []suspect // the largest part first
	excess      time.Duration
	unexplained time.Duration
	typical     time.Duration
}

// The thresholds of a verdict. Below noticeable nobody would call a page slow;
// a cause is pinned when it is large by itself and large among the causes.
const (
	noticeable = 50 * time.Millisecond
	pinned     = 100 * time.Millisecond
	// distance from which a healthy page feels slow only because it is far.
	farAway = 90 * time.Millisecond
)

func (d *decision) verdict() Verdict {
	out := Verdict{Typical: millis.Of(d.typical)}
	out.Healthy = millis.Of(max(d.typical-d.excess, 0))
	out.Slow = d.excess >= max(noticeable, d.typical/10)
	d.fillBlame(&out)
	switch {
	case d.mystery():
		d.inconclusive(&out)
	case len(d.suspects) == 0 || d.suspects[0].part < max(pinned, d.typical/5):
		d.healthy(&out)
	case d.suspects[0].layer == Inconclusive:
		d.inconclusive(&out)
		out.Summary = upperFirst(d.suspects[0].phrase) + "."
	default:
		d.pin(&out)
	}
	d.ruleOut(&out)
	d.tellOfRest(&out)
	return out
}

// mystery reports that most of the excess has no explanation.
func (d *decision) mystery() bool {
	return d.unexplained >= 150*time.Millisecond && d.unexplained > d.excess && d.unexplained > d.typical/4
}

func (d *decision) fillBlame(out *Verdict) {
	if d.excess <= 0 {
		return
	}
	for _, s := range d.suspects {
		out.Blame = append(out.Blame, Blame{
			Layer: s.layer, Component: s.component, Where: s.where,
			MS: round3(float64(s.part) / float64(time.Millisecond)), Share: float64(s.part) / float64(d.excess),
			SavesMS: round3(float64(s.saves) / float64(time.Millisecond)),
		})
	}
}

func round3(x float64) float64 { return math.Round(x*1000) / 1000 }

// pin blames the largest suspect. Its probability is that of its evidence,
// lowered where a second one is nearly as large or much is unexplained.
func (d *decision) pin(out *Verdict) {
	top := d.suspects[0]
	component := top.component
	out.Layer, out.Component, out.Where = top.layer, &component, top.where
	share := float64(top.part) / float64(d.excess)
	out.Confidence = top.p * dominance(share) * d.explained()
	if d.tooFew(top) {
		out.Confidence *= 0.85
		out.Warnings = append(out.Warnings, fmt.Sprintf("only %d loads could be measured: n too small", len(d.view.visits)))
	}
	for _, s := range d.suspects {
		out.Evidence = append(out.Evidence, s.evidence...)
	}
	out.Next = append(out.Next, top.next...)
	sentence := fmt.Sprintf("%s (%s of %s).", upperFirst(top.phrase), ms(top.part), ms(d.typical))
	if second := d.second(); second != nil {
		out.Mixed = true
		sentence += fmt.Sprintf(" Also, %s (%s).", second.phrase, ms(second.part))
	}
	out.Summary = sentence
	out.Confidence = math.Round(out.Confidence*100) / 100
}

// tooFew reports whether there were too few loads to tell what repeats. Two
// that agree on a delay of seconds are enough; what the controls saw besides is
// already in the cause's probability.
func (d *decision) tooFew(top suspect) bool {
	n := len(d.view.visits)
	switch top.component {
	case "mtu-blackhole":
		n += len(d.view.stalled) // a load that stalls is an observation too
	case "body", "bandwidth":
		n += d.view.warmLoads() // a body is as slow on a connection that was open
		if d.view.findControl("canary") != nil {
			n++ // it was fetched once more
		}
	}
	switch {
	case top.layer == DNS || n == 0 || n >= 3:
		return false
	case n == 2:
		return top.part < time.Second
	}
	return true
}

// second is the next suspect if it is large itself.
func (d *decision) second() *suspect {
	if len(d.suspects) < 2 {
		return nil
	}
	s := &d.suspects[1]
	if s.part < pinned || float64(s.part) < 0.25*float64(d.excess) {
		return nil
	}
	return s
}

// dominance lowers the confidence where two causes compete for the first
// place: at equal shares which one is larger is a coin's toss.
func dominance(share float64) float64 {
	switch {
	case share >= 0.65:
		return 1
	case share <= 0.4:
		return 0.7
	}
	return 0.7 + 0.3*(share-0.4)/0.25
}

// explained lowers the confidence by what the model leaves unexplained.
func (d *decision) explained() float64 {
	rest := float64(d.unexplained) / float64(max(d.typical, 1))
	return 1 - 0.5*max(rest-0.15, 0)
}

func (d *decision) inconclusive(out *Verdict) {
	out.Layer, out.Slow = Inconclusive, true
	out.Confidence = 0.5
	d.blameTheUnknown(out)
	out.Summary = fmt.Sprintf("The load takes %s, of which %s has no explanation yet.", ms(d.typical), ms(d.unexplained))
	for _, s := range d.suspects {
		out.Evidence = append(out.Evidence, s.evidence...)
		out.Next = append(out.Next, s.next...)
	}
	out.Next = append(out.Next, "repeat with --budget deep: more loads separate what repeats from what comes and goes")
}

// blameTheUnknown gives what has no explanation a row of its own, so that no
// suspect seems to have all of the blame.
func (d *decision) blameTheUnknown(out *Verdict) {
	const unexplained = "unexplained"
	whole := float64(d.excess + d.unexplained)
	if d.unexplained < noticeable {
		return
	}
	for i := range out.Blame {
		out.Blame[i].Share *= float64(d.excess) / whole
	}
	rest := float64(d.unexplained) / float64(time.Millisecond)
	out.Blame = append(out.Blame, Blame{Layer: Inconclusive, Component: unexplained, MS: round3(rest), Share: float64(d.unexplained) / whole, SavesMS: round3(rest)})
	out.Healthy = millis.Of(max(d.typical-d.excess-d.unexplained, 0))
	slices.SortStableFunc(out.Blame, func(a, b Blame) int { return cmp.Compare(b.MS, a.MS) })
}

// ruleOut names the parties that were looked at and found in order.
func (d *decision) ruleOut(out *Verdict) {
	v := d.view
	blamed := func(l Layer) bool {
		return slices.ContainsFunc(d.suspects, func(s suspect) bool { return s.layer == l && s.part >= noticeable })
	}
	if _, unwell := v.unwellResolver(); v.r.DNS != nil && v.r.DNS.Stub != nil && !blamed(DNS) && !unwell {
		out.RuledOut = append(out.RuledOut, "dns: the lookup takes "+v.r.DNS.Stub.Elapsed.String())
	}
	if v.rttKnown && !blamed(Network) {
		out.RuledOut = append(out.RuledOut, "network: "+v.networkAlibi())
	}
	if len(v.server[1]) > 0 && !blamed(Server) {
		out.RuledOut = append(out.RuledOut, "server: it answers within "+ms(series(v.server[1]).typical())+" of a round trip")
	}
}

func (v *view) networkAlibi() string {
	parts := []string{"round trip " + ms(v.rtt)}
	if d := v.destinationSample(); d != nil && d.Sent > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d probes lost", d.Sent-d.Received, d.Sent))
	}
	if p := v.r.PMTU; p != nil && p.MTU != nil {
		parts = append(parts, fmt.Sprintf("path MTU %d", *p.MTU))
	}
	return strings.Join(parts, ", ")
}
