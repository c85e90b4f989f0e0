package trace

import (
	"context"
	"math"
	"slices"
	"time"
)

// survey works out what the flows have shown of each router.
func (d *discovery) survey() {
	d.last = 0
	clear(d.darkness)
	for _, hop := range d.hops {
		for _, n := range hop {
			n.flows, n.next, n.before, n.tested, n.waiting, n.unsure = n.flows[:0], n.next[:0], n.before[:0], 0, 0, false
		}
	}
	for ttl := 0; ttl <= d.opt.MaxHops; ttl++ {
		for _, f := range d.flows {
			n := f.at(ttl)
			if n == nil {
				continue
			}
			n.flows = append(n.flows, f)
			if !n.silent {
				d.last = ttl
			}
			m := f.at(ttl + 1)
			if m == nil || n.end() {
				continue
			}
			n.tested++
			if !slices.Contains(n.next, m) {
				n.next = append(n.next, m)
				m.before = append(m.before, n)
			}
			// Where all meet again no link can be mistaken.
			m.unsure = m.unsure || (n.perPacket || n.unsure) && d.only(ttl+1) == nil
		}
	}
	d.infer()
}

// infer links what flows saw behind a TTL that they were not asked at, where
// there is but one router: through that they went.
func (d *discovery) infer() {
	for ttl := 1; ttl <= d.opt.MaxHops; ttl++ {
		n := d.only(ttl)
		if n == nil || n.end() {
			continue
		}
		for _, f := range d.flows {
			if m := f.at(ttl + 1); m != nil && f.at(ttl) == nil && !slices.Contains(n.next, m) {
				n.next = append(n.next, m)
				m.before = append(m.before, n)
			}
		}
	}
}

// only is the node at a TTL, nil if there is none or more than one.
func (d *discovery) only(ttl int) *node {
	if len(d.hops[ttl]) != 1 {
		return nil
	}
	return d.hops[ttl][0]
}

// end reports whether no flow goes on from a node.
func (n *node) end() bool { return n.role != RoleRouter }

// dark reports whether a TTL counts as silent for every flow: several have
// asked it twice in vain, and nobody ever answered.
func (d *discovery) dark(ttl int) bool {
	if dark, known := d.darkness[ttl]; known {
		return dark
	}
	d.darkness[ttl] = d.darkNow(ttl)
	return d.darkness[ttl]
}

func (d *discovery) darkNow(ttl int) bool {
	tried := 0
	for _, n := range d.hops[ttl] {
		if !n.silent {
			return false
		}
	}
	for _, f := range d.flows {
		if f.sights[ttl].tries >= 2 {
			tried++
		}
	}
	return tried >= 2
}

// explore plans what finds the graph.
func (d *discovery) explore(ctx context.Context, now time.Time, p *agenda) {
	planned := make(map[*sight]bool)
	d.scout(ctx, now, p, planned)
	last := d.last
	for ttl := 0; ttl < d.opt.MaxHops; ttl++ {
		for _, n := range d.hops[ttl] {
			if n.end() || ttl >= last && (!d.scouted || !d.reached || n.silent) {
				continue
			}
			d.follow(ctx, now, p, planned, n)
		}
	}
}

// scout plans the way of the first flow, with the others close behind it: each
// router has to be met by so many flows in any case.
func (d *discovery) scout(ctx context.Context, now time.Time, p *agenda, planned map[*sight]bool) {
	first := d.flows[0]
	last := d.last
	limit := min(last+d.window, d.opt.MaxHops)
	if d.po.Hops > 0 {
		limit = d.po.Hops
	}
	if first.end > 0 {
		limit = first.end
	}
	open := false
	for ttl := 1; ttl <= limit; ttl++ {
		see := &first.sights[ttl]
		if see.node == nil && (ttl <= last || see.tries < 2) {
			open = true
			d.want(now, p, planned, first, ttl, 0)
		}
	}
	if !open && !d.scouted {
		if first.end > 0 || limit == d.opt.MaxHops || d.po.Hops > 0 || d.window > 2*pathWindow {
			d.scouted = true
		} else {
			d.window *= 2 // a run of silent routers may have filled it
			p.at(now)
		}
	}
	for i := 1; i < d.rule.need(2); i++ {
		f := d.flow(ctx, p, i)
		if f == nil {
			return
		}
		for ttl := 1; ttl <= min(last, limit); ttl++ {
			if f.end == 0 || ttl <= f.end {
				d.want(now, p, planned, f, ttl, i)
			}
		}
	}
}

// flow returns a flow by its number, opening it if need be; nil if there are
// no more.
func (d *discovery) flow(ctx context.Context, p *agenda, i int) *flow {
	for len(d.flows) <= i {
		if d.full || len(d.flows) >= d.po.Flows {
			d.full = true
			return nil
		}
		if _, err := d.open(ctx); err != nil {
			d.full = true // what there is has to do
			d.broken = err
			return nil
		}
	}
	return d.flows[i]
}

// follow plans the flows that have to be followed through a router, and others
// to be found that reach it (Augustin's node control).
func (d *discovery) follow(ctx context.Context, now time.Time, p *agenda, planned map[*sight]bool, n *node) {
	need := d.rule.need(len(n.next) + 1)
	have := n.tested
	for _, f := range n.flows {
		if have >= need {
			return
		}
		if f.end > 0 && n.TTL+1 > f.end || f.sights[n.TTL+1].node != nil {
			continue
		}
		d.want(now, p, planned, f, n.TTL+1, have)
		have++
	}
	if have < need {
		d.recruit(ctx, now, p, planned, n, need-have)
	}
}

// recruit plans flows that may reach a router. So many are asked as by its
// share of those seen will bring it the number it lacks.
func (d *discovery) recruit(ctx context.Context, now time.Time, p *agenda, planned map[*sight]bool, n *node, lacking int) {
	if n.TTL == 0 {
		for range lacking {
			f := d.flow(ctx, p, len(d.flows))
			if f == nil {
				return
			}
			d.want(now, p, planned, f, 1, f.index)
		}
		return
	}
	seen, waiting := 0, 0
	for _, f := range d.flows {
		switch see := &f.sights[n.TTL]; {
		case see.node != nil:
			seen++
		case see.tries > 0, see.waiting != nil && now.Sub(see.waiting.at) > d.maxRTT:
			// Its router has spent its errors, and so is likely to be this one.
			lacking--
			d.want(now, p, planned, f, n.TTL, f.index)
		case see.waiting != nil || planned[see]:
			waiting++
		}
	}
	ask := int(math.Ceil(float64(lacking)*float64(max(seen, 1))/float64(max(len(n.flows), 1)))) - waiting
	ask = min(ask, burst)
	for i := 0; ask > 0; i++ {
		f := d.flow(ctx, p, i)
		if f == nil {
			return
		}
		see := &f.sights[n.TTL]
		before := f.at(n.TTL - 1)
		switch {
		case see.node != nil || see.waiting != nil || see.tries > 0 || planned[see], f.end > 0 && n.TTL > f.end,
			before != nil && !slices.Contains(n.before, before):
			continue
		}
		d.want(now, p, planned, f, n.TTL, n.TTL+i)
		ask--
	}
}

// want plans a probe of a flow at a TTL unless it is under way, or known, or
// has to wait. Where others get answers silence proves nothing: the router may
// have spent its errors, on us under another of its addresses, or on others. So
// a flow counts as silent there only once it was asked twice more in vain while
// nobody else asked.
func (d *discovery) want(now time.Time, p *agenda, planned map[*sight]bool, f *flow, ttl, rank int) {
	see := &f.sights[ttl]
	if see.node != nil || planned[see] || see.waiting != nil {
		return
	}
	dark := d.dark(ttl)
	if known := ttl <= d.last || d.scouted; known && (see.alone >= aloneTries || dark) {
		see.node = d.node(ttl, silence)
		p.at(now) // what this means is worked out in the next pass
		return
	}
	if due := see.lastTry.Add(limitedAfter + settle); see.tries >= 2 && now.Before(due) {
		p.at(due) // a limit on errors may have eaten it
		return
	}
	if see.tries >= 3 && !dark {
		if due := d.asked[ttl].Add(aloneAfter); now.Before(due) {
			p.at(due)
			return
		}
		if slices.ContainsFunc(p.wants, func(w want) bool { return w.ttl == ttl }) {
			p.at(now.Add(aloneAfter))
			return
		}
	}
	planned[see] = true
	p.wants = append(p.wants, want{f, ttl, explore, rank, d.expected(f, ttl)})
}

const (
	// aloneAfter is how long nobody must have asked a TTL for a flow to ask it
	// alone: any router has an error to send again by then, and one to spare.
	aloneAfter = 2 * limitedAfter
	// aloneTries is how often a flow must have asked alone, and in vain, to
	// count as silent where others get answers.
	aloneTries = 2
)

// expected guesses who will answer a flow at a TTL: of those who may, the one
// with the fullest account. A flow that was not answered has probably met the
// one with the emptiest, and must wait for that. Nil means no idea.
func (d *discovery) expected(f *flow, ttl int) *node {
	may := d.hops[ttl]
	if before := f.at(ttl - 1); before != nil && len(before.next) > 0 {
		may = before.next
	}
	again := f.sights[ttl].tries > 0
	var best *node
	most := 0
	for _, n := range may {
		if n.silent {
			continue
		}
		left := d.budget.Left(n.Addr, 0, time.Now())
		if d.unlimited(n) {
			left = math.MaxInt
		}
		if best == nil || !again && left > most || again && left < most {
			best, most = n, left
		}
	}
	return best
}

// unlimited reports whether a node's answers draw on no account.
func (d *discovery) unlimited(n *node) bool {
	return n.free || n.role == RoleDestination && d.exempt
}

// repeat plans the second looks that tell a router which spreads packets from
// one that spreads flows. Behind the former nothing can be told. The looks of
// one flow follow each other at once, so that taking turns shows too.
func (d *discovery) repeat(_ context.Context, _ time.Time, p *agenda) {
	for ttl := 0; ttl < d.opt.MaxHops; ttl++ {
		for _, n := range d.hops[ttl] {
			if len(n.next) < 2 || n.perPacket || n.unsure {
				continue
			}
			each, flows := d.rule.repeats(len(n.next))/2+1, 0
			for _, f := range n.flows {
				m := f.at(ttl + 1)
				if m == nil || m.silent || flows == 2 {
					continue
				}
				flows++
				for i := f.sights[ttl+1].repeats; i < each; i++ {
					p.wants = append(p.wants, want{f, ttl + 1, again, ttl, m})
				}
			}
		}
	}
}
