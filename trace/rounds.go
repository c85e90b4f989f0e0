package trace

import (
	"context"
	"net/netip"
	"time"
)

const (
	// errorBurst is how many ICMP errors a router sends in a row before it
	// has to gain new ones (see netprobe.Budget).
	errorBurst = 6
	// quickRounds is how many rounds may leave before it is known where the
	// path ends, and how many a trace has that is in a hurry.
	quickRounds = 3
	// likelyHops is how long a path is taken to be while that is not known,
	// and aheadHops how far beyond the last answer it is then asked.
	likelyHops = 16
	aheadHops  = 8
	// slowRounds is the interval from which on a round asks every TTL while
	// the destination is not known.
	slowRounds = time.Second
)

// rounding is how far a prober has come with its rounds.
type rounding struct {
	round int       // rounds begun
	waved time.Time // when the last of them did
	end   int       // the last TTL that the round asks; 0 while unknown
	// covered is how far those of the first rounds have gone that left before
	// it was known where the path ends.
	covered [quickRounds]int
}

// more reports whether a round is left to be sent.
func (p *prober) more() bool {
	return p.engine.opt.Queries < 0 || p.round < p.engine.opt.Queries
}

// roundAt is when the next round may leave.
func (p *prober) roundAt() time.Time {
	rtt := time.Duration(0)
	if p.view.destTTL() > 0 {
		rtt = p.view.maxRTT
	}
	return p.waved.Add(p.engine.opt.interval(rtt))
}

// hurries reports whether the next round may leave although it is not known
// yet where the path ends. Only the first method does that, and no trace of a
// group: what it draws of the routers' errors, the next ones miss.
func (p *prober) hurries() bool {
	return p.engine.opt.group.alone() && p.index == 0 && len(p.engine.probers) == 1 && p.more() && p.round < quickRounds && !p.finished()
}

// wave asks every hop up to the end of the path once more.
func (p *prober) wave() {
	r := p.round
	p.round++
	p.waved = time.Now()
	last := p.horizon()
	p.end = p.view.destTTL()
	if r < quickRounds {
		p.covered[r] = last
	}
	for ttl := p.engine.first(); ttl <= last; ttl++ {
		p.ask(ttl, r)
	}
	p.adopt()
}

// horizon is the last TTL worth asking in a round.
func (p *prober) horizon() int {
	v, most := p.view, p.engine.opt.MaxHops
	switch {
	case v.destTTL() > 0, v.endTTL() > 0, v.lastAnswered() >= most:
		return v.length()
	case p.round <= quickRounds && !p.engine.sought:
		return min(most, max(likelyHops, v.lastAnswered()+aheadHops))
	case p.engine.opt.interval(0) >= slowRounds:
		return most // the destination may come back at any time
	}
	return v.length()
}

// ask sends a probe of a round unless the router can send no error for it: it
// has answered before, or still may, and its silence now would look like loss.
func (p *prober) ask(ttl, round int) {
	if p.taken(ttl) {
		return
	}
	if (p.answers(ttl) > 0 || round < quickRounds) && p.spent(ttl) {
		if spares, _ := p.pastEnd(); ttl == p.view.destTTL() && len(spares) > 0 {
			p.count(spares[0], ttl, round)
		}
		return
	}
	p.send(ttl, round)
}

// spent reports whether the router at a TTL has sent as many errors as routers
// send in a row, for this method or for others. Where it lives from what it
// gains, one error is kept in reserve: packets do not arrive as evenly as they
// leave.
func (p *prober) spent(ttl int) bool {
	if p.view.destTTL() == ttl && !p.limited {
		return false
	}
	left := p.budget.Left(p.engine.opt.Dst, ttl, time.Now())
	return left < 1 || left < 2 && p.asked[ttl] >= errorBurst
}

// catchUp follows the answers: the first rounds go on where they stopped for
// not knowing how long the path is, and a path that has become longer is
// followed to its new end.
func (p *prober) catchUp(ttl int, role Role) {
	if role == RoleRouter && p.end > 0 && ttl >= p.end && p.round > 1 {
		from := p.end + 1
		p.end = p.engine.opt.MaxHops
		if n := p.view.destTTL(); n > 0 {
			p.end = n // seen before, behind several paths
		}
		for t := from; t <= p.end; t++ {
			p.send(t, p.round-1)
		}
		return
	}
	if p.round > 1 && p.covered[1] > 0 {
		last := p.horizon()
		for r := 1; r < min(p.round, quickRounds); r++ {
			for ; p.covered[r] < last; p.covered[r]++ {
				p.ask(p.covered[r]+1, r)
			}
		}
	}
	if role == RoleDestination {
		p.adopt()
	}
}

// owed reports whether an answer is due from a hop that does answer. In a
// group, whose probes leave in no order, any hop may.
func (p *prober) owed() bool {
	n := p.view.length()
	patience := p.view.patience()
	young := time.Duration(0)
	if !p.engine.leads() {
		young = p.view.maxRTT + 2*stagger
	}
	if p.filled {
		young = patience // whom it has just asked for the first time
	}
	for i := range p.view.probes {
		q := &p.view.probes[i]
		if q.answered || q.ttl == 0 || q.ttl > n {
			continue
		}
		if age := time.Since(q.at); age < young || age < patience && p.answers(q.ttl) > 0 {
			return true
		}
	}
	return false
}

// askSilent asks the hops once more that nobody answered. Silent hops just
// before the destination may be the destination itself, its answers lost: they
// are asked more often, or the path is too long.
func (p *prober) askSilent() {
	n := p.view.length()
	doubtful := n
	for doubtful > max(1, n-3) && p.view.destTTL() == n && p.answers(doubtful-1) == 0 {
		doubtful--
	}
	for _, ttl := range p.silent() {
		if p.engine.opt.group.limited(ttl) {
			continue // recover does that, one at a time
		}
		p.send(ttl, p.round-1)
		if ttl >= doubtful {
			p.send(ttl, p.round-1)
			p.send(ttl, p.round-1)
		}
	}
}

// pastDestination uses what an error of the destination quotes: a probe that
// came with TTL to spare says by how much, and so where the destination is
// although the answer to the probe that just reaches it is lost. Where a
// router has answered, routers rewrite the TTL, and it says nothing.
func (p *prober) pastDestination(seq uint16, left, quoted int) {
	at := left - quoted + 1
	if quoted < 2 || at < p.engine.opt.FirstHop || at <= p.view.lastAnswered() || p.answers(at) > 0 {
		return
	}
	p.count(seq, at, 0)
}

// adopt puts in place of the probes that found a destination without errors
// to send, those of the first round that went past it with TTL to spare and
// came before: they are as good a sample of it. It does so whether these were
// answered or not, so that a loss stays a loss.
func (p *prober) adopt() {
	spares, late := p.pastEnd()
	for _, q := range late {
		if len(spares) > 0 {
			p.count(spares[0], p.view.destTTL(), q.round)
			spares = spares[1:]
		}
		p.count(q.seq, 0, q.round)
	}
}

// pastEnd are, of the probes to a destination whose errors are limited, those
// that went past it while it had errors to send, and the quick rounds' that
// came when it had none left.
func (p *prober) pastEnd() (spares []uint16, late []probe) {
	n := p.view.destTTL()
	if n == 0 || !p.limited {
		return nil, nil
	}
	left := errorBurst
	for _, q := range p.view.probes {
		switch {
		case q.ttl < n:
		case left > 0:
			left--
			if q.ttl > n && q.left < n+errorBurst { // the first of all may be forgotten
				spares = append(spares, q.seq)
			}
		case q.ttl == n && !q.answered && q.round < quickRounds:
			late = append(late, q)
		}
	}
	return spares, late
}

// doubtful is the first of the silent hops right before the destination, which
// may be the destination itself; its own TTL if there is none.
func (p *prober) doubtful() int {
	n := p.view.destTTL()
	for n > p.engine.opt.FirstHop && p.answers(n-1) == 0 {
		n--
	}
	return n
}

// stingy reports whether the destination answered so few of the first probes
// that reached it that it must have had fewer errors to send than hosts have.
// The first answer then need not be to the probe that just reached it.
func (p *prober) stingy() bool {
	n, reached, answered := p.view.destTTL(), 0, 0
	for _, q := range p.view.probes {
		if n == 0 || q.left < n || reached == errorBurst {
			continue
		}
		reached++
		if q.answered {
			answered++
		}
	}
	return p.limited && answered < reached
}

// verify asks the silent hops before a stingy destination once more when it
// has an error to send again, in order of TTL.
func (e *engine) verify(ctx context.Context, p *prober) error {
	if !p.stingy() || p.doubtful() == p.view.destTTL() {
		return nil
	}
	due := p.lastSend.Add(errorEvery(e.opt.Dst) + settle)
	if err := e.collect(ctx, func() time.Time { return due }, func() bool { return false }); err != nil {
		return err
	}
	for ttl, n := p.doubtful(), p.view.destTTL(); ttl < n; ttl++ {
		p.send(ttl, p.round-1)
	}
	due = p.lastSend.Add(p.view.patience())
	n := p.view.destTTL()
	return e.collect(ctx, func() time.Time { return due }, func() bool { return p.view.destTTL() < n })
}

// errorEvery is the time in which a host gains one error to send (see
// netprobe.Budget).
func errorEvery(dst netip.Addr) time.Duration {
	if dst.Is4() {
		return time.Second
	}
	return 100 * time.Millisecond
}

func (p *prober) count(seq uint16, ttl, round int) {
	p.engine.emit(Event{Kind: Counted, At: time.Now(), View: p.index, Seq: seq, TTL: ttl, Round: round})
}
