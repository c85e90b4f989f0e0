package lookups

import (
	"context"
	"errors"
	"io"
	"net/netip"
	"time"

	"github.com/whyslow/whyslow/internal/accesslog"
)

// Options are all that a Run needs to know.
type Options struct {
	Log   LogOptions
	Probe ProbeOptions
	Price PriceOptions
	// Sample is how many addresses are looked up at most. Zero means 2000.
	Sample int
	// Stage is told what is being done; may be nil.
	Stage func(what string)
	// Walk finds out which name server makes the reverse lookup of an address
	// slow or fail, and says in a sentence why; both are empty if all is well.
	// Nil leaves that out. It is asked for the costliest networks only.
	Walk func(ctx context.Context, a netip.Addr) (guilty, why string)
}

// Run reads records until the source ends, looks addresses up, and prices what
// the requests would have cost. When ctx ends it prices what is known by then,
// and returns that with ctx's error; the Result is never nil.
func Run(ctx context.Context, records func(yield func(*accesslog.Record, error) bool), o Options) (*Result, error) {
	started := time.Now()
	l := NewLog(o.Log)
	for r, err := range records {
		if err != nil {
			if errors.Is(err, io.EOF) {
				break
			}
			if ctx.Err() != nil {
				break
			}
			res := Price(l, nil, o.Price)
			res.finish(started)
			return res, err
		}
		l.Add(r)
	}
	return Measure(ctx, l, o, started)
}

// Measure is the rest of Run, for a Log that was filled otherwise.
func Measure(ctx context.Context, l *Log, o Options, started time.Time) (*Result, error) {
	if o.Sample == 0 {
		o.Sample = 2000
	}
	if o.Stage != nil {
		o.Stage("looking up addresses")
	}
	chosen := Sample(l.Visitors(), o.Sample, o.Price.Seed)
	fates, err := Probe(ctx, chosen, o.Probe)
	res := Price(l, fates, o.Price)
	if o.Probe.Config != nil {
		for _, s := range o.Probe.Config.Nameservers {
			res.Resolvers = append(res.Resolvers, s.String())
		}
	}
	res.Stub = "glibc"
	if o.Walk != nil && ctx.Err() == nil {
		if o.Stage != nil {
			o.Stage("asking who is to blame for the costliest reverse zones")
		}
		res.walk(ctx, o.Walk)
	}
	res.Interrupted = ctx.Err() != nil
	if ctx.Err() == nil && len(fates) < len(chosen) {
		res.Warnings = append(res.Warnings, "not all addresses chosen were looked up")
	}
	res.finish(started)
	return res, err
}

// walk looks into the networks whose lookups fail, or take a second.
func (r *Result) walk(ctx context.Context, find func(context.Context, netip.Addr) (string, string)) {
	for i := range r.Networks {
		n := &r.Networks[i]
		if ctx.Err() != nil {
			return
		}
		if !n.Special && (fails(n.Outcome) || n.worst >= slowLookup) {
			n.Guilty, n.Why = find(ctx, n.addr)
		}
	}
}

// fails reports whether an outcome is of somebody's fault.
func fails(outcome string) bool {
	return outcome == "timeout" || outcome == "SERVFAIL" || outcome == "refused" || outcome == "REFUSED" || outcome == "broken"
}
