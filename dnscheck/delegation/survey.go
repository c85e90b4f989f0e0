package delegation

import (
	"context"
	"net/netip"
	"slices"
	"sync"

	"github.com/miekg/dns"

	"github.com/whyslow/whyslow/dnscheck"
)

// survey is what asking all servers of a zone showed.
type survey struct {
	servers []*authority
	timed   bool // as the servers of a last zone
	cut     bool // by the end of the walk, so that another may go on
}

// authority is one address of a zone's servers, and its answers.
type authority struct {
	addr     netip.Addr
	names    []string
	udp, tcp []*response // SOA queries
	plain    *response   // one without EDNS, nil if none was needed
}

// prepare learns the zone's own NS records and the addresses of all servers.
func (w *Walker) prepare(ctx context.Context, z *zone) {
	if !z.nsAsked {
		s := w.first(ctx, z, z.name, dns.TypeNS)
		if ctx.Err() != nil {
			return
		}
		z.nsAsked = true
		if s.outcome == "" && s.reply.kind == answers {
			w.takeNS(z, s.msg)
		}
	}
	names := z.names()
	names = names[:min(len(names), maxServers)]
	for _, n := range names {
		w.address(ctx, z, n, 0)
	}
	w.compareGlue(ctx, z, names)
}

// takeNS keeps the zone's NS records and the addresses that came with them.
func (w *Walker) takeNS(z *zone, m *dns.Msg) {
	set, _ := rrset(m.Answer, z.name, dns.TypeNS)
	z.childTTL = leastTTL(set)
	for _, rr := range set {
		ns, ok := rr.(*dns.NS)
		if !ok || len(z.childNS) >= maxServers {
			continue
		}
		n := lower(ns.Ns)
		if slices.Contains(z.childNS, n) {
			continue
		}
		z.childNS = append(z.childNS, n)
		// Only what the zone holds itself is authoritative beside it; the
		// root's servers are in no zone of their own that would be asked.
		if z.inside(n) && len(z.addresses[n]) == 0 {
			if addrs := w.addressesIn(m.Extra, n); len(addrs) > 0 {
				z.addresses[n] = addrs
			}
		}
	}
}

// compareGlue asks the last zone for the addresses of its own servers, which
// must be those that the parent gives.
func (w *Walker) compareGlue(ctx context.Context, z *zone, names []string) {
	if !z.last {
		return
	}
	found := make([][]netip.Addr, len(names))
	var wg sync.WaitGroup
	for i, n := range names {
		if !z.inside(n) || len(z.glue[n]) == 0 || len(z.addresses[n]) > 0 {
			continue
		}
		wg.Go(func() {
			for _, t := range []uint16{dns.TypeA, dns.TypeAAAA} {
				s := w.first(ctx, z, n, t)
				if s.outcome == "" && s.reply.kind == answers {
					found[i] = append(found[i], w.addressesIn(s.msg.Answer, n)...)
				}
			}
		})
	}
	wg.Wait()
	for i, n := range names {
		if len(found[i]) > 0 {
			z.addresses[n] = found[i]
		}
	}
}

// surveyZone puts the SOA question to every server of the zone. It returns once all
// have answered or were waited for.
func (w *Walker) surveyZone(ctx context.Context, z *zone) {
	if z.survey != nil && !z.survey.cut && (z.survey.timed || !z.last) {
		return
	}
	z.survey = &survey{timed: z.last}
	byAddr := map[netip.Addr]*authority{}
	for _, n := range z.names() {
		for _, known := range [][]netip.Addr{z.glue[n], z.addresses[n]} {
			for _, a := range known {
				s := byAddr[a]
				if s == nil {
					s = &authority{addr: a}
					byAddr[a] = s
					z.survey.servers = append(z.survey.servers, s)
				}
				if !slices.Contains(s.names, n) {
					s.names = append(s.names, n)
				}
			}
		}
	}
	samples := 1
	if z.last {
		samples = w.o.Samples
	}
	var wg sync.WaitGroup
	for _, s := range z.survey.servers {
		if w.k.noRoute(s.addr.Is6()) {
			s.udp = []*response{{outcome: dnscheck.Unreachable}}
			continue
		}
		wg.Go(func() { w.probe(ctx, z, s, samples) })
	}
	wg.Wait()
	z.survey.cut = ctx.Err() != nil
}
