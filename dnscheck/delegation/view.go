package delegation

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/miekg/dns"

	"github.com/whyslow/whyslow/dnscheck"
	"github.com/whyslow/whyslow/internal/millis"
	"github.com/whyslow/whyslow/internal/stats"
)

// The states of a server, as dnscheck.Authority.Status.
const (
	statusOK        = "ok"
	statusLame      = "lame"
	statusDead      = "dead"
	statusRefused   = "refused"
	statusLossy     = "lossy"
	statusBroken    = "broken"
	statusNoAddress = "no-address"
	statusUnreached = "unreached"
	statusUnasked   = "unasked"
)

// view makes results of what a walker knows.
type view struct {
	w *Walker
	// no4, no6 say that nothing of a family came back from anywhere, noTCP
	// that nothing did over TCP, noEDNS that nothing did with EDNS: the way
	// from here is at fault, or nobody can say.
	no4, no6, noTCP, noEDNS bool
	warnings                []string
}

func (w *Walker) newView() *view {
	v := &view{w: w}
	four, six := w.k.sum(false, false), w.k.sum(true, false)
	tcp := w.k.sum(false, true)
	if t := w.k.sum(true, true); t.answered > 0 || tcp.answered+tcp.failed == 0 {
		tcp.answered, tcp.failed = tcp.answered+t.answered, tcp.failed+t.failed
	}
	if six.answered == 0 && six.failed > 0 && four.answered > 0 {
		v.no6 = true
		v.warnings = append(v.warnings, "no server answered over IPv6: it does not work from here, or nobody does; servers are not judged by it")
	}
	if four.answered == 0 && four.failed > 0 && six.answered > 0 {
		v.no4 = true
		v.warnings = append(v.warnings, "no server answered over IPv4: it does not work from here, or nobody does; servers are not judged by it")
	}
	if tcp.answered == 0 && tcp.failed > 0 && four.answered+six.answered > 0 {
		v.noTCP = true
		v.warnings = append(v.warnings, "no server answered over TCP: port 53 over TCP is filtered on the way from here, or by all of them; servers are not judged by it")
	}
	withEDNS, without, _ := w.k.edns()
	if withEDNS == 0 && without > 1 {
		v.noEDNS = true
		v.warnings = append(v.warnings, "no server answered a query with EDNS, but some did without: something on the way from here drops them, or all servers do")
	}
	return v
}

func (v *view) zone(z *zone) dnscheck.Zone {
	out := dnscheck.Zone{
		Name: bare(z.name), Last: z.last, ParentNS: bareAll(z.parentNS), ChildNS: bareAll(z.childNS),
		ParentTTL: z.parentTTL, ChildTTL: z.childTTL, Servers: []dnscheck.Authority{}, Remarks: slices.Clone(z.remarks),
	}
	out.DNSSEC = signatures(z.trusted)
	if z.survey == nil {
		// Not asked: what is known of them is their addresses.
		for _, a := range z.addrs() {
			out.Servers = append(out.Servers, dnscheck.Authority{Names: bareAll(z.namesOf(a)), Addr: a, Status: statusUnasked})
		}
		return out
	}
	for _, s := range z.survey.servers {
		a := v.authority(z, s)
		if out.NegativeTTL == nil {
			out.NegativeTTL = negativeTTL(z, s)
		}
		out.Servers = append(out.Servers, a)
	}
	for _, n := range z.names() {
		if z.known(n) {
			continue
		}
		a := dnscheck.Authority{Names: []string{bare(n)}, Status: statusNoAddress, Reason: z.noAddress[n], Listed: z.listed([]string{n}), Glue: z.glueless(n)}
		if a.Reason == "" {
			a.Status, a.Reason = statusUnasked, "its address was not looked for: the walk had met a bound"
		}
		out.Servers = append(out.Servers, a)
	}
	if p, c := out.ParentTTL, out.ChildTTL; p != nil && c != nil && *p != *c {
		out.Remarks = append(out.Remarks, fmt.Sprintf("its NS records live %d s at the parent, %d s here", *p, *c))
	}
	return out
}

func (z *zone) namesOf(a netip.Addr) []string {
	var out []string
	for _, n := range z.names() {
		if slices.Contains(z.glue[n], a) || slices.Contains(z.addresses[n], a) {
			out = append(out, n)
		}
	}
	return out
}

// glueless is "missing" for a name that only glue could give an address.
func (z *zone) glueless(n string) string {
	if z.inside(n) && slices.Contains(z.parentNS, n) && len(z.glue[n]) == 0 && z.name != "." {
		return "missing"
	}
	return ""
}

func bareAll(names []string) []string {
	out := make([]string, 0, len(names))
	for _, n := range names {
		if n != hintName {
			out = append(out, bare(n))
		}
	}
	return out
}

// listed says whose NS records hold one of the names.
func (z *zone) listed(names []string) string {
	if len(z.parentNS) == 0 || len(z.childNS) == 0 {
		return ""
	}
	has := func(set []string) bool {
		return slices.ContainsFunc(names, func(n string) bool { return slices.Contains(set, n) })
	}
	switch p, c := has(z.parentNS), has(z.childNS); {
	case p && c:
		return "both"
	case p:
		return "parent"
	case c:
		return "child"
	}
	return ""
}

// glueOf compares the parent's address for a name with the zone's own.
func (z *zone) glueOf(a netip.Addr, names []string) string {
	for _, n := range names {
		if !z.inside(n) || z.name == "." || !slices.Contains(z.parentNS, n) {
			continue
		}
		glue, own := slices.Contains(z.glue[n], a), slices.Contains(z.addresses[n], a)
		switch {
		case len(z.glue[n]) == 0:
			return "missing"
		case len(z.addresses[n]) == 0:
			continue // the zone was not asked
		case glue && own:
			return "same"
		case glue != own:
			return "differs"
		}
	}
	return ""
}

func (v *view) authority(z *zone, s *authority) dnscheck.Authority {
	out := dnscheck.Authority{
		Names: bareAll(s.names), Addr: s.addr, Listed: z.listed(s.names), Glue: z.glueOf(s.addr, s.names),
		UDP: times(s.udp), TCP: times(s.tcp),
	}
	out.Status, out.Reason = v.status(z, s)
	var soa *dns.SOA
	for _, r := range slices.Concat(s.udp, s.tcp, []*response{s.plain}) {
		if r == nil || r.msg == nil {
			continue
		}
		set, sigs := rrset(r.msg.Answer, z.name, dns.TypeSOA)
		if len(set) == 0 {
			continue
		}
		if soa == nil {
			soa, _ = set[0].(*dns.SOA)
			serial := soa.Serial
			out.Serial = &serial
			if t := z.trusted; t != nil && r != s.plain && len(t.ds) > 0 && len(t.keys) > 0 && t.status != unsupported {
				out.Signatures = v.w.verify(t, z.name, set, sigs)
			}
		}
	}
	out.EDNS = v.ednsOf(z, s)
	return out
}

// status classes a server by all its answers.
func (v *view) status(z *zone, s *authority) (status, reason string) {
	if s.addr.Is6() && v.no6 || s.addr.Is4() && v.no4 {
		return statusUnreached, "nothing answers over this address family from here"
	}
	udp, tcp := v.gather(z, s.udp), v.gather(z, s.tcp)
	viaPlain := s.plain != nil && udp.good == 0
	if viaPlain {
		if p := v.gather(z, []*response{s.plain}); p.answered > 0 {
			udp.good, udp.bad = p.good, p.bad
			udp.answered = max(udp.answered, p.answered)
		}
	}
	switch {
	case udp.bad != "":
		return statusLame, udp.bad
	case tcp.bad != "" && udp.good == 0:
		return statusLame, tcp.bad
	case udp.answered == 0 && tcp.good > 0:
		return statusDead, "it answers over TCP alone"
	case udp.good > 0:
		lost := udp.sent - udp.answered
		if viaPlain {
			lost = 0 // told as its EDNS
		}
		switch {
		case lost > 1:
			return statusLossy, fmt.Sprintf("%d of %d queries were lost", lost, udp.sent)
		case tcp.answered == 0 && tcp.sent > 0 && !v.noTCP:
			return statusOK, "not over TCP: " + outcomeWords(string(tcp.last))
		}
		return statusOK, ""
	case udp.sent+tcp.sent == 0:
		return statusUnasked, ""
	}
	switch udp.last {
	case dnscheck.Refused:
		return statusRefused, "its port 53 is closed"
	case dnscheck.Unreachable:
		return statusUnreached, "there is no route to it from here"
	case dnscheck.Malformed, dnscheck.Mismatch, dnscheck.Closed:
		return statusBroken, "it " + outcomeWords(string(udp.last))
	}
	return statusDead, ""
}

// gathered is what a row of SOA queries amounts to.
type gathered struct {
	sent, answered, good int
	bad                  string // why an answer is none
	last                 dnscheck.Outcome
}

func (v *view) gather(z *zone, all []*response) gathered {
	var g gathered
	for _, r := range all {
		if r == nil || r.outcome == dnscheck.Interrupted || r.outcome == unasked {
			continue
		}
		g.sent++
		if r.msg == nil {
			g.last = r.outcome
			continue
		}
		g.answered++
		switch c := classify(z.name, z.name, dns.TypeSOA, r.msg); {
		case c.kind == answers:
			g.good++
		case c.kind == noEDNS:
		case c.why != "":
			g.bad = c.why
		default:
			g.bad = "has no SOA record for " + bare(z.name)
		}
	}
	return g
}

// ednsOf says how a server takes EDNS.
func (v *view) ednsOf(z *zone, s *authority) string {
	with, without := v.gather(z, s.udp), v.gather(z, []*response{s.plain})
	switch {
	case with.good > 0:
		return "ok"
	case without.answered == 0 || v.noEDNS:
		return ""
	case with.answered > 0 && with.bad == "":
		return "refused"
	case with.answered == 0 && with.sent > 0:
		return "dropped"
	}
	return ""
}

func times(all []*response) dnscheck.AuthorityTimes {
	var out dnscheck.AuthorityTimes
	var took []time.Duration
	for _, r := range all {
		if r == nil || r.outcome == dnscheck.Interrupted || r.outcome == unasked {
			continue
		}
		if r.outcome == dnscheck.Unreachable {
			out.Rcode = string(r.outcome) // nothing left this host
			continue
		}
		out.Sent++
		out.Rcode = string(r.outcome)
		if r.msg != nil {
			out.Answered++
			out.Rcode = rcodeText(r.msg.Rcode)
			took = append(took, r.elapsed)
		}
	}
	if len(took) > 0 {
		out.Min, out.Median, out.Max = millis.Of(slices.Min(took)), millis.Of(stats.Median(took)), millis.Of(slices.Max(took))
	}
	return out
}

func negativeTTL(z *zone, s *authority) *int {
	for _, r := range s.udp {
		if r.msg == nil {
			continue
		}
		set, _ := rrset(r.msg.Answer, z.name, dns.TypeSOA)
		if len(set) > 0 {
			soa := set[0].(*dns.SOA)
			ttl := int(min(soa.Hdr.Ttl, soa.Minttl))
			return &ttl
		}
	}
	return nil
}

func signatures(t *trust) dnscheck.Signatures {
	if t == nil {
		return dnscheck.Signatures{Status: unchecked}
	}
	out := dnscheck.Signatures{Status: t.status, Reason: t.reason}
	for _, d := range t.ds {
		out.DS = append(out.DS, fmt.Sprintf("%d %d %d", d.KeyTag, d.Algorithm, d.DigestType))
	}
	for _, k := range t.keys {
		out.Keys = append(out.Keys, fmt.Sprintf("%d %d %d", k.KeyTag(), k.Algorithm, k.Flags))
	}
	if !t.expires.IsZero() {
		end := t.expires
		out.Expires = &end
	}
	return out
}
