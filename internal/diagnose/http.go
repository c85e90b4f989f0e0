package diagnose

import (
	"context"
	"net"
	"net/netip"

	"github.com/whyslow/whyslow/dnscheck"
	"github.com/whyslow/whyslow/httpcheck"
	"github.com/whyslow/whyslow/reports"
)

// samples takes the timed loads of the first round.
func (r *run) samples(ctx context.Context) {
	r.say("http", "fetching "+r.report.Target.URL)
	for e, err := range r.http.Events(ctx) {
		if err != nil {
			break
		}
		r.keepEvent(e)
	}
	r.fold()
}

// keepEvent adds one event to the report and tells the path instruments which
// address HTTP talks to.
func (r *run) keepEvent(e httpcheck.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.report.HTTP.Add(e)
	if e.Sample == nil {
		return
	}
	for _, x := range e.Sample.Exchanges {
		if ap, err := netip.ParseAddrPort(x.Remote); err == nil {
			r.hostOnce.Do(func() {
				r.host = ap.Addr().Unmap()
				r.report.Target.Addr = r.host.String()
				close(r.hostCh)
			})
			return
		}
	}
}

// fold brings the summary of the HTTP result up to date.
func (r *run) fold() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.http.Finish(r.report.HTTP)
}

// judge asks for an opinion on what is known so far.
func (r *run) judge() reports.Verdict {
	r.mu.Lock()
	defer r.mu.Unlock()
	return reports.Judge(r.report)
}

// notFound makes httpcheck see a failed lookup as the kind of failure it is.
func notFound(host string, stub *dnscheck.Stub) error {
	e := &net.DNSError{Name: host, Err: "no address"}
	if stub == nil {
		return e
	}
	switch stub.Rcode {
	case "NXDOMAIN", "NOERROR":
		e.IsNotFound, e.Err = true, "no such name"
	case "timeout":
		e.IsTimeout, e.Err = true, "no resolver answers"
	default:
		e.IsTemporary, e.Err = true, stub.Rcode
	}
	return e
}
