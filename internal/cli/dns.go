package cli

import (
	"context"
	"net/netip"
	"slices"
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
	stub      string
	walk      walkOptions
}

func newDNS(env *Env) *cobra.Command {
	var o dnsOptions
	cmd := &cobra.Command{
		Use:   "dns NAME|ADDR [A|AAAA|PTR] [@SERVER…] [FLAGS]",
		Short: "Show what resolving a name costs, and which server makes it slow",
		Long: `Resolves a name as a program on this host does, by the rules of resolv.conf:
servers in order, timeouts, attempts, search list. Then asks every server
directly, for what it has in its cache and for what it must fetch, and names the
one that costs the time. An address is looked up in reverse. Then follows the
name from the root and asks every server of every zone on the way, over UDP and
TCP, and checks their signatures; --no-walk leaves that out.`,
		Example: `  whyslow dns www.example.com               what a program here waits for
  whyslow dns www.example.com AAAA          one type only
  whyslow dns www.example.com @192.0.2.53   by another server
  whyslow dns 192.0.2.7                     reverse, and the name back
  whyslow dns www.example.com --stub musl   what a program on Alpine waits for
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
	fs.StringVar(&o.stub, "stub", "", "whose resolver to be: glibc, musl or go (default this host's)")
	o.walk.addTo(fs)
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
				return q, usagef("%s: give the server's address, as in @192.0.2.53", quoted(a))
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
			return q, usagef("%s: only A, AAAA and PTR lookups delay a web page and are measured; one name at a time", quoted(a))
		}
	}
	if q.name == "" {
		return q, usagef("no name given; for example: whyslow dns www.example.com")
	}
	_, err := netip.ParseAddr(q.name)
	isAddr := err == nil || strings.HasSuffix(strings.TrimSuffix(strings.ToLower(q.name), "."), ".arpa")
	switch {
	case reverse && !isAddr:
		return q, usagef("%s is no address; PTR and -x, --reverse want one", quoted(q.name))
	case strings.ContainsAny(q.name, "/:@?#") && !isAddr:
		return q, usagef("%s is no domain name; of a URL, give the host alone", quoted(q.name))
	case !isAddr:
		if err := checkHost(q.name); err != nil {
			return q, usagef("%s %w", quoted(q.name), err)
		}
	}
	switch {
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
	if err := o.answerable(ctx, q); err != nil {
		return err
	}
	opt := o.dnsOptions(q.name)
	opt.Family = dnscheck.Family(o.family()) // a server of one family knows both
	if q.family != dnscheck.Any {
		if opt.Family != dnscheck.Any && opt.Family != q.family {
			return usagef("-4, -6: the type asked for belongs to the other address family")
		}
		opt.Family = q.family
	}
	if opt.Model, err = stubModel(o.stub); err != nil {
		return err
	}
	opt.Port, opt.Probes, opt.NoReverse, opt.NoHosts = o.port, o.probes, o.noReverse, o.noHosts
	if len(q.servers) > 0 {
		if opt.Config, err = dnscheck.LoadResolvConf(o.resolvConf); err != nil {
			return explain("reading the resolver configuration", err)
		}
		opt.Config.Nameservers, opt.Config.NameserverLines = q.servers, nil
		opt.NoHosts = true // whoever names a server wants its answer
	}
	walk, walks, err := o.walk.options(&o.common, o.port)
	if err != nil {
		return err
	}
	run := dnscheck.Run
	if walks {
		run = func(ctx context.Context, opt dnscheck.Options) (*dnscheck.Result, error) {
			return runWithWalk(ctx, opt, walk)
		}
	}
	res, err := o.ask(ctx, env, opt, run)
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

// stubModel reads the value of --stub.
func stubModel(s string) (dnscheck.Model, error) {
	if s == "" {
		return dnscheck.HostModel(), nil
	}
	if m := dnscheck.Model(strings.ToLower(s)); slices.Contains(dnscheck.Models(), m) {
		return m, nil
	}
	return "", usagef("--stub %s: there are glibc, musl and go", quoted(s))
}

// answerable refuses a question that the flags contradict.
func (o *dnsOptions) answerable(ctx context.Context, q question) error {
	if a, err := netip.ParseAddr(q.name); err == nil && (o.ipv4 && a.Is6() || o.ipv6 && a.Is4()) {
		return usagef("-4, -6: %s is of the other address family; leave the flag out", a)
	}
	if len(q.servers) == 0 {
		return o.checkNameservers(ctx, q.name)
	}
	for _, s := range q.servers {
		if err := o.checkServers([]netip.Addr{s}); err != nil {
			return usagef("@%s: %w", s, err)
		}
	}
	return nil
}

// ask measures one question and shows how far it is.
func (o *dnsOptions) ask(ctx context.Context, env *Env, opt dnscheck.Options,
	run func(context.Context, dnscheck.Options) (*dnscheck.Result, error)) (*dnscheck.Result, error) {
	p := newProgress(env, &o.common)
	defer p.done()
	p.set("resolving %s", opt.Name)
	opt.OnStub = func(s *dnscheck.Stub) {
		p.set("resolving %s: %s in %s; asking each server", opt.Name, s.Rcode, s.Elapsed)
	}
	return measure(ctx, &o.common, "resolving "+opt.Name, func(ctx context.Context) (*dnscheck.Result, error) {
		return run(ctx, opt)
	})
}
