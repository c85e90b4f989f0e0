package diagnose

import (
	"cmp"
	"context"
	"net/netip"
	"strings"
	"time"

	"github.com/miekg/dns"

	"github.com/whyslow/whyslow/dnscheck"
)

// nameWait bounds one question for a router's name. Names are decoration: no
// measurement waits for them.
const nameWait = time.Second

// Names returns a function that looks up the PTR name of an address at the
// configured resolvers, the first that answers; "" where there is none. It
// suits trace.Options.Names. Zero is no port. Search lists play no part in reverse lookups.
func Names(ex dnscheck.Exchanger, conf *dnscheck.Config, port uint16) func(context.Context, netip.Addr) string {
	return func(ctx context.Context, addr netip.Addr) string {
		arpa, err := dns.ReverseAddr(addr.Unmap().WithZone("").String())
		if err != nil {
			return ""
		}
		for _, server := range conf.Nameservers {
			one, cancel := context.WithTimeout(ctx, nameWait)
			a, err := ex.Exchange(one, dnscheck.Query{
				Server: netip.AddrPortFrom(server, port), Name: arpa, Type: dns.TypePTR})
			cancel()
			if err == nil && a.Msg != nil {
				return firstPTR(a.Msg)
			}
			if ctx.Err() != nil {
				return ""
			}
		}
		return ""
	}
}

func firstPTR(m *dns.Msg) string {
	for _, rr := range m.Answer {
		if ptr, ok := rr.(*dns.PTR); ok {
			return strings.TrimSuffix(ptr.Ptr, ".")
		}
	}
	return ""
}

// names is Names for the diagnosis's own configuration; nil, so no names, if
// that cannot be read.
func (r *run) names() func(context.Context, netip.Addr) string {
	conf, err := dnscheck.LoadResolvConf(r.opt.ResolvConf)
	if err != nil {
		return nil
	}
	return Names(&dnscheck.Host{Source: r.opt.Source, Interface: r.opt.Interface}, conf, cmp.Or(r.opt.DNSPort, 53))
}
