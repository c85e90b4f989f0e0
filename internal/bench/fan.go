package main

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/whyslow/whyslow/internal/simnet"
)

const (
	fanTargets = 64
	fanShared  = 4  // routers that all ways begin with
	fanHops    = 12 // every target's TTL
)

// fan is a network of many targets behind one access: the first routers are
// shared, the others each target's own.
func fan(limited bool) (w *world, targets []*world) {
	const delay = 2500 * time.Microsecond
	n := simnet.New(1)
	w = &world{net: n, src: clientAddr(false), rtt: 2 * fanHops * delay, mtu: 1500, ttl: fanHops}
	w.client = n.AddHost(simnet.Host{Name: "client", Addrs: []netip.Addr{w.src}})
	link := simnet.Link{Delay: delay}
	nodes := []simnet.NodeID{w.client}
	router := func(from simnet.NodeID, a netip.Addr) simnet.NodeID {
		id := n.AddRouter(simnet.Router{Name: a.String(), Addr4: a, ErrorBurst: errorLimit(limited)})
		n.Connect(from, id, link, link)
		nodes = append(nodes, id)
		return id
	}
	var shared []netip.Addr
	at := w.client
	for ttl := 1; ttl <= fanShared; ttl++ {
		shared = append(shared, routerAddr(false, ttl))
		at = router(at, shared[ttl-1])
	}
	fork := at
	for i := range fanTargets {
		t := &world{net: n, client: w.client, src: w.src, dst: netip.AddrFrom4([4]byte{10, byte(i), 200, 1}), ttl: fanHops, rtt: w.rtt}
		way := append([]netip.Addr(nil), shared...)
		at = fork
		for ttl := fanShared + 1; ttl < fanHops; ttl++ {
			a := netip.AddrFrom4([4]byte{10, byte(i), byte(ttl), 1})
			way = append(way, a)
			at = router(at, a)
		}
		end := n.AddHost(simnet.Host{Name: fmt.Sprintf("target %d", i), Addrs: []netip.Addr{t.dst}, ErrorBurst: errorLimit(limited)})
		n.Connect(at, end, link, link)
		nodes = append(nodes, end)
		n.OpenTCP(end, port)
		t.paths = [][]netip.Addr{way}
		targets = append(targets, t)
	}
	w.dst = targets[0].dst
	// The ways are worked out when a node first sends: now, rather than while
	// it is measured.
	for _, id := range nodes {
		n.FirstMTU(id, w.src)
		n.FirstMTU(id, w.dst)
	}
	return w, targets
}

// forked is a chain whose hops 4 to 6 are four ways side by side, between which
// router 3 chooses by flow. All come together at router 7.
func forked(seed uint64) *world {
	const first, last, ways = 4, 6, 4
	c := chain{after: func(w *world, nodes []simnet.NodeID) {
		link := simnet.Link{Delay: 2500 * time.Microsecond}
		via := []simnet.NodeID{nodes[first]}
		for n := 1; n < ways; n++ {
			way := append([]netip.Addr(nil), w.paths[0]...)
			at := nodes[first-1]
			for ttl := first; ttl <= last; ttl++ {
				a := routerAddr(false, 20*n+ttl)
				way[ttl-1] = a
				id := w.net.AddRouter(simnet.Router{Name: a.String(), Addr4: a, ErrorBurst: errorLimit(false)})
				w.net.Connect(at, id, link, link)
				if at = id; ttl == first {
					via = append(via, id)
				}
			}
			w.net.Connect(at, nodes[last+1], link, link)
			w.paths = append(w.paths, way)
		}
		w.net.RouteVia(nodes[first-1], netip.PrefixFrom(w.dst, w.dst.BitLen()), simnet.Multipath{Via: via})
	}}
	return c.build(seed)
}

// tally counts what is wrong in paths to many targets.
type tally struct{ right, mixed, lost int }

// count compares a path with the truth: hops that another target's routers
// answer are mixed, hops where nobody answers are lost.
func (t *tally) count(w *world, p path) {
	if w.judge(p) == "" {
		t.right++
	}
	way := append(append([]netip.Addr(nil), w.paths[0]...), w.dst)
	for i, want := range way {
		got := p.at(i + 1)
		if len(got) == 0 {
			t.lost++
		}
		for _, a := range got {
			if a != want {
				t.mixed++
			}
		}
	}
}
