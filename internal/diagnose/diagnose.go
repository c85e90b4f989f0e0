// Package diagnose measures one target with every instrument and has the
// result judged.
//
// Order matters more than speed. The stub's lookup comes first, since
// everything later finds the name cached. Timed HTTP samples run with no bulk
// probing beside them: the first wave of a trace is small enough to share the
// wire with them, the runs of echoes and the full-size path MTU probes are not
// and wait. Everything else overlaps.
//
// After that the judge is asked, and what could change its mind is measured:
// that is what a control experiment is for.
package diagnose

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/whyslow/whyslow/dnscheck"
	"github.com/whyslow/whyslow/httpcheck"
	"github.com/whyslow/whyslow/internal/millis"
	"github.com/whyslow/whyslow/internal/netprobe"
	"github.com/whyslow/whyslow/reports"
)

// Run diagnoses o.URL. It always returns a judged report: a target that cannot
// be measured is a result, and a context that ends early leaves what is known.
// The error is for options that name no target.
func Run(ctx context.Context, o Options) (*reports.Report, error) {
	t, err := parseTarget(o.URL)
	if err != nil {
		return nil, err
	}
	if o.MaxTime > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.MaxTime)
		defer cancel()
	}
	r := newRun(o, t)
	r.measure(ctx)
	if t.bare && ctx.Err() == nil {
		r = r.orPlainHTTP(ctx)
	}
	return r.finish(ctx), nil
}

// run is one diagnosis in progress.
type run struct {
	opt     Options
	target  target
	limits  limits
	network netprobe.Network
	began   time.Time

	mu     sync.Mutex // guards report and Progress
	report *reports.Report

	http *httpcheck.Client
	// host is the address that HTTP really talked to, once known.
	host     netip.Addr
	hostOnce sync.Once
	hostCh   chan struct{}
}

func newRun(o Options, t target) *run {
	r := &run{opt: o, target: t, limits: o.Budget.limits(), network: o.Network,
		began: time.Now(), hostCh: make(chan struct{})}
	if r.network == nil {
		r.network = &netprobe.Host{}
	}
	r.report = &reports.Report{Schema: reports.Schema, Tool: o.Tool, Target: t.view(),
		Started: r.began.UTC(), Environment: environment()}
	return r
}

func (r *run) say(instrument, text string) {
	if r.opt.Progress == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.opt.Progress(Event{Instrument: instrument, Text: text})
}

// measure runs the instruments.
func (r *run) measure(ctx context.Context) {
	var tasks sync.WaitGroup
	defer tasks.Wait()
	stub := r.startDNS(ctx, &tasks)
	found, ok := r.await(ctx, stub)
	if !ok {
		return
	}
	r.mu.Lock()
	r.report.Target.Addr = found.addrs[0].String()
	r.mu.Unlock()
	if !r.openHTTP(found) {
		return
	}
	r.measureHTTP(ctx, found)
}

// addresses is the outcome of the lookup that the other instruments wait for.
type addresses struct {
	addrs   []netip.Addr
	elapsed millis.Value
}

// startDNS begins the lookup and everything that dnscheck measures after it.
func (r *run) startDNS(ctx context.Context, tasks *sync.WaitGroup) <-chan addresses {
	found := make(chan addresses, 1)
	host := r.target.url.Hostname()
	if a, err := netip.ParseAddr(host); err == nil {
		found <- addresses{addrs: []netip.Addr{a}}
	}
	o := r.dnsOptions(host)
	o.OnStub = func(s *dnscheck.Stub) { found <- addresses{addrs: s.Addrs, elapsed: s.Elapsed} }
	r.say("dns", "looking up "+host)
	tasks.Go(func() {
		defer close(found)
		res, err := dnscheck.Run(ctx, o)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.report.DNS = res
		if err != nil {
			r.report.Environment.Notes = append(r.report.Environment.Notes, err.Error())
		}
	})
	return found
}

func (r *run) dnsOptions(host string) dnscheck.Options {
	return dnscheck.Options{Name: host, Family: dnscheck.Family(r.opt.Family), ResolvConf: r.opt.ResolvConf, Port: r.opt.DNSPort,
		Source: r.opt.Source, Interface: r.opt.Interface, Probes: r.limits.probes}
}

func (r *run) await(ctx context.Context, stub <-chan addresses) (addresses, bool) {
	select {
	case found := <-stub:
		return found, len(found.addrs) > 0
	case <-ctx.Done():
		return addresses{}, false
	}
}

// resolve answers httpcheck for hosts it is redirected to.
func (r *run) resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	o := r.dnsOptions(host)
	o.NoReverse = true
	stub, err := dnscheck.Resolve(ctx, o)
	if err != nil {
		return nil, err
	}
	if !stub.Found() {
		return nil, notFound(host, stub)
	}
	return stub.Addrs, nil
}

func (r *run) openHTTP(found addresses) bool {
	c, err := httpcheck.New(httpcheck.Options{
		URL: r.target.url.String(), Method: r.opt.Method, Header: r.opt.Header,
		Addrs: found.addrs, ResolveTime: found.elapsed, Resolver: r.resolve,
		Family: httpcheck.Family(r.opt.Family), Source: r.opt.Source, Interface: r.opt.Interface,
		RootCAs: r.opt.RootCAs, Insecure: r.opt.Insecure,
		Cold: r.limits.cold, MaxRequests: r.limits.requests, Budget: r.limits.samples, NoControls: true,
	})
	if err != nil {
		r.report.Environment.Notes = append(r.report.Environment.Notes, err.Error())
		return false
	}
	r.http = c
	r.report.HTTP = c.NewResult()
	return true
}

// orPlainHTTP is the diagnosis over plain HTTP where a bare host turned out to
// speak no TLS, else r.
func (r *run) orPlainHTTP(ctx context.Context) *run {
	port := r.target.url.Port()
	switch {
	case r.refused() && port == "":
		r.say("http", "port 443 refuses, trying plain HTTP")
	case r.withoutTLS():
		r.say("http", "the server speaks no TLS, trying plain HTTP")
	default:
		return r
	}
	plain := newRun(r.opt, r.target.overHTTP())
	plain.measure(ctx)
	if !plain.refused() && (port == "" || !plain.failed()) {
		return plain
	}
	// Speak of the one that was meant.
	note := "port 80 refuses connections too"
	if port != "" {
		note = "port " + port + " does not answer to plain HTTP either"
	}
	r.report.Environment.Notes = append(r.report.Environment.Notes, note)
	return r
}

func (r *run) failed() bool { return r.report.HTTP == nil || r.report.HTTP.Failure != nil }

// refused reports that the port refused every connection.
func (r *run) refused() bool {
	h := r.report.HTTP
	return h != nil && h.Failure != nil && h.Failure.Kind == "refused" && h.Failure.Phase == "connect"
}

// withoutTLS reports that what answered the TLS handshake was something else.
func (r *run) withoutTLS() bool { return r.report.HTTP != nil && WithoutTLS(r.report.HTTP.Failure) }

// WithoutTLS reports whether a fetch failed since the server answered the TLS
// handshake with something else, as one does that speaks plain HTTP on the
// port. Nil is no failure.
func WithoutTLS(f *httpcheck.Failure) bool {
	// The words are crypto/tls's (RecordHeaderError); an alert, which a server
	// sends that does speak TLS, reads otherwise.
	return f != nil && f.Kind == "tls" && strings.Contains(f.Text, "does not look like a TLS handshake")
}

// finish completes the report and has it judged.
func (r *run) finish(ctx context.Context) *reports.Report {
	rep := r.report
	rep.Elapsed = millis.Of(time.Since(r.began))
	rep.Interrupted = errors.Is(ctx.Err(), context.Canceled) || errors.Is(ctx.Err(), context.DeadlineExceeded)
	if a, err := netip.ParseAddr(rep.Target.Addr); err == nil {
		if local := localAddr(a); local.IsValid() {
			rep.Environment.Source = local.String()
		}
	}
	if rep.DNS != nil {
		rep.Environment.Resolver = resolverView(rep.DNS)
	}
	rep.Verdict = reports.Judge(rep)
	return rep
}
