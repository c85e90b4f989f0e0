package trace

import (
	"cmp"
	"context"
	"net/netip"
	"slices"
	"time"

	"github.com/whyslow/whyslow/internal/netprobe"
)

// membership is what the trace of a group has taken over from others.
type membership struct {
	trunk []Event      // the common way, by TTL; the last is asked again
	known int          // the TTL up to which those that lead met routers
	apart bool         // the way turned out to be another
	taken []netip.Addr // taken over and not named yet
	// early is the first method, opened before it was known where to begin.
	early    *prober
	earlyErr error
}

// leads reports whether nothing is taken over at the start: in a trace that
// has no group, or leads it.
func (e *engine) leads() bool { return e.opt.group == nil || e.opt.group.leads[e.opt.member] }

// join waits for what the group knows of the way.
func (e *engine) join(ctx context.Context) error {
	if e.leads() {
		return nil
	}
	if err := e.opt.group.wait(ctx, e.opt.Method == netprobe.UDP); err != nil {
		return err
	}
	e.trunk, e.known = e.opt.group.trunk()
	return nil
}

// first is the least TTL to ask.
func (e *engine) first() int { return max(e.opt.FirstHop, len(e.trunk)-1) }

// takeOver enters the common way into the view of a method.
func (p *prober) takeOver() {
	for ttl := p.engine.opt.FirstHop; ttl < p.engine.first(); ttl++ {
		if ev := p.engine.trunk[ttl]; ev.Addr.IsValid() {
			p.borrow(ttl, ev)
		}
	}
	if last := len(p.engine.trunk) - 1; last > 0 {
		// The probe that verifies the last of them most likely draws on the
		// errors of the same router.
		p.budget.Learn(p.engine.opt.Dst, last, p.engine.trunk[last].Addr, time.Now())
	}
}

// borrow enters the answer that another trace got at a TTL in place of what
// was not answered here.
func (p *prober) borrow(ttl int, ev Event) {
	p.dismiss(func(q *probe) bool { return q.ttl == ttl && (!q.answered || q.shared) })
	ev.Kind, ev.At, ev.View, ev.Trace, ev.Seq, ev.TTL = Shared, time.Now(), p.index, 0, p.nextSeq(), ttl
	p.engine.emit(ev)
	p.engine.taken = append(p.engine.taken, ev.Addr)
	p.budget.Learn(p.engine.opt.Dst, ttl, ev.Addr, time.Now())
	p.engine.opt.group.took(p.engine.opt.member, ttl, ev.Addr)
}

// spread is how many TTLs a trace that joins asks one after the other, stagger
// the time between two.
const (
	spread  = 10
	stagger = 400 * time.Microsecond
	// crowd is the size of a group from which on those that join ask only a
	// few TTLs ahead of the answers: so many probes that go past their
	// destinations take longer to send than a round trip.
	crowd = 16
	// joinAhead is how many.
	joinAhead = 6
)

// joinWave is the first wave of a trace that has taken over the common way.
// Each begins at another TTL of what comes next: if it has many traces in
// common, each of its routers then spends its errors on others of them, and
// every trace learns of some router where it is.
func (p *prober) joinWave(ctx context.Context) error {
	e := p.engine
	first := e.first()
	last := min(first+spread-1, e.known, e.opt.MaxHops) // the destination is better asked in order
	never := func() bool { return false }
	if last == first {
		last-- // nothing to spread
	}
	for i := range max(last-first+1, 0) {
		p.send(first+(i+e.opt.member)%(last-first+1), 0)
		due := time.Now().Add(stagger)
		if err := e.collect(ctx, func() time.Time { return due }, never); err != nil {
			return err
		}
	}
	limit := e.opt.MaxHops
	if e.opt.group.size >= crowd {
		limit = min(limit, first+spread-1)
	}
	for ttl := max(last+1, first); ttl <= limit; ttl++ {
		p.send(ttl, 0)
	}
	p.joined = limit
	p.advance()
	return nil
}

// advance follows the answers of a first wave that was not sent to its end.
func (p *prober) advance() {
	if p.joined == 0 || p.finished() {
		return
	}
	for last := min(p.engine.opt.MaxHops, p.view.lastAnswered()+joinAhead); p.joined < last; {
		p.joined++
		p.send(p.joined, 0)
	}
}

// dismiss makes probes count for nothing.
func (p *prober) dismiss(which func(*probe) bool) {
	for _, q := range slices.Clone(p.view.probes) {
		if which(&q) {
			p.count(q.seq, 0, q.round)
		}
	}
}

// diverges notices that the router at the end of the common way is another
// than for those that lead, gives back what was taken over and asks itself.
func (p *prober) diverges(ev Event) {
	e := p.engine
	last := len(e.trunk) - 1
	if e.apart || last < 1 || ev.Role != RoleRouter || ev.TTL != last || ev.Addr == e.trunk[last].Addr {
		return
	}
	e.apart, e.trunk = true, nil
	p.dismiss(func(q *probe) bool { return q.shared })
	for ttl := e.opt.FirstHop; ttl < last; ttl++ {
		p.send(ttl, 0)
	}
}

// infer fills silent hops, and corrects those taken over, by what other traces
// saw: of the routers before one that both pass, and where all that pass the
// router before, and know, saw but one.
func (p *prober) infer() {
	e := p.engine
	g := e.opt.group
	if g == nil {
		return
	}
	last := p.view.length() - 1
	for ttl := last; ttl >= e.opt.FirstHop; ttl-- {
		own, held := p.held(ttl)
		at, router := p.nextOwn(ttl)
		if own != nil || at == 0 {
			continue
		}
		if ev, ok := g.behind(e.opt.member, router, at, ttl); ok && (held == nil || held.from != ev.Addr) {
			p.borrow(ttl, ev)
		}
	}
	before, router := 0, netip.Addr{}
	for ttl := e.opt.FirstHop; ttl <= last; ttl++ {
		own, held := p.held(ttl)
		if own == nil && held == nil {
			if ev, ok := g.only(ttl, before, router); ok {
				p.borrow(ttl, ev)
				_, held = p.held(ttl)
			}
		}
		if q := cmp.Or(own, held); q != nil {
			before, router = ttl, q.from
		}
	}
}

// forgive takes out the unanswered probes to routers that had no errors left:
// in a group nobody knows beforehand whom the others are asking.
func (p *prober) forgive() {
	g := p.engine.opt.group
	if g.alone() {
		return
	}
	p.dismiss(func(q *probe) bool {
		if q.answered || q.ttl == 0 {
			return false
		}
		own, _ := p.held(q.ttl)
		return own != nil && own.role == RoleRouter && g.spent(own.from)
	})
}

// held is what is known of a TTL: an answer to this trace, and one taken over.
func (p *prober) held(ttl int) (own, shared *probe) {
	for i := range p.view.probes {
		switch q := &p.view.probes[i]; {
		case q.ttl != ttl || !q.answered:
		case q.shared:
			shared = q
		default:
			own = q
		}
	}
	return own, shared
}

// taken reports whether a TTL's answers are only those of other traces.
func (p *prober) taken(ttl int) bool {
	if p.engine.opt.group == nil {
		return false
	}
	own, shared := p.held(ttl)
	return own == nil && shared != nil
}

// nextOwn is the next router behind a TTL that answered this trace, 0 if none.
func (p *prober) nextOwn(ttl int) (at int, router netip.Addr) {
	for i := range p.view.probes {
		if q := &p.view.probes[i]; q.answered && !q.shared && q.role == RoleRouter && q.ttl > ttl && (at == 0 || q.ttl < at) {
			at, router = q.ttl, q.from
		}
	}
	return at, router
}

// recover asks the hops again that stayed silent because too many asked at
// once, the farthest first: what lies before it then follows from others.
func (e *engine) recover(ctx context.Context, p *prober) error {
	g := e.opt.group
	if g == nil {
		return nil
	}
	var tries [maxHops + 1]int
	for p.dead == nil {
		p.infer()
		ttl := 0
		for _, t := range p.silent() {
			if tries[t] < 2 && g.limited(t) {
				ttl = t
			}
		}
		if ttl == 0 {
			break
		}
		tries[ttl]++
		due := g.slot(ttl, time.Now())
		// Others ask meanwhile, and it may follow from what they hear.
		followed := func() bool { p.infer(); return p.answers(ttl) > 0 }
		if err := e.collect(ctx, func() time.Time { return due }, followed); err != nil {
			return err
		}
		if followed() {
			continue
		}
		p.send(ttl, max(p.round-1, 0))
		due = p.lastSend.Add(p.view.patience())
		if err := e.collect(ctx, func() time.Time { return due }, func() bool { return p.answers(ttl) > 0 }); err != nil {
			return err
		}
		if p.answers(ttl) > 0 {
			p.dismiss(func(q *probe) bool { return q.ttl == ttl && !q.answered })
		}
	}
	return nil
}
