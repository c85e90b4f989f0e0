package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/whyslow/whyslow/internal/millis"
	"github.com/whyslow/whyslow/internal/netprobe"
	"github.com/whyslow/whyslow/reports/render"
	"github.com/whyslow/whyslow/trace"
)

const (
	// mostTraces bounds the hosts of one command: each has sockets of its own.
	mostTraces = 256
	// sampledAtOnce is how many of them are sampled at the same time, so that
	// the echoes of many do not crowd the link they share.
	sampledAtOnce = 8
)

// traced is what became of one of several hosts.
type traced struct {
	target target
	opt    trace.Options
	res    *trace.Result
	err    error // with its remedy
}

// runTraces traces to several hosts at once. What is wrong with one of them
// does not keep the others from being shown.
func runTraces(ctx context.Context, env *Env, o *traceOptions, args []string) error {
	if err := o.checkTrace(env); err != nil {
		return err
	}
	if err := o.checkSeveral(); err != nil {
		return err
	}
	m, err := o.method.choose()
	if err != nil {
		return err
	}
	all := make([]*traced, len(args))
	for i, arg := range args {
		t, err := o.traceable(ctx, arg)
		if err != nil {
			return err
		}
		all[i] = &traced{target: t}
	}
	p := newProgress(env, &o.common)
	defer p.done()
	rec := newRecorder(env, &o.common)
	bounded, cancel := o.bounded(ctx)
	defer cancel()
	_, ok := await(bounded, func(bounded context.Context) error {
		o.traces(bounded, p, rec, all, m)
		for _, t := range all {
			if t.res != nil {
				o.noteOrigins(t.res)
				noteCut(t.res, o.cut(ctx, bounded))
			}
		}
		return nil
	})
	p.done()
	if !ok {
		return &statusError{statusInterrupted, errors.New("tracing: interrupted before anything was measured")}
	}
	return o.finishSeveral(ctx, env, rec, all)
}

// checkSeveral refuses what only one trace can have.
func (o *traceOptions) checkSeveral() error {
	if o.live {
		return usagef("--live shows one host at a time")
	}
	if o.flows > 0 {
		return usagef("--paths looks for the paths to one host at a time")
	}
	return checkSeveral(&o.common)
}

// checkSeveral refuses the formats that hold one trace.
func checkSeveral(c *common) error {
	forms := render.TraceGroupForms()
	for _, f := range append([]output{{format: c.format}}, c.outputs...) {
		if f.format == formatLines {
			continue
		}
		if _, err := forms.ByName(f.format); err != nil {
			return usagef("%s holds one trace, and here are several: take %s", f.format, alternatives(append(forms.Names(), formatLines)))
		}
	}
	return nil
}

// traces resolves, traces, and then samples all hosts that it can.
func (o *traceOptions) traces(ctx context.Context, p *progress, rec *recorder, all []*traced, m netprobe.Method) {
	p.set("resolving %d hosts", len(all))
	host := &netprobe.Host{}
	each(all, sampledAtOnce, func(t *traced) {
		var err error
		if t.opt, err = o.options(t.target, m); err == nil {
			t.opt.Dst, err = o.first(ctx, t.target.host)
		}
		t.opt.Network, t.err = host, err
	})
	good := slices.DeleteFunc(slices.Clone(all), func(t *traced) bool { return t.err != nil })
	opts := make([]trace.Options, len(good))
	for i, t := range good {
		opts[i] = t.opt
	}
	p.set("tracing %d hosts", len(good))
	for i, out := range trace.FollowGroup(ctx, opts, rec.event) {
		good[i].res = out.Result
		if out.Err != nil && ctx.Err() == nil {
			good[i].err = explain("tracing "+good[i].target.host, out.Err)
		}
	}
	p.set("tracing %d hosts: sampling loss and MTU", len(good))
	each(good, sampledAtOnce, func(t *traced) {
		if t.err == nil && ctx.Err() == nil {
			if err := o.beside(ctx, t.opt, t.res); err != nil && ctx.Err() == nil {
				t.err = explain("tracing "+t.target.host, err)
			}
		}
		if t.res != nil {
			t.res.Elapsed = millis.Of(time.Since(t.res.Started))
		}
	})
}

// each calls f for all, up to n at a time.
func each(all []*traced, n int, f func(*traced)) {
	var wg sync.WaitGroup
	slots := make(chan struct{}, n)
	for _, t := range all {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			f(t)
		})
	}
	wg.Wait()
}

// finishSeveral writes the results, then what went wrong.
func (o *traceOptions) finishSeveral(ctx context.Context, env *Env, rec *recorder, all []*traced) error {
	var results []*trace.Result
	var failed []error
	unmeasured := false
	for _, t := range all {
		if t.err != nil {
			failed = append(failed, t.err)
		}
		if t.res != nil {
			results = append(results, t.res)
			unmeasured = unmeasured || unanswered(t.res)
		}
	}
	if len(results) > 0 {
		if err := deliverRecorded(rec, env, &o.common, render.TraceGroupForms(), &results, results...); err != nil {
			return err
		}
	}
	if len(failed) > 0 && ctx.Err() == nil {
		for _, err := range failed[:len(failed)-1] {
			fmt.Fprintf(env.Err, "whyslow: %s\n", clean(err.Error()))
		}
		return &statusError{statusUnmeasured, failed[len(failed)-1]}
	}
	return outcome(ctx, unmeasured)
}
