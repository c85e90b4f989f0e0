package delegation

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"

	"github.com/whyslow/whyslow/dnscheck"
)

// site builds the tree of most tests: the root, example, and
// www.site.example on two servers. change may alter it before it is served.
type site struct {
	*world
	root, tld, zone   *data4
	rootDS            *dns.DS
	ns1, ns2, tldHost *host
}

func newSite(t testing.TB, signed bool) *site {
	w := newWorld(t)
	s := &site{world: w}
	s.root = w.zone(".", ". NS a.root.", "a.root. A 198.51.100.1", "test. 172800 NS ns.test.", "ns.test. A 198.51.100.2")
	s.tld = w.zone("test.", "@ 172800 NS ns", "ns A 198.51.100.2",
		"site NS ns1.site", "site NS ns2.site", "ns1.site A 192.0.2.53", "ns2.site A 203.0.113.53")
	s.zone = w.zone("site.test.", "@ NS ns1", "@ NS ns2", "ns1 A 192.0.2.53", "ns2 A 203.0.113.53",
		"www 300 A 192.0.2.80", "alias CNAME www", "loop CNAME pool", "pool CNAME loop", "*.wild A 192.0.2.81", "old DNAME site.test.")
	if signed {
		s.tld.rrs = append(s.tld.rrs, w.sign(s.zone))
		s.root.rrs = append(s.root.rrs, w.sign(s.tld))
		s.rootDS = w.sign(s.root)
	}
	w.serve("198.51.100.1", s.root)
	s.tldHost = w.serve("198.51.100.2", s.tld)
	s.ns1 = w.serve("192.0.2.53", s.zone)
	s.ns2 = w.serve("203.0.113.53", s.zone)
	return s
}

func (s *site) anchors() []*dns.DS {
	if s.rootDS == nil {
		return nil
	}
	return []*dns.DS{s.rootDS}
}

// brief is a result in lines, for comparison.
func brief(r *Result) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s %v %s\n", r.Walk.Outcome, r.Walk.Zone, r.Walk.Answers, r.Walk.Security)
	for _, z := range r.Zones {
		fmt.Fprintf(&b, "%s %s:", z.Name, z.DNSSEC.Status)
		for _, a := range z.Servers {
			fmt.Fprintf(&b, " %s=%s", Who(&a), a.Status)
		}
		b.WriteString("\n")
	}
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "%s %s: %s\n", f.Component, f.Where, f.Text)
	}
	return b.String()
}

const healthyZones = `. unchecked: a.root (198.51.100.1)=ok
test unsigned: ns.test (198.51.100.2)=ok
site.test unsigned: ns1.site.test (192.0.2.53)=ok ns2.site.test (203.0.113.53)=ok
`

func TestWalk(t *testing.T) {
	for _, tt := range []struct {
		name, ask string
		change    func(*site)
		want      string
	}{
		{"healthy", "www.site.test", nil, "answered site.test [192.0.2.80] unsigned\n" + healthyZones},
		{"an alias", "alias.site.test", nil, "answered site.test [192.0.2.80] unsigned\n" + healthyZones},
		{"a DNAME", "www.old.site.test", nil, "answered site.test [192.0.2.80] unsigned\n" + healthyZones},
		{"no such name", "nope.site.test", nil, "nxdomain site.test [] unsigned\n" + healthyZones +
			"nxdomain nope.site.test: nope.site.test does not exist, say the servers of site.test\n"},
		{"a circle of aliases", "loop.site.test", nil, "cycle site.test [] unsigned\n" + healthyZones +
			"delegation site.test: loop.site.test is an alias in a circle: loop.site.test comes again\n"},
		{"one server is dead", "www.site.test", func(s *site) { delete(s.servers, netip.MustParseAddr("203.0.113.53")) },
			"answered site.test [192.0.2.80] unsigned\n" + strings.Replace(healthyZones, "203.0.113.53)=ok", "203.0.113.53)=dead", 1) +
				"authority-down ns2.site.test (203.0.113.53): ns2.site.test (203.0.113.53) answers nothing for site.test: 3 of 3 queries over UDP and 3 of 3 over TCP were lost; " +
				"1 of 2 addresses of site.test are silent, so that a resolver without a cache waits 200 ms to 750 ms longer on average (assuming that it picks servers at random and tries the next after 0.4 to 1.5 s)\n"},
		{"one server refuses", "www.site.test", func(s *site) { s.ns1.zones = nil },
			"answered site.test [192.0.2.80] unsigned\n" + strings.Replace(healthyZones, "192.0.2.53)=ok", "192.0.2.53)=lame", 1) +
				"lame ns1.site.test (192.0.2.53): ns1.site.test (192.0.2.53) is named as a server of site.test but answers REFUSED; " +
				"a resolver that picks it, as 1 of 2 addresses, must ask another\n"},
		{"upward referral", "www.site.test", func(s *site) {
			s.ns2.fault = func(q dnscheck.Query, _ int) (*dns.Msg, dnscheck.Outcome, bool) {
				m := reply4(q, dns.RcodeSuccess)
				m.Ns = s.root.of(".", dns.TypeNS)
				return m, "", true
			}
		}, "answered site.test [192.0.2.80] unsigned\n" + strings.Replace(healthyZones, "203.0.113.53)=ok", "203.0.113.53)=lame", 1) +
			"lame ns2.site.test (203.0.113.53): ns2.site.test (203.0.113.53) is named as a server of site.test but refers to . instead of answering; " +
			"a resolver that picks it, as 1 of 2 addresses, must ask another\n"},
		{"all lame", "www.site.test", func(s *site) { s.ns1.zones, s.ns2.zones = nil, nil },
			"broken site.test [] unsigned\n" + strings.NewReplacer("192.0.2.53)=ok", "192.0.2.53)=lame", "203.0.113.53)=ok", "203.0.113.53)=lame").Replace(healthyZones) +
				"authority-down site.test: no server of site.test answers for www.site.test: 192.0.2.53 answers REFUSED: every lookup of www.site.test that no cache answers fails\n" +
				"lame ns1.site.test (192.0.2.53): ns1.site.test (192.0.2.53) is named as a server of site.test but answers REFUSED; none of the addresses of site.test serves it, so that it cannot be resolved\n" +
				"lame ns2.site.test (203.0.113.53): ns2.site.test (203.0.113.53) is named as a server of site.test but answers REFUSED; none of the addresses of site.test serves it, so that it cannot be resolved\n"},
		{"port closed", "www.site.test", func(s *site) { s.ns2.fault = outcome(dnscheck.Refused) },
			"answered site.test [192.0.2.80] unsigned\n" + strings.Replace(healthyZones, "203.0.113.53)=ok", "203.0.113.53)=refused", 1) +
				"authority-down ns2.site.test (203.0.113.53): ns2.site.test (203.0.113.53) does not serve site.test: its port 53 is closed, which a resolver that picks it may not see and wait for; " +
				"1 of 2 addresses of site.test are silent, so that a resolver without a cache waits 200 ms to 750 ms longer on average (assuming that it picks servers at random and tries the next after 0.4 to 1.5 s)\n"},
		{"TCP blocked", "www.site.test", func(s *site) {
			s.ns2.fault = func(q dnscheck.Query, _ int) (*dns.Msg, dnscheck.Outcome, bool) {
				if q.TCP {
					return nil, dnscheck.Timeout, true
				}
				return nil, "", false
			}
		}, "answered site.test [192.0.2.80] unsigned\n" + healthyZones +
			"truncation ns2.site.test (203.0.113.53): ns2.site.test (203.0.113.53) answers for site.test, but not over TCP: does not answer: answers too large for UDP cannot be had from it\n"},
		{"EDNS refused", "www.site.test", func(s *site) {
			s.ns2.fault = func(q dnscheck.Query, _ int) (*dns.Msg, dnscheck.Outcome, bool) {
				return reply4(q, dns.RcodeFormatError), "", q.EDNS > 0
			}
		}, "answered site.test [192.0.2.80] unsigned\n" + healthyZones +
			"edns ns2.site.test (203.0.113.53): ns2.site.test (203.0.113.53) rejects queries for site.test with EDNS, so that each costs resolvers a round trip more\n"},
		{"EDNS dropped", "www.site.test", func(s *site) {
			s.ns1.fault = func(q dnscheck.Query, _ int) (*dns.Msg, dnscheck.Outcome, bool) {
				if q.EDNS > 0 && !q.TCP {
					return nil, dnscheck.Timeout, true
				}
				return nil, "", false
			}
		}, "answered site.test [192.0.2.80] unsigned\n" + healthyZones +
			"edns ns1.site.test (192.0.2.53): ns1.site.test (192.0.2.53) drops queries for site.test with EDNS and answers those without: resolvers wait before they try that\n"},
		{"serials differ", "www.site.test", func(s *site) {
			other := *s.zone
			other.rrs = nil
			for _, rr := range s.zone.rrs {
				if soa, ok := rr.(*dns.SOA); ok {
					c := *soa
					c.Serial = 6
					rr = &c
				}
				other.rrs = append(other.rrs, rr)
			}
			s.ns2.zones = []*data4{&other}
		}, "answered site.test [192.0.2.80] unsigned\n" + healthyZones +
			"delegation site.test: the servers of site.test hold different versions of it: serial 7 at ns1.site.test (192.0.2.53), but ns2.site.test (203.0.113.53) 6\n"},
		{"parent names another set", "www.site.test", func(s *site) {
			s.tld.rrs = append(s.tld.rrs, s.rr("site.test. NS ns3.site.test."), s.rr("ns3.site.test. A 198.51.100.9"))
		}, "answered site.test [192.0.2.80] unsigned\n" + strings.Replace(healthyZones, "203.0.113.53)=ok", "203.0.113.53)=ok ns3.site.test (198.51.100.9)=dead", 1) +
			"authority-down ns3.site.test (198.51.100.9): ns3.site.test (198.51.100.9) answers nothing for site.test: 3 of 3 queries over UDP and 3 of 3 over TCP were lost; " +
			"1 of 3 addresses of site.test are silent, so that a resolver without a cache waits 133 ms to 500 ms longer on average (assuming that it picks servers at random and tries the next after 0.4 to 1.5 s)\n" +
			"delegation site.test: the NS records of site.test are not the same at its parent and in the zone: only the parent names ns3.site.test\n"},
		{"no glue", "www.site.test", func(s *site) {
			s.tld.rrs = deleteRRs(s.tld.rrs, "ns1.site.test.", "ns2.site.test.")
		}, "broken site.test [] unsigned\n. unchecked: a.root (198.51.100.1)=ok\ntest unsigned: ns.test (198.51.100.2)=ok\n" +
			"site.test unsigned: ns1.site.test=no-address ns2.site.test=no-address\n" +
			"authority-down site.test: no server of site.test has an address: ns1.site.test is in the zone itself and the parent gives no glue for it: every lookup of www.site.test that no cache answers fails\n" +
			"delegation ns1.site.test: ns1.site.test, named as a server of site.test, is in the zone itself and the parent gives no glue for it\n" +
			"delegation ns2.site.test: ns2.site.test, named as a server of site.test, is in the zone itself and the parent gives no glue for it\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSite(t, false)
				if tt.change != nil {
					tt.change(s)
				}
				r := s.walk(t.Context(), tt.ask, dns.TypeA, Options{})
				if diff := cmp.Diff(tt.want, brief(r)); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				if d := r.Walk.Elapsed.Duration(); d > 5*time.Second {
					t.Errorf("it took %v", d)
				}
			})
		})
	}
}

func outcome(o dnscheck.Outcome) func(dnscheck.Query, int) (*dns.Msg, dnscheck.Outcome, bool) {
	return func(dnscheck.Query, int) (*dns.Msg, dnscheck.Outcome, bool) { return nil, o, true }
}

func (w *world) rr(s string) dns.RR {
	rr, err := dns.NewRR(s)
	if err != nil {
		w.t.Fatal(err)
	}
	return rr
}

func deleteRRs(rrs []dns.RR, owners ...string) []dns.RR {
	var out []dns.RR
	for _, rr := range rrs {
		keep := true
		for _, o := range owners {
			keep = keep && rr.Header().Name != o
		}
		if keep {
			out = append(out, rr)
		}
	}
	return out
}
