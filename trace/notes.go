package trace

import (
	"fmt"
	"net/netip"
)

// The notes N1 to N6 tell what was done to the probes or to the path. Unlike
// the rules they blame nobody.

// changed is N1: the route is not what it was. The hops are those of the
// last epoch, so what a change lost is no loss of theirs (mtr#361).
func (r *reader) changed() []Sentence {
	n := len(r.res.Epochs)
	if n < 2 {
		return nil
	}
	was, is := r.res.Epochs[n-2], r.res.Epochs[n-1]
	times := "once"
	if n > 2 {
		times = fmt.Sprintf("%d times, the last time", n-1)
	}
	what := fmt.Sprintf("the route changed %s at %s UTC, %s: hops and losses are counted since then",
		times, is.Started.UTC().Format("15:04:05.0"), difference(was.Hops, is.Hops))
	if was.Rounds+is.Rounds < keptRounds {
		what += "; so few rounds do not rule out that packets of one flow take both ways"
	}
	return []Sentence{{Rule: "N1", Text: what}}
}

// difference says where two routes part.
func difference(was, is []netip.Addr) string {
	at := 0
	for at < min(len(was), len(is)) && (was[at] == is[at] || !was[at].IsValid() || !is[at].IsValid()) {
		at++
	}
	what := fmt.Sprintf("from hop %d on", at+1)
	if at < min(len(was), len(is)) {
		what = fmt.Sprintf("from hop %d on (%v before, %v since)", at+1, was[at], is[at])
	}
	if len(was) != len(is) {
		what += fmt.Sprintf(", and is %d hops long instead of %d", len(is), len(was))
	}
	return what
}

// translated is N2: somebody rewrote addresses or ports.
func (r *reader) translated() []Sentence {
	var out []Sentence
	if p := r.res.NAT; p != nil {
		from := r.quotedBefore(p.TTL, func(q *Quote) bool { return q.Translated != nil })
		out = append(out, say("N2", "a NAT translates the probes on %s: what lies behind sees another address or port than this host's",
			between(from, p.TTL, p.Addr)))
	}
	if h := r.destinationHop(); h != nil && r.res.Target.Addr.IsValid() {
		for _, rep := range h.Replies {
			if rep.Addr == r.res.Target.Addr {
				return out
			}
		}
		out = append(out, say("N2", "the destination answers as %v, not as %v: its address is translated, or it has several, or a firewall answers in its place",
			h.Replies[0].Addr, r.res.Target.Addr))
	}
	return out
}

// destinationHop is the hop at which the destination answered, nil if none.
func (r *reader) destinationHop() *Hop {
	for i := range r.res.Hops {
		if h := &r.res.Hops[i]; r.res.HopCount != nil && h.TTL == *r.res.HopCount && !h.Silent {
			return h
		}
	}
	return nil
}

// quotedBefore is the last hop before a TTL whose quote shows something, 0 for
// this host.
func (r *reader) quotedBefore(ttl int, shows func(*Quote) bool) int {
	last := 0
	quotes(r.res.Hops, func(p Place, q *Quote) bool {
		if p.TTL < ttl && shows(q) {
			last = p.TTL
		}
		return p.TTL >= ttl
	})
	return last
}

// clamped is N3: connections are kept to smaller segments than their ends ask
// for. RFC 9293 3.7.1: the MSS leaves out the IP and TCP headers.
func (r *reader) clamped() []Sentence {
	c := r.res.MSSClamp
	if c == nil {
		return nil
	}
	headers := 40
	if r.res.Target.Addr.Is6() {
		headers = 60
	}
	from := r.quotedBefore(c.TTL, func(q *Quote) bool { return q.MSS != nil })
	return []Sentence{say("N3", "the MSS of connections is lowered from %d to %d on %s: somebody there knows of a link that takes packets of %d bytes at most",
		c.From, c.To, between(from, c.TTL, c.Addr), c.To+headers)}
}

// marked is N4: the class of the probes was rewritten.
func (r *reader) marked() []Sentence {
	c := r.res.TOSChange
	if c == nil {
		return nil
	}
	what := fmt.Sprintf("the DSCP of the probes is rewritten from %d to %d", c.From>>2, c.To>>2)
	switch {
	case c.From>>2 == c.To>>2 && c.To&3 == 3:
		what = "the probes are marked \"congestion experienced\", though they do not say that they understand ECN"
	case c.From>>2 == c.To>>2:
		what = fmt.Sprintf("the ECN bits of the probes are rewritten from %d to %d", c.From&3, c.To&3)
	case c.From&3 != c.To&3:
		what += fmt.Sprintf(", and their ECN bits from %d to %d", c.From&3, c.To&3)
	}
	from := r.quotedBefore(c.TTL, func(q *Quote) bool { return q.TOS != nil })
	return []Sentence{say("N4", "%s on %s: packets may be queued there as another class", what, between(from, c.TTL, c.Addr))}
}

// hidden is N5: what the TTL of the quoted probe tells. It is 1 when a router
// drops a packet as it should. In an MPLS tunnel that shows its routers but
// not its labels it is the label's TTL that runs out, and the packet's own
// stands still: it is quoted as 2, 3, 4 … (Donnet et al., "Revealing MPLS
// tunnels obscured from traceroute", 2012).
func (r *reader) hidden() []Sentence {
	var out []Sentence
	var run []Place // quoted TTLs that rise by one
	last := 1
	end := func() {
		if len(run) > 0 && last > 1 {
			first, to := run[0], run[len(run)-1]
			if len(run) > 1 {
				out = append(out, say("N5", "hops %d to %d quote the probes with TTLs up to %d instead of 1: an MPLS path that shows no labels; read them as one segment",
					first.TTL-1, to.TTL, last))
			} else {
				out = append(out, say("N5", "%s quotes the probe with a TTL of %d instead of 1: it dropped a packet that could go on, or what lies before it does not count hops",
					hopName(to.TTL, to.Addr), last))
			}
		}
		run, last = nil, 1
	}
	quotes(r.res.Hops, func(p Place, q *Quote) bool {
		switch {
		case q.TTL == nil:
		case r.hasLabels(p):
			end() // an MPLS path that shows (R8)
		case *q.TTL == 0:
			end()
			out = append(out, say("N5", "%s received the probe with a TTL of 0: the hop before passes on what it should drop, so an address may show twice",
				hopName(p.TTL, p.Addr)))
		case *q.TTL > 1 && *q.TTL == last+1:
			run, last = append(run, p), *q.TTL
		case *q.TTL > 1:
			end()
			run, last = append(run, p), *q.TTL
		default:
			end()
		}
		return false
	})
	end()
	return append(out, r.opaque()...)
}

func (r *reader) hasLabels(p Place) bool {
	for _, h := range r.res.Hops {
		for _, rep := range h.Replies {
			if h.TTL == p.TTL && rep.Addr == p.Addr && len(rep.Labels) > 0 {
				return true
			}
		}
	}
	return false
}

// opaque are the tunnels of which the last router alone shows. A label that
// was pushed with a TTL of its own, 255 and not the packet's, tells by what is
// left of it how many there are.
func (r *reader) opaque() []Sentence {
	var out []Sentence
	labelled := 0 // the hop before, if its errors carried labels
	for _, h := range r.res.Hops {
		if len(h.Replies) == 0 || len(h.Replies[0].Labels) == 0 {
			continue
		}
		top := h.Replies[0].Labels[0]
		if n := 255 - int(top.TTL); labelled != h.TTL-1 && top.TTL > 128 && n > 0 {
			out = append(out, say("N5", "%s is the end of an MPLS tunnel that hides about %d routers: the TTL left on its label is %d",
				hopName(h.TTL, h.Replies[0].Addr), n, top.TTL))
		}
		labelled = h.TTL
	}
	return out
}

// closed is N6: the destination itself refuses the port that was probed.
func (r *reader) closed() []Sentence {
	h := r.destinationHop()
	if h == nil || h.Replies[0].ICMP != "reset" {
		return nil
	}
	return []Sentence{say("N6", "the destination is reached, but refuses TCP to port %d (reset): nothing listens there, or a firewall says so in its place",
		r.res.Target.Port)}
}
