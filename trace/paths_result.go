package trace

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/whyslow/whyslow/internal/millis"
	"github.com/whyslow/whyslow/internal/stats"
)

// result writes down what the discovery knows.
func (d *discovery) result() *Paths {
	d.survey()
	p := &Paths{Method: d.cfg.Method.String(), Socket: d.socket, Elapsed: millis.Of(time.Since(d.start)),
		RouterFailure: d.po.Failure, Probes: d.probes, FlowCount: len(d.flows), Confirmed: true,
		Flows: []FlowPath{}, Nodes: []PathNode{}, Links: []PathLink{}, Reading: []Sentence{}}
	sure := 1.0 // the probability that no router has hidden a branch
	for ttl := 1; ttl <= d.last; ttl++ {
		for _, n := range d.sorted(ttl) {
			pn := d.pathNode(n)
			p.Nodes = append(p.Nodes, pn)
			sure *= 1 - pn.Failure
			p.Confirmed = p.Confirmed && pn.Confirmed
			p.Links = append(p.Links, d.linksTo(n)...)
		}
	}
	root := d.pathNode(d.root)
	p.Failure = 1 - sure*(1-root.Failure)
	p.Confirmed = p.Confirmed && root.Confirmed && len(p.Nodes) > 0
	p.FirstPerPacket = d.root.perPacket
	for _, f := range d.flows {
		if d.complete(f) {
			p.Flows = append(p.Flows, d.flowPath(f))
		}
	}
	for _, s := range p.suspects() {
		for i := range p.Links {
			l := &p.Links[i]
			l.Suspect = l.Suspect || slices.ContainsFunc(s.links, func(b PathLink) bool { return b.From == l.From && b.To == l.To })
		}
	}
	p.warn(d)
	p.Reading = ReadPaths(p)
	return p
}

func (p *Paths) warn(d *discovery) {
	if d.full && d.broken != nil {
		p.Warnings = append(p.Warnings, fmt.Sprintf("no more than %d flows could be opened: %v", len(d.flows), d.broken))
	}
	if d.unsampled {
		p.Warnings = append(p.Warnings, "flows were not sampled: the destination limits its answers to UDP; TCP or ICMP probes would tell")
	}
	var open []string
	for _, n := range p.Nodes {
		if !n.Confirmed {
			open = append(open, hopName(n.TTL, n.Addr))
		}
	}
	if len(open) == 0 {
		return
	}
	why := fmt.Sprintf("%d flows are not enough", len(d.flows))
	if d.cutOff {
		why = fmt.Sprintf("the %v for it were over", d.po.Budget)
	}
	p.Warnings = append(p.Warnings, fmt.Sprintf("more branches may begin at %s: %s", list(open), why))
}

// list writes the first of many names.
func list(names []string) string {
	const most = 6
	if more := len(names) - most; more > 1 {
		return fmt.Sprintf("%s and %d more", joinComma(names[:most]), more)
	}
	return joinComma(names)
}

func joinComma(names []string) string {
	s := ""
	for i, n := range names {
		if i > 0 {
			s += ", "
		}
		s += n
	}
	return s
}

// sorted are the nodes of a TTL that flows were seen at, by address, the
// silent one last.
func (d *discovery) sorted(ttl int) []*node {
	var list []*node
	for _, n := range d.hops[ttl] {
		if len(n.flows) > 0 {
			list = append(list, n)
		}
	}
	slices.SortFunc(list, func(a, b *node) int {
		if a.silent != b.silent {
			if a.silent {
				return 1
			}
			return -1
		}
		return a.Addr.Compare(b.Addr)
	})
	return list
}

func (d *discovery) pathNode(n *node) PathNode {
	out := PathNode{TTL: n.TTL, Addr: n.Addr, Name: d.named[n.Addr], Role: n.role, Silent: n.silent, Flows: len(n.flows),
		PerPacket: n.perPacket, Unsure: n.unsure, Confirmed: true}
	seen, here := 0, 0
	var rtts []time.Duration
	var through []*flow
	for _, f := range d.flows {
		switch at := d.passes(f, n.TTL); {
		case at == n:
			here++
			seen++
		case at != nil, f.end > 0 && f.end < n.TTL: // one that ended before went elsewhere
			seen++
		}
		if d.way(f, n.TTL) == n {
			through = append(through, f)
		}
	}
	for _, f := range n.flows {
		rtts = append(rtts, f.sights[n.TTL].rtts...)
	}
	if seen > 0 {
		out.Share = float64(here) / float64(seen)
	}
	if len(rtts) > 0 {
		q := stats.Quantiles(rtts, 0, 0.5, 1)
		out.Min, out.Median, out.Max = millis.Of(q[0]), millis.Of(q[1]), millis.Of(q[2])
	}
	out.Passed = d.sampled(through)
	if !n.end() && n.TTL < d.last {
		out.Branches, out.Tested = len(n.next), n.tested
		out.Confirmed = n.tested >= d.rule.need(len(n.next)+1)
		out.Failure = unseen(len(n.next)+1, n.tested)
		if len(n.next) == 0 {
			out.Failure = 1
		}
		if out.Confirmed {
			out.Failure = math.Min(out.Failure, d.rule.failure)
		}
	}
	return out
}

// passes is the node that a flow meets at a TTL, also where it was not asked but
// can have met no other: behind a router of one next hop, or before one that only
// one leads to.
func (d *discovery) passes(f *flow, ttl int) *node {
	if n := f.at(ttl); n != nil || f.end > 0 && ttl > f.end {
		return n
	}
	if before := f.at(ttl - 1); before != nil && len(before.next) == 1 && !before.unsure {
		return before.next[0]
	}
	if after := f.at(ttl + 1); after != nil && len(after.before) == 1 && !after.unsure {
		return after.before[0]
	}
	return nil
}

// linksTo are the links into a node.
func (d *discovery) linksTo(n *node) []PathLink {
	var links []PathLink
	for _, from := range n.before {
		l := PathLink{TTL: n.TTL, From: from.Place, To: n.Place}
		for _, f := range n.flows {
			if f.at(n.TTL-1) == from {
				l.Flows++
			}
		}
		if l.Flows == 0 { // inferred: they were not asked at the router before
			l.Flows = len(n.flows)
		}
		l.Share = min(float64(l.Flows)/float64(max(from.tested, 1)), 1)
		links = append(links, l)
	}
	slices.SortFunc(links, func(a, b PathLink) int { return a.From.Addr.Compare(b.From.Addr) })
	return links
}

// sampled pools the samples of flows; nil if there are none.
func (d *discovery) sampled(flows []*flow) *Sampled {
	var s sampling
	for _, f := range flows {
		s.sent += f.sent - f.pending
		s.rtts = append(s.rtts, f.rtts...)
	}
	return s.summary(d.cfg.Method)
}

func (d *discovery) flowPath(f *flow) FlowPath {
	out := FlowPath{Flow: f.index, Key: fmt.Sprintf("%s %d", keyName(d), f.key), Hops: []Hop{}, Sample: d.sampled([]*flow{f})}
	n := d.length(f)
	for ttl := 1; ttl <= n; ttl++ {
		at := d.way(f, ttl)
		see := &f.sights[ttl]
		h := Hop{TTL: ttl, Silent: at.silent, Sent: see.sent, Received: len(see.rtts), Replies: []Replier{}}
		if h.Sent > 0 {
			h.Loss = 1 - float64(h.Received)/float64(h.Sent)
		}
		if !at.silent {
			r := d.replier(at, see)
			r.Sent = h.Sent
			h.Replies = append(h.Replies, r)
		}
		out.Hops = append(out.Hops, h)
		if at.role == RoleDestination {
			out.Reached, out.HopCount = true, &ttl
		}
	}
	return out
}

// replier sums up the answers of one router to one flow.
func (d *discovery) replier(n *node, see *sight) Replier {
	r := replies{addr: n.Addr, latest: see.latest, quote: see.latest.quote, recent: see.rtts}
	for _, rtt := range see.rtts {
		r.times.add(rtt)
	}
	return r.replier(d.named, nil)
}

func keyName(d *discovery) string {
	if d.cfg.Method.String() == "icmp" {
		return "echo id"
	}
	return "port"
}
