package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/whyslow/whyslow/internal/diagnose"
	"github.com/whyslow/whyslow/internal/netprobe"
	"github.com/whyslow/whyslow/reports/render"
	"github.com/whyslow/whyslow/trace"
)

type traceOptions struct {
	common
	method   method
	port     uint16
	maxHops  int
	firstHop int
	queries  int
	rounds   int
	wait     time.Duration
	interval time.Duration
	noNames  bool
	noMTU    bool
	samples  int
	flows    int // to find parallel paths with; 0 is none
	asn      bool
	asnZone  string
	origins  *diagnose.Origins // nil if not asked for
	live     bool
}

// method are the switches that choose a probe protocol.
type method struct{ icmp, udp, tcp bool }

func (m method) choose() (netprobe.Method, error) {
	n, chosen := 0, netprobe.Auto
	for _, c := range []struct {
		on bool
		m  netprobe.Method
	}{{m.icmp, netprobe.ICMP}, {m.udp, netprobe.UDP}, {m.tcp, netprobe.TCP}} {
		if c.on {
			n, chosen = n+1, c.m
		}
	}
	if n > 1 {
		return 0, usagef("-I, -U and -T exclude each other")
	}
	return chosen, nil
}

// checkPort refuses a port where there are none. traceroute takes -p with -I
// for the first sequence number, which says nothing of the path.
func (m method) checkPort(port uint16) error {
	if m.icmp && port > 0 {
		return usagef("-p, --port: ICMP echo has no ports; take -U or -T, or leave -p out")
	}
	return nil
}

func newTrace(env *Env) *cobra.Command {
	var o traceOptions
	cmd := &cobra.Command{
		Use:   "trace HOST|URL… [FLAGS]",
		Short: "Show every hop to a host, and which one really delays",
		Long: `Traces the path to a host with packets whose TTL runs out on the way: every
hop, its latency, loss and MTU. All hops are asked at once, so a trace takes
about one round trip to the destination. A router that only answers slowly is
told apart from one that forwards slowly: what counts is what lies behind it.`,
		Example: `  whyslow trace www.example.com            the best protocol this host permits
  whyslow trace -T www.example.com         with TCP to port 443, like a browser
  whyslow trace -T -p 8080 192.0.2.7       with TCP to another port
  whyslow trace -n -q 10 www.example.com   no names, ten probes a hop
  whyslow trace -c 60 www.example.com      sixty rounds, one each second
  whyslow trace -c 60 --format mtr www.example.com    for a ticket
  whyslow trace --paths 64 www.example.com the parallel paths, the bad one named
  whyslow trace --live www.example.com     watch it, as with mtr
  whyslow trace -n 192.0.2.7 192.0.2.8     several at once
  whyslow trace -6 www.example.com --json  over IPv6, for a script`,
		Args: someArgs("host", "whyslow trace www.example.com", mostTraces),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return runTraces(cmd.Context(), env, &o, args)
			}
			return runTrace(cmd.Context(), env, &o, args[0])
		},
	}
	fs := cmd.Flags()
	fs.BoolVarP(&o.method.icmp, "icmp", "I", false, "probe with ICMP echo")
	fs.BoolVarP(&o.method.tcp, "tcp", "T", false, "probe with TCP SYN")
	fs.BoolVarP(&o.method.udp, "udp", "U", false, "probe with UDP")
	fs.VarP(portValue{&o.port}, "port", "p", "destination port of TCP probes (else the URL's, or 443) and UDP probes (else 33434)")
	fs.VarP(countValue{&o.queries, 1, 10}, "queries", "q", "probes for each hop (default 3)")
	fs.VarP(countValue{&o.rounds, 1, 1_000_000}, "count", "c", "rounds of one probe for each hop, in place of -q")
	fs.VarP(newDuration(&o.interval, 10*time.Millisecond, time.Hour), "interval", "i", "time between two probes to one hop (default up to 17ms, from -q 6 on 100ms, with -c 1s)")
	fs.VarP(countValue{&o.firstHop, 1, 64}, "first", "f", "begin at this TTL (default 1)")
	fs.VarP(countValue{&o.maxHops, 1, 64}, "max-hops", "m", "the largest TTL (default 30)")
	fs.VarP(newDuration(&o.wait, 10*time.Millisecond, time.Minute), "wait", "w", "wait this long for each answer (default 1.2 for the destination, about 0.25 for a hop)")
	fs.BoolVarP(&o.noNames, "numeric", "n", false, "look up no names")
	fs.BoolVar(&o.asn, "asn", false, "look up whose each address is: AS number and name; a third party learns of it, by DNS")
	fs.Var(textValue{&o.asnZone, "ZONE"}, "asn-zone", "ask this zone for --asn (default asn.cymru.com)")
	o.samples = 100
	fs.Var(countValue{&o.samples, 0, 1000}, "samples", "echoes to the destination and to each router that tell real loss, and TCP connects to it, of these 20 at most; 0 is none")
	fs.Var(countValue{&o.flows, 2, 512}, "paths", "find parallel paths (ECMP) with up to N flows, and the bad one among them")
	fs.BoolVar(&o.live, "live", false, "redraw the table in place until q is pressed, then print it; ? shows the keys")
	fs.BoolVar(&o.noMTU, "no-mtu", false, "do not measure the path MTU")
	o.formats = append(traceFormats(), format{formatLines, []string{"jsonl", "ndjson"}})
	o.addTo(fs, letters{source: "s"})
	hideTLS(fs)
	return cmd
}

func runTrace(ctx context.Context, env *Env, o *traceOptions, arg string) error {
	if err := o.checkTrace(env); err != nil {
		return err
	}
	m, err := o.method.choose()
	if err != nil {
		return err
	}
	t, err := o.traceable(ctx, arg)
	if err != nil {
		return err
	}
	if o.live {
		return o.watch(ctx, env, t, m)
	}
	p := newProgress(env, &o.common)
	defer p.done()
	rec := newRecorder(env, &o.common)
	res, err := measure(ctx, &o.common, "tracing "+t.host, func(ctx context.Context) (*trace.Result, error) {
		return o.trace(ctx, p, rec, t, m)
	})
	p.done()
	if err != nil {
		return err
	}
	return o.finish(ctx, env, rec, res)
}

// finish writes the result and says how the command ends.
func (o *traceOptions) finish(ctx context.Context, env *Env, rec *recorder, res *trace.Result) error {
	if err := deliverRecorded(rec, env, &o.common, render.TraceForms(), res, res); err != nil {
		return err
	}
	return outcome(ctx, unanswered(res))
}

// unanswered reports whether nobody answered at all.
func unanswered(res *trace.Result) bool {
	return !res.Reached && !slices.ContainsFunc(res.Hops, func(h trace.Hop) bool { return !h.Silent })
}

// checkTrace validates the flags together.
func (o *traceOptions) checkTrace(env *Env) error {
	if err := o.check(); err != nil {
		return err
	}
	if last := cmp.Or(o.maxHops, 30); o.firstHop > last {
		return usagef("-f, --first: %d lies beyond the largest TTL, %d (-m, --max-hops)", o.firstHop, last)
	}
	if o.rounds > 0 && o.queries > 0 {
		return usagef("-q, --queries and -c, --count exclude each other: both say how many probes each hop gets")
	}
	if err := o.method.checkPort(o.port); err != nil {
		return err
	}
	if o.asn || o.asnZone != "" {
		var err error
		if o.origins, err = o.newOrigins(o.asnZone); err != nil {
			return explain("reading the resolver configuration", err)
		}
	}
	if o.live {
		return o.checkLive(env)
	}
	return nil
}

// noteOrigins says that the AS numbers are missing because nobody could be
// asked, which looks like addresses that have none.
func (o *traceOptions) noteOrigins(res *trace.Result) {
	if o.origins != nil && o.origins.Unanswered() {
		res.Warnings = append(res.Warnings, fmt.Sprintf(
			"--asn: nobody answered for %s within the time of the trace; whyslow dns %[1]s tells whether the resolver works", o.origins.Zone()))
	}
}

// options are what the flags mean to the instrument.
func (o *traceOptions) options(t target, m netprobe.Method) (trace.Options, error) {
	opt := trace.Options{
		Name: t.host, Method: m, Port: o.port,
		FirstHop: o.firstHop, MaxHops: o.maxHops, Queries: o.queries, Wait: o.wait, Interval: o.interval,
		Source: o.source, Interface: o.iface,
	}
	if o.rounds > 0 {
		opt.Queries, opt.Interval = o.rounds, cmp.Or(o.interval, time.Second)
	}
	if opt.Port == 0 && m != netprobe.UDP {
		opt.Port = t.port
	}
	var err error
	if !o.noNames {
		opt.Names, err = o.names()
	}
	if o.origins != nil {
		opt.Origin = o.origins.Find
	}
	return opt, err
}

// outcome is the error a command ends with once its result is written.
func outcome(ctx context.Context, unmeasured bool) error {
	switch {
	case ctx.Err() != nil:
		return exit(statusInterrupted)
	case unmeasured:
		return exit(statusUnmeasured)
	}
	return nil
}
