package delegation

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"

	"github.com/whyslow/whyslow/dnscheck"
)

func TestSignatures(t *testing.T) {
	setTypes := func(z *data4, change func(dns.RR) dns.RR) {
		for i, rr := range z.rrs {
			z.rrs[i] = change(rr)
		}
	}
	for _, tt := range []struct {
		name, ask string
		change    func(*site)
		status    string
		reason    string // the Walk's, with tags replaced
		zones     []string
		guilty    string // of the validation findings
	}{
		{"secure", "www.site.test", nil, secure, "", []string{secure, secure, secure}, ""},
		{"an alias and a wildcard", "alias.site.test", nil, secure, "", []string{secure, secure, secure}, ""},
		{"a wildcard", "x.wild.site.test", nil, secure, "", []string{secure, secure, secure}, ""},
		{"a DNAME", "www.old.site.test", nil, secure, "", []string{secure, secure, secure}, ""},
		{"a denial", "nope.site.test", nil, secure, "", []string{secure, secure, secure}, ""},
		{"expired", "www.site.test", func(s *site) { s.zone.until = at.Add(-time.Hour) }, bogus,
			"site.test: its DNSKEY records have a signature that expired on 2026-01-02 02:04 UTC", []string{secure, secure, bogus}, "site.test"},
		{"not yet valid", "www.site.test", func(s *site) { s.zone.from = at.Add(time.Hour) }, bogus,
			"site.test: its DNSKEY records have a signature that is not valid before 2026-01-02 04:04 UTC", []string{secure, secure, bogus}, "site.test"},
		{"no DS at the parent", "www.site.test", func(s *site) { s.tld.rrs = deleteType(s.tld.rrs, dns.TypeDS) }, unsigned,
			"site.test: it is signed, but the parent has no DS record for it, so no resolver checks", []string{secure, secure, unsigned}, ""},
		{"another key", "www.site.test", func(s *site) {
			s.zone.rrs = deleteType(s.zone.rrs, dns.TypeDNSKEY)
			s.sign(s.zone)
		}, bogus, "site.test: no DNSKEY matches the parent's DS records (DS N, keys N)", []string{secure, secure, bogus}, "site.test"},
		{"keys are gone", "www.site.test", func(s *site) {
			s.zone.rrs, s.zone.key = deleteType(s.zone.rrs, dns.TypeDNSKEY), nil
		}, bogus, "site.test: its parent says that it is signed, but it has no DNSKEY records", []string{secure, secure, bogus}, "site.test"},
		{"the answer is not signed", "www.site.test", func(s *site) { s.zone.unsigned = []uint16{dns.TypeA} }, bogus,
			"the A records of www.site.test from 192.0.2.53 are not signed", []string{secure, secure, secure}, "site.test"},
		{"a signature that does not fit", "www.site.test", func(s *site) {
			forge := func(q dnscheck.Query, _ int) (*dns.Msg, dnscheck.Outcome, bool) {
				m := s.ns1.answer(q)
				for _, rr := range m.Answer {
					if a, ok := rr.(*dns.A); ok && q.Name == "www.site.test." {
						c := dns.Copy(a).(*dns.A)
						c.A = netip.MustParseAddr("192.0.2.66").AsSlice()
						m.Answer[0] = c
					}
				}
				return m, "", true
			}
			s.ns1.fault, s.ns2.fault = forge, forge
		}, bogus, "the A records of www.site.test from 192.0.2.53 have a signature by key N that does not fit", []string{secure, secure, secure}, "site.test"},
		{"algorithm unsupported", "www.site.test", func(s *site) {
			setTypes(s.tld, func(rr dns.RR) dns.RR {
				if ds, ok := rr.(*dns.DS); ok {
					ds.Algorithm = 16
				}
				return rr
			})
		}, unsupported, "site.test: algorithm N or digest N is not supported, so that it counts as unsigned", []string{secure, secure, unsupported}, ""},
		{"one server has kept old signatures", "www.site.test", func(s *site) {
			old := *s.zone
			old.until = at.Add(-2 * time.Hour)
			s.ns2.zones = []*data4{&old}
		}, secure, "", []string{secure, secure, secure}, "ns2.site.test (203.0.113.53)"},
		{"an unsigned zone", "www.site.test", func(s *site) {
			s.tld.rrs, s.zone.key, s.zone.rrs = deleteType(s.tld.rrs, dns.TypeDS), nil, deleteType(s.zone.rrs, dns.TypeDNSKEY)
		}, unsigned, "", []string{secure, secure, unsigned}, ""},
		{"a bogus zone above", "www.site.test", func(s *site) { s.tld.until = at.Add(-time.Minute) }, bogus,
			"test: its DNSKEY records have a signature that expired on 2026-01-02 03:03 UTC", []string{secure, bogus, unchecked}, "test"},
		{"the wrong anchor", "www.site.test", func(s *site) { s.rootDS.Digest = strings.Repeat("00", 32) }, bogus,
			".: no DNSKEY matches the parent's DS records (DS N, keys N)", []string{bogus, unchecked, unchecked}, "."},
		{"EDNS does not come through", "www.site.test", func(s *site) {
			for _, h := range s.servers {
				h.fault = func(q dnscheck.Query, _ int) (*dns.Msg, dnscheck.Outcome, bool) {
					if q.EDNS > 0 {
						return nil, dnscheck.Timeout, true
					}
					return nil, "", false
				}
			}
		}, unchecked, ".: signatures cannot be asked for without EDNS, which gets no answer", []string{unchecked, unchecked, unchecked}, ""},
		{"no anchor", "www.site.test", func(s *site) { s.rootDS = nil }, unchecked,
			".: no trust anchor is given for this root", []string{unchecked, unchecked, unchecked}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSite(t, true)
				if tt.change != nil {
					tt.change(s)
				}
				r := s.walk(t.Context(), tt.ask, dns.TypeA, Options{Anchors: s.anchors()})
				var zones []string
				for _, z := range r.Zones {
					zones = append(zones, z.DNSSEC.Status)
				}
				guilty := ""
				for _, f := range r.Findings {
					if f.Component == dnscheck.Validation {
						guilty = f.Where
						break
					}
				}
				type result struct {
					Status, Reason, Guilty string
					Zones                  []string
				}
				got := result{r.Walk.Security, tagless(r.Walk.Reason), guilty, zones}
				if diff := cmp.Diff(result{tt.status, tt.reason, tt.guilty, tt.zones}, got); diff != "" {
					t.Errorf("(-want +got):\n%s\n%s", diff, brief(r))
				}
			})
		})
	}
}

// tagless replaces the numbers of keys, which are new in every run.
func tagless(s string) string {
	words := strings.Fields(s)
	for i, w := range words {
		if n := strings.Trim(w, ",()"); n != "" && strings.Trim(n, "0123456789") == "" {
			words[i] = strings.Replace(w, n, "N", 1)
		}
	}
	return strings.Join(words, " ")
}

func deleteType(rrs []dns.RR, t uint16) []dns.RR {
	return slices.DeleteFunc(slices.Clone(rrs), func(rr dns.RR) bool { return rr.Header().Rrtype == t })
}

// A hostile zone with many keys of one tag and many signatures must not
// choose how long we compute (CVE-2023-50387).
func TestManyKeysCostABoundedTime(t *testing.T) {
	w := &Walker{o: Options{Now: at}}
	world := newWorld(t)
	z := world.zone("site.test.", "www A 192.0.2.80")
	world.sign(z)
	set := z.of("www.site.test.", dns.TypeA)
	signed := z.signed(set)
	sig := signed[len(signed)-1].(*dns.RRSIG)
	tr := &trust{}
	for range maxKeys {
		tr.keys = append(tr.keys, z.key)
	}
	var sigs []*dns.RRSIG
	for range 100 {
		bad := *sig
		bad.Signature = strings.Repeat("A", len(bad.Signature))
		sigs = append(sigs, &bad)
	}
	for range 20 {
		if bad := w.verify(tr, "site.test.", set, sigs); bad == "" {
			t.Fatal("verified what cannot be")
		}
	}
	if tr.spent != maxVerifications {
		t.Errorf("%d signatures computed, want the bound of %d", tr.spent, maxVerifications)
	}
}

func TestReadAnchors(t *testing.T) {
	const key = ". 172800 IN DNSKEY 257 3 8 AwEAAaz/tAm8yTn4Mfeh5eyI96WSVexTBAvkMgJzkKTOiW1vkIbzxeF3+/4RgWOq7HrxRixHlFlExOLAJr5emLvN7SWXgnLh4+B5xQlNVz8Og8kvArMtNROxVQuCaSnIDdD5LKyWbRd2n9WGe2R8PzgCmr3EgVLrjyBxWezF0jLHwVN8efS3rCj/EWgvIWgb9tarpVUDK/b58Da+sqqls3eNbuv7pr+eoZG+SrDK6nWeL3c6H5Apxz7LjVc1uTIdsIXxuOLYA4/ilBmSVIzuDWfdRUfhHdY6+cn8HFRm+2hM8AnXGXws9555KrUB5qihylGa8subX2Nn6UwNR1AkUTV74bU= ;{id = 20326 (ksk), size = 2048b} ;;state=2 [  VALID  ]\n"
	for _, tt := range []struct {
		name, text string
		want       []string
		err        string
	}{
		// The digest of the key is the one IANA publishes: whatever computes it is right.
		{"unbound's root.key", "; autotrust trust anchor file\n" + key, []string{PublicAnchors()[0].String()}, ""},
		{"root.ds", ". IN DS 38696 8 2 683D2D0ACB8C9B712A1948B27F741219298D0A450D612C483AF444A4C0FB2B16\n", []string{PublicAnchors()[1].String()}, ""},
		{"another zone", "com. IN DS 1 8 2 00", nil, "only the root's"},
		{"another type", ". IN NS a.", nil, "no trust anchor"},
		{"empty", "", nil, "no trust anchor found"},
		{"garbage", "}{", nil, "reading trust anchors"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ds, err := ReadAnchors(strings.NewReader(tt.text))
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("error %v, want %q", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, d := range ds {
				d.Hdr.Ttl, d.Digest = 0, strings.ToLower(d.Digest)
				got = append(got, d.String())
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
