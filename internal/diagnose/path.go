package diagnose

import (
	"context"
	"net/netip"
	"sync"
	"time"

	"github.com/whyslow/whyslow/pmtu"
	"github.com/whyslow/whyslow/trace"
)

// path measures the way to the host: who is on it, what it loses, how large
// its packets may be.
type path struct {
	*run
	fallback netip.Addr    // the address to trace if HTTP never connects
	quiet    chan struct{} // closed when the timed samples are over
}

// patience is how long the trace waits for HTTP to say which address it uses.
const patience = 1500 * time.Millisecond

func (p *path) measure(ctx context.Context) {
	dst := p.destination(ctx)
	if !dst.IsValid() {
		return
	}
	p.say("trace", "tracing the path to "+dst.String())
	res, err := trace.Run(ctx, trace.Options{
		Network: p.network, Dst: dst, Name: p.target.url.Hostname(), Port: p.target.port(),
		Source: p.opt.Source, Interface: p.opt.Interface, Names: p.names(),
	})
	p.keepTrace(res, err)
	select {
	case <-p.quiet:
	case <-ctx.Done():
		return
	}
	if p.leadsNowhere(res) {
		return
	}
	var both sync.WaitGroup
	defer both.Wait()
	if res != nil {
		both.Go(func() { p.sample(ctx, res) })
	}
	p.pathMTU(ctx, dst, res)
}

// leadsNowhere reports whether neither the trace nor HTTP came through: there
// is nothing to sample, and no size to find.
func (p *path) leadsNowhere(res *trace.Result) bool {
	select {
	case <-p.hostCh:
		return false
	default:
		return res != nil && !res.Reached
	}
}

// destination is the address that HTTP talks to; where it does not connect in
// time, the first that was found.
func (p *path) destination(ctx context.Context) netip.Addr {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-p.hostCh:
		return p.host
	case <-p.quiet: // over without a connection
	case <-timer.C:
	case <-ctx.Done():
		return netip.Addr{}
	}
	select {
	case <-p.hostCh:
		return p.host
	default:
		return p.fallback
	}
}

func (p *path) keepTrace(res *trace.Result, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.report.Trace = res
	if err != nil && res == nil {
		p.report.Environment.Notes = append(p.report.Environment.Notes, err.Error())
	}
}

// sample takes the loss and jitter of the path from echoes that no router
// limits. It works on a copy: the report must not change under a reader.
func (p *path) sample(ctx context.Context, res *trace.Result) {
	p.say("trace", "sampling loss")
	_ = trace.Sample(ctx, res, trace.SampleOptions{
		Network: p.network, Source: p.opt.Source, Interface: p.opt.Interface,
		Count: p.limits.echoes, Port: p.target.port(),
	})
}

// sampleLoaded samples the path until ctx ends, while a transfer runs.
func (p *path) sampleLoaded(ctx context.Context) {
	res := p.report.Trace // nobody else writes any more
	if res == nil || !res.Reached {
		return
	}
	_ = trace.SampleLoaded(ctx, res, trace.SampleOptions{
		Network: p.network, Source: p.opt.Source, Interface: p.opt.Interface,
		Count: p.limits.echoes, Interval: 40 * time.Millisecond, Port: p.target.port(),
	})
}

func (p *path) pathMTU(ctx context.Context, dst netip.Addr, tr *trace.Result) {
	p.say("pmtu", "measuring the path MTU")
	o := pmtu.Options{Network: p.network, Dst: dst, Name: p.target.url.Hostname(), TCPPort: p.target.port(),
		Source: p.opt.Source, Interface: p.opt.Interface}
	if tr != nil && tr.HopCount != nil {
		o.HopCount = *tr.HopCount
	}
	res, err := pmtu.Run(ctx, o)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.report.PMTU = res
	if err != nil && res == nil {
		p.report.Environment.Notes = append(p.report.Environment.Notes, err.Error())
	}
}
