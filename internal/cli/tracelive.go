package cli

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"time"

	"github.com/whyslow/whyslow/internal/live"
	"github.com/whyslow/whyslow/internal/netprobe"
	"github.com/whyslow/whyslow/trace"
)

// checkLive refuses --live where nobody could see it, and what contradicts it.
func (o *traceOptions) checkLive(env *Env) error {
	switch {
	case !env.OutTerminal && !env.ErrTerminal:
		return usagef("--live needs a terminal; for a file or a program use -c N, or --format %s, which tells each event as it happens", formatLines)
	case env.Getenv("TERM") == "dumb":
		return usagef("--live needs a terminal whose cursor can be moved, and TERM is dumb; use -c N")
	case o.queries > 0:
		return usagef("-q, --queries: --live goes on until q is pressed; use -c N to end after N rounds")
	case o.format == formatLines && env.OutTerminal:
		return usagef("--format %s: --live has the terminal; write the events to a file, with > FILE or -o FILE.jsonl", formatLines)
	}
	return nil
}

// watch shows the trace while it runs. It is drawn on the controlling terminal,
// so that the result may go from stdout into a file or a pipe.
func (o *traceOptions) watch(ctx context.Context, env *Env, t target, m netprobe.Method) error {
	bounded, cancel := o.bounded(ctx)
	defer cancel()
	p := newProgress(env, &o.common)
	p.set("resolving %s", t.host)
	dst, err := o.first(bounded, t.host)
	p.done()
	if err != nil {
		return explain("tracing "+t.host, err)
	}
	opt, err := o.options(t, m)
	if err != nil {
		return err
	}
	opt.Network, opt.Dst = &netprobe.Host{}, dst
	if o.rounds == 0 {
		opt.Queries, opt.Interval = -1, cmp.Or(o.interval, time.Second)
	}
	rec := newRecorder(env, &o.common)
	w := watcher{options: o, trace: opt, rec: rec, amend: make(chan func(*trace.Result), 2), over: make(chan struct{})}
	res, err := live.Run(bounded, live.Options{
		Events: w.events, Amend: w.amend,
		Target: trace.Target{Name: t.host, Addr: dst, Port: opt.Port}, Interval: opt.Interval,
		Color: o.color == "always" || o.color == "auto" && env.Getenv("NO_COLOR") == "", NoNames: o.noNames,
		Paths: o.flows > 0, Suspend: suspend(),
	})
	if errors.Is(err, live.ErrNoTerminal) {
		return usagef("--live: this process has no terminal to draw on: %s; use -c N", readable(err))
	}
	failed := err
	if bounded.Err() != nil {
		failed = nil // that is how it ended, and no failure
	}
	if failed != nil && len(res.Hops) == 0 {
		return explain("tracing "+t.host, failed)
	}
	if err := o.finish(ctx, env, rec, res); err != nil {
		return err
	}
	return explain("tracing "+t.host, failed)
}

// watcher feeds a live view.
type watcher struct {
	options *traceOptions
	trace   trace.Options
	rec     *recorder
	amend   chan func(*trace.Result) // has room for what beside sends
	over    chan struct{}            // closed when beside has ended
}

// events are those of the trace. What is measured beside it begins once the
// destination has answered.
func (w *watcher) events(ctx context.Context) iter.Seq2[trace.Event, error] {
	return func(yield func(trace.Event, error) bool) {
		begun := false
		defer func() {
			if begun {
				<-w.over
			}
		}()
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		for ev, err := range trace.Events(ctx, w.trace) {
			if err == nil {
				w.rec.event(ev)
			}
			if ev.Role == trace.RoleDestination && !begun {
				begun = true
				go w.beside(ctx, ev.TTL)
			}
			if !yield(ev, err) {
				return
			}
		}
	}
}

// beside measures the path MTU, which takes a few round trips, and then the
// parallel paths, if they were asked for.
func (w *watcher) beside(ctx context.Context, hops int) {
	defer close(w.over)
	res := &trace.Result{HopCount: &hops}
	if m := w.options.mtu(ctx, w.trace, res); m != nil {
		w.amend <- func(res *trace.Result) { addMTU(res, m) }
	}
	if w.options.flows == 0 || w.options.paths(ctx, w.trace, res) != nil {
		return
	}
	w.amend <- func(to *trace.Result) {
		to.Paths, to.Warnings = res.Paths, append(to.Warnings, res.Warnings...)
	}
}
