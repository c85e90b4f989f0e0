package trace

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/whyslow/whyslow/internal/netprobe"
	"github.com/whyslow/whyslow/internal/wire"
)

// prober sends the probes of one method and keeps what it needs to know when
// to send the next.
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
	front    int       // the largest TTL sent
	window   int       // how far front may be ahead of the last answer
	round    int       // waves sent after the first
	rounds   int       // of looking for the destination
	waved    time.Time // when the last wave began
	lastSend time.Time
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

func (p *prober) send(ttl int) {
	if p.dead != nil || p.engine.left {
		return
	}
	p.seq++
	p.budget.Take(p.engine.opt.Dst, ttl, time.Now())
	at, err := p.conn.Send(wire.Probe{Seq: p.seq, TTL: ttl})
	if err != nil {
		p.fail(err)
		return
	}
	p.lastSend = at
	p.front = max(p.front, ttl)
	p.engine.emit(Event{Kind: Sent, At: at, View: p.index, Seq: p.seq, TTL: ttl, Round: p.round})
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

// firstWave probes every TTL once if that is safe. Echo replies are exempt
// from limits on errors; the answers of a UDP destination are not, so UDP goes
// out in a window (and TCP too, to spare the server the half-open connects).
func (p *prober) firstWave(known int) {
	p.rounds = 1
	p.waved = time.Now()
	last := p.engine.opt.MaxHops
	if p.method != netprobe.ICMP {
		last = min(last, known+p.window)
	}
	for ttl := 1; ttl <= last; ttl++ {
		p.send(ttl)
	}
}

// extend moves the window behind an answer.
func (p *prober) extend() {
	if p.finished() || p.view.endTTL() > 0 {
		return
	}
	for last := min(p.view.lastAnswered()+p.window, p.engine.opt.MaxHops); p.front < last && p.dead == nil; {
		p.send(p.front + 1)
	}
}

// finished reports whether nothing more can be learned about where the path
// ends: the destination answered, somebody refused, or routers answered up to
// the last TTL.
func (p *prober) finished() bool {
	v := p.view
	return p.dead != nil || v.destTTL() > 0 || v.endTTL() > 0 || v.lastAnswered() >= p.engine.opt.MaxHops
}

// retries reports whether the end of the path is worth asking for again: once
// soon, and once when a limit on errors has passed. A window that is not open
// fully yet may open further each time.
func (p *prober) retries() bool {
	return p.rounds < 3 || p.front < p.engine.opt.MaxHops
}

// retryAt is when the end of the path may be asked for again.
func (p *prober) retryAt() time.Time {
	at := p.lastSend.Add(max(unknownPatience, p.view.patience()))
	if p.rounds >= 2 && p.front >= p.engine.opt.MaxHops {
		if limited := p.engine.start.Add(limitedAfter); limited.After(at) {
			return limited
		}
	}
	return at
}

// retry asks again for everything behind the last answer, and opens the window
// further: a run of silent hops may have filled it.
func (p *prober) retry() {
	p.rounds++
	from := p.view.lastAnswered() + 1
	last := p.front
	if p.method != netprobe.ICMP {
		// The destination, if the window holds it, answered the lowest TTL
		// first; a few are enough to find it.
		last = min(last, from+window-1)
		p.window *= 2
	}
	for ttl := from; ttl <= last; ttl++ {
		p.send(ttl)
	}
	p.extend()
}

// wave asks every hop up to the end of the path once more.
func (p *prober) wave() {
	p.waved = time.Now()
	p.round++
	n := p.view.length()
	counts := p.view.answers()
	doubtful := 0 // the first of up to three silent hops before the destination
	for ttl := n - 1; ttl > max(0, n-4) && counts[ttl] == 0 && p.view.destTTL() == n; ttl-- {
		doubtful = ttl
	}
	for ttl := 1; ttl <= n; ttl++ {
		if counts[ttl] > 0 && p.spent(ttl) {
			continue // it has answered, and its silence now would look like loss
		}
		p.send(ttl)
		// Silent hops just before the destination may be the destination
		// itself, its answers lost: ask more, or the path is too long.
		if doubtful > 0 && ttl >= doubtful && ttl < n {
			p.send(ttl)
			p.send(ttl)
		}
	}
}

// spent reports whether the router at a TTL has sent as many errors as routers
// send in a row, for this method or for others.
func (p *prober) spent(ttl int) bool {
	return p.view.destTTL() != ttl && p.budget.Left(p.engine.opt.Dst, ttl, time.Now()) < 1
}

// lastDue is how long the last answers are waited for. A hop that has not
// answered at all gets longer: its control plane may be slow.
func (p *prober) lastDue() time.Time {
	wait := p.view.patience()
	if len(p.view.silent()) > 0 && p.view.maxRTT > 0 {
		wait = max(wait, p.view.maxRTT+slowRouter)
	}
	return p.lastSend.Add(wait)
}
