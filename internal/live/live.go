// Package live shows a trace while it runs: a table of hops that is redrawn in
// place, with what the path says below it.
//
// Opinions: the view is a pure function of the events so far (Model), which
// tests read as text; a terminal only carries it. It is drawn when something
// changed and at most ten times a second, so that an idle view costs nothing.
// What is kept does not grow with time: the fold of the events, and the last
// few hundred round trips of each hop.
//
// Limits: what a probe met shows when the next one is sent or answered, not
// before. A panic in a goroutine of the trace's own, rather than where its
// events come from, leaves the terminal as it is.
package live

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime/debug"
	"time"

	"github.com/gdamore/tcell/v3"

	"github.com/whyslow/whyslow/trace"
)

// Options say what to show. Events is needed, and with it a terminal.
type Options struct {
	// Events are those of a trace, which ends when its context does.
	Events func(context.Context) iter.Seq2[trace.Event, error]
	// Target is shown until the first event tells it.
	Target trace.Target
	// Interval is the time between two rounds, for the headline. Zero means
	// that it is not told.
	Interval time.Duration
	// Color uses colours where the terminal has them.
	Color bool
	// NoNames says that no names are looked up.
	NoNames bool
	// Paths says that parallel paths are looked for beside the trace: they come
	// by Amend.
	Paths bool
	// Amend are changes to the result that come from elsewhere, such as the
	// path MTU: each is applied to every result from when it arrives. Nil
	// means none.
	Amend <-chan func(*trace.Result)
	// Suspend stops the process until it is continued, as Ctrl-Z does; the
	// terminal is given back around it. Nil means that Ctrl-Z does nothing.
	Suspend func()
	// Terminal is what to draw on. Nil means the controlling terminal.
	Terminal tcell.Tty
}

// ErrNoTerminal says that there is no terminal to draw on.
var ErrNoTerminal = errors.New("live: no terminal")

const (
	// frame is the least time between two drawings.
	frame = 100 * time.Millisecond
	// stopWait bounds the wait for the trace to end, once it was told to.
	stopWait = 100 * time.Millisecond
)

// Run shows the events until the user leaves, the events end or ctx does, and
// returns what was measured, never nil. The error is that of the events, ctx's,
// or that of a terminal that cannot be used. The terminal is as it was when Run
// returns or panics.
func Run(ctx context.Context, opt Options) (*trace.Result, error) {
	m := NewModel(opt)
	s, err := openScreen(opt)
	if err != nil {
		return m.Result(), err
	}
	defer s.Fini() // again where all goes well: it is for a panic
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p := newPump()
	go p.run(ctx, opt.Events)
	l := loop{opt: opt, model: m, screen: s, pump: p}
	err = l.run(ctx)
	s.Fini()
	// The trace is told to end and waited for, but whoever pressed a key does
	// not wait longer than a moment.
	cancel()
	late := time.NewTimer(stopWait)
	defer late.Stop()
	select {
	case <-p.done:
	case <-late.C:
	}
	return m.Result(), err
}

// pump carries events from the goroutine of the trace to that of the view.
type pump struct {
	events chan trace.Event
	gate   chan chan struct{} // a closed channel lets events pass
	done   chan struct{}
	err    error // why the events ended, once done is closed
	panic  any   // what the trace panicked with, likewise
}

func newPump() *pump {
	return &pump{events: make(chan trace.Event, 256), gate: make(chan chan struct{}, 1), done: make(chan struct{})}
}

// run passes events on. While the gate is shut it does not take the next, and
// a trace whose event is not taken sends no probe.
func (p *pump) run(ctx context.Context, events func(context.Context) iter.Seq2[trace.Event, error]) {
	defer close(p.done)
	defer func() {
		// Here the terminal cannot be given back: the view panics instead.
		if v := recover(); v != nil {
			p.panic = fmt.Sprintf("%v\n\n%s", v, debug.Stack())
		}
	}()
	var open chan struct{}
	for ev, err := range events(ctx) {
		if err != nil {
			p.err = err
			return
		}
		select {
		case open = <-p.gate:
		default:
		}
		if open != nil {
			select {
			case <-open:
			case <-ctx.Done():
				return
			}
		}
		select {
		case p.events <- ev:
		case <-ctx.Done():
			return
		}
	}
}

// loop is the view while it runs. All of it belongs to one goroutine.
type loop struct {
	opt    Options
	model  *Model
	screen tcell.Screen
	pump   *pump
	open   chan struct{} // the shut gate; nil if events pass
	drawn  time.Time
	cost   time.Duration // of the last drawing; a slow terminal is drawn on less often
	timer  *time.Timer
	dirty  bool
	stale  bool // what the terminal shows is not what we think
}

// run returns nil if the user left or the events ended of themselves.
func (l *loop) run(ctx context.Context) error {
	l.timer = time.NewTimer(0)
	defer l.timer.Stop()
	l.dirty = true
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-l.pump.done:
			return l.ended(ctx)
		case ev := <-l.pump.events:
			l.model.Add(ev)
			l.dirty = true
		case change := <-l.opt.Amend:
			l.model.Amend(change)
			l.dirty = true
		case ev := <-l.screen.EventQ():
			if l.terminal(ev) {
				return nil
			}
		case <-l.timer.C: // the frame is over
		}
		l.refresh()
	}
}

// ended takes the rest of the events and says why there are no more.
func (l *loop) ended(ctx context.Context) error {
	for {
		select {
		case ev := <-l.pump.events:
			l.model.Add(ev)
			continue
		default:
		}
		if l.pump.panic != nil {
			panic(l.pump.panic)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		return l.pump.err
	}
}

// refresh draws what has changed, now or as soon as a frame is over.
func (l *loop) refresh() {
	if !l.dirty {
		return
	}
	if rest := max(frame, 10*l.cost) - time.Since(l.drawn); rest > 0 {
		l.timer.Reset(rest)
		return
	}
	began := time.Now()
	l.draw()
	l.drawn, l.dirty = time.Now(), false
	l.cost = l.drawn.Sub(began)
}

// terminal takes a key or a new size, and reports whether the user leaves.
func (l *loop) terminal(ev tcell.Event) (leaves bool) {
	switch ev := ev.(type) {
	case *tcell.EventResize:
		l.dirty = true
	case *tcell.EventError:
		return true // the terminal is gone
	case nil:
		return true // its channel is closed
	case *tcell.EventKey:
		switch action := l.model.Key(keyOf(ev)); action {
		case Quit:
			return true
		case Redraw:
			l.dirty, l.stale = true, true
		case Suspend:
			l.suspend()
		case Pause:
			l.pause()
			l.dirty = true
		case Changed:
			l.dirty = true
		}
	}
	return false
}

// pause shuts the gate or opens it.
func (l *loop) pause() {
	if l.open == nil {
		l.open = make(chan struct{})
		select {
		case <-l.pump.gate: // one that was opened and never seen
		default:
		}
		l.pump.gate <- l.open
		return
	}
	close(l.open)
	l.open = nil
}

func (l *loop) suspend() {
	if l.opt.Suspend == nil {
		return
	}
	if err := l.screen.Suspend(); err != nil {
		return
	}
	l.opt.Suspend()
	_ = l.screen.Resume() // without a terminal its events end
	l.dirty, l.stale = true, true
}
