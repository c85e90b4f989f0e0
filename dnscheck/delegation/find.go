package delegation

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"

	"github.com/whyslow/whyslow/dnscheck"
	"github.com/whyslow/whyslow/internal/millis"
)

// A resolver waits this long for a server that it knows nothing of before it
// tries another: unbound 376 ms, BIND 800 ms, PowerDNS 1.5 s.
const (
	retryLow  = 400 * time.Millisecond
	retryHigh = 1500 * time.Millisecond
	assumed   = "assuming that it picks servers at random and tries the next after 0.4 to 1.5 s"
)

const (
	// farFactor and farLeast are how much slower than the nearest server of
	// its zone one must be to be worth a word.
	farFactor = 5
	farLeast  = 200 * time.Millisecond
	// shortTTL is a lifetime of NS records that keeps resolvers coming back, s.
	shortTTL = 60
)

// Find judges a walk: pure, no clock, no I/O. It reads Walk and Delegation of
// r, and its Stub for what this host's resolver says to the same question. The
// zones nearest to the name come first, what breaks them before what slows
// them. All costs are null: they fall on some lookups only, and the text says
// on how many.
func Find(r *dnscheck.Result) []dnscheck.Finding {
	f := &finder{r: r, out: []dnscheck.Finding{}, sure: true}
	if r.Walk == nil {
		return f.out
	}
	f.sure = !Contradicted(r)
	f.walk()
	for _, last := range []bool{true, false} {
		for i := len(r.Delegation) - 1; i >= 0; i-- {
			if z := &r.Delegation[i]; z.Last == last {
				f.zone(z)
			}
		}
	}
	return f.out
}

// Contradicted reports whether this host's resolver has an answer that the
// tree, as it was walked, has not: a split horizon, or a search domain.
func Contradicted(r *dnscheck.Result) bool {
	if r.Walk == nil || !r.Stub.Found() || r.Stub.Source != "dns" {
		return false
	}
	switch r.Walk.Outcome {
	case "nxdomain", "broken":
		return true
	case "nodata":
		return slices.ContainsFunc(r.Stub.Addrs, func(a netip.Addr) bool {
			return r.Walk.Type == "A" && a.Is4() || r.Walk.Type == "AAAA" && a.Is6()
		})
	}
	return false
}

type finder struct {
	r    *dnscheck.Result
	out  []dnscheck.Finding
	sure bool
}

func (f *finder) add(component, where, text string) {
	f.out = append(f.out, dnscheck.Finding{Component: component, Where: where, Text: text, Confirmed: f.sure})
}

// walk tells how the walk ended, where that is a fault.
func (f *finder) walk() {
	v := f.r.Walk
	switch {
	case !f.sure:
		f.add(dnscheck.Delegation, v.Name, fmt.Sprintf(
			"this host's resolver answers for %s, the tree that was walked does not (%s): a split horizon, or a domain of the search list; that is no fault in itself",
			v.Name, outcomeClause(v)))
	case v.Outcome == "nxdomain":
		f.add(dnscheck.NXDomain, v.Name, fmt.Sprintf("%s does not exist, say the servers of %s", v.Name, v.Zone))
	case v.Outcome == "cycle":
		f.add(dnscheck.Delegation, v.Zone, v.Note)
	case v.Outcome == "broken":
		f.add(dnscheck.AuthorityDown, v.Zone, v.Note+": every lookup of "+v.Name+" that no cache answers fails")
	case v.Outcome == "intercepted" || v.Outcome == "filtered":
		return // said as the walk's note; it is no fault of the name
	}
	if v.Security == bogus {
		where := v.Zone
		if i := slices.IndexFunc(f.r.Delegation, func(z dnscheck.Zone) bool { return z.DNSSEC.Status == bogus }); i >= 0 {
			where = f.r.Delegation[i].Name
		}
		f.add(dnscheck.Validation, where, fmt.Sprintf("a validating resolver answers SERVFAIL for %s: %s", v.Name, v.Reason))
	}
}

func outcomeClause(v *dnscheck.Walk) string {
	switch v.Outcome {
	case "nxdomain":
		return "no such name, say the servers of " + v.Zone
	case "nodata":
		return "no " + v.Type + " records, say the servers of " + v.Zone
	}
	return v.Note
}

// zone tells the faults of one zone's servers and delegation.
func (f *finder) zone(z *dnscheck.Zone) {
	if z.DNSSEC.Status == bogus && !strings.Contains(f.r.Walk.Reason, z.DNSSEC.Reason) {
		f.add(dnscheck.Validation, z.Name, fmt.Sprintf("validating resolvers answer SERVFAIL for names in %s: %s", z.Name, z.DNSSEC.Reason))
	}
	tally := count(z)
	for i := range z.Servers {
		f.server(z, &z.Servers[i], tally)
	}
	f.sets(z)
	f.versions(z)
	if n := oneNetwork(z); n != "" && z.Last {
		f.add(dnscheck.Delegation, z.Name, fmt.Sprintf("all %d addresses of the servers of %s are in one network, %s: when it fails they fail together (RFC 2182)", tally.all, z.Name, n))
	}
	if t := z.ChildTTL; t != nil && *t < shortTTL && z.Last {
		f.add(dnscheck.TTLZero, z.Name, fmt.Sprintf("the NS records of %s live %d s, so that resolvers keep asking for them", z.Name, *t))
	}
}

// counts are the addresses of a zone by state.
type counts struct{ all, live, silent, lame int }

func count(z *dnscheck.Zone) counts {
	var c counts
	for i := range z.Servers {
		switch z.Servers[i].Status {
		case statusOK, statusLossy:
			c.live++
		case statusDead, statusRefused:
			c.silent++
		case statusLame, statusBroken:
			c.lame++
		default:
			continue
		}
		c.all++
	}
	return c
}

// server tells the fault of one server.
func (f *finder) server(z *dnscheck.Zone, a *dnscheck.Authority, c counts) {
	who := Who(a)
	switch a.Status {
	case statusDead:
		f.add(dnscheck.AuthorityDown, who, fmt.Sprintf("%s answers nothing for %s: %s; %s", who, z.Name, lostText(a), c.wait(z.Name, true)))
	case statusRefused:
		f.add(dnscheck.AuthorityDown, who, fmt.Sprintf("%s does not serve %s: %s, which a resolver that picks it may not see and wait for; %s", who, z.Name, a.Reason, c.wait(z.Name, true)))
	case statusLame, statusBroken:
		f.add(dnscheck.Lame, who, fmt.Sprintf("%s is named as a server of %s but %s; %s", who, z.Name, a.Reason, c.wait(z.Name, false)))
	case statusLossy:
		f.add(dnscheck.AuthorityDown, who, fmt.Sprintf("%s loses queries for %s: %s over UDP", who, z.Name, a.Reason))
	case statusNoAddress:
		f.add(dnscheck.Delegation, who, fmt.Sprintf("%s, named as a server of %s, %s", who, z.Name, a.Reason))
	case statusOK:
		f.healthy(z, a, who)
	}
	if a.Glue == "differs" {
		f.add(dnscheck.Delegation, who, fmt.Sprintf("the address of %s is not the same at the parent of %s and in the zone itself", who, z.Name))
	}
	if a.Signatures != "" && z.DNSSEC.Status == secure {
		f.add(dnscheck.Validation, who, fmt.Sprintf("the SOA records of %s that %s gives %s: validating resolvers reject its answers and ask another, if there is one", z.Name, who, a.Signatures))
	}
}

// healthy tells what may be wrong with a server that answers.
func (f *finder) healthy(z *dnscheck.Zone, a *dnscheck.Authority, who string) {
	if strings.HasPrefix(a.Reason, "not over TCP") {
		f.add(dnscheck.Truncation, who, fmt.Sprintf("%s answers for %s, but %s: answers too large for UDP cannot be had from it", who, z.Name, a.Reason))
	}
	switch a.EDNS {
	case "refused":
		f.add(dnscheck.EDNS, who, fmt.Sprintf("%s rejects queries for %s with EDNS, so that each costs resolvers a round trip more", who, z.Name))
	case "dropped":
		f.add(dnscheck.EDNS, who, fmt.Sprintf("%s drops queries for %s with EDNS and answers those without: resolvers wait before they try that", who, z.Name))
	}
	best := time.Duration(0)
	for i := range z.Servers {
		if d, ok := z.Servers[i].UDP.Median.Get(); ok && (best == 0 || d < best) {
			best = d
		}
	}
	if d, ok := a.UDP.Median.Get(); ok && z.Last && d > farLeast && d > farFactor*best {
		f.add(dnscheck.AuthoritySlow, who, fmt.Sprintf("%s takes %s for %s, another of its servers %s", who, millis.Of(d), z.Name, millis.Of(best)))
	}
}

// wait says what bad servers cost a lookup that no cache answers. A resolver
// that picks at random meets silent/(live+1) silent ones before the first live
// one, however many answer something useless.
func (c counts) wait(zone string, silent bool) string {
	switch {
	case c.live == 0:
		return "none of the addresses of " + zone + " serves it, so that it cannot be resolved"
	case !silent:
		return fmt.Sprintf("a resolver that picks it, as %d of %d addresses, must ask another", c.lame, c.all)
	}
	mean := float64(c.silent) / float64(c.live+1)
	low, high := time.Duration(mean*float64(retryLow)).Round(time.Millisecond), time.Duration(mean*float64(retryHigh)).Round(time.Millisecond)
	return fmt.Sprintf("%d of %d addresses of %s are silent, so that a resolver without a cache waits %s to %s longer on average (%s)",
		c.silent, c.all, zone, millis.Of(low), millis.Of(high), assumed)
}

func lostText(a *dnscheck.Authority) string {
	if strings.HasPrefix(a.Reason, "it answers over TCP") {
		return fmt.Sprintf("%d of %d queries over UDP were lost, those over TCP answered", a.UDP.Sent-a.UDP.Answered, a.UDP.Sent)
	}
	return fmt.Sprintf("%d of %d queries over UDP and %d of %d over TCP were lost",
		a.UDP.Sent-a.UDP.Answered, a.UDP.Sent, a.TCP.Sent-a.TCP.Answered, a.TCP.Sent)
}

// Who names a server: "ns2.example.net (192.0.2.53)".
func Who(a *dnscheck.Authority) string {
	name := strings.Join(a.Names, ", ")
	switch {
	case !a.Addr.IsValid():
		return name
	case name == "":
		return a.Addr.String()
	}
	return name + " (" + a.Addr.String() + ")"
}

// sets compares the NS records of parent and zone.
func (f *finder) sets(z *dnscheck.Zone) {
	if len(z.ParentNS) == 0 || len(z.ChildNS) == 0 {
		return
	}
	parent, child := missing(z.ParentNS, z.ChildNS), missing(z.ChildNS, z.ParentNS)
	var parts []string
	if len(parent) > 0 {
		parts = append(parts, "only the parent names "+strings.Join(parent, ", "))
	}
	if len(child) > 0 {
		parts = append(parts, "only the zone names "+strings.Join(child, ", "))
	}
	if len(parts) > 0 {
		f.add(dnscheck.Delegation, z.Name, fmt.Sprintf("the NS records of %s are not the same at its parent and in the zone: %s", z.Name, strings.Join(parts, ", ")))
	}
}

// missing are the names of a that b lacks.
func missing(a, b []string) []string {
	var out []string
	for _, n := range a {
		if !slices.Contains(b, n) {
			out = append(out, n)
		}
	}
	return out
}

// versions compares the serials.
func (f *finder) versions(z *dnscheck.Zone) {
	if !z.Last {
		return // the large zones change every few minutes
	}
	var newest *dnscheck.Authority
	var behind []string
	for i := range z.Servers {
		a := &z.Servers[i]
		if a.Serial != nil && (newest == nil || int32(*a.Serial-*newest.Serial) > 0) { // RFC 1982
			newest = a
		}
	}
	for i := range z.Servers {
		if a := &z.Servers[i]; a.Serial != nil && *a.Serial != *newest.Serial {
			behind = append(behind, fmt.Sprintf("%s %d", Who(a), *a.Serial))
		}
	}
	if len(behind) > 0 {
		f.add(dnscheck.Delegation, z.Name, fmt.Sprintf("the servers of %s hold different versions of it: serial %d at %s, but %s", z.Name, *newest.Serial, Who(newest), strings.Join(behind, ", ")))
	}
}

// oneNetwork is the /24 or /48 that holds all addresses of a zone, "" if they
// are spread, or too few to say.
func oneNetwork(z *dnscheck.Zone) string {
	var net netip.Prefix
	n := 0
	for i := range z.Servers {
		a := z.Servers[i].Addr
		if !a.IsValid() {
			continue
		}
		n++
		bits := 24
		if a.Is6() {
			bits = 48
		}
		p, err := a.WithZone("").Prefix(bits)
		if err != nil || net.IsValid() && p != net {
			return ""
		}
		net = p
	}
	if n < 2 {
		return ""
	}
	return net.String()
}

// Join puts a walk into the result of the same name's resolution.
func Join(r *dnscheck.Result, w *Result) {
	for i := range w.Zones {
		r.Apply(dnscheck.Event{Zone: &w.Zones[i]})
	}
	for _, s := range w.Warnings {
		r.Apply(dnscheck.Event{Warning: s})
	}
	r.Apply(dnscheck.Event{Walk: &w.Walk})
	Settle(r)
}

// Settle weighs a walk in r against what this host's resolver said, and adds
// the findings. Call it once, after all events of the resolution and the walk.
func Settle(r *dnscheck.Result) {
	if r.Walk == nil {
		return
	}
	if Contradicted(r) {
		r.Walk.Conclusive = false
		if r.Walk.Note == "" {
			r.Walk.Note = "this host's resolver has an answer"
		}
	}
	for _, f := range Find(r) {
		if !slices.ContainsFunc(r.Findings, func(have dnscheck.Finding) bool { return have.Component == f.Component && have.Where == f.Where }) {
			r.Findings = append(r.Findings, f)
		}
	}
}

// TypeOf is the type that a walk asks for, for what a user looks up: PTR for a
// name below in-addr.arpa or ip6.arpa, else an address.
func TypeOf(qname string, family dnscheck.Family) uint16 {
	switch q := lower(qname); {
	case dns.IsSubDomain("in-addr.arpa.", q) || dns.IsSubDomain("ip6.arpa.", q):
		return dns.TypePTR
	case family == dnscheck.IPv6:
		return dns.TypeAAAA
	}
	return dns.TypeA
}
