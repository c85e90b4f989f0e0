package delegation

import (
	"strings"
	"testing"

	"github.com/miekg/dns"
)

// Whatever a server sends is put in one class, and none sends the walk
// upwards, sideways or to a name that cannot be asked.
func FuzzClassify(f *testing.F) {
	w := newWorld(f)
	z := w.zone("site.test.", "@ NS ns", "ns A 192.0.2.1", "www A 192.0.2.2", "a CNAME www", "old DNAME test.", "sub NS ns.sub", "sub DS 1 13 2 00")
	h := &host{zones: []*data4{z}}
	for _, name := range []string{"www.site.test.", "a.site.test.", "x.old.site.test.", "x.sub.site.test.", "no.site.test.", "other."} {
		for _, t := range []uint16{dns.TypeA, dns.TypeNS, dns.TypeDS, dns.TypeCNAME} {
			b, err := h.answer(queryFor(name, t)).Pack()
			if err != nil {
				f.Fatal(err)
			}
			f.Add(b, "site.test.", name, t)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte, zoneName, name string, qtype uint16) {
		m := new(dns.Msg)
		_ = m.Unpack(b) // what could be read stays
		zoneName, name = lower(zoneName), lower(name)
		if _, ok := dns.IsDomainName(name); !ok || !dns.IsSubDomain(zoneName, name) {
			return
		}
		r := classify(zoneName, name, qtype, m)
		switch r.kind {
		case referral:
			if r.cut == zoneName || !dns.IsSubDomain(zoneName, r.cut) || !dns.IsSubDomain(r.cut, name) {
				t.Fatalf("referred from %q to %q for %q", zoneName, r.cut, name)
			}
			walker := &Walker{}
			c := newZone(r.cut, nil)
			walker.fromReferral(c, m)
			if len(c.parentNS) > maxServers || len(c.ds) > maxKeys {
				t.Fatalf("%d servers, %d keys", len(c.parentNS), len(c.ds))
			}
		case alias:
			if r.link == nil || !m.Authoritative {
				t.Fatal("an alias without its record, or without authority")
			}
			if _, ok := dns.IsDomainName(r.target); !ok {
				t.Fatalf("leads to %q", r.target)
			}
		case lame, failed, noEDNS:
			if r.why == "" || r.useful() || strings.ContainsAny(r.why, "\n\x1b") {
				t.Fatalf("why %q", r.why)
			}
		}
	})
}
