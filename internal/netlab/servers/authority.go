package servers

import (
	"context"
	"fmt"
	"net/netip"
	"strings"

	"github.com/miekg/dns"
)

// Zone is a zone of an authoritative server.
type Zone struct {
	Origin string
	// Records in zone file syntax, names relative to Origin, such as
	// "www 300 IN A 192.0.2.1" or "* 0 IN PTR host.example.". A SOA and an NS
	// record are added where they are missing. The default TTL is 300.
	Records []string
}

// AuthorityConfig describes an authoritative DNS server.
type AuthorityConfig struct {
	Place  Place // nil means Host
	Addrs  []netip.AddrPort
	Zones  []Zone
	NoTCP  bool // queries over TCP are refused
	Faults []DNSFault
	Seed   uint64 // of faults with a Share
}

// StartAuthority starts an authoritative server. For names outside its zones
// it answers REFUSED.
func StartAuthority(cfg AuthorityConfig) (*DNS, error) {
	if cfg.Place == nil {
		cfg.Place = Host{}
	}
	var zones []*zone
	for _, z := range cfg.Zones {
		parsed, err := parseZone(z)
		if err != nil {
			return nil, err
		}
		zones = append(zones, parsed)
	}
	return startDNS(dnsConfig{
		place: cfg.Place, addrs: cfg.Addrs, noTCP: cfg.NoTCP, faults: cfg.Faults, seed: cfg.Seed,
		answer: func(_ context.Context, q *dns.Msg) *dns.Msg { return authoritative(zones, q) },
	})
}

// zone is a parsed Zone: records by lower-case owner.
type zone struct {
	origin string
	soa    dns.RR
	names  map[string][]dns.RR
	// exists holds the names with records and those between them and the
	// origin, which exist without any (RFC 8020).
	exists map[string]bool
}

// Text is the zone as a zone file.
func (z Zone) Text() (string, error) {
	parsed, err := parseZone(z)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintln(&b, parsed.soa)
	for _, rrs := range parsed.names {
		for _, rr := range rrs {
			if rr.Header().Rrtype != dns.TypeSOA {
				fmt.Fprintln(&b, rr)
			}
		}
	}
	return b.String(), nil
}

func parseZone(z Zone) (*zone, error) {
	out := &zone{origin: strings.ToLower(dns.Fqdn(z.Origin)), names: map[string][]dns.RR{}, exists: map[string]bool{}}
	text := strings.Join(z.Records, "\n") + "\n"
	p := dns.NewZoneParser(strings.NewReader(text), out.origin, "")
	p.SetDefaultTTL(300)
	for rr, ok := p.Next(); ok; rr, ok = p.Next() {
		name := strings.ToLower(rr.Header().Name)
		if !dns.IsSubDomain(out.origin, name) {
			return nil, fmt.Errorf("servers: zone %s: %s lies outside", out.origin, name)
		}
		out.names[name] = append(out.names[name], rr)
		if rr.Header().Rrtype == dns.TypeSOA {
			out.soa = rr
		}
	}
	if err := p.Err(); err != nil {
		return nil, fmt.Errorf("servers: zone %s: %w", out.origin, err)
	}
	return out, out.complete()
}

// complete adds the records that a zone must have.
func (z *zone) complete() error {
	ns := "ns." + strings.TrimPrefix(z.origin, ".")
	for _, must := range []struct {
		kind uint16
		text string
	}{
		{dns.TypeSOA, fmt.Sprintf("%s 300 IN SOA %s hostmaster.%s 1 3600 600 86400 60", z.origin, ns, strings.TrimPrefix(z.origin, "."))},
		{dns.TypeNS, fmt.Sprintf("%s 300 IN NS %s", z.origin, ns)},
	} {
		if len(ofType(z.names[z.origin], must.kind)) > 0 {
			continue
		}
		rr, err := dns.NewRR(must.text)
		if err != nil {
			return fmt.Errorf("servers: zone %s: %w", z.origin, err)
		}
		z.names[z.origin] = append(z.names[z.origin], rr)
		if must.kind == dns.TypeSOA {
			z.soa = rr
		}
	}
	for name := range z.names {
		for ; name != z.origin; name = parent(name) {
			z.exists[name] = true
		}
	}
	z.exists[z.origin] = true
	return nil
}

func ofType(rrs []dns.RR, kind uint16) []dns.RR {
	var out []dns.RR
	for _, rr := range rrs {
		if rr.Header().Rrtype == kind || kind == dns.TypeANY {
			out = append(out, rr)
		}
	}
	return out
}

// authoritative answers a query from the zone that is closest to its name
// (RFC 1034 4.3.2).
func authoritative(zones []*zone, q *dns.Msg) *dns.Msg {
	m := new(dns.Msg).SetReply(q)
	name := strings.ToLower(q.Question[0].Name)
	z := closest(zones, name)
	if z == nil {
		m.Rcode = dns.RcodeRefused
		return m
	}
	m.Authoritative = true
	for range 16 { // length of a chain of aliases
		target := z.find(m, name, q.Question[0].Qtype)
		if target == "" {
			return m
		}
		name = strings.ToLower(target)
		if z = closest(zones, name); z == nil {
			return m // the rest is for another server
		}
	}
	return m
}

func closest(zones []*zone, name string) *zone {
	var best *zone
	for _, z := range zones {
		if dns.IsSubDomain(z.origin, name) && (best == nil || len(z.origin) > len(best.origin)) {
			best = z
		}
	}
	return best
}

// find adds what the zone knows of a name to m. If the name is an alias it
// returns what for.
func (z *zone) find(m *dns.Msg, name string, kind uint16) (alias string) {
	if z.refer(m, name) {
		return ""
	}
	rrs := z.names[name]
	if !z.exists[name] {
		// RFC 4592 3.3.1: the wildcard below the closest name that exists.
		encloser := parent(name)
		for encloser != z.origin && !z.exists[encloser] {
			encloser = parent(encloser)
		}
		if rrs = z.names["*."+strings.TrimPrefix(encloser, ".")]; rrs == nil {
			if len(m.Answer) == 0 {
				m.Rcode = dns.RcodeNameError
			}
			m.Ns = append(m.Ns, z.soa)
			return ""
		}
	}
	if found := ofType(rrs, kind); len(found) > 0 {
		m.Answer = append(m.Answer, renamed(found, name)...)
		return ""
	}
	if cname := ofType(rrs, dns.TypeCNAME); len(cname) > 0 {
		m.Answer = append(m.Answer, renamed(cname, name)...)
		return cname[0].(*dns.CNAME).Target
	}
	m.Ns = append(m.Ns, z.soa)
	return ""
}

// refer adds the delegation that covers name, if one does.
func (z *zone) refer(m *dns.Msg, name string) bool {
	for cut := name; cut != z.origin && cut != "."; cut = parent(cut) {
		ns := ofType(z.names[cut], dns.TypeNS)
		if len(ns) == 0 {
			continue
		}
		m.Authoritative = len(m.Answer) > 0
		m.Ns = append(m.Ns, ns...)
		for _, rr := range ns {
			glue := z.names[strings.ToLower(rr.(*dns.NS).Ns)]
			m.Extra = append(m.Extra, ofType(glue, dns.TypeA)...)
			m.Extra = append(m.Extra, ofType(glue, dns.TypeAAAA)...)
		}
		return true
	}
	return false
}

func parent(name string) string {
	if i, end := dns.NextLabel(name, 0); !end {
		return name[i:]
	}
	return "."
}

// renamed returns copies of records under another owner, as a wildcard gives.
func renamed(rrs []dns.RR, name string) []dns.RR {
	out := make([]dns.RR, 0, len(rrs))
	for _, rr := range rrs {
		rr = dns.Copy(rr)
		rr.Header().Name = name
		out = append(out, rr)
	}
	return out
}
