package cli

import (
	"context"
	"net/netip"
	"strings"

	"github.com/spf13/cobra"

	"github.com/whyslow/whyslow/dnscheck"
	"github.com/whyslow/whyslow/reports/render"
)

type dnsOptions struct {
	common
	port      uint16
	probes    int
	reverse   bool
	noReverse bool
	noHosts   bool
}

func newDNS(env *Env) *cobra.Command {
	var o dnsOptions
	cmd := &cobra.Command{
		Use:   "dns NAME|ADDR [A|AAAA|PTR] [@SERVER…] [FLAGS]",
		Short: "Show what resolving a name costs, and which server makes it slow",
		Long: `Resolves a name as a program on this host does, by the rules of resolv.conf:
servers in order, timeouts, attempts, search list. Then asks every server
directly, for what it has in its cache and for what it must fetch, and names the
one that costs the time. An address is looked up in reverse.`,
		Example: `  whyslow dns www.example.com               what a program here waits for
  whyslow dns www.example.com AAAA          one type only
  whyslow dns www.example.com @192.0.2.53   by another server
  whyslow dns 192.0.2.7                     reverse, and the name back
  whyslow dns www.example.com --resolv-conf staging.conf --json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("no name given; for example: whyslow dns www.example.com")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return runDNS(cmd.Context(), env, &o, args)
		},
	}
	fs := cmd.Flags()
	fs.BoolVarP(&o.reverse, "reverse", "x", false, "the argument is an address, as for dig; optional")
	fs.VarP(portValue{&o.port}, "port", "p", "port of the servers (default 53)")
	fs.Var(countValue{&o.probes, 1, 100}, "samples", "how often each server is asked for each type (default 5)")
	fs.BoolVar(&o.noReverse, "no-reverse", false, "do not look up the addresses found")
	fs.BoolVar(&o.noHosts, "no-hosts", false, "do not read the hosts file")
	o.addTo(fs, letters{})
	hideTLS(fs)
	return cmd
}

// maxServers is how many servers a stub resolver asks (MAXNS of glibc).
const maxServers = 3

// question is what dig-like arguments ask for.
type question struct {
	name    string
	family  dnscheck.Family
	servers []netip.Addr
}

// parseQuestion reads arguments in any order, as dig does.
func parseQuestion(args []string, reverse bool) (question, error) {
	var q question
	for _, a := range args {
		if s, ok := strings.CutPrefix(a, "@"); ok {
			addr, err := netip.ParseAddr(s)
			if err != nil {
				return q, usagef("%q: give the server's address, as in @192.0.2.53", a)
			}
			q.servers = append(q.servers, addr)
			continue
		}
		if q.name == "" {
			q.name = a
			continue
		}
		switch strings.ToUpper(a) {
		case "A":
			q.family = dnscheck.IPv4
		case "AAAA":
			q.family = dnscheck.IPv6
		case "ANY":
			q.family = dnscheck.Any
		case "PTR":
			reverse = true
		default:
			return q, usagef("%q: only A, AAAA and PTR lookups delay a web page and are measured; one name at a time", a)
		}
	}
	if q.name == "" {
		return q, usagef("no name given; for example: whyslow dns www.example.com")
	}
	_, err := netip.ParseAddr(q.name)
	isAddr := err == nil || strings.HasSuffix(strings.TrimSuffix(strings.ToLower(q.name), "."), ".arpa")
	switch {
	case reverse && !isAddr:
		return q, usagef("%q is no address; PTR and -x, --reverse want one", q.name)
	case !isAddr && !plausibleHost(q.name):
		return q, usagef("%q is no domain name", q.name)
	case len(q.servers) > maxServers:
		return q, usagef("@%s: a resolver uses %d servers at most", q.servers[maxServers], maxServers)
	}
	return q, nil
}

func runDNS(ctx context.Context, env *Env, o *dnsOptions, args []string) error {
	if err := o.check(); err != nil {
		return err
	}
	q, err := parseQuestion(args, o.reverse)
	if err != nil {
		return err
	}
	opt := o.dnsOptions(q.name)
	if q.family != dnscheck.Any {
		if opt.Family != dnscheck.Any && opt.Family != q.family {
			return usagef("-4, -6: the type asked for belongs to the other address family")
		}
		opt.Family = q.family
	}
	opt.Port, opt.Probes, opt.NoReverse, opt.NoHosts = o.port, o.probes, o.noReverse, o.noHosts
	if len(q.servers) > 0 {
		if opt.Config, err = dnscheck.LoadResolvConf(o.resolvConf); err != nil {
			return explain("reading the resolver configuration", err)
		}
		opt.Config.Nameservers, opt.Config.NameserverLines = q.servers, nil
		opt.NoHosts = true // whoever names a server wants its answer
	}
	p := newProgress(env, &o.common)
	defer p.done()
	p.set("resolving %s", q.name)
	opt.OnStub = func(s *dnscheck.Stub) {
		p.set("resolving %s: %s in %s; asking each server", q.name, s.Rcode, s.Elapsed)
	}
	res, err := measure(ctx, &o.common, "resolving "+q.name, func(ctx context.Context) (*dnscheck.Result, error) {
		return dnscheck.Run(ctx, opt)
	})
	p.done()
	if err != nil {
		return err
	}
	if err := deliver(env, &o.common, render.DNSForms(), res); err != nil {
		return err
	}
	// A reverse lookup without a name is an answer; a name without an address
	// leaves nothing to connect to.
	return outcome(ctx, res.Stub != nil && len(res.Stub.Addrs) == 0)
}
