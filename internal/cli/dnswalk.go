package cli

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/miekg/dns"
	"github.com/spf13/pflag"

	"github.com/whyslow/whyslow/dnscheck"
	"github.com/whyslow/whyslow/dnscheck/delegation"
	"github.com/whyslow/whyslow/internal/millis"
)

// walkOptions are the flags of the delegation walk.
type walkOptions struct {
	no      bool
	roots   []netip.Addr
	anchors string
}

func (o *walkOptions) addTo(fs *pflag.FlagSet) {
	fs.BoolVar(&o.no, "no-walk", false, "do not follow the name from the root and ask the servers of its zones")
	fs.Var(addrsValue{&o.roots}, "root", "begin the walk at this root server; repeatable (default IANA's)")
	fs.Var(textValue{&o.anchors, "FILE"}, "trust-anchor", "trust the DS or DNSKEY records of the root in FILE (default IANA's)")
}

// addrsValue reads IP addresses, one a flag or several with commas.
type addrsValue struct{ addrs *[]netip.Addr }

func (v addrsValue) String() string {
	if v.addrs == nil {
		return ""
	}
	var out []string
	for _, a := range *v.addrs {
		out = append(out, a.String())
	}
	return strings.Join(out, ",")
}

func (v addrsValue) Type() string { return "ADDR" }

func (v addrsValue) Set(s string) error {
	for part := range strings.SplitSeq(s, ",") {
		var a netip.Addr
		if err := (addrValue{&a}).Set(part); err != nil {
			return err
		}
		*v.addrs = append(*v.addrs, a)
	}
	return nil
}

// options are what the walk needs; ok is false where none is wanted.
func (o *walkOptions) options(c *common, port uint16) (w delegation.Options, ok bool, err error) {
	if o.no {
		if len(o.roots) > 0 || o.anchors != "" {
			return w, false, usagef("--no-walk: --root and --trust-anchor say how to walk; leave one of them out")
		}
		return w, false, nil
	}
	w = delegation.Options{Roots: o.roots, Family: dnscheck.Family(c.family()), Source: c.source, Interface: c.iface}
	if c.source.IsValid() && w.Family == dnscheck.Any {
		w.Family = dnscheck.IPv4
		if c.source.Is6() {
			w.Family = dnscheck.IPv6
		}
	}
	if len(o.roots) > 0 {
		w.Port = port // of a tree of one's own
	}
	for _, a := range o.roots {
		if w.Family != dnscheck.Any && (w.Family == dnscheck.IPv4) != a.Is4() {
			return w, false, usagef("--root: %s is of another address family than the queries", a)
		}
	}
	if o.anchors != "" {
		b, err := readBounded(o.anchors, maxAnchors)
		if err != nil {
			return w, false, usagef("--trust-anchor: %w", err)
		}
		if w.Anchors, err = delegation.ReadAnchors(bytes.NewReader(b)); err != nil {
			return w, false, usagef("--trust-anchor: %s: %w", o.anchors, err)
		}
	}
	return w, true, nil
}

// maxAnchors bounds a file of trust anchors.
const maxAnchors = 1 << 20

// runWithWalk resolves a name and walks for it beside, once the stub is
// through: before, the walk would not be alone on the wire with it.
func runWithWalk(ctx context.Context, opt dnscheck.Options, w delegation.Options) (*dnscheck.Result, error) {
	found := make(chan *dnscheck.Stub, 1)
	told := opt.OnStub
	opt.OnStub = func(s *dnscheck.Stub) {
		if told != nil {
			told(s)
		}
		found <- s
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	walked := make(chan *delegation.Result, 1)
	begin := func(s *dnscheck.Stub) {
		go func() {
			r, err := walkFor(ctx, opt, s, w)
			if err != nil {
				r = &delegation.Result{Warnings: []string{fmt.Sprintf("the walk from the root was left out: %v", err)}}
			}
			walked <- r
		}()
	}
	type result struct {
		r   *dnscheck.Result
		err error
	}
	ran := make(chan result, 1)
	go func() {
		r, err := dnscheck.Run(ctx, opt)
		ran <- result{r, err}
	}()
	started := false
	if a, err := netip.ParseAddr(opt.Name); err == nil && a.IsValid() {
		begin(nil) // an address has no stub
		started = true
	}
	for {
		select {
		case s := <-found:
			if !started {
				begin(s)
				started = true
			}
		case done := <-ran:
			if done.err != nil || done.r == nil {
				return done.r, done.err
			}
			if !started {
				begin(done.r.Stub)
			}
			r := <-walked
			if r.Walk.Outcome != "" {
				delegation.Join(done.r, r)
				done.r.Elapsed = millis.Of(time.Since(done.r.Started))
			} else {
				done.r.Warnings = append(done.r.Warnings, r.Warnings...)
			}
			return done.r, nil
		}
	}
}

// walkFor walks for the name that the stub found, its search suffix included,
// or else for the name as it was given.
func walkFor(ctx context.Context, opt dnscheck.Options, s *dnscheck.Stub, w delegation.Options) (*delegation.Result, error) {
	name := opt.Name
	if s.Found() && s.Name != "" {
		name = s.Name
	}
	qname, err := dnscheck.QueryName(name)
	if err != nil {
		return nil, err
	}
	qtype := delegation.TypeOf(qname, opt.Family)
	if s.Found() && qtype == dns.TypeA && opt.Family == dnscheck.Any && !hasIPv4(s.Addrs) {
		qtype = dns.TypeAAAA
	}
	return delegation.Run(ctx, qname, qtype, w)
}

func hasIPv4(addrs []netip.Addr) bool {
	for _, a := range addrs {
		if a.Is4() {
			return true
		}
	}
	return false
}
