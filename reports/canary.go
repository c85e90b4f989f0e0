package reports

import (
	"fmt"
	"time"

	"github.com/whyslow/whyslow/internal/stats"
)

// canary is what the connects beside a transfer showed: the round trip while
// the body was on its way.
func (v *view) canary() (rtt time.Duration, n int) {
	c := v.findControl("canary")
	if c == nil {
		return 0, 0
	}
	var all []time.Duration
	for _, run := range c.Runs {
		if d, ok := run.Phases.Connect.Get(); ok {
			all = append(all, d)
		} else if run.Failure != nil {
			all = append(all, run.Failure.After.Duration())
		}
	}
	if len(all) == 0 {
		return 0, 0
	}
	return stats.Median(all), len(all)
}

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

// weighCanary decides between a thin link and a slow sender by what a second
// connection felt meanwhile. A link that is full delays everything behind its
// queue; a server that sends slowly delays nobody else. ok is false if the
// canary does not tell.
func (v *view) weighCanary(c *cause, took time.Duration) (ok bool) {
	during, n := v.canary()
	if n < 2 || !v.rttKnown {
		return false
	}
	grown := during - v.rtt
	full, calm := max(25*time.Millisecond, v.rtt*3/4), max(10*time.Millisecond, v.rtt/4)
	seen := fmt.Sprintf("median %s over %d connects, %s without the transfer", ms(during), n, ms(v.rtt))
	switch {
	case grown >= full:
		c.layer, c.component, c.where, c.p = Network, "bandwidth", v.narrowPlace(), 0.9
		c.phrase = fmt.Sprintf("a link of the path carries no more than %s", v.rate(took))
		c.evidence = append(c.evidence, fact("canary", "connects beside the transfer wait in the same queue", seen, "≥ "+ms(full)+" more"))
	case grown <= calm:
		c.p = 0.92
		c.phrase = fmt.Sprintf("the server sends the body slowly, %s of pauses in it", ms(v.pauses()))
		if v.pauses() < c.extra/3 { // steady: a policer would look the same, but drop
			c.p = 0.88
			c.phrase = fmt.Sprintf("the server sends the body slowly, at %s", v.rate(took))
		}
		if v.r.HTTP.Body.Class == "server-limited" {
			c.component, c.p = "rate-limit", 0.82
			c.phrase = "the server holds the transfer to a fixed rate of " + v.rate(took)
		}
		if v.disordered() {
			// A link that is full drops, and one that queues each flow by itself
			// (fq_codel, RFC 8290) lets others pass: not told from a slow server.
			c.p = 0.55
			c.next = append(c.next, "fetch the same over another network, or from a host beside the server: only a slow server is slow there too")
		}
		c.evidence = append(c.evidence, fact("canary", "connects beside the transfer are as quick as without it: the path is not full", seen, "≤ "+ms(calm)+" more"))
	default:
		return false
	}
	return true
}
