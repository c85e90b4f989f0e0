package diagnose_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/whyslow/whyslow/internal/diagnose"
	"github.com/whyslow/whyslow/internal/netlab/servers"
	"github.com/whyslow/whyslow/internal/simnet"
	"github.com/whyslow/whyslow/reports"
	"github.com/whyslow/whyslow/reports/render"
)

// serve starts a web server in the network. Addrs and the certificate are
// filled in: plain HTTP on port 80 unless c says otherwise.
func (n *network) serve(t *testing.T, c servers.HTTPConfig) *servers.HTTP {
	t.Helper()
	c.Place = n.web
	if c.Addrs == nil && c.TLSAddrs == nil {
		c.Addrs = []netip.AddrPort{netip.AddrPortFrom(webAddr, 80)}
	}
	s, err := servers.StartHTTP(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// resolvConf replaces the client's resolver configuration.
func (n *network) resolvConf(t *testing.T, text string) {
	t.Helper()
	var err error
	if n.conf, err = n.WriteFile("other.conf", []byte(text)); err != nil {
		t.Fatal(err)
	}
}

// model changes the model of the network while it runs.
func (n *network) model(t *testing.T, f func(*simnet.Net)) {
	t.Helper()
	if err := n.Model(f); err != nil {
		t.Fatal(err)
	}
}

const impatient = "options timeout:1 attempts:1\n"

// A target that cannot be measured is a result: the verdict says what stands
// in the way, the report is whole, and nobody waits longer than the fault
// itself takes.
func TestTargetsThatCannotBeMeasured(t *testing.T) {
	ca, err := servers.NewCA()
	if err != nil {
		t.Fatal(err)
	}
	secure := func(c servers.CertificateConfig) func(*testing.T, *network) {
		return func(t *testing.T, n *network) {
			n.clientDNS(t)
			cert, err := ca.Issue(c)
			if err != nil {
				t.Fatal(err)
			}
			n.serve(t, servers.HTTPConfig{TLSAddrs: []netip.AddrPort{netip.AddrPortFrom(webAddr, 443)}, Certificate: cert})
		}
	}
	healthyDNS := func(t *testing.T, n *network) { n.clientDNS(t) }
	dns := func(conf string, faults ...servers.DNSFault) func(*testing.T, *network) {
		return func(t *testing.T, n *network) {
			n.clientDNS(t, faults...)
			n.resolvConf(t, "nameserver "+resolverAddr.String()+"\n"+conf)
		}
	}
	web := netip.PrefixFrom(webAddr, 32)
	tests := []struct {
		name    string
		prepare func(*testing.T, *network)
		url     string
		layer   reports.Layer
		what    string
		says    string // in the summary
		within  time.Duration
	}{
		{"no such name", healthyDNS, "nosuchhost.shop.example", reports.DNS, "nxdomain", "no such name", 4 * time.Second},
		{"a name without address", healthyDNS, "http://shop.example/", reports.DNS, "nxdomain", "no address", 4 * time.Second},
		{"SERVFAIL", dns("", servers.DNSFault{Action: servers.ServFail}), "http://" + site, reports.DNS, "servfail", "SERVFAIL", 6 * time.Second},
		{"REFUSED", dns("", servers.DNSFault{Action: servers.Refuse}), "http://" + site, reports.DNS, "lame", "refuses", 6 * time.Second},
		{"a resolver that hosts nothing and recurses for nobody", dns("", servers.DNSFault{Action: servers.Lame}), "http://" + site, reports.DNS, "lame", "does not recurse", 6 * time.Second},
		{"an answer with a compression loop", dns("", servers.DNSFault{Action: servers.GarbageLoop}), "http://" + site, reports.DNS, "resolver-down", "cannot be read", 6 * time.Second},
		{"resolver silent", dns(impatient, servers.DNSFault{Action: servers.Drop}), "http://" + site, reports.DNS, "resolver-down", "answers nothing", 9 * time.Second},
		{"resolver's port closed", func(*testing.T, *network) {}, "http://" + site, reports.DNS, "resolver-down", "its port is closed", 6 * time.Second},
		{"resolver without a route", func(t *testing.T, n *network) { n.resolvConf(t, "nameserver 2001:db8::53\n") }, "http://" + site, reports.DNS, "resolver-down", "cannot be reached", 6 * time.Second},
		{"port refused", healthyDNS, "http://" + site + ":81/", reports.Server, "refused", "port 81", 5 * time.Second},
		{"both ports refused", healthyDNS, site, reports.Server, "refused", "port 443", 8 * time.Second},
		{"certificate expired", secure(servers.CertificateConfig{Names: []string{site}}.Expired()), "https://" + site, reports.Server, "certificate", "expired", 5 * time.Second},
		{"certificate of another name", secure(servers.CertificateConfig{Names: []string{"other.example"}}), "https://" + site, reports.Server, "certificate", "other.example", 5 * time.Second},
		{"no TLS spoken", func(t *testing.T, n *network) { n.clientDNS(t); n.serve(t, servers.HTTPConfig{}) }, "https://" + site + ":80/", reports.Server, "tls", "port 80", 5 * time.Second},
		{"no route on this host", healthyDNS, "http://[2001:db8::80]/", reports.Network, "unreachable", "no way", 5 * time.Second},
		{"no route behind the first router", func(t *testing.T, n *network) {
			n.clientDNS(t)
			n.model(t, func(m *simnet.Net) { m.Route(n.routers[1], web, simnet.Nowhere) })
		}, "http://" + site, reports.Network, "unreachable", "198.51.100.2 (hop 2)", 6 * time.Second},
		{"black hole", func(t *testing.T, n *network) {
			n.clientDNS(t)
			n.model(t, func(m *simnet.Net) { m.SetLink(n.routers[1], n.routers[2], simnet.Link{Loss: 1}) })
		}, "http://" + site, reports.Network, "unreachable", "198.51.100.2 (hop 2)", 20 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n := newNetwork(t, shape{rtt: 8 * time.Millisecond})
			tt.prepare(t, n)
			began := time.Now()
			r := n.diagnose(t, diagnose.Options{URL: tt.url, RootCAs: ca.Pool()})
			if took := time.Since(began); took > 2*tt.within { // twice: other tests run too
				t.Errorf("took %v", took)
			}
			t.Logf("%v: %s %.2f %s", time.Since(began).Round(10*time.Millisecond), r.Verdict.Where, r.Verdict.Confidence, r.Verdict.Summary)
			wantVerdict(t, r, tt.layer, tt.what, false)
			if v := r.Verdict; !v.Failed || !strings.Contains(v.Summary, tt.says) || v.Where == "" {
				t.Errorf("failed %v, where %q, summary %q, want %q in it", v.Failed, v.Where, v.Summary, tt.says)
			}
			wantEveryForm(t, r)
		})
	}
}

// wantEveryForm fails unless the report can be written in every format, the
// verdict in each, and its JSON read back.
func wantEveryForm(t *testing.T, r *reports.Report) {
	t.Helper()
	for _, name := range []string{"text", "json", "markdown", "html"} {
		write, err := render.ReportForms().ByName(name)
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := write(&b, r, render.Options{Verbose: true}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if name != "json" {
			if !strings.Contains(strings.ToLower(b.String()), string(r.Verdict.Layer)) {
				t.Errorf("%s: no verdict in\n%s", name, &b)
			}
			continue
		}
		var back reports.Report
		if err := json.Unmarshal(b.Bytes(), &back); err != nil {
			t.Errorf("the JSON cannot be read back: %v", err)
		} else if fmt.Sprint(back.Verdict) == fmt.Sprint(reports.Verdict{}) {
			t.Error("the JSON has no verdict")
		}
	}
}
