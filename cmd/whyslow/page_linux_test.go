package main

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/whyslow/whyslow/internal/netlab/servers"
	"github.com/whyslow/whyslow/reports"
)

// A healthy page must not be kept busy to be called healthy.
const (
	healthyRequests = 25
	healthyTime     = 4 * time.Second // on a quiet machine
)

func TestHealthyPageIsLeftInPeace(t *testing.T) {
	l := newLab(t, 60*time.Millisecond)
	l.serveDNS(t, zones())
	l.serveHTTP(t, servers.HTTPConfig{Routes: map[string]servers.Route{"/": {Size: 40_000}}})
	began := time.Now()
	p := l.run(t, "report", "http://"+site+"/", "--json")
	took, requests := p.ended.Sub(began), l.http.Requests()
	r := p.report(t)
	t.Logf("%v, %d requests: %s", took.Round(time.Millisecond), requests, r.Verdict.Summary)
	if requests > healthyRequests {
		t.Errorf("%d requests", requests)
	}
	if took > 2*healthyTime { // twice: other tests run too
		t.Errorf("took %v", took)
	}
	if r.Verdict.Layer != reports.None || p.status() != 0 {
		t.Errorf("status %d, verdict %s: %s", p.status(), r.Verdict.Layer, r.Verdict.Summary)
	}
}

// What cannot be measured ends with status 4, and its report says why, as
// valid JSON too.
func TestUnmeasurableTargetsHaveStatus4(t *testing.T) {
	tests := []struct {
		name             string
		url              string
		layer, component string
	}{
		{"no such name", "nosuchhost.invalid", "dns", "nxdomain"},
		{"refused port", "http://" + site + ":81/", "server", "refused"},
		{"expired certificate", "https://" + site + "/", "server", "certificate"},
		{"no route", "http://[2001:db8::80]/", "network", "unreachable"},
	}
	l := newLab(t, 8*time.Millisecond)
	l.serveDNS(t, zones(servers.Zone{Origin: "invalid"})) // RFC 6761 6.4
	ca, err := servers.NewCA()
	if err != nil {
		t.Fatal(err)
	}
	cert, err := ca.Issue(servers.CertificateConfig{Names: []string{site}}.Expired())
	if err != nil {
		t.Fatal(err)
	}
	l.serveHTTP(t, servers.HTTPConfig{TLSAddrs: []netip.AddrPort{netip.AddrPortFrom(webAddr, 443)}, Certificate: cert})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, forms := l.forms(t, "report", tt.url)
			if p.status() != 4 {
				t.Errorf("status %d, stderr %q", p.status(), forms["stderr"])
			}
			var r reports.Report
			if err := json.Unmarshal([]byte(forms["json"]), &r); err != nil {
				t.Fatal(err)
			}
			v := r.Verdict
			if string(v.Layer) != tt.layer || v.Component == nil || *v.Component != tt.component || !v.Failed {
				t.Errorf("verdict %s/%v, failed %v, want %s/%s", v.Layer, v.Component, v.Failed, tt.layer, tt.component)
			}
			for form, out := range forms {
				if form != "stderr" && !strings.Contains(out, tt.component) {
					t.Errorf("%s does not name %s:\n%s", form, tt.component, out)
				}
			}
			t.Log(v.Summary)
		})
	}
}
