package trace

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/whyslow/whyslow/internal/netprobe"
	"github.com/whyslow/whyslow/internal/wire"
)

const (
	// maxHops is the largest TTL that can be asked for.
	maxHops = 64
	// maxSeq is where sequence numbers begin again: within what a probe has room
	// for, and above maxProbes.
	maxSeq = 32000
)

// prober sends the probes of one method and keeps what it needs to know when
// to send the next. Which probes a round has is in rounds.go.
type prober struct {
	engine   *engine
	method   netprobe.Method
	index    int // of its view
	view     *view
	conn     netprobe.Conn
	budget   *netprobe.Budget
	stop     context.CancelFunc
	done     chan struct{} // closed when receive has returned
	dead     error         // why it can send or receive no more
	seq      uint16
	asked    [maxHops + 1]int // probes sent, by TTL
	returned [maxHops + 1]int // of these, never charged in the end
	looks    int              // how often the end of the path was looked for
	looked   time.Time        // when last
	lastSend time.Time
	limited  bool // the destination answers by ICMP errors, which are limited
	from     int  // where the first wave began
	filled   bool // hops have been asked that the first wave left out
	joined   int  // how far a first wave has gone that follows the answers; 0 if none does
	rounding
	lone
}

// receive passes answers on until ctx ends. It runs in its own goroutine.
func (p *prober) receive(ctx context.Context, to chan<- arrival) {
	defer close(p.done)
	for {
		r, err := p.conn.Recv(ctx)
		if ctx.Err() != nil {
			return
		}
		select {
		case to <- arrival{prober: p, reply: r, err: err}:
		case <-ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

// fail takes the prober out. What it has seen stays.
func (p *prober) fail(err error) {
	if p.dead == nil {
		p.dead = fmt.Errorf("trace: probing by %v: %w", p.method, err)
		p.engine.warn("%v probes failed: %v", p.method, err)
	}
}

// send sends one probe of a round.
func (p *prober) send(ttl, round int) {
	if p.dead != nil || p.engine.left {
		return
	}
	seq := p.nextSeq()
	p.budget.Take(p.engine.opt.Dst, ttl, time.Now())
	p.engine.opt.group.sent(ttl, time.Now())
	at, err := p.conn.Send(wire.Probe{Seq: seq, TTL: ttl})
	if err != nil {
		p.fail(err)
		return
	}
	p.lastSend = at
	p.asked[ttl]++
	p.engine.emit(Event{Kind: Sent, At: at, View: p.index, Seq: seq, TTL: ttl, Round: round})
}

// nextSeq is a sequence number that none of the latest probes has.
func (p *prober) nextSeq() uint16 {
	if p.seq++; p.seq > maxSeq {
		p.seq = 1
	}
	return p.seq
}

// learn keeps the account of ICMP errors that the instruments share.
func (p *prober) learn(ttl int, from netip.Addr, kind wire.Kind) {
	dst := p.engine.opt.Dst
	if kind == wire.EchoReply || kind == wire.PortReply && p.method == netprobe.TCP {
		p.budget.Return(dst, ttl) // no limit covers these
		return
	}
	p.budget.Learn(dst, ttl, from, time.Now())
}

// firstWave probes every TTL once, whatever the method: a pass takes one round
// trip. The probes that go past a UDP destination draw on its errors, but they
// leave in order of TTL, so the first of its six answers is to the probe that
// just reached it.
func (p *prober) firstWave(ctx context.Context) error {
	now := time.Now()
	p.looks, p.looked = 1, now
	p.round, p.waved = 1, now
	if len(p.engine.trunk) > 0 {
		p.takeOver()
		return p.joinWave(ctx)
	}
	p.from = p.engine.begin()
	for ttl := p.from; ttl <= p.engine.opt.MaxHops; ttl++ {
		p.send(ttl, 0)
	}
	return nil
}

// begin is where the first wave of a method begins. Where methods before it
// have met routers it looks for the end of the path behind them: the few errors
// that those have left are for the method that gets there (fill).
func (e *engine) begin() int {
	first := e.first()
	if e.opt.group.alone() {
		for _, p := range e.probers[:len(e.probers)-1] {
			first = max(first, p.view.lastAnswered()+1)
		}
	}
	return first
}

// unspend gives back what other methods are charged for at a TTL that answers
// this one and none of them: their probes never came so far.
func (p *prober) unspend(ttl int) {
	for _, q := range p.engine.probers {
		if q == p || q.answers(ttl) > 0 {
			continue
		}
		for ; q.returned[ttl] < q.asked[ttl]; q.returned[ttl]++ {
			p.budget.Return(p.engine.opt.Dst, ttl)
		}
	}
}

// fill asks what the first wave left out.
func (p *prober) fill() {
	for ttl := p.engine.first(); ttl < p.view.length(); ttl++ {
		if p.asked[ttl] == 0 && !p.taken(ttl) {
			p.send(ttl, 0)
			p.filled = true
		}
	}
}

// finished reports whether nothing more can be learned about where the path
// ends: the destination answered, somebody refused, or routers answered up to
// the last TTL.
func (p *prober) finished() bool {
	v := p.view
	return p.dead != nil || v.destTTL() > 0 || v.endTTL() > 0 || v.lastAnswered() >= p.engine.opt.MaxHops
}

// retries reports whether the end of the path is worth looking for again: once
// soon, and once when a limit on errors has passed.
func (p *prober) retries() bool { return p.looks < 3 }

// retryAt is when the end of the path may be looked for again.
func (p *prober) retryAt() time.Time {
	at := p.looked.Add(max(unknownPatience, p.view.patience()))
	// When the limit has passed an answer to the look before may still be under
	// way. To wait for it might be to ask when nobody listens any more.
	if free := p.engine.start.Add(limitedAfter); p.looks >= 2 && p.looked.Before(free) {
		return free
	}
	return at
}

// retry asks again for everything behind the last answer, in order of TTL: a
// destination that has one error left answers the probe that just reaches it.
func (p *prober) retry() {
	p.looks++
	p.looked = time.Now()
	from := max(p.view.lastAnswered()+1, p.engine.opt.FirstHop, p.from)
	for ttl := from; ttl <= p.engine.opt.MaxHops; ttl++ {
		p.send(ttl, max(p.round-1, 0))
	}
	p.joined = 0 // all is asked now
}

// silent are the TTLs before the end of the path that nobody answered.
func (p *prober) silent() []int {
	var ttls []int
	for ttl := p.engine.opt.FirstHop; ttl < p.view.length(); ttl++ {
		if p.answers(ttl) == 0 {
			ttls = append(ttls, ttl)
		}
	}
	return ttls
}

// answers is how many probes of a TTL were answered.
func (p *prober) answers(ttl int) int {
	return p.view.answered(ttl)
}

// lastDue is how long the last answers are waited for: as the caller says, or
// by the round trips seen. A hop that has not answered at all gets longer: its
// control plane may be slow.
func (p *prober) lastDue() time.Time {
	if w := p.engine.opt.given; w > 0 {
		return later(p.lastSend.Add(min(p.view.patience(), w)), p.owing().Add(w))
	}
	due := p.lastSend.Add(p.view.patience())
	if len(p.silent()) > 0 && p.view.maxRTT > 0 {
		due = later(due, p.waved.Add(p.view.maxRTT+slowRouter))
		due = later(due, p.engine.start.Add(leastWait))
	}
	return due
}

// owing is when the latest probe left whose answer is worth a whole wait. To a
// hop that is silent that is its first: the others were sent because it is.
func (p *prober) owing() time.Time {
	var last time.Time
	var asked [maxTTL + 1]bool
	n := p.view.length()
	for i := range p.view.probes {
		q := &p.view.probes[i]
		if q.answered || q.ttl == 0 || q.ttl > n || asked[q.ttl] && p.answers(q.ttl) == 0 {
			continue
		}
		if q.ttl == p.view.endTTL() && p.view.destTTL() == 0 {
			continue // it has been told why
		}
		asked[q.ttl] = true
		last = later(last, q.at)
	}
	return last
}
