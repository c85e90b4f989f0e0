package reports

import "time"

// cause is one suspect with what it cost and how sure its evidence is.
type cause struct {
	layer     Layer
	component string
	where     string
	// extra is what the cause adds to one load of the page, measured. For a
	// latency-like cause see perRTT.
	extra time.Duration
	// perRTT is what the cause adds to every round trip; it is multiplied by
	// the number of round trips of a load.
	perRTT time.Duration
	// p is the probability that, given its evidence, the cause is real and
	// rightly named and placed.
	p float64
	// phrase completes "The page is slow because …".
	phrase   string
	evidence []Evidence
	next     []string
}

// supported reports whether the cause would cost a load anything.
func (c cause) supported() bool { return c.extra > 0 || c.perRTT > 0 }

// fact builds a piece of evidence for a verdict.
func fact(rule, claim, observed, threshold string) Evidence {
	return Evidence{Rule: rule, Claim: claim, Observed: observed, Threshold: threshold, Supports: true}
}

// against builds a piece of evidence that speaks against a verdict.
func against(rule, claim, observed, threshold string) Evidence {
	e := fact(rule, claim, observed, threshold)
	e.Supports = false
	return e
}
