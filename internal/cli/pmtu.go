package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/whyslow/whyslow/internal/netprobe"
	"github.com/whyslow/whyslow/pmtu"
	"github.com/whyslow/whyslow/reports/render"
)

type pmtuOptions struct {
	common
	method  method
	port    uint16
	maxHops int
	wait    time.Duration
	noHTTP  bool
}

func newPMTU(env *Env) *cobra.Command {
	var o pmtuOptions
	cmd := &cobra.Command{
		Use:   "pmtu HOST|URL [FLAGS]",
		Short: "Measure the path MTU both ways, and find where it narrows",
		Long: `Measures the largest packet that crosses the path in one piece. The way there
is measured by packets of many sizes at once: a size counts when a packet of it
was answered, and one byte more was not, whatever routers claim. A path that
narrows without anybody saying so (a black hole) is found, and so is the hop.
The way back, on which most of a page travels, is measured by fetching a page
with segments of several sizes, if a web server answers: once where it comes, 16
times at most where it stalls. Echo is tried first, then UDP, then TCP.`,
		Example: `  whyslow pmtu www.example.com            both ways, and the hop that limits it
  whyslow pmtu https://www.example.com/b  the way back, by another page
  whyslow pmtu --no-http 192.0.2.7        the way there only
  whyslow pmtu -T -p 8443 192.0.2.7       with TCP, where others are filtered
  whyslow pmtu -6 www.example.com --json  over IPv6, for a script`,
		Args: oneArg("host", "whyslow pmtu www.example.com"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runPMTU(cmd.Context(), env, &o, args[0])
		},
	}
	fs := cmd.Flags()
	fs.BoolVarP(&o.method.icmp, "icmp", "I", false, "probe with ICMP echo only")
	fs.BoolVarP(&o.method.udp, "udp", "U", false, "probe with UDP only")
	fs.BoolVarP(&o.method.tcp, "tcp", "T", false, "probe with TCP only, by data to a port that is open")
	fs.VarP(portValue{&o.port}, "port", "p", "destination port of UDP probes (else 33434) and TCP probes (else the URL's, or 443)")
	fs.VarP(countValue{&o.maxHops, 1, 64}, "max-hops", "m", "the largest TTL used to find the limiting hop (default 30)")
	fs.VarP(newDuration(&o.wait, 10*time.Millisecond, time.Minute), "wait", "w", "longest wait for the first answer (default 1)")
	fs.BoolVar(&o.noHTTP, "no-http", false, "fetch no page: do not test what comes back from the server")
	o.addTo(fs, letters{})
	hideTLS(fs)
	return cmd
}

func runPMTU(ctx context.Context, env *Env, o *pmtuOptions, arg string) error {
	if err := o.check(); err != nil {
		return err
	}
	m, err := o.method.choose()
	if err != nil {
		return err
	}
	if err := o.method.checkPort(o.port); err != nil {
		return err
	}
	t, err := o.traceable(ctx, arg)
	if err != nil {
		return err
	}
	p := newProgress(env, &o.common)
	defer p.done()
	res, err := measure(ctx, &o.common, "measuring the path MTU to "+t.host, func(ctx context.Context) (*pmtu.Result, error) {
		p.set("resolving %s", t.host)
		dst, err := o.first(ctx, t.host)
		if err != nil {
			return nil, err
		}
		p.set("measuring the path MTU to %s (%s)", t.host, dst)
		opt := pmtu.Options{
			Network: &netprobe.Host{}, Dst: dst, Name: t.host, Method: m, Port: o.port, TCPPort: t.port,
			MaxHops: o.maxHops, Wait: o.wait, Source: o.source, Interface: o.iface,
		}
		if o.port != 0 && m != netprobe.UDP {
			opt.TCPPort = o.port
		}
		if !o.noHTTP {
			web := &page{common: &o.common, host: dst, target: t}
			opt.Fetch = web.fetch
		}
		return pmtu.Run(ctx, opt)
	})
	p.done()
	if err != nil {
		return err
	}
	if err := deliver(env, &o.common, render.PMTUForms(), res); err != nil {
		return err
	}
	return outcome(ctx, res.MTU == nil && res.AtLeast == nil)
}

// hideTLS leaves the flags out of help that are accepted everywhere but mean
// something only where TLS is spoken.
func hideTLS(fs *pflag.FlagSet) {
	for _, name := range []string{"cacert", "insecure"} {
		fs.Lookup(name).Hidden = true
	}
}
