package demo

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/miekg/dns"

	"github.com/whyslow/whyslow/internal/netlab/servers"
)

// site is everything that serves in a demo: a web server, the resolver that
// visitor and web server share, and the authority behind it.
type site struct {
	ca      *servers.CA
	closers []func() error
}

// close ends what was started, the last first.
func (s *site) close() error {
	var errs []error
	for _, c := range slices.Backward(s.closers) {
		errs = append(errs, c())
	}
	return errors.Join(errs...)
}

// ground is where the parts of a site stand and under which addresses.
type ground struct {
	web, resolver, authority             servers.Place
	webAddr, resolverAddr, authorityAddr netip.AddrPort // the web's is that of plain HTTP or of TLS, as the plan says
	visitor                              netip.Addr
}

// start starts the site of a plan. What was started is closed by close, also
// if start fails.
func (s *site) start(p *plan, g ground) error {
	auth, err := servers.StartAuthority(servers.AuthorityConfig{
		Place: g.authority, Addrs: []netip.AddrPort{g.authorityAddr}, Zones: p.zones(g), Faults: p.authorityFaults()})
	if err != nil {
		return err
	}
	s.closers = append(s.closers, auth.Close)
	res, err := servers.StartResolver(servers.ResolverConfig{
		Place: g.resolver, Addrs: []netip.AddrPort{g.resolverAddr},
		Forwards: []servers.Forward{{Zone: ".", Servers: []netip.AddrPort{g.authorityAddr}}},
		Timeout:  5 * time.Second, Faults: p.resolverFaults()})
	if err != nil {
		return err
	}
	s.closers = append(s.closers, res.Close)
	return s.startWeb(p, g)
}

func (s *site) startWeb(p *plan, g ground) error {
	cfg := servers.HTTPConfig{Place: g.web, Routes: p.routes(), Banner: "demo",
		AcceptDelay: p.web.accept, HandshakeDelay: p.web.handshake}
	switch p.web.lookup {
	case lookupBefore:
		cfg.Lookup = servers.Lookup{When: servers.BeforeResponse, Double: true, Resolvers: []netip.AddrPort{g.resolverAddr}}
	case lookupWhileLogging:
		cfg.Lookup = servers.Lookup{When: servers.WhileLogging, Resolvers: []netip.AddrPort{g.resolverAddr}}
	}
	var err error
	if s.ca, err = servers.NewCA(); err != nil {
		return err
	}
	if p.web.tls {
		cfg.TLSAddrs = []netip.AddrPort{g.webAddr}
		cfg.Certificate, err = s.ca.Issue(servers.CertificateConfig{Names: []string{webName}, Addrs: []netip.Addr{g.webAddr.Addr()}})
		if err != nil {
			return err
		}
	} else {
		cfg.Addrs = []netip.AddrPort{g.webAddr}
	}
	web, err := servers.StartHTTP(cfg)
	if err != nil {
		return err
	}
	s.closers = append(s.closers, web.Close)
	return nil
}

// routes is the web server's content: the page, and the redirects to it.
func (p *plan) routes() map[string]servers.Route {
	page := servers.Route{Think: p.web.think, Size: int64(p.web.bytes), Lookup: p.web.lookup == lookupBefore}
	if p.web.drip > 0 {
		page.Pace = servers.Pace{Chunk: p.web.bytes/p.web.drip + 1, Every: p.web.dripPause}
	}
	routes := map[string]servers.Route{"/page": page}
	for i := 1; i <= p.web.redirects; i++ {
		to := fmt.Sprintf("/old/%d", i-1)
		if i == 1 {
			to = "/page"
		}
		routes[fmt.Sprintf("/old/%d", i)] = servers.Route{Redirect: to}
	}
	return routes
}

// zones are the authority's: the site's own, and the reverse zones of the
// visitor, the web server and the routers.
func (p *plan) zones(g ground) []servers.Zone {
	forward := servers.Zone{Origin: siteZone, Records: []string{
		fmt.Sprintf("www 300 IN A %s", g.webAddr.Addr())}}
	if g.webAddr.Addr().Is6() {
		forward.Records = []string{fmt.Sprintf("www 300 IN AAAA %s", g.webAddr.Addr())}
	}
	isp := servers.Zone{Origin: "isp.example", Records: []string{fmt.Sprintf("visitor 0 IN %s %s", rrType(g.visitor), g.visitor)}}
	ttl := 300
	if p.dns.reverseDelay > 0 {
		ttl = 0
	}
	zones := []servers.Zone{forward, isp,
		reverseZone(g.visitor, ttl, "visitor.isp.example."), reverseZone(g.webAddr.Addr(), 300, webName+".")}
	if len(p.routers) > 0 && g.visitor.Is4() && !g.visitor.IsLoopback() {
		zones = append(zones, p.routerNames())
	}
	return merge(zones)
}

func rrType(a netip.Addr) string {
	if a.Is4() {
		return "A"
	}
	return "AAAA"
}

func (p *plan) routerNames() servers.Zone {
	z := servers.Zone{Origin: "100.51.198.in-addr.arpa"}
	for i := range p.routers {
		z.Records = append(z.Records, fmt.Sprintf("%d 300 IN PTR r%d.transit.example.", i+1, i+1))
	}
	return z
}

// reverseZone holds one PTR record: the zone of a /24, or of the address
// itself for IPv6.
func reverseZone(a netip.Addr, ttl int, name string) servers.Zone {
	arpa, err := dns.ReverseAddr(a.String())
	if err != nil {
		return servers.Zone{}
	}
	labels := dns.SplitDomainName(arpa)
	return servers.Zone{Origin: dns.Fqdn(joinLabels(labels[1:])), Records: []string{fmt.Sprintf("%s %d IN PTR %s", labels[0], ttl, name)}}
}

func joinLabels(labels []string) string {
	out := ""
	for _, l := range labels {
		out += l + "."
	}
	return out
}

// merge joins zones of one origin, as happens when visitor and server share
// the loopback network.
func merge(zones []servers.Zone) []servers.Zone {
	var out []servers.Zone
	for _, z := range zones {
		i := slices.IndexFunc(out, func(o servers.Zone) bool { return o.Origin == z.Origin })
		if i < 0 {
			out = append(out, z)
			continue
		}
		for _, r := range z.Records {
			if !slices.Contains(out[i].Records, r) {
				out[i].Records = append(out[i].Records, r)
			}
		}
	}
	return out
}

func (p *plan) authorityFaults() []servers.DNSFault {
	var faults []servers.DNSFault
	if p.dns.authorityDelay > 0 {
		faults = append(faults, servers.DNSFault{Suffix: siteZone, Delay: p.dns.authorityDelay})
	}
	if p.dns.reverseDelay > 0 {
		faults = append(faults, servers.DNSFault{Suffix: "arpa", Types: []uint16{dns.TypePTR}, Delay: p.dns.reverseDelay})
	}
	return faults
}

func (p *plan) resolverFaults() []servers.DNSFault {
	var faults []servers.DNSFault
	if p.dns.resolverDelay > 0 {
		faults = append(faults, servers.DNSFault{Delay: p.dns.resolverDelay})
	}
	if p.dns.dropAAAA {
		faults = append(faults, servers.DNSFault{Types: []uint16{dns.TypeAAAA}, Action: servers.Drop})
	}
	return faults
}
