package simnet

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/whyslow/whyslow/internal/wire"
)

// node is a host or a router.
type node struct {
	id     NodeID
	name   string
	addrs  []netip.Addr
	router bool
	Router      // what a router does; for a host, only its error limit
	echoes bool // answers echo

	links  []*link
	routes []route // longest prefix first

	aware   bool // looks at what arrives before it routes: receive
	mangles bool // changes what it forwards: mangle
	nat     *natState
	lsps    []*LSP // that begin here

	limits map[netip.Addr]*bucket

	// Of hosts.
	deliver  func(time.Time, []byte)
	open     map[uint16]bool
	together wire.Reassembler
	pathMTU  map[netip.Addr]int // learned from "too big"
	fragID   uint32
}

// route is an explicit route. Its link is looked up when it is used, as it may
// be connected later.
type route struct {
	dst   netip.Prefix
	via   NodeID
	multi *Multipath // in place of via
}

// AddRouter adds a router.
func (n *Net) AddRouter(r Router) NodeID {
	nd := &node{
		name: r.Name, router: true, Router: r, echoes: !r.Silent && !r.EchoSilent,
		mangles: r.ClampMSS > 0 || r.Remark.Mask != 0 || r.Forge != nil,
	}
	id := n.add(nd, r.Addr4, r.Addr6)
	if r.NAT != nil {
		n.translate(nd, *r.NAT)
	}
	return id
}

// AddHost adds a host.
func (n *Net) AddHost(h Host) NodeID {
	nd := &node{
		name: h.Name, echoes: !h.EchoSilent,
		Router: Router{ErrorBurst: h.ErrorBurst, ErrorEvery: h.ErrorEvery, ReplyTTL: h.ReplyTTL},
	}
	return n.add(nd, h.Addrs...)
}

func (n *Net) add(nd *node, addrs ...netip.Addr) NodeID {
	nd.id = NodeID(len(n.nodes))
	for _, a := range addrs {
		if a.IsValid() {
			n.own(nd, a)
		}
	}
	n.nodes = append(n.nodes, nd)
	n.next = nil
	return nd.id
}

// own gives a node an address.
func (n *Net) own(nd *node, a netip.Addr) {
	if other, taken := n.owners[a]; taken {
		panic(fmt.Sprintf("simnet: %v of %q belongs to %q", a, nd.name, n.nodes[other].name))
	}
	n.owners[a] = nd.id
	nd.addrs = append(nd.addrs, a)
}

func (n *Net) node(id NodeID) *node {
	if id < 0 || int(id) >= len(n.nodes) {
		panic(fmt.Sprintf("simnet: no node %d", id))
	}
	return n.nodes[id]
}

func (n *Net) ownerOf(a netip.Addr) NodeID {
	if id, ok := n.owners[a]; ok {
		return id
	}
	return Nowhere
}

// Connect joins two nodes by a link; connecting them again changes it.
func (n *Net) Connect(a, b NodeID, ab, ba Link) {
	n.connect(n.node(a), n.node(b), ab)
	n.connect(n.node(b), n.node(a), ba)
	n.next = nil
}

func (n *Net) connect(a, b *node, l Link) {
	if have := a.linkTo(b.id); have != nil {
		have.set(l)
		return
	}
	have := &link{to: b}
	have.set(l)
	a.links = append(a.links, have)
}

// SetLink changes the direction from a to b of a link that exists. Packets on
// the way keep their times.
func (n *Net) SetLink(a, b NodeID, ab Link) {
	l := n.node(a).linkTo(n.node(b).id)
	if l == nil {
		panic(fmt.Sprintf("simnet: %q and %q are not connected", n.node(a).name, n.node(b).name))
	}
	l.set(ab)
}

// Addrs returns the addresses of a node in the order they were given.
func (n *Net) Addrs(of NodeID) []netip.Addr {
	return append([]netip.Addr(nil), n.node(of).addrs...)
}

// LinkMTU is the MTU of the link from a to b, 0 if they are not connected.
func (n *Net) LinkMTU(a, b NodeID) int {
	if l := n.node(a).linkTo(b); l != nil {
		return l.mtu
	}
	return 0
}

// FirstMTU is the MTU of the link on which a node sends to dst, 0 if it has no
// way there: what the node's interface has.
func (n *Net) FirstMTU(from NodeID, dst netip.Addr) int {
	if l := n.route(n.node(from), &packet{view: wire.Packet{Dst: dst}, dst: n.ownerOf(dst)}); l != nil {
		return l.mtu
	}
	return 0
}

func (nd *node) linkTo(id NodeID) *link {
	for _, l := range nd.links {
		if l.to.id == id {
			return l
		}
	}
	return nil
}

// Route adds an explicit route at a node, which goes before the default, the
// way with the fewest links. Of several that match, the longest prefix counts,
// and of equal ones the latest. A via that is Nowhere or no neighbour makes
// the destinations unreachable.
func (n *Net) Route(at NodeID, dst netip.Prefix, via NodeID) {
	n.addRoute(at, route{dst: dst.Masked(), via: via})
}

func (n *Net) addRoute(at NodeID, r route) {
	nd := n.node(at)
	i := 0
	for i < len(nd.routes) && nd.routes[i].dst.Bits() > r.dst.Bits() {
		i++
	}
	nd.routes = slices.Insert(nd.routes, i, r)
}

// Attach hands packets for a host to deliver instead of the model's own host:
// a real stack, or a test. The packet is only valid during the call.
func (n *Net) Attach(host NodeID, deliver func(now time.Time, pkt []byte)) {
	n.node(host).deliver = deliver
}

// OpenTCP makes a model host accept connections to ports; it refuses others.
func (n *Net) OpenTCP(host NodeID, ports ...uint16) {
	nd := n.node(host)
	if nd.open == nil {
		nd.open = make(map[uint16]bool)
	}
	for _, p := range ports {
		nd.open[p] = true
	}
}

// route returns the link on which a node sends a packet on; nil if there is
// none. This is the one place where a path is chosen.
func (n *Net) route(at *node, p *packet) *link {
	if p.lsp != nil {
		return at.linkTo(p.lsp.behind(at.id))
	}
	for i := range at.routes {
		r := &at.routes[i]
		if !r.dst.Contains(p.view.Dst) {
			continue
		}
		if r.multi != nil {
			return at.linkTo(n.choose(r.multi, p))
		}
		return at.linkTo(r.via)
	}
	owner := p.dst
	if owner != Nowhere {
		if n.next == nil {
			n.next = make([][]*link, len(n.nodes))
		}
		if n.next[at.id] == nil {
			n.next[at.id] = n.shortest(at)
		}
		return n.next[at.id][owner]
	}
	if !at.router && len(at.links) > 0 {
		return at.links[0] // a host's default route
	}
	return nil
}

// shortest returns the first link of the way with the fewest links from a node
// to each other node. Hosts carry nothing for others. Of equal ways, the one
// connected first counts.
func (n *Net) shortest(from *node) []*link {
	first := make([]*link, len(n.nodes))
	seen := make([]bool, len(n.nodes))
	seen[from.id] = true
	queue := []*node{from}
	for len(queue) > 0 {
		nd := queue[0]
		queue = queue[1:]
		if nd != from && !nd.router {
			continue
		}
		for _, l := range nd.links {
			if seen[l.to.id] {
				continue
			}
			seen[l.to.id] = true
			first[l.to.id] = first[nd.id]
			if nd == from {
				first[l.to.id] = l
			}
			queue = append(queue, l.to)
		}
	}
	return first
}
