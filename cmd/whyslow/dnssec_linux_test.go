package main

import (
	"crypto"
	"encoding/json"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/whyslow/whyslow/dnscheck"
	"github.com/whyslow/whyslow/internal/netlab/labtest"
	"github.com/whyslow/whyslow/internal/netlab/servers"
)

// What the walk calls secure, unsigned and bogus is what a real validating
// resolver answers with AD, without it, and with SERVFAIL.
func TestWalkAgreesWithAValidator(t *testing.T) {
	labtest.Need(t, "nsd", "unbound")
	names := []string{"resolver", "root", "tld", "site"}
	addr := map[string]netip.Addr{"resolver": resolverAddr}
	for i, n := range names[1:] {
		addr[n] = netip.AddrFrom4([4]byte{203, 0, 113, byte(101 + i)})
	}
	l := newTreeLab(t, names, addr)
	at := func(n string) []netip.AddrPort { return []netip.AddrPort{netip.AddrPortFrom(addr[n], 53)} }
	now := time.Now()
	day := 24 * time.Hour
	site := func(origin string) []string {
		return []string{"@ 300 IN SOA ns h 1 3600 600 86400 60", "@ 300 IN NS ns", "ns 300 IN A " + addr["site"].String(), "www 300 IN A 192.0.2.80"}
	}
	tld := []string{"@ 300 IN SOA ns h 1 3600 600 86400 60", "@ 300 IN NS ns", "ns 300 IN A " + addr["tld"].String()}
	var sites []servers.Zone
	for _, z := range []struct {
		name        string
		from, until time.Time
	}{{"good", now.Add(-day), now.Add(day)}, {"late", now.Add(-2 * day), now.Add(-day)}, {"early", now.Add(day), now.Add(2 * day)}, {"swapped", now.Add(-day), now.Add(day)}} {
		zone, ds := signZone(t, z.name+".shops.", site(z.name), z.from, z.until)
		sites = append(sites, zone)
		if z.name == "swapped" {
			_, ds = signZone(t, z.name+".shops.", site(z.name), z.from, z.until) // of another key
		}
		tld = append(tld, z.name+" 300 IN NS ns."+z.name, "ns."+z.name+" 300 IN A "+addr["site"].String(), ds.String())
	}
	sites = append(sites, servers.Zone{Origin: "plain.shops", Records: site("plain")})
	tld = append(tld, "plain 300 IN NS ns.plain", "ns.plain 300 IN A "+addr["site"].String())
	shops, shopsDS := signZone(t, "shops.", tld, now.Add(-day), now.Add(day))
	root, anchor := signZone(t, ".", []string{". 300 IN SOA a.root. h.root. 1 3600 600 86400 60", ". 300 IN NS a.root.",
		"a.root. 300 IN A " + addr["root"].String(), "shops. 300 IN NS ns.shops.", "ns.shops. 300 IN A " + addr["tld"].String(), shopsDS.String()}, now.Add(-day), now.Add(day))
	for n, z := range map[string][]servers.Zone{"root": {root}, "tld": {shops}, "site": sites} {
		d, err := servers.StartNSD(t.Context(), l.places[n], servers.NSDConfig{Addrs: at(n), Zones: z})
		closeAfter(t, d, err)
	}
	u, err := servers.StartUnbound(t.Context(), l.places["resolver"], servers.UnboundConfig{
		Addrs: at("resolver"), Stubs: []servers.Forward{{Zone: ".", Servers: at("root")}},
		Extra: []string{`module-config: "validator iterator"`, `trust-anchor: "` + strings.ReplaceAll(anchor.String(), "\t", " ") + `"`}})
	closeAfter(t, u, err)
	file, err := l.WriteFile("root.ds", []byte(anchor.String()+"\n"))
	if err != nil {
		t.Fatal(err)
	}
	for name, reason := range map[string]string{
		"www.good.shops": "", "nope.good.shops": "", "www.plain.shops": "", "www.late.shops": "expired on",
		"www.early.shops": "not valid before", "www.swapped.shops": "no DNSKEY matches",
	} {
		t.Run(name, func(t *testing.T) {
			q := new(dns.Msg).SetQuestion(name+".", dns.TypeA)
			q.SetEdns0(1232, true)
			c := dns.Client{Timeout: 10 * time.Second}
			truth, _, err := c.Exchange(q, at("resolver")[0].String())
			if err != nil {
				t.Fatal(err)
			}
			want := map[bool]string{true: "secure", false: "unsigned"}[truth.AuthenticatedData]
			if truth.Rcode == dns.RcodeServerFailure {
				want = "bogus"
			}
			p := l.run(t, "dns", name, "--no-hosts", "--no-reverse", "--samples", "1", "--root", addr["root"].String(), "--trust-anchor", file, "--json")
			var r dnscheck.Result
			if err := json.Unmarshal(p.out.Bytes(), &r); err != nil || r.Walk == nil {
				t.Fatalf("%v\n%s%s", err, &p.out, &p.err)
			}
			if r.Walk.Security != want || !strings.Contains(r.Walk.Reason, reason) || (reason == "") != (r.Walk.Reason == "") {
				t.Errorf("%s (%s), the resolver says %s", r.Walk.Security, r.Walk.Reason, want)
			}
			blamed := slices.ContainsFunc(r.Findings, func(f dnscheck.Finding) bool {
				return f.Component == dnscheck.Validation && strings.Contains(f.Text, reason)
			})
			if blamed != (reason != "") {
				t.Errorf("findings %+v", r.Findings)
			}
		})
	}
}

// signZone signs records with a new key (RFC 4035, section 2) and returns the
// zone and the DS record for its parent.
func signZone(t *testing.T, origin string, records []string, from, until time.Time) (servers.Zone, *dns.DS) {
	t.Helper()
	key := &dns.DNSKEY{Hdr: dns.RR_Header{Name: origin, Rrtype: dns.TypeDNSKEY, Class: dns.ClassINET, Ttl: 300}, Flags: 257, Protocol: 3, Algorithm: dns.ECDSAP256SHA256}
	priv, err := key.Generate(256)
	if err != nil {
		t.Fatal(err)
	}
	rrs := []dns.RR{key}
	p := dns.NewZoneParser(strings.NewReader(strings.Join(records, "\n")+"\n"), origin, "")
	for rr, ok := p.Next(); ok; rr, ok = p.Next() {
		rrs = append(rrs, rr)
	}
	if err := p.Err(); err != nil {
		t.Fatal(err)
	}
	cut := func(name string) bool { // is or lies below a delegation
		return slices.ContainsFunc(rrs, func(rr dns.RR) bool {
			return rr.Header().Rrtype == dns.TypeNS && rr.Header().Name != origin && dns.IsSubDomain(rr.Header().Name, name)
		})
	}
	sets := map[string]map[uint16][]dns.RR{}
	var owners []string
	for _, rr := range rrs {
		h := rr.Header()
		if cut(h.Name) && h.Rrtype != dns.TypeNS && h.Rrtype != dns.TypeDS {
			continue // glue
		}
		if sets[h.Name] == nil {
			sets[h.Name] = map[uint16][]dns.RR{}
			owners = append(owners, h.Name)
		}
		sets[h.Name][h.Rrtype] = append(sets[h.Name][h.Rrtype], rr)
	}
	slices.SortFunc(owners, func(a, b string) int { return slices.Compare(backwards(a), backwards(b)) })
	for i, o := range owners {
		nsec := &dns.NSEC{Hdr: dns.RR_Header{Name: o, Rrtype: dns.TypeNSEC, Class: dns.ClassINET, Ttl: 60}, NextDomain: owners[(i+1)%len(owners)]}
		nsec.TypeBitMap = []uint16{dns.TypeRRSIG, dns.TypeNSEC}
		for kind := range sets[o] {
			nsec.TypeBitMap = append(nsec.TypeBitMap, kind)
		}
		slices.Sort(nsec.TypeBitMap)
		sets[o][dns.TypeNSEC] = []dns.RR{nsec}
		rrs = append(rrs, nsec)
		for kind, set := range sets[o] {
			if kind == dns.TypeNS && o != origin {
				continue
			}
			sig := &dns.RRSIG{Inception: uint32(from.Unix()), Expiration: uint32(until.Unix()), KeyTag: key.KeyTag(), SignerName: origin, Algorithm: key.Algorithm}
			if err := sig.Sign(priv.(crypto.Signer), set); err != nil {
				t.Fatal(err)
			}
			rrs = append(rrs, sig)
		}
	}
	z := servers.Zone{Origin: origin}
	for _, rr := range rrs {
		z.Records = append(z.Records, rr.String())
	}
	return z, key.ToDS(dns.SHA256)
}

// backwards are the labels of a name from its end, the canonical order (RFC
// 4034, section 6.1).
func backwards(name string) []string {
	labels := dns.SplitDomainName(name)
	slices.Reverse(labels)
	return labels
}
