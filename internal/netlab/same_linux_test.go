package netlab_test

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/whyslow/whyslow/internal/netlab"
	"github.com/whyslow/whyslow/internal/netlab/labtest"
	"github.com/whyslow/whyslow/internal/netprobe"
	"github.com/whyslow/whyslow/internal/netprobe/modelnet"
	"github.com/whyslow/whyslow/internal/simnet"
	"github.com/whyslow/whyslow/internal/wire"
	"github.com/whyslow/whyslow/pmtu"
	"github.com/whyslow/whyslow/trace"
)

// topology is a chain, and what one of its routers does: to the kernel's in
// the words of nft, to the model's in its own.
type topology struct {
	name    string
	routers int
	change  func(c *netlab.ChainConfig)
	model   func(i int, r *simnet.Router) // routers count from 0
	// target is what is measured. The zero value is the server.
	target map[bool]netip.Addr // by "is IPv6"
	// spread says that flows take different ways: then many are traced.
	spread bool
	// maxHops keeps the trace short, and to one probe a hop: Linux reports
	// unroutable packets of IPv4 five times and then once a second, whatever
	// its limit on errors is. Zero means 16, and three probes.
	maxHops int
}

var (
	public4 = netip.MustParseAddr("203.0.113.80")
	public6 = netip.MustParseAddr("2001:db8:80::80")
)

func only(k int, do func(*simnet.Router)) func(int, *simnet.Router) {
	return func(i int, r *simnet.Router) {
		if i == k {
			do(r)
		}
	}
}

func rules(k int, text string) func(*netlab.ChainConfig) {
	return func(c *netlab.ChainConfig) { c.Rules = map[int]string{k: text} }
}

// ruleset is a table with one chain, in the words of nft.
func ruleset(family, kind, hook, priority string, lines ...string) string {
	return fmt.Sprintf("table %s t {\nchain c {\ntype %s hook %s priority %s\n%s\n}\n}\n",
		family, kind, hook, priority, strings.Join(lines, "\n"))
}

func narrow(mtus map[int]int) func(*netlab.ChainConfig) {
	return func(c *netlab.ChainConfig) {
		for i, mtu := range mtus {
			c.MTUs[i] = mtu
		}
	}
}

// beside adds n routers beside router i.
func beside(i, n int, back bool) func(*netlab.ChainConfig) {
	return func(c *netlab.ChainConfig) {
		c.Beside = map[int][][]netip.Addr{i: nil}
		c.Back = map[int]bool{i: back}
		for k := range n {
			c.Beside[i] = append(c.Beside[i], routerAddrs(100+k))
		}
	}
}

func routerAddrs(i int) []netip.Addr {
	return []netip.Addr{
		netip.AddrFrom4([4]byte{192, 0, 2, byte(i + 1)}),
		netip.MustParseAddr(fmt.Sprintf("2001:db8:f::%d", i+1)),
	}
}

func topologies() []topology {
	nat := ruleset("ip", "nat", "postrouting", "100", fmt.Sprintf(`ip saddr %v oifname "right" snat to %v`, client4, routerAddrs(1)[0])) +
		ruleset("ip6", "nat", "postrouting", "100", fmt.Sprintf(`ip6 saddr %v oifname "right" snat to %v`, client6, routerAddrs(1)[1]))
	forward := ruleset("ip", "nat", "prerouting", "-100", fmt.Sprintf("ip daddr %v dnat to %v", public4, server4)) +
		ruleset("ip6", "nat", "prerouting", "-100", fmt.Sprintf("ip6 daddr %v dnat to %v", public6, server6))
	return []topology{
		{name: "1 hop", routers: 0},
		{name: "3 hops", routers: 2},
		{name: "8 hops", routers: 7},
		{name: "12 hops", routers: 11},
		{name: "narrow", routers: 4, change: narrow(map[int]int{3: 1400})},
		{name: "narrow twice", routers: 4, change: narrow(map[int]int{2: 1450, 4: 1320})},
		{name: "black hole", routers: 4, change: func(c *netlab.ChainConfig) {
			narrow(map[int]int{3: 1400})(c)
			rules(2, ruleset("inet", "filter", "output", "0",
				"icmp type destination-unreachable icmp code frag-needed drop", "icmpv6 type packet-too-big drop"))(c)
		}, model: only(2, func(r *simnet.Router) { r.TooBig = simnet.Absent })},
		{name: "silent router", routers: 4, change: rules(1,
			ruleset("inet", "filter", "output", "0", "meta l4proto { icmp, icmpv6 } drop")),
			model: only(1, func(r *simnet.Router) { r.Silent = true })},
		{name: "UDP filtered", routers: 4, change: rules(2,
			ruleset("inet", "filter", "forward", "0", "meta l4proto udp drop")),
			model: only(2, func(r *simnet.Router) { r.Filters = []simnet.Filter{{Proto: wire.UDP}} })},
		{name: "ECMP of 2", routers: 3, change: beside(1, 1, false), spread: true},
		{name: "ECMP of 4", routers: 4, change: beside(2, 3, false), spread: true},
		{name: "masquerade", routers: 4, change: rules(1, nat), model: only(1, func(r *simnet.Router) {
			r.NAT = &simnet.NAT{Inside: []netip.Prefix{netip.PrefixFrom(client4, 32), netip.PrefixFrom(client6, 128)}}
		})},
		{name: "forwarded to an inside host", routers: 4, change: func(c *netlab.ChainConfig) {
			rules(2, forward)(c)
			c.Server = append(c.Server, public4, public6) // for the routes
		}, model: only(2, func(r *simnet.Router) {
			r.NAT = &simnet.NAT{Forwards: []simnet.Forward{{Addr: public4, To: server4}, {Addr: public6, To: server6}}}
		}), target: map[bool]netip.Addr{false: public4, true: public6}},
		{name: "MSS clamp", routers: 4, change: rules(1,
			ruleset("inet", "filter", "forward", "-150", "tcp flags syn tcp option maxseg size set 1300")),
			model: only(1, func(r *simnet.Router) { r.ClampMSS = 1300 })},
		{name: "DSCP rewritten", routers: 4, change: rules(1,
			ruleset("inet", "filter", "forward", "-150", "ip dscp set cs1", "ip6 dscp set cs1")),
			model: only(1, func(r *simnet.Router) { r.Remark = simnet.Remark{Mask: 0xfc, Value: 0x20} })},
		{name: "another way back", routers: 4, change: func(c *netlab.ChainConfig) {
			beside(2, 1, true)(c)
			// Nothing comes back the way it went.
			rules(2, ruleset("inet", "filter", "forward", "0",
				fmt.Sprintf("ip daddr %v drop", client4), fmt.Sprintf("ip6 daddr %v drop", client6)))(c)
		}},
		{name: "no route", routers: 4, change: func(c *netlab.ChainConfig) { c.NoRoute = map[int]bool{2: true} }, maxHops: 3},
	}
}

// config is the chain of a topology.
func (tp topology) config() netlab.ChainConfig {
	c := netlab.ChainConfig{
		Client: []netip.Addr{client4, client6}, Server: []netip.Addr{server4, server6}, Unlimited: true,
	}
	for i := range tp.routers + 1 {
		c.MTUs = append(c.MTUs, 1500)
		if i < tp.routers {
			c.Routers = append(c.Routers, routerAddrs(i))
		}
	}
	if tp.change != nil {
		tp.change(&c)
	}
	return c
}

// network is the same chain in the model.
func (tp topology) network(c netlab.ChainConfig) (*simnet.Net, simnet.NodeID) {
	n := simnet.New(1)
	nodes := []simnet.NodeID{n.AddHost(simnet.Host{Name: "client", Addrs: c.Client})}
	router := func(i int, addrs []netip.Addr, changed bool) simnet.NodeID {
		r := simnet.Router{Addr4: addrs[0], Addr6: addrs[1], ErrorBurst: -1}
		if tp.model != nil && changed {
			tp.model(i, &r)
		}
		return n.AddRouter(r)
	}
	link := func(a, b simnet.NodeID, i int) {
		l := simnet.Link{MTU: c.MTUs[i], Delay: 20 * time.Microsecond}
		n.Connect(a, b, l, l)
	}
	for i, addrs := range c.Routers {
		nodes = append(nodes, router(i, addrs, true))
	}
	nodes = append(nodes, n.AddHost(simnet.Host{Name: "server", Addrs: []netip.Addr{server4, server6}, ErrorBurst: -1}))
	for i := range nodes[1:] {
		link(nodes[i], nodes[i+1], i)
	}
	route := func(at simnet.NodeID, to []netip.Addr, via ...simnet.NodeID) {
		for _, a := range to {
			n.RouteVia(at, netip.PrefixFrom(a, a.BitLen()), simnet.Multipath{Via: via, Hash: simnet.HashPorts})
		}
	}
	for i, all := range c.Beside {
		via := []simnet.NodeID{nodes[i+1]}
		for _, addrs := range all {
			r := router(i, addrs, false)
			link(nodes[i], r, i)
			link(r, nodes[i+2], i+1)
			via = append(via, r)
		}
		if c.Back[i] {
			route(nodes[i+2], c.Client, via[1])
		} else {
			route(nodes[i], c.Server, via...)
		}
	}
	for i := range c.NoRoute {
		route(nodes[i+1], c.Server, simnet.Nowhere)
	}
	return n, nodes[0]
}

// seen is a path as the instruments see it.
type seen struct {
	Reached  bool
	HopCount int
	Hops     []string // addresses, and their answers in words
	NAT      string
	MSSClamp string
	TOS      string
}

type sizeSeen struct {
	MTU, AtLeast, Claimed int
	Signalled, BlackHole  bool
	Limiter               string
}

// measured is all that is measured of one path, by method or the like.
type measured struct {
	Paths map[string]seen
	Sizes map[string]sizeSeen
}

// measure traces a path by every method, and measures its MTU.
func measure(ctx context.Context, network netprobe.Network, tp topology, v6 bool) (m measured, err error) {
	m = measured{map[string]seen{}, map[string]sizeSeen{}}
	dst := map[bool]netip.Addr{false: server4, true: server6}[v6]
	if tp.target != nil {
		dst = tp.target[v6]
	}
	for name, method := range map[string]netprobe.Method{"icmp": netprobe.ICMP, "udp": netprobe.UDP, "tcp": netprobe.TCP} {
		for _, unprivileged := range []bool{false, true} {
			opt := trace.Options{
				Network: network, Dst: dst, Method: method, MaxHops: 16, Unprivileged: unprivileged,
				Interval: time.Millisecond, Wait: 600 * time.Millisecond,
			}
			key := name
			if unprivileged {
				key += " without privilege"
			}
			if tp.maxHops > 0 {
				opt.MaxHops, opt.Queries = tp.maxHops, 1
			}
			runs := 1
			if tp.spread {
				runs, opt.Queries = 40, 1
			}
			if tp.spread && (unprivileged && method == netprobe.TCP) {
				continue // which has no one flow
			}
			var all []*trace.Result
			for range runs {
				r, err := trace.Run(ctx, opt)
				if err != nil {
					return m, fmt.Errorf("trace by %s: %w", key, err)
				}
				all = append(all, r)
			}
			m.Paths[key] = look(all, tp.spread && method == netprobe.ICMP)
		}
	}
	for _, unprivileged := range []bool{false, true} {
		opt := pmtu.Options{Network: network, Dst: dst, Unprivileged: unprivileged}
		if tp.maxHops > 0 {
			opt.Wait, opt.Budget = 300*time.Millisecond, time.Second // for nothing
		}
		r, err := pmtu.Run(ctx, opt)
		if err != nil {
			return m, fmt.Errorf("pmtu: %w", err)
		}
		value := func(p *int) int {
			if p == nil {
				return -1
			}
			return *p
		}
		s := sizeSeen{
			MTU: value(r.MTU), AtLeast: value(r.AtLeast), Claimed: value(r.ClaimedMTU),
			Signalled: r.Signalled, BlackHole: r.BlackHole,
		}
		if r.Limiter != nil && !tp.spread { // of several ways, whose is chance
			s.Limiter = fmt.Sprint(r.Limiter.TTL, " ", r.Limiter.Addr)
		}
		m.Sizes[fmt.Sprint("unprivileged ", unprivileged)] = s
	}
	return m, nil
}

// look sums up traces of one path. Several addresses at one hop of one trace
// are marked; where count is set, only their number is told.
func look(all []*trace.Result, count bool) seen {
	var s seen
	hops := map[int]map[string]bool{}
	for _, r := range all {
		s.Reached = r.Reached
		if r.HopCount != nil {
			s.HopCount = *r.HopCount
		}
		if r.NAT != nil {
			s.NAT = fmt.Sprintf("%+v", *r.NAT)
		}
		if r.MSSClamp != nil {
			s.MSSClamp = fmt.Sprintf("%+v", *r.MSSClamp)
		}
		if r.TOSChange != nil {
			s.TOS = fmt.Sprintf("%+v", *r.TOSChange)
		}
		for _, h := range r.Hops {
			if hops[h.TTL] == nil {
				hops[h.TTL] = map[string]bool{}
			}
			for _, p := range h.Replies {
				hops[h.TTL][fmt.Sprintf("%v %s", p.Addr, p.ICMP)] = true
			}
			if len(h.Replies) > 1 {
				hops[h.TTL]["in one flow"] = true
			}
		}
	}
	for _, ttl := range slices.Sorted(maps.Keys(hops)) {
		text := strings.Join(slices.Sorted(maps.Keys(hops[ttl])), ", ")
		if n := len(hops[ttl]); count {
			text = fmt.Sprint(n, " of them")
		}
		s.Hops = append(s.Hops, fmt.Sprintf("%d %s", ttl, text))
	}
	return s
}

// TestSamePathInModelAndKernel measures each topology twice with the same
// instruments: through a chain of kernel routers, and through the model in
// virtual time.
func TestSamePathInModelAndKernel(t *testing.T) {
	labtest.Need(t, "nft")
	for _, tp := range topologies() {
		t.Run(tp.name, func(t *testing.T) {
			cfg := tp.config()
			chain, err := netlab.NewKernelChain(cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = chain.Close() }()
			for _, v6 := range []bool{false, true} {
				kernel, err := measure(t.Context(), nil, tp, v6)
				if err != nil {
					t.Fatalf("kernel, IPv6 %v: %v", v6, err)
				}
				var model measured
				synctest.Test(t, func(t *testing.T) {
					w := modelnet.New(tp.network(cfg))
					defer func() { _ = w.Close() }()
					if model, err = measure(t.Context(), w, tp, v6); err != nil {
						t.Fatalf("model, IPv6 %v: %v", v6, err)
					}
				})
				if diff := cmp.Diff(kernel, model); diff != "" {
					t.Errorf("IPv6 %v: the model's path differs from the kernel's (-kernel +model):\n%s", v6, diff)
				}
				tp.sanity(t, cfg, kernel, v6)
			}
			if err := chain.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// sanity checks what the kernel gave: both could be wrong alike.
func (tp topology) sanity(t *testing.T, c netlab.ChainConfig, m measured, v6 bool) {
	t.Helper()
	if c.NoRoute != nil {
		if m.Paths["icmp"].Reached || len(m.Paths["icmp"].Hops) != 3 {
			t.Errorf("IPv6 %v: a path without a route: %+v", v6, m.Paths["icmp"])
		}
		return
	}
	tcp, size := m.Paths["tcp"], m.Sizes["unprivileged false"]
	if !tcp.Reached || tcp.HopCount != tp.routers+1 || len(tcp.Hops) != tp.routers+1 {
		t.Errorf("IPv6 %v: %+v, want %d hops", v6, tcp, tp.routers+1)
	}
	if want := slices.Min(c.MTUs); size.MTU != want || (size.Limiter != "") != (want < 1500) {
		t.Errorf("IPv6 %v: %+v, want an MTU of %d", v6, size, want)
	}
	if clamped := tp.name == "MSS clamp"; (tcp.MSSClamp != "") != clamped {
		t.Errorf("IPv6 %v: MSS clamp %q", v6, tcp.MSSClamp)
	}
	if marked := tp.name == "DSCP rewritten"; (tcp.TOS != "") != marked {
		t.Errorf("IPv6 %v: TOS changed %q", v6, tcp.TOS)
	}
	for i, more := range c.Beside {
		if n := strings.Count(tcp.Hops[i], "time exceeded"); !c.Back[i] && n != 1+len(more) || strings.Contains(tcp.Hops[i], "in one flow") {
			t.Errorf("IPv6 %v: hop %d: %s", v6, i+1, tcp.Hops[i])
		}
	}
}
