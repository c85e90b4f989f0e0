package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/whyslow/whyslow/internal/millis"
	"github.com/whyslow/whyslow/internal/netprobe"
	"github.com/whyslow/whyslow/pmtu"
	"github.com/whyslow/whyslow/trace"
)

// trace measures the path, then loss and the path MTU side by side: neither
// disturbs the other, since echoes and "too big" are exempt from error limits.
// Parallel paths come last: their discovery spends what errors the routers have.
func (o *traceOptions) trace(ctx context.Context, p *progress, rec *recorder, t target, m netprobe.Method) (*trace.Result, error) {
	p.set("resolving %s", t.host)
	dst, err := o.first(ctx, t.host)
	if err != nil {
		return nil, err
	}
	opt, err := o.options(t, m)
	if err != nil {
		return nil, err
	}
	opt.Network, opt.Dst = &netprobe.Host{}, dst
	res, err := o.whole(ctx, p, rec, t, opt)
	if res != nil {
		o.noteOrigins(res)
	}
	if res != nil && !res.Started.IsZero() {
		res.Elapsed = millis.Of(time.Since(res.Started)) // with all that was measured beside the trace
	}
	return res, err
}

// whole is trace once the destination is known.
func (o *traceOptions) whole(ctx context.Context, p *progress, rec *recorder, t target, opt trace.Options) (*trace.Result, error) {
	what := fmt.Sprintf("tracing %s (%s)", t.host, opt.Dst)
	p.set("%s", what)
	round := 0
	res, err := trace.Follow(ctx, opt, func(ev trace.Event) {
		rec.event(ev)
		if ev.Round > round {
			round = ev.Round
			p.set("%s: round %d of %d", what, round+1, opt.Queries)
		}
	})
	if err != nil || ctx.Err() != nil {
		return res, err
	}
	p.set("%s: %d hops; sampling loss and MTU", what, len(res.Hops))
	if err := o.beside(ctx, opt, res); err != nil || o.flows == 0 {
		return res, err
	}
	p.set("%s: looking for parallel paths", what)
	return res, o.paths(ctx, opt, res)
}

// mostConnects bounds the TCP connects that sample a destination: each costs its
// server one.
const mostConnects = 20

// beside measures what is measured beside a trace.
func (o *traceOptions) beside(ctx context.Context, opt trace.Options, res *trace.Result) (err error) {
	mtu := make(chan *pmtu.Result, 1)
	go func() { mtu <- o.mtu(ctx, opt, res) }()
	if o.samples > 0 {
		err = trace.Sample(ctx, res, trace.SampleOptions{
			Network: opt.Network, Count: o.samples, TCPCount: min(o.samples, mostConnects), Port: opt.Port, Source: o.source, Interface: o.iface,
		})
	}
	addMTU(res, <-mtu)
	return err
}

// mtu measures the path MTU; nil if that was not asked for or did not work,
// which is no reason to lose the trace.
func (o *traceOptions) mtu(ctx context.Context, opt trace.Options, res *trace.Result) *pmtu.Result {
	if o.noMTU {
		return nil
	}
	po := pmtu.Options{Network: opt.Network, Dst: opt.Dst, Name: opt.Name, Source: o.source, Interface: o.iface}
	if res.HopCount != nil {
		po.HopCount = *res.HopCount
	}
	m, err := pmtu.Run(ctx, po)
	if err != nil && ctx.Err() == nil {
		return nil
	}
	return m
}

// addMTU enters a measured path MTU into a trace, as a whole and hop by hop.
func addMTU(res *trace.Result, m *pmtu.Result) {
	if m == nil {
		return
	}
	res.PMTU = m.MTU
	if m.BlackHole && m.MTU != nil {
		where := ""
		if l := m.Limiter; l != nil {
			where = fmt.Sprintf(" behind hop %d", l.TTL)
		}
		res.Warnings = append(res.Warnings, fmt.Sprintf("packets of more than %d bytes vanish%s and nobody says so, a black hole; whyslow pmtu tells more", *m.MTU, where))
	}
	for i := range res.Hops {
		if mtu, known := m.HopMTU(res.Hops[i].TTL); known {
			res.Hops[i].MTU = &mtu
		}
	}
}

// paths looks for parallel paths. That none can be looked for is a warning: the
// trace itself is good.
func (o *traceOptions) paths(ctx context.Context, opt trace.Options, res *trace.Result) error {
	po := trace.PathOptions{Flows: o.flows, Budget: o.maxTime} // more time, if there is
	if res.HopCount != nil {
		po.Hops = *res.HopCount
	}
	found, err := trace.Discover(ctx, opt, po)
	res.Paths = found
	if err != nil && ctx.Err() == nil {
		res.Warnings = append(res.Warnings, fmt.Sprintf("parallel paths were not looked for: %v", err))
		return nil
	}
	return err
}
