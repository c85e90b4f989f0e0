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

// nameWait bounds one question for the name or the origin of a router. These
// are decoration: no measurement waits for them.
const nameWait = time.Second

// asker asks the configured resolvers, one after the other.
type asker struct {
	ex   dnscheck.Exchanger
	conf *dnscheck.Config
	port uint16
}

// any is the answer of the first resolver that gives one, nil if none does. One
// that says it cannot tell has given none.
func (a asker) any(ctx context.Context, name string, kind uint16) *dns.Msg {
	for _, server := range a.conf.Nameservers {
		one, cancel := context.WithTimeout(ctx, nameWait)
		got, err := a.ex.Exchange(one, dnscheck.Query{Server: netip.AddrPortFrom(server, a.port), Name: name, Type: kind})
		cancel()
		if err == nil && got.Msg != nil && (got.Msg.Rcode == dns.RcodeSuccess || got.Msg.Rcode == dns.RcodeNameError) {
			return got.Msg
		}
		if ctx.Err() != nil {
			return nil
		}
	}
	return nil
}

// Names returns a function that looks up the PTR name of an address at the
// configured resolvers, the first that answers; "" where there is none. It
// suits trace.Options.Names. Zero is no port. Search lists play no part in reverse lookups.
func Names(ex dnscheck.Exchanger, conf *dnscheck.Config, port uint16) func(context.Context, netip.Addr) string {
	ask := asker{ex, conf, port}
	return func(ctx context.Context, addr netip.Addr) string {
		arpa, err := dns.ReverseAddr(addr.Unmap().WithZone("").String())
		if err != nil {
			return ""
		}
		if m := ask.any(ctx, arpa, dns.TypePTR); m != nil {
			return firstPTR(m)
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
