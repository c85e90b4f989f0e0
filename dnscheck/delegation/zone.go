package delegation

import (
	"context"
	"net/netip"
	"slices"
	"strings"

	"github.com/miekg/dns"
)

// zone is what the walker knows of a zone.
type zone struct {
	name   string // absolute, lower case
	parent *zone  // nil for the root

	// parentNS are the servers the parent names, in its order; glue their
	// addresses there.
	parentNS  []string
	parentTTL *int
	glue      map[string][]netip.Addr
	// ds and dsSigs are what the parent says of its keys; dsTold that it said
	// anything, a denial included.
	ds     []*dns.DS
	dsSet  []dns.RR
	dsSigs []*dns.RRSIG
	dsTold bool
	plain  bool // learned without EDNS

	childNS   []string
	childTTL  *int
	nsAsked   bool
	addresses map[string][]netip.Addr // resolved, or the zone's own for glue
	noAddress map[string]string       // why a name has none

	// resolving is set while its servers' addresses are being looked for, to
	// see circles.
	resolving bool

	survey  *survey
	trusted *trust
	last    bool
	remarks []string
}

func (z *zone) remark(s string) {
	if !slices.Contains(z.remarks, s) {
		z.remarks = append(z.remarks, s)
	}
}

// addrs returns the known addresses of the zone's servers, the parent's first.
func (z *zone) addrs() []netip.Addr {
	var out []netip.Addr
	for _, names := range [][]string{z.parentNS, z.childNS} {
		for _, n := range names {
			for _, known := range [][]netip.Addr{z.glue[n], z.addresses[n]} {
				for _, a := range known {
					if !slices.Contains(out, a) {
						out = append(out, a)
					}
				}
			}
		}
	}
	return out
}

// names returns the names of the zone's servers, the parent's first.
func (z *zone) names() []string {
	out := slices.Clone(z.parentNS)
	for _, n := range z.childNS {
		if !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	return out
}

func (z *zone) known(name string) bool { return len(z.glue[name])+len(z.addresses[name]) > 0 }

// inside reports whether a name is in the zone, so that only the zone's own
// servers can tell its address.
func (z *zone) inside(name string) bool { return dns.IsSubDomain(z.name, name) }

// fromReferral fills in a zone from the message of its parent.
func (w *Walker) fromReferral(z *zone, m *dns.Msg) {
	set, _ := rrset(m.Ns, z.name, dns.TypeNS)
	z.parentTTL = leastTTL(set)
	for _, rr := range set {
		ns, ok := rr.(*dns.NS)
		if name := lower(ns.Ns); ok && len(z.parentNS) < maxServers && !slices.Contains(z.parentNS, name) {
			z.parentNS = append(z.parentNS, name)
		}
	}
	for _, n := range z.parentNS {
		z.glue[n] = w.addressesIn(m.Extra, n)
	}
	z.takeDS(m.Ns)
}

// takeDS keeps what a section of the parent's says about the zone's keys.
func (z *zone) takeDS(section []dns.RR) {
	set, sigs := rrset(section, z.name, dns.TypeDS)
	for _, rr := range set {
		if ds, ok := rr.(*dns.DS); ok && len(z.ds) < maxKeys {
			z.ds, z.dsSet = append(z.ds, ds), append(z.dsSet, rr)
		}
	}
	z.dsSigs = sigs
	z.dsTold = len(z.ds) > 0 || slices.ContainsFunc(section, func(rr dns.RR) bool {
		t := rr.Header().Rrtype
		return t == dns.TypeNSEC || t == dns.TypeNSEC3
	})
}

// addressesIn returns the addresses of name in a section, of the family asked
// for.
func (w *Walker) addressesIn(section []dns.RR, name string) []netip.Addr {
	var out []netip.Addr
	for _, rr := range section {
		if lower(rr.Header().Name) != name {
			continue
		}
		var a netip.Addr
		switch v := rr.(type) {
		case *dns.A:
			a, _ = netip.AddrFromSlice(v.A.To4())
		case *dns.AAAA:
			a, _ = netip.AddrFromSlice(v.AAAA.To16())
		}
		if a.IsValid() && len(out) < maxAddrs && w.wants(a) && !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return out
}

func (w *Walker) wants(a netip.Addr) bool {
	return w.o.Family == 0 || (w.o.Family == 4) == a.Is4()
}

// deepest is the closest zone above name that is known.
func (w *Walker) deepest(name string) *zone {
	for n := name; ; n = parentName(n) {
		if z := w.zones[n]; z != nil {
			return z
		}
		if n == "." {
			return nil
		}
	}
}

// parentName is a name without its first label.
func parentName(name string) string {
	if i, end := dns.NextLabel(name, 0); !end {
		return name[i:]
	}
	return "."
}

// step is where a descent ended.
type step struct {
	zone    *zone
	outcome string // as Walk.Outcome; "" with a useful reply
	note    string
	reply   reply
	msg     *dns.Msg
	server  netip.Addr
	// plain says that the query had no EDNS, so that msg cannot have
	// signatures.
	plain bool
}

// descend goes from the deepest zone known down to the one that answers for
// name. Zones on the way stay known.
func (w *Walker) descend(ctx context.Context, name string, qtype uint16, depth int) step {
	z := w.deepest(name)
	for range dns.CountLabel(name) + 2 {
		if note := w.reachable(ctx, z, depth); note != "" {
			return step{zone: z, outcome: w.failure(ctx, note), note: note}
		}
		s := w.first(ctx, z, name, qtype)
		if s.outcome != "" || s.reply.kind != referral {
			return s
		}
		if len(w.zones) >= w.o.MaxZones {
			return step{zone: z, outcome: "limit", note: "more zones than the walk's bound"}
		}
		if dns.CountLabel(s.reply.cut) > dns.CountLabel(z.name)+1 {
			// The server may hold zones between: the cut's parent is the last
			// of them, and signs for it.
			z = w.settle(ctx, step{zone: z, server: s.server}, parentName(s.reply.cut))
		}
		child := newZone(s.reply.cut, z)
		w.fromReferral(child, s.msg)
		child.plain = s.plain
		w.zones[child.name] = child
		z = child
	}
	return step{zone: z, outcome: "cycle", note: bare(name) + " is referred to without end"}
}

func newZone(name string, parent *zone) *zone {
	return &zone{
		name: name, parent: parent, glue: map[string][]netip.Addr{},
		addresses: map[string][]netip.Addr{}, noAddress: map[string]string{},
	}
}

// failure classes why a zone cannot be gone on with.
func (w *Walker) failure(ctx context.Context, note string) string {
	switch {
	case ctx.Err() != nil:
		return "interrupted"
	case w.k.left() == 0, strings.Contains(note, "was not looked for"):
		return "limit"
	case strings.Contains(note, circle):
		return "cycle"
	}
	return "broken"
}

// circle is how a note on a circle of delegations is told.
const circle = "in a circle"

// reachable makes sure that an address of some server of z is known, and says
// why not.
func (w *Walker) reachable(ctx context.Context, z *zone, depth int) string {
	if len(z.addrs()) > 0 {
		return ""
	}
	if z.resolving {
		return "the servers of " + bare(z.name) + " are named " + circle + ": their addresses can only be asked of themselves"
	}
	z.resolving = true
	defer func() { z.resolving = false }()
	for _, n := range z.parentNS {
		if w.address(ctx, z, n, depth); z.known(n) {
			return ""
		}
	}
	// A circle is the cause wherever it was met; else the first reason stands
	// for all.
	note := ""
	for _, n := range z.parentNS {
		why := z.noAddress[n]
		if why == "" {
			why = "was not looked for any more"
		}
		if note == "" || strings.Contains(why, circle) {
			note = "no server of " + bare(z.name) + " has an address: " + bare(n) + " " + why
		}
	}
	if note == "" {
		note = "no server is named for " + bare(z.name)
	}
	return note
}

// address looks for the address of a name server that has no glue.
func (w *Walker) address(ctx context.Context, z *zone, name string, depth int) {
	if z.known(name) || z.noAddress[name] != "" {
		return
	}
	switch {
	case z.inside(name) && len(z.addrs()) == 0:
		z.noAddress[name] = "is in the zone itself and the parent gives no glue for it"
		return
	case depth >= maxDepth:
		z.noAddress[name] = "needs too many other zones first"
		return
	}
	addrs, why := w.resolve(ctx, name, depth+1)
	if ctx.Err() != nil {
		return
	}
	if z.addresses[name] = addrs; len(addrs) == 0 {
		z.noAddress[name] = why // "" where nobody can say
	}
}

// resolve walks for the addresses of a name server's name. With neither an
// address nor a reason it met a bound.
func (w *Walker) resolve(ctx context.Context, name string, depth int) (addrs []netip.Addr, why string) {
	why = "has no address"
	for _, t := range []uint16{dns.TypeA, dns.TypeAAAA} {
		if w.o.Family == 4 && t == dns.TypeAAAA || w.o.Family == 6 && t == dns.TypeA {
			continue
		}
		s := w.descend(ctx, name, t, depth)
		switch {
		case s.outcome == "limit" || s.outcome == "interrupted":
			return addrs, ""
		case s.outcome != "":
			return addrs, "has no address that can be found: " + s.note
		case s.reply.kind == alias:
			return nil, "is an alias, which a server's name must not be (RFC 2181, section 10.3)"
		case s.reply.kind == noSuchName:
			return nil, "does not exist"
		case s.reply.kind == answers:
			addrs = append(addrs, w.addressesIn(s.msg.Answer, name)...)
		}
	}
	return addrs, why
}
