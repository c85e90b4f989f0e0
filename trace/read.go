package trace

import (
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/whyslow/whyslow/internal/millis"
)

// Read applies the rules R1 to R10 and the notes N1 to N5 (docs/reading.md) to a path. It is a pure
// function of the result; each sentence names the rule it rests on.
func Read(res *Result) []Sentence {
	out := []Sentence{}
	if len(res.Hops) == 0 {
		return out
	}
	r := reader{res: res, segments: Segments(res), loss: LossAt(res)}
	for _, rule := range []func() []Sentence{
		r.steps, r.lost, r.byProtocol, r.limits, r.spent, r.silent, r.wayBack, r.queueing, r.several, r.labels, r.loop, r.cosmetic,
		r.changed, r.translated, r.clamped, r.marked, r.hidden, r.closed,
	} {
		out = append(out, rule()...)
	}
	return out
}

// reader holds what several rules need.
type reader struct {
	res      *Result
	segments []Segment
	loss     Loss
}

func say(rule, format string, args ...any) Sentence {
	return Sentence{Rule: rule, Text: fmt.Sprintf(format, args...)}
}

// steps is R1: the largest real step, and the hops that only answer slowly.
func (r *reader) steps() []Sentence {
	var out []Sentence
	total, largest := time.Duration(0), -1
	for i, s := range r.segments {
		total += s.Delay
		if s.Real && (largest < 0 || s.Delay > r.segments[largest].Delay) {
			largest = i
		}
	}
	if largest >= 0 {
		s := r.segments[largest]
		out = append(out, say("R1", "the largest step is %v on %s: %.0f %% of the %v to the end of the path",
			millis.Of(s.Delay), between(s.FromTTL, s.ToTTL, s.To), 100*float64(s.Delay)/float64(total), millis.Of(total)))
	}
	for _, s := range r.slowAnswers() {
		out = append(out, say("R1", "%s answers after %v, but hops behind it answer after %v: it is slow to answer, not to forward, and delays nothing",
			hopName(s.hop.TTL, s.addr), s.own, s.behind))
	}
	return out
}

// slowAnswer is a hop that answers later than one behind it.
type slowAnswer struct {
	point
	own, behind millis.Value
}

// slowAnswers are the hops whose least answer is later than a later hop's by
// more than noise.
func (r *reader) slowAnswers() []slowAnswer {
	pts := points(r.res)
	mins := make([]millis.Value, len(pts))
	for i, p := range pts {
		mins[i] = p.min
	}
	var slow []slowAnswer
	for i, least := range suffixMin(mins) {
		if !r.res.FlowStable && len(pts[i].hop.Replies) > 1 {
			continue // several flows: what lies behind may lie on another path (R7)
		}
		if own := mins[i].Duration(); own-least > max(leastStep, least/5) {
			slow = append(slow, slowAnswer{pts[i], mins[i], millis.Of(least)})
		}
	}
	return slow
}

// lost is R2: loss is real only if everything behind it loses too.
func (r *reader) lost() []Sentence {
	var out []Sentence
	if l := r.loss; l.Found && !echoesAlone(r.res) {
		besides := ""
		if a := l.Also; a != nil {
			besides = fmt.Sprintf(", and some on %s, %s", between(a.FromTTL, a.ToTTL, a.To), percent(a.Rate))
		}
		out = append(out, say("R2", "packets are lost on %s%s: the destination and every sampled hop behind it lose, %s in all (95 %% interval %s to %s)%s",
			between(l.FromTTL, l.ToTTL, l.To), besides, percent(l.Rate), percent(l.Low), percent(l.High), r.unless()))
	}
	d := destinationSample(r.res)
	for _, h := range r.hopsOf(r.loss.Limited) {
		if r.limitsErrors(h) || r.lossReaches(h.TTL) || connectsAlone(r.res) {
			continue // R3 knows more, or it is not so sure
		}
		what := "what lies behind it loses less"
		if d != nil && d.Sent == d.Received {
			what = fmt.Sprintf("the destination answered all of %d probes", d.Sent)
		}
		out = append(out, say("R2", "%s leaves %s of the probes unanswered, but %s: it limits its answers and loses nothing it forwards",
			hopName(h.TTL, h.Replies[0].Addr), percent(worstLoss(h)), what))
	}
	return out
}

// limits is R3: errors are limited where echoes to the same address are not,
// or come at a pace of their own.
func (r *reader) limits() []Sentence {
	var out []Sentence
	for _, h := range r.res.Hops {
		switch {
		case h.Silent:
		case h.Limit != nil && h.Limit.Burst > 0:
			out = append(out, say("R3", "%s answered %d probes in a row and then one each %v at most: a limit on ICMP errors, not loss",
				hopName(h.TTL, h.Replies[0].Addr), h.Limit.Burst, h.Limit.Every))
		case h.Limit != nil:
			out = append(out, say("R3", "%s answers one probe each %v at most: a limit on ICMP errors, not loss",
				hopName(h.TTL, h.Replies[0].Addr), h.Limit.Every))
		case slices.Contains(r.loss.Limited, h.TTL) && r.limitsErrors(h) && !r.lossReaches(h.TTL) && !connectsAlone(r.res):
			out = append(out, say("R3", "%s sent errors for %d of %d expired probes but answered %d of %d echoes: a limit on ICMP errors, not loss",
				hopName(h.TTL, h.Replies[0].Addr), h.Received, h.Sent, h.Direct.Received, h.Direct.Sent))
		}
	}
	return out
}

// spent is R3 where no sample tells: routers that answered their first probes
// and none after have sent all the errors they had. Which probes chance loses
// does not depend on when they left, so the more hops show it the surer it is.
func (r *reader) spent() []Sentence {
	if d := destinationSample(r.res); d != nil && d.Sent >= leastSample {
		return nil
	}
	var out []Sentence
	var ttls []int
	others, chance := 0, 1.0
	for i := range r.res.Hops {
		h := &r.res.Hops[i]
		if h.Silent || h.Received == h.Sent || h.Limit != nil || h.Shared {
			continue
		}
		switch a := h.Replies[0].ICMP; {
		case a == portUnreachable && r.res.HopCount != nil && h.TTL == *r.res.HopCount:
			out = append(out, say("R3", "the destination answered %d of %d UDP probes: its answers are ICMP errors, which hosts limit (Linux sends each asker six in a row, then one a second%s), so that tells nothing of loss; -I or -T does",
				h.Received, h.Sent, r.perSecond()))
			continue
		case !h.Ebbed || a != "time exceeded":
			others++
			continue
		}
		ttls = append(ttls, h.TTL)
		chance /= orders(h.Sent, h.Received)
	}
	if chance > spentByChance || 2*others >= len(ttls) {
		return out
	}
	noun, have := "hops", "their"
	if len(ttls) == 1 {
		noun, have = "hop", "its"
	}
	return append(out, say("R3", "%s %s answered the first probes and none after: %s ICMP errors were spent, most likely by a trace just before (Linux sends each asker six in a row, then one a second%s); that is no loss, and echoes (--samples 100) or slower rounds (-c 10) tell",
		noun, ttlList(ttls), have, r.perSecond()))
}

// spentByChance is how often chance may look like errors that were spent.
const spentByChance = 0.05

// orders is in how many orders n probes can have k answers.
func orders(n, k int) float64 {
	ways := 1.0
	for i := range k {
		ways *= float64(n-i) / float64(i+1)
	}
	return ways
}

// perSecond amends what is said of Linux's limit for IPv6.
func (r *reader) perSecond() string {
	if r.res.Target.Addr.Is6() {
		return "; by IPv6 ten a second"
	}
	return ""
}

// ttlList writes TTLs, runs of three or more as "2 to 5".
func ttlList(ttls []int) string {
	var parts []string
	for i := 0; i < len(ttls); {
		j := i
		for j+1 < len(ttls) && ttls[j+1] == ttls[j]+1 {
			j++
		}
		if j-i >= 2 {
			parts = append(parts, fmt.Sprintf("%d to %d", ttls[i], ttls[j]))
		} else {
			j = i
			parts = append(parts, fmt.Sprint(ttls[i]))
		}
		i = j + 1
	}
	if n := len(parts); n > 1 {
		return strings.Join(parts[:n-1], ", ") + " and " + parts[n-1]
	}
	return strings.Join(parts, "")
}

// lossReaches reports whether packets are lost before a hop: what it leaves
// unanswered may be those.
func (r *reader) lossReaches(ttl int) bool {
	return r.loss.Found && (r.loss.ToTTL <= ttl || r.loss.Also != nil && r.loss.Also.ToTTL <= ttl)
}

// unless is what else may explain a loss that echoes have shown.
func (r *reader) unless() string {
	switch c := connects(r.res); {
	case r.res.Destination == nil || r.res.Destination.Method != "icmp":
		return ""
	case c.lossy():
		return fmt.Sprintf("; TCP connects are lost too, %v", c)
	case r.res.HopCount == nil || r.loss.ToTTL == *r.res.HopCount:
		return "; unless the destination limits its echoes: whyslow trace -T tells"
	}
	return "; unless the echoes took another of several parallel paths: --paths tells"
}

// limitsErrors reports whether R3 knows why a hop leaves probes unanswered.
func (r *reader) limitsErrors(h Hop) bool {
	return h.Limit != nil || h.Direct != nil && h.Direct.LossHigh < h.Loss
}

func worstLoss(h Hop) float64 {
	if h.Direct != nil {
		return max(h.Loss, h.Direct.Loss)
	}
	return h.Loss
}

func (r *reader) hopsOf(ttls []int) []Hop {
	var hops []Hop
	for _, h := range r.res.Hops {
		if slices.Contains(ttls, h.TTL) {
			hops = append(hops, h)
		}
	}
	return hops
}

// wayBack is R5: a real step where the length of the way back changes.
func (r *reader) wayBack() []Sentence {
	var out []Sentence
	for _, s := range r.segments {
		if s.Real && s.ReturnSuspect {
			out = append(out, say("R5", "from %s on the way back has another length than the way there%s: the %v may lie on the way back",
				hopName(s.ToTTL, s.To), r.lengthBack(s.ToTTL), millis.Of(s.Delay)))
		}
	}
	return out
}

// lengthBack tells the length of the way back from a hop, if it is known.
func (r *reader) lengthBack(ttl int) string {
	for _, h := range r.res.Hops {
		if h.TTL == ttl && len(h.Replies) > 0 && HopsBack(h.Replies[0].ReplyTTL) > 0 {
			return fmt.Sprintf(" (%d hops instead of %d)", HopsBack(h.Replies[0].ReplyTTL), ttl)
		}
	}
	return ""
}

// queueing is R6: the least shows distance, what typically comes on top shows
// queues.
func (r *reader) queueing() []Sentence {
	d := destinationSample(r.res)
	if d == nil || d.Received < leastSample {
		return nil
	}
	spread := d.Median.Duration() - d.Min.Duration()
	if spread <= max(leastStep, d.Min.Duration()/5) {
		return nil
	}
	out := []Sentence{say("R6", "the destination typically answers %v above its least round trip of %v: packets wait in a queue",
		millis.Of(spread), d.Min)}
	most := -1
	for i, s := range r.segments {
		if most < 0 || s.Typical-s.Delay > r.segments[most].Typical-r.segments[most].Delay {
			most = i
		}
	}
	if s := r.segments[most]; s.Typical-s.Delay > spread/2 {
		out = append(out, say("R6", "most of the wait begins on %s and shows at every hop behind it", between(s.FromTTL, s.ToTTL, s.To)))
	}
	return out
}

// cosmetic is R10: what single hops do does not matter if the destination is
// fast and steady.
func (r *reader) cosmetic() []Sentence {
	d := destinationSample(r.res)
	if c := connects(r.res); c.lost() > 0 {
		return nil
	}
	if d == nil || d.Received < leastSample || d.Received < d.Sent || len(r.slowAnswers())+len(r.loss.Limited) == 0 {
		return nil
	}
	if d.P95.Duration()-d.Min.Duration() > max(5*time.Millisecond, d.Min.Duration()/5) {
		return nil
	}
	return []Sentence{say("R10", "the destination answered all of %d probes, and steadily, within %v to %v: what single hops show besides does no harm",
		d.Sent, d.Min, d.P95)}
}

// hopName is how sentences call a hop.
func hopName(ttl int, addr netip.Addr) string {
	if !addr.IsValid() {
		return fmt.Sprintf("hop %d", ttl)
	}
	return fmt.Sprintf("hop %d (%v)", ttl, addr)
}

// between is how sentences call a segment: by the hops at its ends.
func between(from, to int, addr netip.Addr) string {
	if from == 0 {
		return fmt.Sprintf("the way from this host to %s", hopName(to, addr))
	}
	return fmt.Sprintf("the way from hop %d to %s", from, hopName(to, addr))
}

func percent(share float64) string {
	if share > 0 && share < 0.095 {
		return fmt.Sprintf("%.1f %%", 100*share)
	}
	return fmt.Sprintf("%.0f %%", math.Round(100*share))
}
