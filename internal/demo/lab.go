package demo

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/whyslow/whyslow/internal/diagnose"
	"github.com/whyslow/whyslow/internal/netlab"
	"github.com/whyslow/whyslow/internal/simnet"
)

// labStage is a plan that stands in a lab.
type labStage struct {
	site
	lab    *netlab.Lab
	plan   *plan
	config string // path of the resolv.conf
}

// topology is a plan's model and who is who in it.
type topology struct {
	net                              *simnet.Net
	client, web, resolver, authority simnet.NodeID
}

// near is a link within a building.
var near = simnet.Link{Delay: 300 * time.Microsecond}

// build makes the model: client – routers – web server, with the resolver at
// the first router and the authority at the second.
func (p *plan) build() topology {
	n := simnet.New(p.seed)
	t := topology{net: n,
		client:    n.AddHost(simnet.Host{Name: "client", Addrs: []netip.Addr{clientAddr}}),
		web:       n.AddHost(simnet.Host{Name: "web", Addrs: []netip.Addr{webAddr}}),
		resolver:  n.AddHost(simnet.Host{Name: "resolver", Addrs: []netip.Addr{resolverAddr}}),
		authority: n.AddHost(simnet.Host{Name: "authority", Addrs: []netip.Addr{authorityAddr}}),
	}
	chain := []simnet.NodeID{t.client}
	for _, r := range p.routers {
		chain = append(chain, n.AddRouter(r))
	}
	chain = append(chain, t.web)
	for i := range p.there {
		n.Connect(chain[i], chain[i+1], p.there[i], p.back[i])
	}
	n.Connect(chain[1], t.resolver, near, near)
	n.Connect(chain[2], t.authority, near, near)
	if p.dns.deadFirst {
		dead := n.AddHost(simnet.Host{Name: "dead", Addrs: []netip.Addr{deadAddr}, EchoSilent: true})
		n.Connect(chain[1], dead, near, near)
		n.Attach(dead, func(time.Time, []byte) {}) // takes everything, says nothing
	}
	return t
}

func newLabStage(ctx context.Context, p *plan) (st stage, err error) {
	t := p.build()
	lab, err := netlab.New(netlab.Config{Net: t.net, Client: t.client, Ends: []netlab.End{
		{Node: t.client, Name: "client", Addrs: []netip.Addr{clientAddr}},
		{Node: t.web, Name: "web", Addrs: []netip.Addr{webAddr}},
		{Node: t.resolver, Name: "resolver", Addrs: []netip.Addr{resolverAddr}},
		{Node: t.authority, Name: "authority", Addrs: []netip.Addr{authorityAddr}},
	}})
	if err != nil {
		return nil, err
	}
	s := &labStage{lab: lab, plan: p}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if s.config, err = lab.WriteFile("resolv.conf", []byte(p.resolvConf())); err != nil {
		return nil, err
	}
	port := uint16(80)
	if p.web.tls {
		port = 443
	}
	return s, s.start(p, ground{
		web: lab.Server(t.web), resolver: lab.Server(t.resolver), authority: lab.Server(t.authority),
		webAddr:       netip.AddrPortFrom(webAddr, port),
		resolverAddr:  netip.AddrPortFrom(resolverAddr, 53),
		authorityAddr: netip.AddrPortFrom(authorityAddr, 53),
		visitor:       clientAddr,
	})
}

func (p *plan) resolvConf() string {
	var b strings.Builder
	if p.dns.deadFirst {
		fmt.Fprintf(&b, "nameserver %s\n", deadAddr)
	}
	fmt.Fprintf(&b, "nameserver %s\n", resolverAddr)
	return b.String()
}

func (s *labStage) options() diagnose.Options {
	return diagnose.Options{URL: s.plan.url(), ResolvConf: s.config, RootCAs: s.ca.Pool()}
}

func (s *labStage) close() error { return errors.Join(s.site.close(), s.lab.Close()) }
