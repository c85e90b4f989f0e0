package main

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/whyslow/whyslow/internal/netlab"
	"github.com/whyslow/whyslow/internal/netprobe/modelnet"
	"github.com/whyslow/whyslow/internal/simnet"
)

// world is a network and the truth about it. Only the client has a kernel's
// stack: the model answers for the other end, so that what is counted as sent
// is the contender's alone.
type world struct {
	net      *simnet.Net
	client   simnet.NodeID
	src, dst netip.Addr
	// paths are the ways there: routers by TTL from 1, the zero Addr where
	// one is silent. Several if the way forks.
	paths [][]netip.Addr
	// ttl is the destination's; 0 if it answers nothing.
	ttl int
	// rtt is the largest round trip in the model, transmission apart.
	rtt time.Duration
	// mtu is the path's, bytes.
	mtu int
	// forger is a host beside the path, with an address of its own, that can
	// be made to say what is not true.
	forgerNode simnet.NodeID
	forger     netip.Addr
}

// chain describes a world of one path: client – routers – destination.
type chain struct {
	hops      int           // the destination's TTL; zero means 12
	delay     time.Duration // of each link, one way; zero means 2.5 ms
	v6        bool
	limited   bool // Linux's limit on errors; else none
	silentDst bool
	clientMTU int
	router    func(ttl int, r *simnet.Router)         // changes the router at a TTL
	link      func(ttl int, there, back *simnet.Link) // changes the link to a TTL
	after     func(w *world, nodes []simnet.NodeID)   // changes the finished chain; nodes by TTL, 0 is the client
}

const port = 443 // open at every destination

func routerAddr(v6 bool, ttl int) netip.Addr {
	if v6 {
		return netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 0, 1, 15: byte(ttl)})
	}
	return netip.AddrFrom4([4]byte{198, 51, 100, byte(ttl)})
}

func clientAddr(v6 bool) netip.Addr {
	if v6 {
		return netip.MustParseAddr("2001:db8:2::10")
	}
	return netip.MustParseAddr("192.0.2.10")
}

func targetAddr(v6 bool, n int) netip.Addr {
	if v6 {
		return netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 0, 3, 14: byte(n >> 8), 15: byte(80 + n)})
	}
	return netip.AddrFrom4([4]byte{203, 0, 113, byte(80 + n)})
}

// errorLimit sets a router's limit on errors: Linux's, or none.
func errorLimit(limited bool) int {
	if limited {
		return 0
	}
	return -1
}

// build makes the chain.
func (c chain) build(seed uint64) *world {
	if c.hops == 0 {
		c.hops = 12
	}
	if c.delay == 0 {
		c.delay = 2500 * time.Microsecond
	}
	n := simnet.New(seed)
	w := &world{net: n, src: clientAddr(c.v6), dst: targetAddr(c.v6, 0), ttl: c.hops,
		rtt: 2 * time.Duration(c.hops) * c.delay, mtu: 1500, paths: [][]netip.Addr{nil}}
	w.client = n.AddHost(simnet.Host{Name: "client", Addrs: []netip.Addr{w.src}})
	nodes := []simnet.NodeID{w.client}
	for ttl := 1; ttl < c.hops; ttl++ {
		r := simnet.Router{Name: fmt.Sprintf("r%d", ttl), ErrorBurst: errorLimit(c.limited)}
		a := routerAddr(c.v6, ttl)
		if r.Addr4 = a; c.v6 {
			r.Addr4, r.Addr6 = netip.Addr{}, a
		}
		if c.router != nil {
			c.router(ttl, &r)
		}
		if r.Silent {
			a = netip.Addr{}
		}
		w.paths[0] = append(w.paths[0], a)
		nodes = append(nodes, n.AddRouter(r))
	}
	end := n.AddHost(simnet.Host{Name: "target", Addrs: []netip.Addr{w.dst}, EchoSilent: c.silentDst, ErrorBurst: errorLimit(c.limited)})
	nodes = append(nodes, end)
	n.OpenTCP(end, port)
	if c.silentDst {
		w.ttl = 0
		n.Attach(end, func(time.Time, []byte) {}) // takes everything, says nothing
	}
	for ttl := 1; ttl < len(nodes); ttl++ {
		there, back := simnet.Link{Delay: c.delay}, simnet.Link{Delay: c.delay}
		if c.clientMTU > 0 && ttl == 1 {
			there.MTU, back.MTU = c.clientMTU, c.clientMTU
		}
		if c.link != nil {
			c.link(ttl, &there, &back)
		}
		n.Connect(nodes[ttl-1], nodes[ttl], there, back)
	}
	if !c.v6 && len(nodes) > 3 {
		w.forger = netip.MustParseAddr("198.51.100.250")
		w.forgerNode = n.AddHost(simnet.Host{Name: "forger", Addrs: []netip.Addr{w.forger}})
		n.Connect(nodes[1], w.forgerNode, simnet.Link{}, simnet.Link{})
	}
	if c.after != nil {
		c.after(w, nodes)
	}
	return w
}

// lab starts the world in real time.
func (w *world) lab() (*netlab.Lab, error) { return w.labOver(netlab.AutoCarrier) }

func (w *world) labOver(c netlab.Carrier) (*netlab.Lab, error) {
	return netlab.New(netlab.Config{Carrier: c, Net: w.net, Client: w.client, Ends: []netlab.End{{
		Node: w.client, Name: "client", Addrs: []netip.Addr{w.src}, MTU: w.net.FirstMTU(w.client, w.dst)}}})
}

// virtual makes the world a network of the clock of package time.
func (w *world) virtual() *modelnet.Network { return modelnet.New(w.net, w.client) }

// judge reports what is wrong with a path that was printed, "" if nothing: it
// must be one of the world's paths, hop by hop, and end with the destination
// at its TTL.
func (w *world) judge(p path) string {
	wrong := ""
	for _, way := range w.paths {
		if wrong = w.judgeWay(p, way); wrong == "" {
			return ""
		}
	}
	return wrong
}

func (w *world) judgeWay(p path, way []netip.Addr) string {
	for i, want := range way {
		got := p.at(i + 1)
		if !want.IsValid() && len(got) > 0 {
			return fmt.Sprintf("hop %d: %v, is silent", i+1, got)
		}
		if want.IsValid() && !slices.Equal(got, []netip.Addr{want}) {
			return fmt.Sprintf("hop %d: %v, is %v", i+1, got, want)
		}
	}
	at := p.find(w.dst)
	beyond := len(way) + 1
	if w.ttl == 0 {
		beyond--
	}
	switch {
	case p.last() > beyond:
		return fmt.Sprintf("hop %d: %v, is beyond the end", p.last(), p.at(p.last()))
	case w.ttl == 0 && len(at) > 0:
		return fmt.Sprintf("the destination answers at %v, is silent", at)
	case w.ttl > 0 && !slices.Equal(at, []int{w.ttl}):
		return fmt.Sprintf("the destination at %v, is at %d", at, w.ttl)
	}
	return ""
}
