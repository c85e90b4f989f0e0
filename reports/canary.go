package reports

import (
	"fmt"
	"slices"
	"time"
)

// disordered reports whether segments of most bodies came out of order, which
// means that some were lost.
func (v *view) disordered() bool {
	n := 0
	for _, one := range v.visits {
		if one.outOfOrder {
			n++
		}
	}
	return 2*n > len(v.visits)
}

// canary is how long connects took while the body was on its way, each as much
// longer as it was than the usual one before.
type canary struct {
	waits series
	usual time.Duration
}

// canary reads the connects beside the transfer. Those whose SYN was lost tell
// of drops, not of a queue, and are left out.
func (v *view) canary() canary {
	out := canary{usual: max(v.rtt, v.usualConnect())}
	c := v.findControl("canary")
	if c == nil || !v.rttKnown {
		return out
	}
	for _, run := range c.Runs {
		d, ok := run.Phases.Connect.Get()
		if lost := run.TCPStart != nil && run.TCPStart.Retrans > 0; ok && !lost {
			out.waits = append(out.waits, max(d-out.usual, 0))
		}
	}
	return out
}

// full reports whether the canary waited in a queue that the transfer fills,
// and how sure that is. A queue between full and empty swings (AIMD), so a
// quarter of the connects in a long one is enough; a link that drops what it
// can't carry has a short one.
func (c canary) full(drops bool) (p float64, ok bool) {
	long, short := max(25*time.Millisecond, c.usual*3/4), max(5*time.Millisecond, c.usual/2)
	switch typical := c.waits.typical(); {
	case typical >= long:
		return 0.9, true
	case c.waits.upperQuartile() >= long, drops && typical >= short:
		return 0.86, true
	}
	return 0, false
}

// calm reports whether the canary met no queue.
func (c canary) calm() bool { return c.waits.typical() <= max(5*time.Millisecond, c.usual/4) }

// text says what the canary saw.
func (c canary) text() string {
	return fmt.Sprintf("median %s over %d connects, a quarter of them over %s, %s before it",
		ms(c.waits.typical()+c.usual), len(c.waits), ms(c.waits.upperQuartile()+c.usual), ms(c.usual))
}

// weighCanary decides between a thin link and a slow sender by what a second
// connection felt meanwhile. A link that is full delays everything behind its
// queue; a server that sends slowly delays nobody else. False means that the
// canary does not tell.
func (v *view) weighCanary(c *cause, took time.Duration) bool {
	seen := v.canary()
	if len(seen.waits) < 3 {
		return false
	}
	drops := v.disordered()
	if p, full := seen.full(drops); full {
		c.layer, c.component, c.where, c.p = Network, "bandwidth", v.narrowPlace(), p
		c.phrase = fmt.Sprintf("a link of the path carries no more than %s", v.rate(took))
		c.evidence = append(c.evidence, fact("canary", "connects beside the transfer wait in the same queue", seen.text(), "no longer than without the transfer"))
		return true
	}
	steady := v.pauses() < c.extra/3
	switch {
	case !seen.calm():
		return false
	case steady && drops:
		return v.weighPolicer(c, took, seen)
	case steady:
		c.p = 0.88
		c.phrase = fmt.Sprintf("the server sends the body slowly, at %s", v.rate(took))
	default:
		c.p = 0.92
		c.phrase = fmt.Sprintf("the server sends the body slowly, %s of pauses in it", ms(v.pauses()))
	}
	if drops {
		c.p = min(c.p, 0.75)
		c.next = append(c.next, elsewhere)
	}
	c.evidence = append(c.evidence, fact("canary", "connects beside the transfer are as quick as without it: the path is not full", seen.text(), "no longer than without the transfer"))
	return true
}

// weighPolicer judges a steady transfer that loses segments while others pass
// unhindered. A link that drops what it can't carry, with hardly a queue or one
// for each flow (fq_codel, RFC 8290), does that: as fast each time, and without
// losses where nothing is transferred. A server that sends slowly over a lossy
// path does it too, so this is never sure.
func (v *view) weighPolicer(c *cause, took time.Duration, seen canary) bool {
	receive := v.phase(func(one visit) time.Duration { return one.receive })
	even := len(receive) >= 3 && slices.Max(receive) <= receive.structural()*11/10
	idle := v.destinationSample()
	if !even || idle == nil || idle.Sent < 50 || idle.Received < idle.Sent {
		return false
	}
	c.layer, c.component, c.where, c.p = Network, "bandwidth", v.narrowPlace(), 0.72
	c.phrase = fmt.Sprintf("a link of the path drops what exceeds %s", v.rate(took))
	c.next = append(c.next, elsewhere)
	c.evidence = append(c.evidence,
		fact("steady-drops", "each load loses segments and is as fast as the others, while the idle path loses nothing",
			fmt.Sprintf("%s to %s, 0 of %d idle probes lost", ms(receive.structural()), ms(slices.Max(receive)), idle.Sent), "all loads within a tenth of each other"),
		against("canary", "connects beside the transfer meet no queue: the link hardly has one, or one for each flow", seen.text(), "longer than without the transfer"))
	return true
}

// elsewhere is the experiment that tells a slow server from a thin link.
const elsewhere = "fetch the same over another network, or on a host beside the server: only a slow server is slow there too"
