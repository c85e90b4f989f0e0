package reports

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/whyslow/whyslow/dnscheck"
	"github.com/whyslow/whyslow/httpcheck"
)

// failureVerdict judges a target that could not be measured at all. ok is
// false if it could.
func (v *view) failureVerdict() (Verdict, bool) {
	if len(v.visits) > 0 {
		return Verdict{}, false
	}
	if v.r.HTTP == nil || v.r.HTTP.Failure == nil {
		out, ok := v.lookupFailure()
		if !ok && len(v.stalled) == 0 {
			out, ok = v.nothingMeasured(), true
			out.Failed = true
		}
		return out, ok
	}
	f := v.r.HTTP.Failure
	if f.Kind == "canceled" {
		if f.InPhase.Duration() < longSilence {
			return v.cutShort(fmt.Sprintf("the %s phase of the first request had taken %s", f.Phase, f.InPhase)), true
		}
		silence := *f // no less telling than one of our own timeouts
		silence.Kind = "timeout"
		f = &silence
	}
	layer, component, p := v.placeFailure(f)
	out := failed(layer, component, v.failurePlace(f), p, v.failureSentence(f))
	out.Evidence = append(out.Evidence, fact("failure", "the "+f.Phase+" phase fails", f.Text, ""))
	if component == "mtu-blackhole" {
		v.blackHoleFailure(&out)
	}
	if component == "" {
		out.Next = append(out.Next, "try again with a longer --max-time, and from another network")
	}
	return out, true
}

// failed builds the verdict of a target that could not be measured.
func failed(layer Layer, component, where string, p float64, summary string) Verdict {
	v := Verdict{Layer: layer, Where: where, Confidence: p, Failed: true, Summary: summary}
	if component != "" {
		v.Component = &component
	}
	return v
}

// placeFailure names the party that a failure is pinned on.
func (v *view) placeFailure(f *httpcheck.Failure) (Layer, string, float64) {
	switch f.Kind {
	case "nxdomain":
		return DNS, "nxdomain", 0.98
	case "dns":
		if out, ok := v.lookupFailure(); ok && out.Component != nil {
			return out.Layer, *out.Component, out.Confidence
		}
		return DNS, "servfail", 0.6
	case "refused":
		return Server, "refused", 0.97
	case "unreachable":
		return Network, "unreachable", 0.96
	case "certificate":
		return Server, "certificate", 0.97
	case "tls":
		return Server, "tls", 0.8
	case "redirect-loop":
		return Server, redirects, 0.95
	case "reset", "closed", "protocol", "too-large":
		return placeBreach(f.Phase)
	case "timeout":
		return v.placeTimeout(f)
	}
	return Inconclusive, "", 0
}

// placeBreach names what a server breaks by answering otherwise than HTTP says.
func placeBreach(phase string) (Layer, string, float64) {
	switch phase {
	case "redirect":
		return Server, redirects, 0.9
	case "tls":
		return Server, "tls", 0.7
	case "receive":
		return Server, "body", 0.7
	}
	return Server, "refused", 0.6
}

// placeTimeout weighs silence: a host that cannot be reached at all is a
// matter of the network; one that takes connections and then says nothing is
// slow itself.
func (v *view) placeTimeout(f *httpcheck.Failure) (Layer, string, float64) {
	reached := v.r.Trace != nil && v.r.Trace.Reached
	if p := v.r.PMTU; p != nil && p.BlackHole && f.Phase != "connect" {
		return Network, "mtu-blackhole", 0.75 // what is silent may be no more than large
	}
	switch f.Phase {
	case "connect":
		if reached {
			return Server, "accept", 0.55 // or a filter before it
		}
		return Network, "unreachable", 0.85
	case "tls":
		return Server, "tls", 0.6
	case "wait":
		return Server, "think-time", 0.75
	case "receive":
		return Server, "body", 0.7
	}
	return Inconclusive, "", 0
}

// blackHoleFailure words the verdict on a server that was heard as long as its
// packets were small.
func (v *view) blackHoleFailure(out *Verdict) {
	p := v.r.PMTU
	size := ""
	if p.MTU != nil {
		size = fmt.Sprintf(" of more than %d bytes", *p.MTU)
	}
	out.Where = v.limiterPlace()
	out.Summary = fmt.Sprintf("%s connects, but its answer does not arrive: packets%s vanish on the way, and nobody says so.", v.r.Target.Host, size)
	out.Evidence = append(out.Evidence, fact("pmtu-blackhole", "large probes to the server vanish, small ones pass", "packets"+size+" vanish unreported", "a router says so (ICMP)"))
	out.Next = append(out.Next, healBlackHole)
}

// longSilence is what a request must have waited for that its end by Ctrl-C or
// --max-time still tells something of the target: longer than a healthy one
// takes anywhere, SYNs and segments lost twice included.
const longSilence = 3 * time.Second

// cutShort is the verdict where the measurement ended before anything did.
func (v *view) cutShort(state string) Verdict {
	out := v.nothingMeasured()
	out.Failed = true
	out.Summary = fmt.Sprintf("The measurement was ended before anything was known: %s.", state)
	return out
}

func (v *view) failurePlace(f *httpcheck.Failure) string {
	t := v.r.Target
	switch f.Kind {
	case "nxdomain", "dns":
		return t.Host
	case "unreachable":
		if last := v.lastHop(); last != "" {
			return "behind " + last
		}
	case "timeout":
		if last := v.lastHop(); f.Phase == "connect" && last != "" {
			return "behind " + last
		}
	}
	if t.Addr == "" {
		return t.Host
	}
	at := net.JoinHostPort(t.Addr, strconv.Itoa(int(t.Port)))
	if t.Addr == t.Host {
		return at
	}
	return fmt.Sprintf("%s (%s)", t.Host, at)
}

func (v *view) failureSentence(f *httpcheck.Failure) string {
	host, port := v.r.Target.Host, v.r.Target.Port
	switch f.Kind {
	case "nxdomain":
		return fmt.Sprintf("There is no such name as %s.", host)
	case "dns":
		return fmt.Sprintf("The name %s cannot be resolved: %s.", host, trimStop(f.Text))
	case "refused":
		return fmt.Sprintf("%s refuses connections to port %d: nothing listens there, or a filter rejects it.", host, port)
	case "unreachable":
		if last := v.lastHop(); last != "" {
			return fmt.Sprintf("There is no way through the network to %s: packets get as far as %s.", host, last)
		}
		return fmt.Sprintf("There is no way through the network to %s: %s.", host, trimStop(f.Text))
	case "certificate":
		return fmt.Sprintf("The certificate of %s is not acceptable: %s.", host, trimStop(f.Text))
	case "tls":
		return fmt.Sprintf("No TLS connection to port %d of %s comes about: %s.", port, host, trimStop(f.Text))
	case "protocol", "too-large":
		if f.Phase == "redirect" {
			return fmt.Sprintf("%s redirects to where nobody can go: %s.", host, trimStop(f.Text))
		}
		return fmt.Sprintf("What %s answers is no proper HTTP: %s.", host, trimStop(f.Text))
	case "redirect-loop":
		return fmt.Sprintf("%s redirects in a circle: %s.", host, trimStop(f.Text))
	case "timeout":
		if last := v.lastHop(); f.Phase == "connect" && last != "" {
			return fmt.Sprintf("%s cannot be reached: packets get as far as %s and no further.", host, last)
		}
		if f.InPhase.Known() {
			return fmt.Sprintf("%s does not answer: the %s phase had not ended after %s.", host, f.Phase, f.InPhase)
		}
		return fmt.Sprintf("%s does not answer: the %s phase did not end in time.", host, f.Phase)
	}
	return fmt.Sprintf("%s could not be measured: %s.", host, trimStop(f.Text))
}

// lastHop is the last router that answered on a path that does not reach its
// destination; "" if there is none, or the path was not traced.
func (v *view) lastHop() string {
	t := v.r.Trace
	if t == nil || t.Reached {
		return ""
	}
	for _, h := range slices.Backward(t.Hops) {
		if len(h.Replies) > 0 && h.Replies[0].Addr.String() != v.r.Target.Addr {
			return fmt.Sprintf("%s (hop %d)", h.Replies[0].Addr, h.TTL)
		}
	}
	return ""
}

// lookupFailure judges a name that did not resolve.
func (v *view) lookupFailure() (Verdict, bool) {
	d := v.r.DNS
	if d == nil || d.Stub == nil || len(d.Stub.Addrs) > 0 {
		return Verdict{}, false
	}
	host := v.r.Target.Host
	// What an authority's or a resolver's fault looks like from here. The
	// finding, where there is one, knows more than the outcome.
	because := func(otherwise string, p float64, components ...string) Verdict {
		component, where, why := otherwise, host, ""
		if f, ok := v.finding(append(components, otherwise)...); ok {
			component, where, why = f.Component, f.Where, ": "+trimStop(f.Text)
			if !f.Confirmed {
				p = min(p, 0.75)
			}
		}
		out := failed(DNS, component, where, p, fmt.Sprintf("The name %s cannot be resolved%s.", host, why))
		out.Evidence = append(out.Evidence, fact("dns-failure", "the lookup fails",
			fmt.Sprintf("%s after %s", d.Stub.Rcode, d.Stub.Elapsed), ""))
		return out
	}
	switch d.Stub.Rcode {
	case "":
		return Verdict{}, false
	case string(dnscheck.Interrupted):
		out := v.cutShort(fmt.Sprintf("the lookup of %s had taken %s", host, d.Stub.Elapsed))
		if f, ok := v.finding("resolver-down"); ok && f.Cost.Known() {
			// Seconds of silence are more than nothing.
			out = because("resolver-down", 0.6)
		}
		return out, true
	case "NXDOMAIN":
		return failed(DNS, "nxdomain", host, 0.98, fmt.Sprintf("There is no such name as %s.", host)), true
	case "NODATA":
		return failed(DNS, "nxdomain", host, 0.95, fmt.Sprintf("The name %s exists but has no address%s.", host, v.familyAsked())), true
	case "SERVFAIL":
		return because("servfail", 0.9, "validation", "authority-down"), true
	case "REFUSED", "NOTIMP", "NOERROR": // NOERROR without an address: a referral, from a server that does not recurse
		return because("lame", 0.9), true
	case string(dnscheck.Timeout), string(dnscheck.Mismatch):
		out := because("resolver-down", 0.85, "authority-down", "edns", "truncation", "resolver-loss")
		if *out.Component == "resolver-loss" {
			out.Confidence = min(out.Confidence, 0.65) // the resolver is the victim of a lossy path, perhaps the page's too
			out.Next = append(out.Next, "whyslow trace "+out.Where+": which link on the way to the resolver loses packets; then the report again")
		}
		return out, true
	case string(dnscheck.Malformed), string(dnscheck.Closed), string(dnscheck.Refused), string(dnscheck.Unreachable):
		return because("resolver-down", 0.9), true
	}
	return because("servfail", 0.7), true // FORMERR and rarer answers
}

// familyAsked completes "has no address" where only one family was asked for.
func (v *view) familyAsked() string {
	var seen []string
	for _, s := range v.r.DNS.Stub.Steps {
		if !slices.Contains(seen, s.Type) {
			seen = append(seen, s.Type)
		}
	}
	if len(seen) == 1 {
		return fmt.Sprintf(" of the family asked for (%s)", seen[0])
	}
	return ""
}

// finding is the first finding, and so the costliest, of any of the components.
func (v *view) finding(components ...string) (dnscheck.Finding, bool) {
	for _, f := range v.r.DNS.Findings {
		if slices.Contains(components, f.Component) {
			return f, true
		}
	}
	return dnscheck.Finding{}, false
}
