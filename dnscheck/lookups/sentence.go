package lookups

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/whyslow/whyslow/internal/millis"
)

// summary is the answer in one sentence.
func (r *Result) summary() string {
	on := r.Scenarios["on"]
	if on.Lookups == 0 {
		return "no request in the log would cause a lookup"
	}
	var parts []string
	parts = append(parts, fmt.Sprintf("On would add %s to the median request that waits for a lookup (%s of all)", on.AddedMS.P50, bracketShare(on.AffectedLow, on.Affected)))
	if on.Slow > 0 {
		parts = append(parts, fmt.Sprintf("a second or more to %s of these, up to %s", share(on.Slow), on.AddedMS.Max))
	}
	text := strings.Join(parts, " and ")
	if on.BusyWorkers != nil {
		text += fmt.Sprintf("; at your %s requests/s it keeps %s more workers busy", figure(r.rate()), bracket(float64(*on.BusyWorkersLow), float64(*on.BusyWorkers)))
	}
	if nameless := r.nameless(); nameless > 0 {
		text += fmt.Sprintf("; for %s of the addresses no name was found", share(nameless))
	}
	return text
}

// rate is the requests a second, 0 if unknown.
func (r *Result) rate() float64 {
	if r.SpanS == nil || *r.SpanS == 0 {
		return 0
	}
	return float64(r.Requests) / float64(*r.SpanS)
}

// nameless is the part of the addresses that no name was found for.
func (r *Result) nameless() float64 {
	n := 0.0
	for outcome, s := range r.Rcodes {
		if outcome != "NOERROR" {
			n += s.Addresses
		}
	}
	return n
}

// advice says what to do, the most useful first.
func (r *Result) advice() []string {
	out := []string{"leave HostnameLookups Off, which is the default, and resolve names afterwards: whyslow lookups --write-resolved FILE LOG"}
	on := r.Scenarios["on"]
	if failing := r.failing(); failing != nil && on.Slow > 0 {
		text := fmt.Sprintf("%s of the time goes to %s (%s)", share(failing.Share), failing.Network, failing.Outcome)
		if failing.Why != "" {
			text += ": " + failing.Why
		} else {
			text += ": nobody answers for these names, whatever the server does"
		}
		out = append(out, text)
	}
	if c := on.Capacity; c != nil {
		off := r.Scenarios["off"].Capacity
		out = append(out, fmt.Sprintf("%d workers serve %s requests/s with Off and %s with On", r.Workers, figure(float64(*off)), figure(float64(*c))))
	}
	if !r.Exact && on.LookupsLow < on.Lookups {
		out = append(out, `log %k (LogFormat "… %k") for a while: it tells how many requests share a connection, and narrows the bracket`)
	}
	return out
}

// failing is the costliest network whose lookups mostly fail.
func (r *Result) failing() *NetworkCost {
	i := slices.IndexFunc(r.Networks, func(n NetworkCost) bool { return fails(n.Outcome) })
	if i < 0 || r.Networks[i].Share < 0.05 {
		return nil
	}
	return &r.Networks[i]
}

// share is a part in words.
func share(v float64) string {
	switch {
	case v > 0 && v < 0.001:
		return "less than 0.1 %"
	case v < 0.1:
		return fmt.Sprintf("%.1f %%", 100*v)
	}
	return fmt.Sprintf("%.0f %%", 100*v)
}

func bracketShare(low, high float64) string {
	if math.Abs(high-low) < 0.005 {
		return share(high)
	}
	return share(low) + " to " + share(high)
}

// figure is a number with two or three digits that mean something.
func figure(v float64) string {
	switch {
	case v == 0:
		return "0"
	case v < 0.01:
		return "less than 0.01"
	case v < 1:
		return fmt.Sprintf("%.2f", v)
	case v < 100:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}

func bracket(low, high float64) string {
	if a, b := figure(low), figure(high); a != b {
		return a + " to " + b
	}
	return figure(high)
}

// finish completes a result.
func (r *Result) finish(started time.Time) {
	r.Started = started.UTC()
	r.Elapsed = millis.Of(time.Since(started))
	r.Summary = r.summary()
	r.Next = r.advice()
}
