package delegation

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/miekg/dns"

	"github.com/whyslow/whyslow/dnscheck"
	"github.com/whyslow/whyslow/internal/millis"
)

// Walker walks, and keeps what it has learned for the next walk: zones, the
// state of their servers, answers. It is for one goroutine at a time.
type Walker struct {
	o     Options
	k     *asker
	zones map[string]*zone // by name

	running sync.WaitGroup // queries of races that are decided already
	started bool           // the root has been asked
	rootErr rootFailure
}

// rootFailure says why no walk can begin; the zero value that one can.
type rootFailure struct{ outcome, note string }

// NewWalker returns a Walker. The error is of the options.
func NewWalker(o Options) (*Walker, error) {
	o, err := o.filled()
	if err != nil {
		return nil, err
	}
	return &Walker{o: o, k: newAsker(o), zones: map[string]*zone{}}, nil
}

// Result is one walk.
type Result struct {
	Walk     dnscheck.Walk
	Zones    []dnscheck.Zone // the root first
	Findings []dnscheck.Finding
	Warnings []string
}

// link is one name of the chain that a walk follows.
type link struct {
	name string
	step step
	zone *zone // that holds the name: step.zone, or one below it on the same servers
}

// Walk follows a name, as a user gives it, to its records of one type. The
// error is of the name alone: what goes wrong on the way is the result.
func (w *Walker) Walk(ctx context.Context, name string, qtype uint16) (*Result, error) {
	qname, err := dnscheck.QueryName(name)
	if err != nil {
		return nil, fmt.Errorf("delegation: %w", err)
	}
	began := time.Now()
	before := w.k.queries()
	r := &Result{Walk: dnscheck.Walk{
		Name: bare(qname), Type: dns.TypeToString[qtype], Answers: []string{}, Security: unchecked,
	}, Zones: []dnscheck.Zone{}, Findings: []dnscheck.Finding{}}
	if len(w.o.Roots) > 0 && w.public() && private(qname) {
		r.Walk.Outcome, r.Walk.Note = "skipped", bare(qname)+" is a name of private networks, which the public root does not know: it was not asked"
		r.Walk.Elapsed = millis.Of(time.Since(began))
		return r, nil
	}
	ctx, cancel := context.WithTimeout(ctx, w.o.Deadline)
	defer cancel()
	defer w.running.Wait()
	defer cancel() // before the wait: what still runs is not needed
	w.walk(ctx, qname, qtype, r)
	r.Walk.Queries = w.k.queries() - before
	r.Walk.Elapsed = millis.Of(time.Since(began))
	r.Findings = Find(&dnscheck.Result{Walk: &r.Walk, Delegation: r.Zones})
	return r, nil
}

func (w *Walker) walk(ctx context.Context, qname string, qtype uint16, r *Result) {
	if !w.started {
		w.rootErr = w.begin(ctx)
		if w.started = ctx.Err() == nil; !w.started {
			w.rootErr = rootFailure{outcome: "interrupted"}
		}
	}
	if f := w.rootErr; f.outcome != "" {
		r.Walk.Outcome, r.Walk.Note = f.outcome, f.note
		if f.outcome == "broken" {
			w.finish(ctx, nil, qtype, r)
		}
		return
	}
	w.finish(ctx, w.follow(ctx, qname, qtype, r), qtype, r)
}

// follow descends to the name and along its aliases.
func (w *Walker) follow(ctx context.Context, qname string, qtype uint16, r *Result) []link {
	var links []link
	seen := map[string]bool{}
	for name := qname; ; {
		seen[name] = true
		s := w.descend(ctx, name, qtype, 0)
		l := link{name: name, step: s, zone: s.zone}
		if s.outcome == "" {
			l.zone = w.settle(ctx, s, name)
		}
		l.zone.last = true
		links = append(links, l)
		v := &r.Walk
		v.Zone = bare(l.zone.name)
		switch {
		case s.outcome != "":
			v.Outcome, v.Note = s.outcome, s.note
			return links
		case s.reply.kind == noSuchName:
			v.Outcome, v.Conclusive = "nxdomain", true
			return links
		case s.reply.kind == noSuchData:
			v.Outcome, v.Conclusive = "nodata", true
			return links
		case s.reply.kind == answers:
			v.Outcome, v.Conclusive = "answered", true
			takeAnswers(v, s, name, qtype)
			return links
		}
		if next := s.reply.target; dns.IsSubDomain("in-addr.arpa.", name) && dns.IsSubDomain("in-addr.arpa.", next) {
			l.zone.remark(bare(name) + " is handed on to " + bare(next) + " by a CNAME, as RFC 2317 does for less than a /24")
		}
		a := dnscheck.Alias{Name: bare(name), Type: dns.TypeToString[s.reply.link.Header().Rrtype], Target: bare(s.reply.target), Zone: bare(l.zone.name)}
		ttl := int(s.reply.link.Header().Ttl)
		a.TTL = &ttl
		v.Aliases = append(v.Aliases, a)
		name = s.reply.target
		switch {
		case seen[name]:
			v.Outcome, v.Conclusive, v.Note = "cycle", true, bare(qname)+" is an alias "+circle+": "+bare(name)+" comes again"
			return links
		case len(links) > maxAliases:
			v.Outcome, v.Note = "limit", fmt.Sprintf("%s is an alias through more than %d names", bare(qname), maxAliases)
			return links
		}
	}
}

// settle finds the zone that really holds a name. A server that holds a zone
// and its parent answers for both, so that no referral shows the cut.
func (w *Walker) settle(ctx context.Context, s step, name string) *zone {
	z, apex := s.zone, s.reply.cut
	if apex == "" {
		r := w.k.whole(ctx, question{server: s.server, name: name, qtype: dns.TypeSOA})
		if r.msg == nil || !r.msg.Authoritative {
			return z
		}
		for _, rr := range slices.Concat(r.msg.Answer, r.msg.Ns) {
			if soa, ok := rr.(*dns.SOA); ok {
				apex = lower(soa.Hdr.Name)
			}
		}
	}
	if !dns.IsSubDomain(apex, name) {
		return z
	}
	// From the top down, each name between the zone and the apex may be one.
	above := dns.CountLabel(z.name)
	for n := above + 1; n <= min(dns.CountLabel(apex), above+maxUnseen); n++ {
		at, _ := dns.PrevLabel(name, n)
		cut := name[at:]
		if known := w.zones[cut]; known != nil {
			z = known
			continue
		}
		if cut != apex {
			r := w.k.whole(ctx, question{server: s.server, name: cut, qtype: dns.TypeSOA})
			if r.msg == nil {
				continue
			}
			if set, _ := rrset(r.msg.Answer, cut, dns.TypeSOA); len(set) == 0 {
				continue
			}
		}
		if len(w.zones) >= w.o.MaxZones {
			break
		}
		z = w.unseen(ctx, z, cut, s.server)
	}
	return z
}

// unseen makes a zone that a server of its parent holds too. Its own NS
// records are all that can be seen of the cut.
func (w *Walker) unseen(ctx context.Context, parent *zone, cut string, server netip.Addr) *zone {
	z := newZone(cut, parent)
	w.zones[cut] = z
	if ns := w.k.whole(ctx, question{server: server, name: cut, qtype: dns.TypeNS}); ns.msg != nil {
		w.takeNS(z, ns.msg)
		z.nsAsked = true
	}
	for _, n := range z.childNS {
		if z.known(n) {
			continue
		}
		if parent.known(n) {
			z.addresses[n] = slices.Concat(parent.glue[n], parent.addresses[n])
			continue
		}
		if !z.inside(n) {
			continue // found when it is needed
		}
		for _, t := range []uint16{dns.TypeA, dns.TypeAAAA} {
			if r := w.k.whole(ctx, question{server: server, name: n, qtype: t}); r.msg != nil {
				z.addresses[n] = append(z.addresses[n], w.addressesIn(r.msg.Answer, n)...)
			}
		}
	}
	return z
}

// maxUnseen bounds the labels looked at for cuts that cannot be seen.
const maxUnseen = 8

// finish surveys the zones on the way and judges their signatures.
func (w *Walker) finish(ctx context.Context, links []link, qtype uint16, r *Result) {
	path := w.path(links)
	// The last zones first: where queries run out, the root is not what is
	// missed.
	for _, z := range slices.Backward(path) {
		if z.last || !w.o.Shallow {
			w.prepare(ctx, z)
		}
	}
	for _, z := range path {
		w.secureZone(ctx, z)
	}
	w.judgeAnswers(ctx, links, qtype, r)
	for _, last := range []bool{true, false} {
		var wg sync.WaitGroup
		for _, z := range path {
			if z.last == last && (last || !w.o.Shallow) {
				wg.Go(func() { w.surveyZone(ctx, z) })
			}
		}
		wg.Wait()
	}
	if ctx.Err() != nil {
		r.Warnings = append(r.Warnings, "the walk was cut short: not every server was asked")
	}
	v := w.newView()
	for _, z := range path {
		r.Zones = append(r.Zones, v.zone(z))
	}
	r.Warnings = append(r.Warnings, v.warnings...)
}

// path lists the zones above all links, parents first.
func (w *Walker) path(links []link) []*zone {
	var out []*zone
	add := func(z *zone) {
		var up []*zone
		for ; z != nil && !slices.Contains(out, z); z = z.parent {
			up = append(up, z)
		}
		slices.Reverse(up)
		out = append(out, up...)
	}
	add(w.zones["."])
	for _, l := range links {
		add(l.zone)
	}
	return out
}

func (w *Walker) now() time.Time {
	if w.o.Now.IsZero() {
		return time.Now()
	}
	return w.o.Now
}

// public reports whether the walk begins at IANA's root.
func (w *Walker) public() bool { return slices.Contains(w.o.Roots, publicRoots()[0]) }
