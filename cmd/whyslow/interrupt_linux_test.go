package main

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/whyslow/whyslow/httpcheck"
	"github.com/whyslow/whyslow/internal/netlab/servers"
	"github.com/whyslow/whyslow/internal/simnet"
	"github.com/whyslow/whyslow/reports"
)

// promptly is how soon the program must be gone on a machine that has other
// things to do. On a quiet one it is 200 ms.
const promptly = time.Second

// stages are faults that hold a report at one place for as long as one likes.
// Each returns the URL to ask for and what tells that the place is reached.
var stages = []struct {
	name  string
	begin func(t *testing.T, l *lab) (url string, reached func() bool)
	// knows checks that what was measured until then is there.
	knows func(r *reports.Report) bool
}{
	{"the lookup", func(t *testing.T, l *lab) (string, func() bool) {
		l.serveDNS(t, zones(), servers.DNSFault{Action: servers.Drop})
		return "http://" + site + "/", func() bool { return l.dns.Queries() > 0 }
	}, func(r *reports.Report) bool { return r.DNS != nil && r.DNS.Stub != nil && len(r.DNS.Stub.Steps) > 0 }},
	{"connect", func(t *testing.T, l *lab) (string, func() bool) {
		l.serveDNS(t, zones())
		if err := l.Model(func(n *simnet.Net) { n.SetLink(l.routers[1], l.routers[2], simnet.Link{Loss: 1}) }); err != nil {
			t.Fatal(err)
		}
		return "http://" + site + "/", func() bool { return l.dns.Queries() > 10 }
	}, func(r *reports.Report) bool { return r.DNS != nil && r.Target.Addr == webAddr.String() }},
	{"TLS", func(t *testing.T, l *lab) (string, func() bool) {
		l.serveDNS(t, zones())
		ca, err := servers.NewCA()
		if err != nil {
			t.Fatal(err)
		}
		cert, err := ca.Issue(servers.CertificateConfig{Names: []string{site}})
		if err != nil {
			t.Fatal(err)
		}
		l.serveHTTP(t, servers.HTTPConfig{TLSAddrs: []netip.AddrPort{netip.AddrPortFrom(webAddr, 443)}, Certificate: cert, HandshakeDelay: time.Minute})
		return "https://" + site + "/", func() bool { return l.http.Connections() > 0 }
	}, knowsHTTP},
	{"wait", func(t *testing.T, l *lab) (string, func() bool) {
		l.serveDNS(t, zones())
		l.serveHTTP(t, servers.HTTPConfig{Routes: map[string]servers.Route{"/": {Fault: servers.Hang}}})
		return "http://" + site + "/", func() bool { return l.http.Requests() > 0 }
	}, knowsHTTP},
	{"a body that drips", func(t *testing.T, l *lab) (string, func() bool) {
		l.serveDNS(t, zones())
		l.serveHTTP(t, servers.HTTPConfig{Routes: map[string]servers.Route{"/": {Fault: servers.EndlessBody, Pace: servers.Pace{Every: 50 * time.Millisecond}}}})
		return "http://" + site + "/", func() bool { return l.http.Requests() > 0 }
	}, knowsHTTP},
	{"a body at full speed", func(t *testing.T, l *lab) (string, func() bool) {
		l.serveDNS(t, zones())
		l.serveHTTP(t, servers.HTTPConfig{Routes: map[string]servers.Route{"/": {Fault: servers.EndlessBody}}})
		return "http://" + site + "/", func() bool { return l.http.Requests() > 0 }
	}, knowsHTTP},
	{"the samples", func(t *testing.T, l *lab) (string, func() bool) {
		l.serveDNS(t, zones())
		l.serveHTTP(t, servers.HTTPConfig{Routes: map[string]servers.Route{"/": {Think: 300 * time.Millisecond}}})
		return "http://" + site + "/", func() bool { return l.http.Requests() > 3 }
	}, knowsHTTP},
	{"the controls", func(t *testing.T, l *lab) (string, func() bool) {
		l.serveDNS(t, zones())
		slow := servers.Route{Think: time.Minute}
		l.serveHTTP(t, servers.HTTPConfig{Routes: map[string]servers.Route{"/": {Think: 300 * time.Millisecond},
			"/favicon.ico": slow, "/robots.txt": slow}})
		return "http://" + site + "/", func() bool { return l.http.Requests() > 8 }
	}, knowsHTTP},
}

func samples(r *reports.Report) []httpcheck.Sample {
	if r.HTTP == nil {
		return nil
	}
	return r.HTTP.Samples
}

func knowsHTTP(r *reports.Report) bool {
	return r.HTTP != nil && len(r.HTTP.Samples) > 0 && r.DNS != nil && r.Target.Addr != ""
}

// Ctrl-C at any place ends the program at once, with what is known so far as
// one valid document.
func TestInterruptAtAnyPlace(t *testing.T) {
	for _, s := range stages {
		t.Run(s.name, func(t *testing.T) {
			l := newLab(t, 8*time.Millisecond)
			url, reached := s.begin(t, l)
			p := l.start(t, "report", url, "--json", "--insecure")
			eventually(t, "reaching "+s.name, reached)
			took := p.interrupt(t)
			t.Logf("%v", took.Round(time.Millisecond))
			if took > promptly {
				t.Errorf("took %v to end", took)
			}
			if p.status() != 130 {
				t.Errorf("status %d, stderr %q", p.status(), &p.err)
			}
			r := p.report(t)
			if !r.Interrupted || r.Schema != reports.Schema || r.Verdict.Summary == "" {
				t.Errorf("interrupted %v, schema %q, verdict %+v", r.Interrupted, r.Schema, r.Verdict)
			}
			if !s.knows(r) {
				t.Errorf("what was known is lost:\n%s", &p.out)
			}
			t.Log(r.Verdict.Summary)
		})
	}
}

// --max-time is a Ctrl-C that was planned, and no failure of the user's.
func TestMaxTimeAtAnyPlace(t *testing.T) {
	const limit = 1500 * time.Millisecond
	for _, s := range stages {
		t.Run(s.name, func(t *testing.T) {
			l := newLab(t, 8*time.Millisecond)
			url, _ := s.begin(t, l)
			began := time.Now()
			p := l.run(t, "report", url, "--json", "--insecure", "--max-time", limit.String())
			late := p.ended.Sub(began) - limit
			t.Logf("%v late", late.Round(time.Millisecond))
			if late > promptly {
				t.Errorf("%v too late", late)
			}
			r := p.report(t)
			if !r.Interrupted || !s.knows(r) {
				t.Errorf("interrupted %v; what was known is lost:\n%s", r.Interrupted, &p.out)
			}
			want := 0
			if !slices.ContainsFunc(samples(r), func(s httpcheck.Sample) bool { return s.Failure == nil }) {
				want = 4 // the target could not be measured, in that time
			}
			if p.status() != want {
				t.Errorf("status %d, want %d; stderr %q", p.status(), want, &p.err)
			}
			t.Log(p.status(), r.Verdict.Summary)
		})
	}
}
