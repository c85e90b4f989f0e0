package delegation

import (
	"context"
	"crypto"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/whyslow/whyslow/dnscheck"
)

// at is when the tests' signatures are made.
var at = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// world is a tree of authoritative servers in memory, an Exchanger in virtual
// time: it belongs into a synctest bubble.
type world struct {
	t       testing.TB
	servers map[netip.Addr]*host
	rtt     time.Duration

	mu   sync.Mutex
	seen map[string]int // queries by "server name type transport edns"
	all  int
}

// host is one server: its zones, and how it misbehaves.
type host struct {
	zones []*data4
	// fault, where set, may answer instead, or drop the query by a nil message
	// with its outcome.
	fault func(q dnscheck.Query, nth int) (m *dns.Msg, outcome dnscheck.Outcome, handled bool)
}

// data4 is a zone's records; named for RFC 1034, section 4.
type data4 struct {
	origin string
	rrs    []dns.RR
	key    *dns.DNSKEY
	priv   crypto.Signer
	// from and until bound its signatures.
	from, until time.Time
	// unsigned are the types left without signatures.
	unsigned []uint16
}

func newWorld(t testing.TB) *world {
	return &world{t: t, servers: map[netip.Addr]*host{}, rtt: 10 * time.Millisecond, seen: map[string]int{}}
}

// zone parses records, relative to origin. A SOA is added.
func (w *world) zone(origin string, records ...string) *data4 {
	w.t.Helper()
	z := &data4{origin: lower(origin), from: at.Add(-24 * time.Hour), until: at.Add(24 * time.Hour)}
	text := strings.Join(records, "\n") + "\n"
	if !strings.Contains(text, " SOA ") {
		text = "@ 3600 IN SOA ns hostmaster 7 3600 600 86400 300\n" + text
	}
	p := dns.NewZoneParser(strings.NewReader(text), z.origin, "")
	p.SetDefaultTTL(3600)
	for rr, ok := p.Next(); ok; rr, ok = p.Next() {
		z.rrs = append(z.rrs, rr)
	}
	if err := p.Err(); err != nil {
		w.t.Fatal(err)
	}
	return z
}

// sign gives the zone a key and returns the DS record for its parent.
func (w *world) sign(z *data4) *dns.DS {
	w.t.Helper()
	z.key = &dns.DNSKEY{Hdr: dns.RR_Header{Name: z.origin, Rrtype: dns.TypeDNSKEY, Class: dns.ClassINET, Ttl: 3600}, Flags: 257, Protocol: 3, Algorithm: dns.ECDSAP256SHA256}
	priv, err := z.key.Generate(256)
	if err != nil {
		w.t.Fatal(err)
	}
	z.priv = priv.(crypto.Signer)
	z.rrs = append(z.rrs, z.key)
	return z.key.ToDS(dns.SHA256)
}

// serve puts zones on a server.
func (w *world) serve(addr string, zones ...*data4) *host {
	h := &host{zones: zones}
	w.servers[netip.MustParseAddr(addr)] = h
	return h
}

// Exchange implements dnscheck.Exchanger.
func (w *world) Exchange(ctx context.Context, q dnscheck.Query) (*dnscheck.Answer, error) {
	key := fmt.Sprint(q.Server.Addr(), " ", lower(q.Name), " ", dns.TypeToString[q.Type], " tcp=", q.TCP, " edns=", q.EDNS > 0)
	w.mu.Lock()
	nth := w.seen[key]
	w.seen[key]++
	w.all++
	w.mu.Unlock()
	if !q.NoRD {
		w.t.Errorf("%s was asked to recurse", key)
	}
	fail := func(o dnscheck.Outcome) (*dnscheck.Answer, error) {
		if o == dnscheck.Timeout {
			<-ctx.Done()
		}
		return nil, &dnscheck.OutcomeError{Outcome: o, Server: q.Server, TCP: q.TCP}
	}
	h := w.servers[q.Server.Addr()]
	if h == nil {
		return fail(dnscheck.Timeout)
	}
	m, outcome, handled := (*dns.Msg)(nil), dnscheck.Outcome(""), false
	if h.fault != nil {
		m, outcome, handled = h.fault(q, nth)
	}
	if outcome != "" {
		return fail(outcome)
	}
	if !handled {
		m = h.answer(q)
	}
	select {
	case <-time.After(w.rtt):
	case <-ctx.Done():
		return fail(dnscheck.Timeout)
	}
	// What a test hands over must be what can be sent.
	b, err := m.Pack()
	if err != nil {
		w.t.Errorf("%s: %v", key, err)
		return fail(dnscheck.Malformed)
	}
	back := new(dns.Msg)
	if err := back.Unpack(b); err != nil {
		w.t.Errorf("%s: %v", key, err)
	}
	return &dnscheck.Answer{Msg: back, Elapsed: w.rtt, Truncated: back.Truncated, Size: len(b)}, nil
}

func reply4(q dnscheck.Query, rcode int) *dns.Msg {
	m := new(dns.Msg)
	m.Question = []dns.Question{{Name: dns.Fqdn(q.Name), Qtype: q.Type, Qclass: dns.ClassINET}}
	m.Response, m.Rcode, m.Id = true, rcode, 1
	return m
}

// answer is RFC 1034, section 4.3.2, with the signatures of RFC 4035.
func (h *host) answer(q dnscheck.Query) *dns.Msg {
	name := lower(q.Name)
	var z *data4
	for _, c := range h.zones {
		// The parent answers for DS records.
		if dns.IsSubDomain(c.origin, name) && !(q.Type == dns.TypeDS && c.origin == name && len(h.zones) > 1) && (z == nil || len(c.origin) > len(z.origin)) {
			z = c
		}
	}
	if z == nil {
		return reply4(q, dns.RcodeRefused)
	}
	m := reply4(q, dns.RcodeSuccess)
	z.fill(m, name, q.Type)
	if q.DO {
		z.signAll(m, name)
	}
	return m
}

func (z *data4) of(name string, types ...uint16) []dns.RR {
	var out []dns.RR
	for _, rr := range z.rrs {
		if lower(rr.Header().Name) == name && slices.Contains(types, rr.Header().Rrtype) {
			out = append(out, rr)
		}
	}
	return out
}

func (z *data4) fill(m *dns.Msg, name string, qtype uint16) {
	for cut := name; cut != z.origin; cut = parentName(cut) {
		ns := z.of(cut, dns.TypeNS)
		if len(ns) > 0 && !(qtype == dns.TypeDS && cut == name) {
			m.Ns = append(ns, z.of(cut, dns.TypeDS)...)
			for _, rr := range ns {
				m.Extra = append(m.Extra, z.of(lower(rr.(*dns.NS).Ns), dns.TypeA, dns.TypeAAAA)...)
			}
			return
		}
	}
	m.Authoritative = true
	exists := false
	for _, rr := range z.rrs {
		exists = exists || dns.IsSubDomain(name, lower(rr.Header().Name))
	}
	for up := name; up != z.origin && up != "."; up = parentName(up) {
		if d := z.of(parentName(up), dns.TypeDNAME); len(d) > 0 {
			m.Answer = d
			return
		}
	}
	set := z.of(name, qtype)
	if len(set) == 0 {
		set = z.of(name, dns.TypeCNAME)
	}
	if !exists {
		for _, rr := range z.of("*."+strings.TrimPrefix(parentName(name), "."), qtype, dns.TypeCNAME) {
			rr = dns.Copy(rr)
			rr.Header().Name = name
			set, exists = append(set, rr), true
		}
	}
	if len(set) > 0 {
		m.Answer = set
		if qtype == dns.TypeNS {
			for _, rr := range set {
				if ns, ok := rr.(*dns.NS); ok {
					m.Extra = append(m.Extra, z.of(lower(ns.Ns), dns.TypeA, dns.TypeAAAA)...)
				}
			}
		}
		return
	}
	m.Ns = z.of(z.origin, dns.TypeSOA)
	if !exists {
		m.Rcode = dns.RcodeNameError
	}
}

// signAll adds the signatures, and an NSEC record where something is denied.
func (z *data4) signAll(m *dns.Msg, name string) {
	if z.key == nil {
		return
	}
	denies := len(m.Answer) == 0 && (m.Authoritative || len(z.inSection(m.Ns, dns.TypeDS)) == 0)
	if denies {
		m.Ns = append(m.Ns, &dns.NSEC{
			Hdr:        dns.RR_Header{Name: name, Rrtype: dns.TypeNSEC, Class: dns.ClassINET, Ttl: 300},
			NextDomain: "\\000." + name, TypeBitMap: []uint16{dns.TypeRRSIG, dns.TypeNSEC},
		})
	}
	m.Answer, m.Ns = z.signed(m.Answer), z.signed(m.Ns)
}

func (z *data4) inSection(rrs []dns.RR, t uint16) []dns.RR {
	var out []dns.RR
	for _, rr := range rrs {
		if rr.Header().Rrtype == t {
			out = append(out, rr)
		}
	}
	return out
}

func (z *data4) signed(rrs []dns.RR) []dns.RR {
	var types []uint16
	for _, rr := range rrs {
		t := rr.Header().Rrtype
		glueNS := t == dns.TypeNS && lower(rr.Header().Name) != z.origin
		if !slices.Contains(types, t) && !glueNS && !slices.Contains(z.unsigned, t) {
			types = append(types, t)
		}
	}
	out := slices.Clone(rrs)
	for _, t := range types {
		set := z.inSection(rrs, t)
		sig := &dns.RRSIG{
			Inception: uint32(z.from.Unix()), Expiration: uint32(z.until.Unix()),
			KeyTag: z.key.KeyTag(), SignerName: z.origin, Algorithm: z.key.Algorithm,
		}
		owner := set[0].Header().Name
		if star := "*." + parentName(lower(owner)); len(z.of(lower(owner), t)) == 0 && len(z.of(star, t)) > 0 {
			set = z.of(star, t) // RFC 4035, section 2.2: the signature is the wildcard's
		}
		if err := sig.Sign(z.priv, set); err != nil {
			panic(err)
		}
		sig.Hdr.Name = owner
		out = append(out, sig)
	}
	return out
}

// walk walks and checks what holds for every walk.
func (w *world) walk(ctx context.Context, name string, qtype uint16, o Options) *Result {
	w.t.Helper()
	o.Exchanger, o.Now = w, at
	if o.Roots == nil {
		o.Roots = []netip.Addr{netip.MustParseAddr("198.51.100.1")}
	}
	r, err := Run(ctx, name, qtype, o)
	if err != nil {
		w.t.Fatal(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if limit := max(o.MaxQueries, 200); w.all > limit {
		w.t.Errorf("%d queries, more than %d", w.all, limit)
	}
	return r
}

func queryFor(name string, qtype uint16) dnscheck.Query {
	return dnscheck.Query{Name: name, Type: qtype, NoRD: true, EDNS: udpSize, DO: true}
}
