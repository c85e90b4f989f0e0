package render_test

import (
	"bytes"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/whyslow/whyslow/dnscheck"
	"github.com/whyslow/whyslow/internal/millis"
	"github.com/whyslow/whyslow/reports/render"
)

// walked is a walk with one of each fault.
func walked() *dnscheck.Result {
	ms := func(x float64) millis.Value { return millis.OfFloat(x) }
	n := func(i int) *int { return &i }
	serial := func(u uint32) *uint32 { return &u }
	end := time.Date(2026, 1, 9, 0, 0, 0, 0, time.UTC)
	ok := func(name, addr string, udp, tcp float64) dnscheck.Authority {
		return dnscheck.Authority{
			Names: []string{name}, Addr: netip.MustParseAddr(addr), Status: "ok", Listed: "both", EDNS: "ok", Serial: serial(2026010203),
			UDP: dnscheck.AuthorityTimes{Sent: 3, Answered: 3, Rcode: "NOERROR", Min: ms(udp), Median: ms(udp), Max: ms(udp)},
			TCP: dnscheck.AuthorityTimes{Sent: 1, Answered: 1, Rcode: "NOERROR", Min: ms(tcp), Median: ms(tcp), Max: ms(tcp)},
		}
	}
	lost := dnscheck.AuthorityTimes{Sent: 3, Rcode: "timeout"}
	dead, lame, noTCP := ok("ns2.example.net", "192.0.2.53", 0, 0), ok("ns3.example.net", "2001:db8:3::53", 31, 62), ok("ns4.example.net", "198.51.100.53", 22, 0)
	dead.Status, dead.UDP, dead.TCP, dead.Serial = "dead", lost, lost, nil
	lame.Status, lame.Reason, lame.Serial = "lame", "answers REFUSED", nil
	noTCP.Reason, noTCP.TCP = "not over TCP: does not answer", lost
	stale := ok("ns5.example.net", "203.0.113.53", 18, 36)
	stale.Signatures, stale.Serial = "have a signature that expired on 2026-01-01 00:00 UTC", serial(2025123101)
	var roots []dnscheck.Authority
	for i := range 13 {
		roots = append(roots, ok(fmt.Sprintf("%c.root-servers.net", 'a'+i), fmt.Sprintf("198.51.100.%d", i+1), 12, 25))
	}
	roots[3].Status, roots[3].UDP, roots[3].TCP = "dead", lost, lost
	yes := true
	return &dnscheck.Result{
		Schema: dnscheck.Schema, Name: "www.example.net", Started: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Elapsed: ms(2304),
		Findings: []dnscheck.Finding{{
			Component: dnscheck.AuthorityDown, Where: "ns2.example.net (192.0.2.53)", Confirmed: true,
			Text: "ns2.example.net (192.0.2.53) answers nothing for example.net: 3 of 3 queries over UDP and 3 of 3 over TCP were lost",
		}},
		Walk: &dnscheck.Walk{
			Name: "www.example.net", Type: "A", Outcome: "answered", Conclusive: true, Zone: "example.net", Answers: []string{"192.0.2.80"}, TTL: n(300),
			Aliases:  []dnscheck.Alias{{Name: "www.example.net", Type: "CNAME", Target: "web.example.net", Zone: "example.net", TTL: n(60)}},
			Wildcard: &yes, Security: "secure", Queries: 63, Elapsed: ms(2101),
		},
		Delegation: []dnscheck.Zone{
			{Name: ".", Servers: roots, DNSSEC: dnscheck.Signatures{Status: "secure", DS: []string{"20326 8 2"}, Expires: &end}},
			{Name: "net", Servers: []dnscheck.Authority{ok("a.gtld-servers.net", "192.0.2.1", 15, 31)}, DNSSEC: dnscheck.Signatures{Status: "secure"}, Remarks: []string{"only shown to who wants everything"}},
			{Name: "example.net", Last: true, ParentNS: []string{"ns1.example.net"}, ChildNS: []string{"ns1.example.net"}, NegativeTTL: n(300),
				Servers: []dnscheck.Authority{ok("ns1.example.net", "192.0.2.1", 14.2, 28.9), dead, lame, noTCP, stale},
				DNSSEC:  dnscheck.Signatures{Status: "secure"}, Remarks: []string{"its NS records live 172800 s at the parent, 3600 s here"}},
		},
	}
}

func TestGoldenDelegation(t *testing.T) {
	forms := render.DNSForms()
	for name, opt := range map[string]render.Options{
		"delegation.txt": {Width: 80}, "delegation.verbose.txt": {Width: 100, Verbose: true}, "delegation.md": {}, "delegation.html": {},
	} {
		t.Run(name, func(t *testing.T) {
			form := strings.TrimPrefix(name[strings.LastIndex(name, "."):], ".")
			write, err := forms.ByName(form)
			if err != nil {
				t.Fatal(err)
			}
			var b bytes.Buffer
			if err := write(&b, walked(), opt); err != nil {
				t.Fatal(err)
			}
			golden(t, "testdata/forms/"+name, b.Bytes())
		})
	}
}
