package trace

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/whyslow/whyslow/internal/millis"
	"github.com/whyslow/whyslow/internal/netprobe"
	"github.com/whyslow/whyslow/internal/wire"
)

var errLeft = errors.New("trace: the consumer of the events left")

// engine runs one trace. All its state belongs to the goroutine of the
// iterator; receivers and name lookups only send on channels.
type engine struct {
	opt      Options
	yield    func(Event, error) bool
	cancel   context.CancelFunc
	left     bool // the consumer broke off
	fold     Fold
	probers  []*prober
	arrivals chan arrival
	names    *lookups
	budget   *netprobe.Budget
	start    time.Time
	sought   bool // nobody looks for the end of the path any more
	membership
}

func newEngine(opt Options, yield func(Event, error) bool, cancel context.CancelFunc) *engine {
	e := &engine{opt: opt, yield: yield, cancel: cancel, arrivals: make(chan arrival, 256)}
	e.names = newLookups(opt.Names, opt.Origin)
	if opt.group != nil {
		e.budget = opt.group.budget
	} else {
		e.budget = budgetOf(opt.Network)
	}
	return e
}

// arrival is what a receiver passes on. A non-nil err is its last.
type arrival struct {
	prober *prober
	reply  wire.Reply
	err    error
}

func (e *engine) emit(ev Event) {
	e.fold.Add(ev)
	if !e.left && !e.yield(ev, nil) {
		e.left = true
		e.cancel()
	}
}

func (e *engine) warn(format string, args ...any) {
	e.emit(Event{Kind: Warned, At: time.Now(), Text: fmt.Sprintf(format, args...)})
}

// unsendable says in a line why a method was left out; which sockets were
// refused, and the remedy, is for whoever looks into the host (whyslow doctor).
func unsendable(m netprobe.Method, err error) string {
	if errors.Is(err, netprobe.ErrNotPermitted) {
		return fmt.Sprintf("%v is not permitted to this user here, so other probes were sent", m)
	}
	return fmt.Sprintf("%v probes cannot be sent: %v", m, err)
}

// open starts a method: its connection, its receiver, its view.
func (e *engine) open(ctx context.Context, m netprobe.Method) (*prober, error) {
	conn, err := e.opt.Network.Open(ctx, e.opt.Dst, e.opt.config(m))
	if err != nil {
		if e.opt.Method == netprobe.Auto && ctx.Err() == nil && !errors.Is(err, netprobe.ErrUnreachable) {
			e.warn("%s", unsendable(m, err))
		}
		return nil, fmt.Errorf("trace: opening %v: %w", m, err)
	}
	p := &prober{engine: e, method: m, index: len(e.probers), conn: conn, budget: e.budget, done: make(chan struct{})}
	ev := Event{Kind: Begin, At: time.Now(), View: p.index, Method: m.String()}
	ev.Target = &Target{Name: e.opt.Name, Addr: e.opt.Dst}
	ev.Target.Port = e.opt.config(m).Port
	if i, ok := conn.(netprobe.Informer); ok {
		info := i.Info()
		ev.Socket, ev.FlowStable = info.Socket, info.FlowStable
	}
	e.probers = append(e.probers, p)
	e.emit(ev)
	p.view = e.fold.views[p.index]
	receiving, stop := context.WithCancel(ctx)
	p.stop = stop
	go p.receive(receiving, e.arrivals)
	return p, nil
}

// close ends the receivers and the lookups and waits for them.
func (e *engine) close() {
	e.cancel()
	for _, p := range e.probers {
		p.stop()
		<-p.done
		p.conn.Close()
	}
	e.names.wait()
}

// collect takes what arrives until done says so or until passes. Both are
// asked again after each arrival.
func (e *engine) collect(ctx context.Context, until func() time.Time, done func() bool) error {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	var idle lateness
	for {
		if e.left {
			return errLeft
		}
		for _, addr := range e.taken {
			e.names.ask(ctx, addr)
		}
		e.taken = e.taken[:0]
		if err := ctx.Err(); err != nil {
			return err
		}
		if done() {
			return nil
		}
		// What was due before we began to wait is no sign of lateness.
		due := later(until().Add(idle.late), time.Now())
		timer.Reset(time.Until(due))
		select {
		case <-ctx.Done():
			return ctx.Err()
		case a := <-e.arrivals:
			e.take(ctx, a)
		case n := <-e.names.found:
			e.names.pending--
			if n.name != "" {
				e.emit(Event{Kind: Named, At: time.Now(), Addr: n.addr, Text: n.name})
			}
			if n.as != nil {
				e.emit(Event{Kind: Origin, At: time.Now(), Addr: n.addr, AS: n.as})
			}
		case <-timer.C:
			if !idle.woke(due) {
				return nil
			}
		}
	}
}

// take records an answer.
func (e *engine) take(ctx context.Context, a arrival) {
	p := a.prober
	if a.err != nil {
		p.fail(a.err)
		return
	}
	if a.reply.Unnumbered && !p.number(&a.reply) {
		return
	}
	sent := p.view.probe(a.reply.Seq)
	if sent == nil || sent.answered || sent.ttl == 0 {
		return // unknown, a duplicate, or one that does not count
	}
	if e.fold.finished && (p.answers(sent.ttl) > 0 || sent.ttl > p.view.length()) {
		return // after the end only who was silent is still heard
	}
	role, words := meaning(a.reply, p.method, e.opt.Dst.Is6())
	if role == "" {
		return // nothing that tells of the path
	}
	at := sent.at
	if !a.reply.Sent.IsZero() {
		at = a.reply.Sent
	}
	from := a.reply.From.Unmap()
	p.learn(sent.left, from, a.reply.Kind)
	if role == RoleRouter {
		p.unspend(sent.left)
	}
	ev := Event{Kind: Replied, At: a.reply.Received, View: p.index, Seq: a.reply.Seq, TTL: sent.ttl, Addr: from,
		RTT: millis.Of(max(a.reply.Received.Sub(at), 0)), ReplyTTL: a.reply.TTL, Role: role, Answer: words,
		Quote: quoteOf(a.reply, p.method), Labels: a.reply.Labels}
	if (role == RoleDestination || role == RoleRefusal) && ev.Quote != nil {
		ev.Quote.TTL = nil // it tells how far the probe would have gone, not what was done to it
		if *ev.Quote == (Quote{}) {
			ev.Quote = nil
		}
	}
	ev.ICMPType, ev.ICMPCode = typeCode(a.reply)
	if e.rejects(role, words, from) {
		role, ev.Role = RoleRefusal, RoleRefusal
	}
	e.emit(ev)
	e.names.ask(ctx, from)
	p.limited = p.limited || role == RoleDestination && ev.ICMPType != nil && a.reply.Kind == wire.PortReply
	if role == RoleDestination {
		p.pastDestination(ev.Seq, sent.left, a.reply.QuotedTTL)
	}
	if at := p.view.lastAnswered() + 1; p.view.gone && role == RoleRefusal && at >= e.opt.FirstHop && at < sent.ttl && p.view.routers[from] {
		// While it searched it kept but a few packets, and these are not the
		// first: the destination would be right behind it.
		p.count(ev.Seq, at, sent.round)
	}
	e.opt.group.learn(e.opt.member, ev)
	p.diverges(ev)
	p.catchUp(ev.TTL, role)
	p.advance()
}

// rejects is view.rejects by what any method has seen.
func (e *engine) rejects(r Role, answer string, from netip.Addr) bool {
	for _, p := range e.probers {
		if p.view.rejects(r, answer, from) {
			return true
		}
	}
	return false
}

// reached reports whether the destination has answered by any method.
func (e *engine) reached() bool {
	for _, p := range e.probers {
		if p.view.destTTL() > 0 {
			return true
		}
	}
	return false
}

// gone reports whether a router says that the destination is not there, which
// holds for every method.
func (e *engine) gone() bool {
	return slices.ContainsFunc(e.probers, func(p *prober) bool { return p.view.gone })
}

// newestSpent reports whether the newest method has had its chance, so that
// the next may begin; true if there is none.
func (e *engine) newestSpent() bool {
	if len(e.probers) == 0 {
		return true
	}
	p := e.probers[len(e.probers)-1]
	return p.finished() || p.looks > 1 || !time.Now().Before(p.retryAt())
}

// exhausted reports whether no method can learn more by waiting.
func (e *engine) exhausted() bool {
	for _, p := range e.probers {
		if !p.finished() {
			return false
		}
	}
	return true
}

// allDead returns the reason if no method can send or receive any more.
func (e *engine) allDead() error {
	var err error
	for _, p := range e.probers {
		if p.dead == nil {
			return nil
		}
		err = p.dead
	}
	return err
}

// nextDue is when something is to be done although nothing arrives.
func (e *engine) nextDue(moreMethods bool) time.Time {
	next := time.Now().Add(time.Hour)
	for i, p := range e.probers {
		if !p.finished() && (p.retries() || moreMethods && i == len(e.probers)-1) {
			next = earlier(next, p.retryAt())
		}
		if p.hurries() {
			next = earlier(next, p.roundAt())
		}
	}
	return next
}

// askDue sends the next quick round, and looks again for the end of the path,
// where it is time.
func (e *engine) askDue() {
	if e.reached() {
		return
	}
	now := time.Now()
	for _, p := range e.probers {
		if p.hurries() && !now.Before(p.roundAt()) {
			p.wave()
		}
		if !p.finished() && p.retries() && !now.Before(p.retryAt()) {
			p.retry()
		}
	}
}

// bestProber is the method whose view the result will show.
func (e *engine) bestProber() *prober {
	for _, p := range e.probers {
		if p.view == e.fold.best() {
			return p
		}
	}
	return nil
}
