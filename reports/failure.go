package reports

import (
	"fmt"
	"strings"

	"github.com/whyslow/whyslow/httpcheck"
)

// failureVerdict judges a target that could not be measured at all. ok is
// false if it could.
func (v *view) failureVerdict() (Verdict, bool) {
	if len(v.visits) > 0 {
		return Verdict{}, false
	}
	if v.r.HTTP == nil || v.r.HTTP.Failure == nil {
		return v.lookupFailure()
	}
	f := v.r.HTTP.Failure
	layer, component, p := v.placeFailure(f)
	out := failed(layer, component, v.failurePlace(f), p, v.failureSentence(f))
	out.Evidence = append(out.Evidence, fact("failure", "the "+f.Phase+" phase fails", f.Text, "success"))
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
		return Server, "refused", 0.6
	case "timeout":
		return v.placeTimeout(f)
	}
	return Inconclusive, "", 0
}

// placeTimeout weighs silence: a host that cannot be reached at all is a
// matter of the network; one that takes connections and then says nothing is
// slow itself.
func (v *view) placeTimeout(f *httpcheck.Failure) (Layer, string, float64) {
	reached := v.r.Trace != nil && v.r.Trace.Reached
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

func (v *view) failurePlace(f *httpcheck.Failure) string {
	t := v.r.Target
	switch f.Kind {
	case "nxdomain", "dns":
		return t.Host
	}
	if t.Addr == "" {
		return t.Host
	}
	if strings.Contains(t.Addr, ":") {
		return fmt.Sprintf("%s ([%s]:%d)", t.Host, t.Addr, t.Port)
	}
	return fmt.Sprintf("%s (%s:%d)", t.Host, t.Addr, t.Port)
}

func (v *view) failureSentence(f *httpcheck.Failure) string {
	host, port := v.r.Target.Host, v.r.Target.Port
	switch f.Kind {
	case "nxdomain":
		return fmt.Sprintf("There is no such name as %s.", host)
	case "dns":
		return fmt.Sprintf("The name %s cannot be resolved: %s.", host, trimStop(f.Text))
	case "refused":
		return fmt.Sprintf("%s refuses connections to port %d: nothing listens there.", host, port)
	case "unreachable":
		return fmt.Sprintf("There is no way through the network to %s: %s.", host, trimStop(f.Text))
	case "certificate":
		return fmt.Sprintf("The certificate of %s is not acceptable: %s.", host, trimStop(f.Text))
	case "redirect-loop":
		return fmt.Sprintf("%s redirects in a circle.", host)
	case "timeout":
		return fmt.Sprintf("%s does not answer: the %s phase did not end in time.", host, f.Phase)
	}
	return fmt.Sprintf("%s could not be measured: %s.", host, trimStop(f.Text))
}

// lookupFailure judges a name that did not resolve.
func (v *view) lookupFailure() (Verdict, bool) {
	d := v.r.DNS
	if d == nil || d.Stub == nil || len(d.Stub.Addrs) > 0 {
		return Verdict{}, false
	}
	host := v.r.Target.Host
	switch d.Stub.Rcode {
	case "NXDOMAIN":
		return failed(DNS, "nxdomain", host, 0.98, fmt.Sprintf("There is no such name as %s.", host)), true
	case "NOERROR":
		return failed(DNS, "nxdomain", host, 0.85, fmt.Sprintf("The name %s exists but has no address.", host)), true
	case "SERVFAIL":
		return failed(DNS, "servfail", v.guilty("servfail", host), 0.9, fmt.Sprintf("The resolver cannot resolve %s: it answers SERVFAIL.", host)), true
	case "":
		return Verdict{}, false
	}
	return failed(DNS, "resolver-down", v.guilty("resolver-down", host), 0.85,
		fmt.Sprintf("No configured resolver answers for %s (%s).", host, d.Stub.Rcode)), true
}

// guilty is where the finding of a component lies, or else.
func (v *view) guilty(component, otherwise string) string {
	for _, f := range v.r.DNS.Findings {
		if f.Component == component && f.Where != "" {
			return f.Where
		}
	}
	return otherwise
}
