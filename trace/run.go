package trace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/whyslow/whyslow/internal/netprobe"
)

// The waits that no option names.
const (
	// settle is added to 1.5 round trips when waiting for an answer that may
	// be lost: the host's and the router's own delays.
	settle = 30 * time.Millisecond
	// unknownPatience is the wait before anybody has answered, and the least
	// wait for a destination behind the last hop that answered: the link to
	// it may be longer than all before.
	unknownPatience = 200 * time.Millisecond
	// slowRouter is how much later than the slowest answer a hop that has not
	// answered at all is still waited for, and leastWait the least wait for
	// it: control planes are slow, however near they are.
	slowRouter = 180 * time.Millisecond
	leastWait  = 250 * time.Millisecond
	// limitedAfter is when a destination that answers by ICMP errors is asked
	// once more: Linux gives each asker one error a second.
	limitedAfter = time.Second
)

// Run traces the path and returns what it found. When ctx ends it returns what
// is known so far together with ctx's error. The Result is never nil.
func Run(ctx context.Context, opt Options) (*Result, error) {
	return Follow(ctx, opt, func(Event) {})
}

// Follow is Run for a caller that wants to see each event as it happens too.
func Follow(ctx context.Context, opt Options, each func(Event)) (*Result, error) {
	f := Fold{target: Target{Name: opt.Name, Addr: opt.Dst.Unmap()}, started: time.Now()}
	for ev, err := range Events(ctx, opt) {
		if err != nil {
			return f.Result(), err
		}
		f.Add(ev)
		each(ev)
	}
	return f.Result(), nil
}

// Events traces the path and yields what happens. A non-nil error is the last
// element; the events before it still fold into a valid Result.
func Events(ctx context.Context, opt Options) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		if err := opt.normalise(); err != nil {
			yield(Event{}, err)
			return
		}
		bounded, cancel := context.WithCancel(ctx)
		if opt.Budget > 0 {
			bounded, cancel = context.WithTimeout(ctx, opt.Budget)
		}
		defer cancel()
		e := newEngine(opt, yield, cancel)
		err := e.run(bounded)
		e.close()
		switch {
		case e.left:
		case ctx.Err() != nil:
			yield(Event{}, ctx.Err())
		case errors.Is(err, context.DeadlineExceeded):
			// Our own bound, not the caller's: the result is just shorter.
			yield(Event{Kind: Warned, At: time.Now(),
				Text: fmt.Sprintf("trace stopped after %v, unfinished", opt.Budget)}, nil)
		case err != nil:
			yield(Event{}, err)
		}
	}
}

// normalise checks the options and replaces zero values by what they mean.
func (o *Options) normalise() error {
	o.Dst = o.Dst.Unmap()
	switch {
	case !o.Dst.IsValid():
		return ErrNoDestination
	case o.Method > netprobe.TCP:
		return fmt.Errorf("trace: unknown method %d", o.Method)
	case o.MaxHops < 0 || o.FirstHop < 0 || o.Wait < 0 || o.Interval < 0 || o.NamesGrace < 0 || o.Budget < 0:
		return errors.New("trace: negative option")
	}
	if o.Network == nil {
		o.Network = &netprobe.Host{}
	}
	o.MaxHops = min(cmp.Or(o.MaxHops, 30), maxHops)
	o.FirstHop = cmp.Or(o.FirstHop, 1)
	if o.FirstHop > o.MaxHops {
		return fmt.Errorf("trace: first hop %d lies beyond the last, %d", o.FirstHop, o.MaxHops)
	}
	o.Queries = cmp.Or(o.Queries, 3)
	o.given = o.Wait
	o.Wait = cmp.Or(o.Wait, 1200*time.Millisecond)
	o.NamesGrace = cmp.Or(o.NamesGrace, 300*time.Millisecond)
	if o.Budget == 0 && o.Queries > 0 {
		o.Budget = 5*time.Second + o.given + time.Duration(o.Queries-1)*o.interval(0)
		if o.group != nil { // others are asked for first
			o.Budget += time.Duration(o.group.size/errorBurst) * time.Second
		}
	}
	return nil
}

// interval is the time between rounds, given the largest round trip seen to a
// destination that answered, 0 if unknown.
func (o *Options) interval(rtt time.Duration) time.Duration {
	switch {
	case o.Interval > 0:
		return o.Interval
	case o.Queries < 0:
		return time.Second
	case o.Queries >= errorBurst:
		return 100 * time.Millisecond
	case !o.group.alone():
		return 5 * time.Millisecond // the path is known before the second round
	case rtt > 0:
		return min(max(rtt/3, 5*time.Millisecond), 17*time.Millisecond)
	}
	return 17 * time.Millisecond
}

// methods are the protocols to try, in order.
func (o *Options) methods() []netprobe.Method {
	if o.Method != netprobe.Auto {
		return []netprobe.Method{o.Method}
	}
	return []netprobe.Method{netprobe.ICMP, netprobe.UDP, netprobe.TCP}
}

// config is the connection for one method.
func (o *Options) config(m netprobe.Method) netprobe.Config {
	c := netprobe.Config{Method: m, Port: o.Port, Source: o.Source, Interface: o.Interface, Unprivileged: o.Unprivileged}
	switch {
	case m == netprobe.ICMP:
		c.Port = 0
	case m == netprobe.UDP && (o.Port == 0 || o.Method == netprobe.Auto):
		c.Port = 33434 // traceroute's first, where nobody listens
	case m == netprobe.TCP && o.Port == 0:
		c.Port = 443
	}
	return c
}

// run is the whole trace: find the destination, ask the remaining times, ask
// again what is missing, wait for names.
func (e *engine) run(ctx context.Context) error {
	if !e.leads() {
		e.early, e.earlyErr = e.open(ctx, e.opt.methods()[0]) // while those that lead are under way
	}
	if err := e.join(ctx); err != nil {
		return err
	}
	e.start = time.Now()
	err := e.find(ctx)
	e.opt.group.settled(e.opt.member)
	if err != nil {
		return err
	}
	e.sought = true
	if p := e.bestProber(); p != nil {
		if err := e.rounds(ctx, p); err != nil {
			return err
		}
		if err := e.complete(ctx, p); err != nil {
			return err
		}
	}
	e.emit(Event{Kind: End, At: time.Now()})
	grace := time.Now().Add(e.opt.NamesGrace)
	return e.collect(ctx, func() time.Time { return grace }, func() bool { return e.names.pending == 0 })
}

// find probes by one method after the other until the destination answers,
// every method is exhausted, or Wait is over. Methods tried earlier stay open:
// their late answers count.
func (e *engine) find(ctx context.Context) error {
	methods := e.opt.methods()
	// Quick rounds go out inside Wait, so that a silent destination does not
	// cost them on top.
	patience := e.opt.Wait
	if quick := time.Duration(e.opt.Queries-1) * e.opt.interval(0); quick > 0 && quick < patience/2 {
		patience -= quick
	}
	deadline := e.start.Add(patience)
	var failed error
	for {
		for len(methods) > 0 && !e.reached() && e.newestSpent() {
			p, err := e.next(ctx, methods[0])
			methods = methods[1:]
			if err == nil {
				if err := p.firstWave(ctx); err != nil {
					return err
				}
				continue
			}
			failed = err
			if errors.Is(err, netprobe.ErrUnreachable) || ctx.Err() != nil {
				methods = nil
			}
		}
		if len(e.probers) == 0 {
			return failed
		}
		if err := e.allDead(); err != nil && len(methods) == 0 {
			return err
		}
		if e.reached() || e.gone() || len(methods) == 0 && e.exhausted() || !time.Now().Before(deadline) {
			return ctx.Err()
		}
		next := func() time.Time { return earlier(deadline, e.nextDue(len(methods) > 0)) }
		found := func() bool { return e.reached() || e.gone() || e.newestSpent() && len(methods) > 0 }
		if err := e.collect(ctx, next, found); err != nil {
			return err
		}
		if e.probers[0].looks > 1 || len(e.probers) > 1 {
			e.opt.group.settled(e.opt.member) // it knows what it will know soon
		}
		e.askDue()
	}
}

// next opens a method, unless that was done before.
func (e *engine) next(ctx context.Context, m netprobe.Method) (*prober, error) {
	p, err := e.early, e.earlyErr
	if e.early, e.earlyErr = nil, nil; p != nil || err != nil {
		return p, err
	}
	return e.open(ctx, m)
}

// rounds sends what is left of the queries up to the end of the path.
func (e *engine) rounds(ctx context.Context, p *prober) error {
	dead := func() bool { return p.dead != nil }
	p.fill()
	for p.more() && !dead() {
		if err := e.collect(ctx, p.roundAt, dead); err != nil {
			return err
		}
		if !dead() && !time.Now().Before(p.roundAt()) {
			p.wave()
		}
	}
	return nil
}

// complete waits for what is under way, asks the hops that stayed silent once
// more, and waits for those. It never waits once all answers are in.
func (e *engine) complete(ctx context.Context, p *prober) error {
	due := func() time.Time { return p.lastSend.Add(p.view.patience()) }
	if err := e.collect(ctx, due, func() bool { return !p.owed() }); err != nil {
		return err
	}
	p.infer()
	if p.round <= quickRounds {
		p.askSilent()
	}
	if err := e.collect(ctx, p.lastDue, func() bool { return !p.view.waiting() }); err != nil {
		return err
	}
	if err := e.recover(ctx, p); err != nil {
		return err
	}
	p.forgive()
	if err := e.verify(ctx, p); err != nil {
		return err
	}
	return e.askAlone(ctx, p)
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
