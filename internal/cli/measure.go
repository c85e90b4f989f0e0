package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/whyslow/whyslow/dnscheck"
	"github.com/whyslow/whyslow/httpcheck"
	"github.com/whyslow/whyslow/internal/diagnose"
	"github.com/whyslow/whyslow/internal/netprobe"
	"github.com/whyslow/whyslow/pmtu"
	"github.com/whyslow/whyslow/reports/render"
	"github.com/whyslow/whyslow/trace"
)

// grace is how long a measurement may take to return after Ctrl-C. The whole
// program must be gone within 200 ms.
const grace = 150 * time.Millisecond

// await runs f and returns its result. When ctx ends it waits no longer than
// grace; ok is false if f has not come back by then, and its goroutine is left
// to end with the process.
func await[T any](ctx context.Context, f func(context.Context) T) (v T, ok bool) {
	return awaitFor(ctx, grace, f)
}

// awaitFor is await with another grace.
func awaitFor[T any](ctx context.Context, grace time.Duration, f func(context.Context) T) (v T, ok bool) {
	done := make(chan T, 1)
	go func() { done <- f(ctx) }()
	select {
	case v = <-done:
		return v, true
	case <-ctx.Done():
	}
	late := time.NewTimer(grace)
	defer late.Stop()
	select {
	case v = <-done:
		return v, true
	case <-late.C:
		return v, false
	}
}

// measured is a result with its error, for await.
type measured[T any] struct {
	v   *T
	err error
}

// measure runs an instrument under --max-time and shows what it found, also if
// it was interrupted. It returns nil as result where nothing can be shown.
func measure[T any](ctx context.Context, c *common, what string, f func(context.Context) (*T, error)) (*T, error) {
	mctx, cancel := c.bounded(ctx)
	defer cancel()
	m, ok := await(mctx, func(ctx context.Context) measured[T] {
		v, err := f(ctx)
		return measured[T]{v, err}
	})
	switch {
	case !ok && ctx.Err() != nil, m.v == nil && ctx.Err() != nil:
		return nil, &statusError{statusInterrupted, fmt.Errorf("%s: interrupted before anything was measured", what)}
	case !ok, m.v == nil && errors.Is(m.err, context.DeadlineExceeded):
		return nil, failf("%s: nothing was measured within --max-time %v; allow more", what, c.maxTime)
	case m.v == nil || m.err != nil && mctx.Err() == nil:
		return m.v, explain(what, m.err)
	}
	noteCut(m.v, c.cut(ctx, mctx))
	return m.v, nil
}

// cut says what ended a measurement under --max-time before it was through; ""
// if nothing did.
func (c *common) cut(ctx, bounded context.Context) string {
	const rest = "what is missing here was not measured any more"
	switch {
	case ctx.Err() != nil:
		return "interrupted: " + rest
	case errors.Is(bounded.Err(), context.DeadlineExceeded):
		return fmt.Sprintf("ended by --max-time %v: %s", c.maxTime, rest)
	}
	return ""
}

// noteCut adds that to the result of an instrument: whoever reads it later has
// not seen the exit status.
func noteCut(res any, why string) {
	if why == "" {
		return
	}
	switch r := res.(type) {
	case *trace.Result:
		r.Warnings = append(r.Warnings, why)
	case *pmtu.Result:
		r.Warnings = append(r.Warnings, why)
	case *dnscheck.Result:
		r.Warnings = append(r.Warnings, why)
	case *httpcheck.Result:
		r.Warnings = append(r.Warnings, why)
	}
}

// bounded applies --max-time.
func (c *common) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if c.maxTime == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, c.maxTime)
}

// explain adds the remedy to an instrument's error.
func explain(what string, err error) error {
	if err == nil {
		return nil
	}
	if se, ok := errors.AsType[*statusError](err); ok {
		return se
	}
	switch {
	case errors.Is(err, netprobe.ErrNotPermitted):
		return failf("%s: %s; whyslow doctor says what is missing", what, refusals(err))
	case errors.Is(err, netprobe.ErrUnsupported):
		return failf("%s: %w; use Linux for this, or whyslow http, which works everywhere", what, err)
	case errors.Is(err, netprobe.ErrUnreachable) && errors.Is(err, fs.ErrPermission):
		return failf("%s: this host forbids it (permission denied); it is a broadcast address, or a local firewall rejects it", what)
	case errors.Is(err, netprobe.ErrUnreachable):
		return failf("%s: %w; look at the routing table, or try the other family (-4, -6)", what, err)
	}
	return failf("%s: %w", what, err)
}

// resolve finds the addresses of a host as a program on this host would, with
// the common flags honoured.
func (c *common) resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	if a, err := netip.ParseAddr(host); err == nil {
		a = a.Unmap()
		return []netip.Addr{a}, c.reaches(a)
	}
	stub, err := dnscheck.Resolve(ctx, c.dnsOptions(host))
	if err != nil {
		return nil, err
	}
	if len(stub.Addrs) == 0 {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		return nil, &net.DNSError{
			Err:        stub.Rcode,
			Name:       host,
			IsNotFound: stub.Rcode == "NXDOMAIN" || stub.Rcode == "NOERROR" || stub.Rcode == noAddress,
			IsTimeout:  stub.Rcode == string(dnscheck.Timeout),
		}
	}
	return c.usable(host, stub.Addrs)
}

// noAddress is the outcome of a lookup whose name exists, without an address of
// the family asked for.
const noAddress = "NODATA"

// first is resolve for a command that measures one address. Its error tells
// what to do.
func (c *common) first(ctx context.Context, host string) (netip.Addr, error) {
	addrs, err := c.resolve(ctx, host)
	if err != nil {
		if de, ok := errors.AsType[*net.DNSError](err); ok {
			if lacks := c.lacking(host); lacks != "" && de.Err == noAddress {
				return netip.Addr{}, failf("%s", lacks)
			}
			return netip.Addr{}, failf("resolving %s: %s; whyslow dns %s shows each step", host, de.Err, host)
		}
		return netip.Addr{}, err
	}
	return addrs[0], nil
}

func (c *common) dnsOptions(name string) dnscheck.Options {
	return dnscheck.Options{
		Name:       name,
		Family:     dnscheck.Family(c.targetFamily()),
		ResolvConf: c.resolvConf,
		Source:     c.source,
		Interface:  c.iface,
	}
}

// names returns a function that finds the PTR name of an address, for traces.
func (c *common) names() (func(context.Context, netip.Addr) string, error) {
	cfg, err := dnscheck.LoadResolvConf(c.resolvConf)
	if err != nil {
		return nil, err
	}
	return diagnose.Names(&dnscheck.Host{Source: c.source, Interface: c.iface}, cfg, 53), nil
}

// newOrigins prepares the lookup of autonomous systems in a zone, the usual one
// if empty.
func (c *common) newOrigins(zone string) (*diagnose.Origins, error) {
	cfg, err := dnscheck.LoadResolvConf(c.resolvConf)
	if err != nil {
		return nil, err
	}
	return diagnose.NewOrigins(&dnscheck.Host{Source: c.source, Interface: c.iface}, cfg, 53, zone), nil
}

// progress is one line on a terminal that tells what is being done. On
// anything else, or when quiet, it writes nothing.
type progress struct {
	w     io.Writer
	width int

	mu    sync.Mutex
	shown bool
	over  bool
}

func newProgress(env *Env, c *common) *progress {
	if !env.ErrTerminal || c.quiet {
		return &progress{}
	}
	return &progress{w: env.Err, width: env.Width}
}

// set replaces the line. It may be called from any goroutine.
func (p *progress) set(format string, args ...any) {
	if p.w == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		return
	}
	p.shown = true
	line := render.Terminal(fmt.Sprintf(format, args...), max(p.width-1, 20))
	fmt.Fprintf(p.w, "\r\x1b[K%s", line)
}

// done wipes the line. Later calls of set do nothing.
func (p *progress) done() {
	if p.w == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shown {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
	p.over = true
}
