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
		Short: "Measure the path MTU and find where it narrows",
		Long: `Measures the largest packet that crosses the path in one piece, by sending
packets of many sizes at once. What routers claim is only a hint: a size counts
when a packet of it was answered, and one byte more was not. A path that narrows
without anybody saying so (a black hole) is found and located.`,
		Example: `  whyslow pmtu www.example.com        the path MTU and the hop that limits it
  whyslow pmtu -6 www.example.com     over IPv6
  whyslow pmtu -U 192.0.2.7           with UDP, where echo is filtered
  whyslow pmtu 192.0.2.7 --json       for a script`,
		Args: oneArg("host", "whyslow pmtu www.example.com"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runPMTU(cmd.Context(), env, &o, args[0])
		},
	}
	fs := cmd.Flags()
	fs.BoolVarP(&o.method.icmp, "icmp", "I", false, "probe with ICMP echo only")
	fs.BoolVarP(&o.method.udp, "udp", "U", false, "probe with UDP only")
	fs.VarP(portValue{&o.port}, "port", "p", "destination port of UDP probes (default 33434)")
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
	t, err := o.target(ctx, arg)
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
			Network: &netprobe.Host{}, Dst: dst, Name: t.host, Method: m, Port: o.port,
			MaxHops: o.maxHops, Wait: o.wait, Source: o.source, Interface: o.iface,
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
	return outcome(ctx, res.MTU == nil)
}

// hideTLS leaves the flags out of help that are accepted everywhere but mean
// something only where TLS is spoken.
func hideTLS(fs *pflag.FlagSet) {
	for _, name := range []string{"cacert", "insecure"} {
		fs.Lookup(name).Hidden = true
	}
}
