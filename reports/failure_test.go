package reports

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/whyslow/whyslow/dnscheck"
	"github.com/whyslow/whyslow/httpcheck"
	"github.com/whyslow/whyslow/internal/millis"
	"github.com/whyslow/whyslow/trace"
)

// Each way for a lookup to fail has its own verdict: "no resolver answers" was
// said of a resolver that had answered.
func TestFailedLookups(t *testing.T) {
	found := func(component string) []dnscheck.Finding {
		return []dnscheck.Finding{{Component: component, Where: "192.0.2.53", Text: "It is so.", Confirmed: true}}
	}
	tests := []struct {
		rcode     string
		findings  []dnscheck.Finding
		layer     Layer
		component string
		says      string
	}{
		{"NXDOMAIN", nil, DNS, "nxdomain", "no such name"},
		{"NODATA", nil, DNS, "nxdomain", "exists but has no address"},
		{"SERVFAIL", nil, DNS, "servfail", "cannot be resolved"},
		{"SERVFAIL", found("validation"), DNS, "validation", "It is so"},
		{"SERVFAIL", found("authority-down"), DNS, "authority-down", "It is so"},
		{"SERVFAIL", found("resolver-slow"), DNS, "servfail", "cannot be resolved"},
		{"REFUSED", found("lame"), DNS, "lame", "It is so"},
		{"NOERROR", found("lame"), DNS, "lame", "It is so"},
		{"malformed", found("resolver-down"), DNS, "resolver-down", "It is so"},
		{"timeout", found("resolver-down"), DNS, "resolver-down", "It is so"},
		{"timeout", found("authority-down"), DNS, "authority-down", "It is so"},
		{"timeout", nil, DNS, "resolver-down", "cannot be resolved"},
		{"refused", nil, DNS, "resolver-down", "cannot be resolved"},
		{"unreachable", nil, DNS, "resolver-down", "cannot be resolved"},
		{"FORMERR", nil, DNS, "servfail", "cannot be resolved"},
		{"interrupted", nil, Inconclusive, "", "lookup of www.example.com had taken 1200 ms"},
	}
	for _, tt := range tests {
		t.Run(tt.rcode, func(t *testing.T) {
			v := Judge(&Report{Target: Target{Host: "www.example.com"}, DNS: &dnscheck.Result{Findings: tt.findings,
				Stub: &dnscheck.Stub{Rcode: tt.rcode, Elapsed: millis.Of(1200 * msec)}}})
			component := ""
			if v.Component != nil {
				component = *v.Component
			}
			if v.Layer != tt.layer || component != tt.component || !v.Failed {
				t.Errorf("%s/%s, failed %v; want %s/%s", v.Layer, component, v.Failed, tt.layer, tt.component)
			}
			if !strings.Contains(v.Summary, tt.says) {
				t.Errorf("summary %q does not say %q", v.Summary, tt.says)
			}
		})
	}
}

// A measurement ended soon in its first request tells of nobody; one ended
// after a long silence does.
func TestInterruptedFirstRequest(t *testing.T) {
	end := func(after time.Duration) Verdict {
		return Judge(&Report{Interrupted: true, Target: Target{Host: "www.example.com"}, HTTP: &httpcheck.Result{
			Failure: &httpcheck.Failure{Phase: "wait", Kind: "canceled", Text: "interrupted", InPhase: millis.Of(after)}}})
	}
	if v := end(2 * time.Second); v.Layer != Inconclusive || !v.Failed || !strings.Contains(v.Summary, "the wait phase of the first request had taken 2000 ms") {
		t.Errorf("soon: %+v", v)
	}
	v := end(10 * time.Second)
	if v.Layer != Server || v.Component == nil || *v.Component != "think-time" || v.Confidence > 0.7 || !strings.Contains(v.Summary, "had not ended after 10") {
		t.Errorf("late: %+v", v)
	}
}

// Where packets end is known from the trace, and is the place of the fault.
func TestUnreachableNamesTheLastRouter(t *testing.T) {
	hop := func(ttl int, addr string) trace.Hop {
		return trace.Hop{TTL: ttl, Replies: []trace.Replier{{Addr: netip.MustParseAddr(addr)}}}
	}
	path := &trace.Result{Hops: []trace.Hop{hop(1, "198.51.100.1"), hop(2, "198.51.100.2"), {TTL: 3, Silent: true}}}
	for _, kind := range []string{"unreachable", "timeout"} {
		v := Judge(&Report{Target: Target{Host: "www.example.com", Addr: "203.0.113.80"}, Trace: path, HTTP: &httpcheck.Result{
			Failure: &httpcheck.Failure{Phase: "connect", Kind: kind, Text: "connect: no route to host"}}})
		if v.Layer != Network || !strings.Contains(v.Where, "198.51.100.2 (hop 2)") || !strings.Contains(v.Summary, "198.51.100.2 (hop 2)") {
			t.Errorf("%s: %s, %q, %q", kind, v.Layer, v.Where, v.Summary)
		}
	}
}
