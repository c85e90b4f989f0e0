package delegation

import (
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/whyslow/whyslow/dnscheck"
)

// reverseSite is a tree for addresses: the root's server also holds
// in-addr.arpa, 203.0.113.0/24 is delegated to servers named in site.test, and
// half of it on by RFC 2317.
func reverseSite(t testing.TB) *site {
	s := newSite(t, false)
	arpa := s.world.zone("arpa.", "@ NS a.root.", "in-addr NS a.root.")
	inaddr := s.world.zone("in-addr.arpa.", "@ NS a.root.", "113.0.203 NS ns1.site.test.", "113.0.203 NS ns2.site.test.", "9.9.9 NS ns.gone.test.")
	s.root.rrs = append(s.root.rrs, s.rr("arpa. NS a.root."))
	s.servers[ip("198.51.100.1")].zones = []*data4{s.root, arpa, inaddr}
	rev := s.world.zone("113.0.203.in-addr.arpa.", "@ NS ns1.site.test.", "@ NS ns2.site.test.", "7 PTR host7.site.test.",
		"200 CNAME 200.128-255", "128-255 NS ns1.site.test.")
	classless := s.world.zone("128-255.113.0.203.in-addr.arpa.", "@ NS ns1.site.test.", "200 PTR host200.site.test.")
	s.ns1.zones = []*data4{s.zone, rev, classless}
	s.ns2.zones = []*data4{s.zone, rev}
	return s
}

func TestReverse(t *testing.T) {
	for _, tt := range []struct {
		name, addr string
		change     func(*site)
		outcome    string
		zone       string
		names      []string
		guilty     string
		zones      []string
	}{
		{"cuts that cannot be seen", "203.0.113.7", nil, "answered", "113.0.203.in-addr.arpa", []string{"host7.site.test"}, "",
			[]string{".", "arpa", "in-addr.arpa", "113.0.203.in-addr.arpa"}},
		{"an IPv4-mapped address", "::ffff:203.0.113.7", nil, "answered", "113.0.203.in-addr.arpa", []string{"host7.site.test"}, "",
			[]string{".", "arpa", "in-addr.arpa", "113.0.203.in-addr.arpa"}},
		{"no name", "203.0.113.8", nil, "nxdomain", "113.0.203.in-addr.arpa", []string{}, "",
			[]string{".", "arpa", "in-addr.arpa", "113.0.203.in-addr.arpa"}},
		{"RFC 2317", "203.0.113.200", nil, "answered", "128-255.113.0.203.in-addr.arpa", []string{"host200.site.test"}, "",
			[]string{".", "arpa", "in-addr.arpa", "113.0.203.in-addr.arpa", "128-255.113.0.203.in-addr.arpa"}},
		{"one server dead", "203.0.113.7", func(s *site) { s.ns2.fault = outcome(dnscheck.Timeout) }, "answered", "113.0.203.in-addr.arpa",
			[]string{"host7.site.test"}, "ns2.site.test (203.0.113.53)", []string{".", "arpa", "in-addr.arpa", "113.0.203.in-addr.arpa"}},
		{"all servers dead", "203.0.113.7", func(s *site) {
			// Their names are still found: a cache has them, so to say.
			s.tld.rrs = append(deleteRRs(s.tld.rrs, "site.test."), s.rr("ns1.site.test. A 192.0.2.53"), s.rr("ns2.site.test. A 203.0.113.53"))
			s.ns1.fault, s.ns2.fault = outcome(dnscheck.Timeout), outcome(dnscheck.Timeout)
		}, "broken", "113.0.203.in-addr.arpa", []string{}, "ns1.site.test (192.0.2.53)", []string{".", "arpa", "in-addr.arpa", "113.0.203.in-addr.arpa"}},
		{"servers whose names are gone", "9.9.9.1", nil, "broken", "9.9.9.in-addr.arpa", []string{}, "9.9.9.in-addr.arpa",
			[]string{".", "arpa", "in-addr.arpa", "9.9.9.in-addr.arpa"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := reverseSite(t)
				if tt.change != nil {
					tt.change(s)
				}
				r, err := Reverse(t.Context(), ip(tt.addr), Options{Exchanger: s, Roots: []netip.Addr{ip("198.51.100.1")}, Now: at, Shallow: true})
				if err != nil {
					t.Fatal(err)
				}
				type result struct {
					Outcome, Zone, Guilty string
					Names, Zones          []string
				}
				got := result{r.Outcome, r.Zone, r.Guilty, r.Names, nil}
				for _, z := range r.Zones {
					got.Zones = append(got.Zones, z.Name)
				}
				if diff := cmp.Diff(result{tt.outcome, tt.zone, tt.guilty, tt.names, tt.zones}, got); diff != "" {
					t.Errorf("(-want +got):\n%s\n%s %v", diff, r.Text, r.Findings)
				}
				if (r.Guilty == "") != (r.Text == "") {
					t.Errorf("guilty %q, text %q", r.Guilty, r.Text)
				}
			})
		})
	}
}

// Many addresses of few networks ask the servers above them once, and the
// bounds hold for all walks together.
func TestWalkerSharesZones(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := reverseSite(t)
		w, err := NewWalker(Options{Exchanger: s, Roots: []netip.Addr{ip("198.51.100.1")}, Now: at, Shallow: true})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 20 {
			r, err := w.Reverse(t.Context(), netip.AddrFrom4([4]byte{203, 0, 113, byte(i)}))
			if err != nil {
				t.Fatal(err)
			}
			if r.Outcome != "answered" && r.Outcome != "nxdomain" || r.Zone != "113.0.203.in-addr.arpa" {
				t.Fatalf("%d: %s at %s", i, r.Outcome, r.Zone)
			}
		}
		for q, n := range s.seen {
			samples := strings.Contains(q, " SOA ") && !strings.Contains(q, "tcp=true")
			if n > 1 && !(samples && n <= 3) {
				t.Errorf("%d times: %s", n, q)
			}
		}
		if s.all > 60 {
			t.Errorf("%d queries for 20 addresses of one zone", s.all)
		}
	})
}
