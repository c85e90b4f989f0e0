package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/whyslow/whyslow/dnscheck"
	"github.com/whyslow/whyslow/dnscheck/delegation"
	"github.com/whyslow/whyslow/dnscheck/lookups"
	"github.com/whyslow/whyslow/internal/accesslog"
	"github.com/whyslow/whyslow/reports/render"
)

type lookupsOptions struct {
	common
	logFormat  string
	addresses  string
	apacheConf string
	keepAlive  time.Duration
	perRequest bool
	workers    int
	rate       int
	sample     int
	port       uint16
	showBroken bool
	resolved   string // write the log with names here
	walk       walkOptions
}

func newLookups(env *Env) *cobra.Command {
	var o lookupsOptions
	cmd := &cobra.Command{
		Use:   "lookups LOG… [FLAGS]",
		Short: "Price Apache's HostnameLookups from an access log",
		Long: `Reads access logs of Apache httpd or nginx and says what HostnameLookups On or
Double would cost with these requests: how many lookups, what they would add to
the requests that wait for them, how many workers they would keep busy. Addresses
are looked up at this host's resolver only, 100 a second at most unless that is
this host itself; what a silent server costs is charged by resolv.conf. Only for
the costliest reverse zones are their own name servers asked (--no-walk).`,
		Example: `  whyslow lookups /var/log/apache2/access.log
  whyslow lookups access.log access.log.1 access.log.2.gz
  zcat access.log.*.gz | whyslow lookups -
  whyslow lookups access.log --log-format '%h %l %u %t "%r" %>s %b %k %D'
  whyslow lookups /var/log/apache2/access.log --apache-conf /etc/apache2/apache2.conf
  whyslow lookups --addresses visitors.txt
  whyslow lookups access.log --write-resolved named.log
  whyslow lookups access.log --resolv-conf production.conf --workers 150 --json`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return runLookups(cmd.Context(), env, &o, args)
		},
	}
	fs := cmd.Flags()
	fs.Var(textValue{&o.logFormat, "FORMAT"}, "log-format", "format of the lines: a LogFormat, a log_format, or a name ("+strings.Join(accesslog.Names(), ", ")+"); else found from them")
	fs.Var(textValue{&o.addresses, "FILE"}, "addresses", "price the addresses listed in FILE, one a line, in place of a log")
	fs.Var(textValue{&o.apacheConf, "FILE"}, "apache-conf", "configuration of the server: says what asks for names, and the logs' format, workers and KeepAliveTimeout")
	fs.Var(newDuration(&o.keepAlive, time.Millisecond, time.Hour), "keepalive-timeout", "KeepAliveTimeout of the server (default 5)")
	fs.BoolVar(&o.perRequest, "per-request", false, "each request causes a lookup, as with mod_remoteip")
	fs.Var(countValue{&o.workers, 1, 1_000_000}, "workers", "requests the server works on at once (MaxRequestWorkers), for its capacity")
	fs.Var(countValue{&o.sample, 1, 1_000_000}, "sample", "addresses looked up at most (default 2000); the others are estimated by them")
	fs.Var(countValue{&o.rate, 1, 1_000_000}, "rate", "queries a second at most (default 100, no bound where the resolver is this host)")
	fs.VarP(portValue{&o.port}, "port", "p", "port of the resolvers (default 53)")
	fs.Var(textValue{&o.resolved, "FILE"}, "write-resolved", "write the logs to FILE with names in place of addresses (all are looked up); - is stdout")
	o.walk.addTo(fs)
	fs.Lookup("no-walk").Usage = "do not ask the name servers of the costliest reverse zones (20 at most) who is to blame"
	fs.BoolVar(&o.showBroken, "show-broken", false, "show the first lines that could not be read, on stderr")
	o.addTo(fs, letters{})
	hideTLS(fs)
	return cmd
}

func runLookups(ctx context.Context, env *Env, o *lookupsOptions, args []string) error {
	if err := o.check(); err != nil {
		return err
	}
	if (len(args) == 0) == (o.addresses == "") {
		return usagef("give access logs, or --addresses FILE; for example: whyslow lookups /var/log/apache2/access.log")
	}
	if err := o.checkResolved(args); err != nil {
		return err
	}
	audit, err := o.readApache(env, args)
	if err != nil {
		return err
	}
	conf, err := dnscheck.LoadResolvConf(o.resolvConf)
	if err != nil {
		return explain("reading the resolver configuration", err)
	}
	opt, err := o.pricing(conf)
	if err != nil {
		return err
	}
	p := newProgress(env, &o.common)
	defer p.done()
	opt.Stage = func(what string) { p.set("%s", what) }
	opt.Probe.Progress = func(done, all int) { p.set("looking up addresses: %d of %d queries", done, all) }
	bounded, cancel := o.bounded(ctx)
	defer cancel()
	res, stats, err := o.measure(bounded, env, p, args, opt)
	p.done()
	if res == nil {
		return err
	}
	res.Apache = audit
	if o.showBroken {
		showBroken(env, stats)
	}
	if err != nil && bounded.Err() == nil {
		return err
	}
	if o.resolved != "" && bounded.Err() == nil {
		p := newProgress(env, &o.common)
		defer p.done()
		p.set("writing the log with names")
		if err := o.writeResolved(ctx, env, args, res); err != nil {
			return err
		}
		p.done()
	}
	if o.resolved == "-" {
		return outcome(ctx, res.Requests == 0) // stdout is the log's
	}
	if err := deliver(env, &o.common, render.LookupsForms(), res); err != nil {
		return err
	}
	return outcome(ctx, res.Requests == 0)
}

// readerOptions are how the logs are read.
func (o *lookupsOptions) readerOptions() (accesslog.Options, error) {
	ro := accesslog.Options{}
	if o.logFormat == "" {
		return ro, nil
	}
	var err error
	if ro.Format, err = accesslog.ParseFormat(o.logFormat, ro.Compile); err != nil {
		return ro, usagef("--log-format: %w", err)
	}
	return ro, nil
}

// pricing are the flags as the library wants them.
func (o *lookupsOptions) pricing(conf *dnscheck.Config) (lookups.Options, error) {
	host := &dnscheck.Host{Source: o.source, Interface: o.iface}
	walk, err := o.blame()
	if err != nil {
		return lookups.Options{}, err
	}
	return lookups.Options{
		Walk: walk,
		Log:  lookups.LogOptions{KeepAliveTimeout: o.keepAlive, PerRequest: o.perRequest},
		Probe: lookups.ProbeOptions{Config: conf, Port: o.port, Rate: float64(o.rate), Double: true,
			Dial: func(ctx context.Context, network string, to netip.AddrPort) (net.Conn, error) {
				return host.Dial(ctx, network, to)
			}},
		Price: lookups.PriceOptions{Workers: o.workers, Seed: 1}, Sample: o.sample,
	}, nil
}

// walked bounds what is asked of name servers for all networks together: zones,
// those of name servers' names included, and queries.
const walkedZones, walkedQueries = 60, 1000

// blame returns what finds the name server at fault, nil if nobody is to be
// asked.
func (o *lookupsOptions) blame() (func(context.Context, netip.Addr) (string, string), error) {
	w, ok, err := o.walk.options(&o.common, o.port)
	if err != nil || !ok {
		return nil, err
	}
	w.Shallow, w.MaxZones, w.MaxQueries = true, walkedZones, walkedQueries
	walker, err := delegation.NewWalker(w)
	if err != nil {
		return nil, usagef("--root: %w", err)
	}
	return func(ctx context.Context, a netip.Addr) (guilty, why string) {
		r, err := walker.Reverse(ctx, a)
		if err != nil || r == nil {
			return "", ""
		}
		return r.Guilty, r.Text
	}, nil
}

// measure reads and prices.
func (o *lookupsOptions) measure(ctx context.Context, env *Env, p *progress, args []string, opt lookups.Options) (*lookups.Result, *accesslog.Stats, error) {
	started := time.Now()
	if o.addresses != "" {
		l, err := o.listed(opt)
		if err != nil {
			return nil, nil, err
		}
		res, err := lookups.Measure(ctx, l, opt, started)
		res.Sources = []string{o.addresses}
		return res, nil, err
	}
	readers, names, err := o.open(ctx, env, args)
	if err != nil {
		return nil, nil, err
	}
	p.set("reading %s", strings.Join(names, ", "))
	res, err := lookups.Run(ctx, accesslog.Sorted(ctx, nil, readers...), opt)
	var stats accesslog.Stats
	for _, r := range readers {
		stats = added(stats, r.Stats())
		if cerr := r.Close(); err == nil {
			err = cerr
		}
	}
	res.Sources, res.Lines, res.Broken = names, stats.Lines, stats.BrokenLines()
	res.Warnings = append(res.Warnings, stats.Warnings...)
	var formats []string
	for _, d := range stats.Formats {
		formats = append(formats, d.String())
	}
	res.Format = strings.Join(formats, "; ")
	if fe, ok := errors.AsType[*accesslog.FormatError](err); ok {
		return nil, &stats, usagef("%w; say it with --log-format", fe)
	}
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return nil, &stats, usagef("%s: %w", pe.Path, pe.Err)
	}
	if err != nil && ctx.Err() == nil {
		return nil, &stats, failf("reading %s: %w", strings.Join(names, ", "), err)
	}
	return res, &stats, err
}

// added sums up what the readers of several logs have seen.
func added(a accesslog.Stats, b *accesslog.Stats) accesslog.Stats {
	a.Lines, a.Records, a.Blank, a.Bytes = a.Lines+b.Lines, a.Records+b.Records, a.Blank+b.Blank, a.Bytes+b.Bytes
	for i, n := range b.Broken {
		a.Broken[i] += n
	}
	a.Kept, a.Warnings = append(a.Kept, b.Kept...), append(a.Warnings, b.Warnings...)
	for _, d := range b.Formats {
		if !slices.ContainsFunc(a.Formats, func(have accesslog.Detection) bool { return have.String() == d.String() }) {
			a.Formats = append(a.Formats, d)
		}
	}
	return a
}

// open prepares the logs, each with what it was rotated into.
func (o *lookupsOptions) open(ctx context.Context, env *Env, args []string) (readers []*accesslog.Reader, names []string, err error) {
	ro, err := o.readerOptions()
	if err != nil {
		return nil, nil, err
	}
	if len(args) == 1 && args[0] == "-" {
		return []*accesslog.Reader{accesslog.NewReader(ctx, ro, accesslog.Stdin(env.In))}, []string{"standard input"}, nil
	}
	for _, path := range args {
		st, err := os.Stat(path)
		switch {
		case path == "-":
			return nil, nil, usagef("- is standard input, and is read alone")
		case err != nil:
			return nil, nil, usagef("%s: %w", path, cause(err))
		case st.IsDir():
			return nil, nil, usagef("%s is a directory; name the logs in it", path)
		}
	}
	sets, twice, err := accesslog.Sets(args)
	if err != nil {
		return nil, nil, usagef("%w", err)
	}
	for _, path := range twice {
		fmt.Fprintf(env.Err, "whyslow: %s is given twice and read once\n", clean(path))
	}
	if err := accesslog.Order(ctx, sets, ro); err != nil {
		return nil, nil, usagef("%w", err)
	}
	for _, set := range sets {
		for _, s := range set.Sources {
			names = append(names, s.Name)
		}
		readers = append(readers, accesslog.NewReader(ctx, ro, set.Sources...))
	}
	return readers, names, nil
}

// listed reads a bare list of addresses.
func (o *lookupsOptions) listed(opt lookups.Options) (*lookups.Log, error) {
	f, err := os.Open(o.addresses)
	if err != nil {
		return nil, usagef("--addresses: %s: %w", o.addresses, cause(err))
	}
	defer f.Close()
	l := lookups.NewLog(opt.Log)
	for a, err := range accesslog.Addresses(o.addresses, io.Reader(f)) {
		if err != nil {
			return nil, usagef("--addresses: %w", err)
		}
		l.AddAddress(a)
	}
	return l, nil
}

// showBroken lists the first lines of each kind that could not be read.
func showBroken(env *Env, stats *accesslog.Stats) {
	if stats == nil {
		return
	}
	for _, b := range stats.Kept {
		fmt.Fprintf(env.Err, "%s:%d: %v: %s\n", clean(b.Source), b.Number, b.Fault, clean(string(b.Text)))
	}
	if n := stats.BrokenLines() - len(stats.Kept); n > 0 {
		fmt.Fprintf(env.Err, "and %d more\n", n)
	}
}
