package simnet

import (
	"encoding/binary"
	"net/netip"

	"github.com/whyslow/whyslow/internal/wire"
)

// Multipath is a route with several next hops, RFC 2992.
type Multipath struct {
	// Via are the next hops. One that is listed twice gets twice its share.
	Via []NodeID
	// Hash chooses what keeps packets together.
	Hash Hash
	// Seed of the hash. Zero means one of the router's own, so that routers
	// behind each other choose independently. Routers of one seed polarise:
	// what the first sends left all of them send left.
	Seed uint64
}

// Hash is what a router with several next hops looks at.
type Hash uint8

// The policies. Fragments and ICMP errors are told apart by their addresses
// alone, whatever the policy. IPv6 flow labels are not looked at.
const (
	// HashFlow takes addresses, protocol and ports; of ICMP echo, where other
	// protocols have their ports, type, code and checksum, and the identifier.
	HashFlow Hash = iota
	// HashPorts is what Linux does with fib_multipath_hash_policy=1: as
	// HashFlow, but all ICMP between two addresses is one flow.
	HashPorts
	// HashAddresses takes the addresses alone, Linux' policy 0.
	HashAddresses
	// PerPacket takes nothing: every packet goes where chance has it, and
	// packets of one flow overtake each other.
	PerPacket
)

// RouteVia adds a route with several next hops at a node. It ranks with the
// routes of Route.
func (n *Net) RouteVia(at NodeID, dst netip.Prefix, m Multipath) {
	if len(m.Via) == 0 {
		m.Via = []NodeID{Nowhere}
	}
	m.Via = append([]NodeID(nil), m.Via...)
	if m.Seed == 0 {
		m.Seed = mix(n.seed + uint64(at)*0x9e3779b97f4a7c15)
	}
	n.addRoute(at, route{dst: dst.Masked(), multi: &m})
}

// choose returns the next hop of a packet; the first of all if there is none.
func (n *Net) choose(m *Multipath, p *packet) NodeID {
	if len(p.buf) == 0 {
		return m.Via[0]
	}
	if m.Hash == PerPacket {
		return m.Via[n.rng.IntN(len(m.Via))]
	}
	return m.Via[m.hash(&p.view)%uint64(len(m.Via))]
}

func (m *Multipath) hash(v *wire.Packet) uint64 {
	h := mix(m.Seed)
	word := func(x uint64) { h = mix(h ^ x) }
	for _, a := range [2]netip.Addr{v.Src, v.Dst} {
		b := a.As16()
		word(binary.BigEndian.Uint64(b[:8]))
		word(binary.BigEndian.Uint64(b[8:]))
	}
	if m.Hash == HashAddresses {
		return h
	}
	word(uint64(v.Number))
	switch {
	case v.Fragment() || len(v.Payload) < 8 || v.Proto == 0:
	case v.Proto != wire.ICMP:
		word(uint64(binary.BigEndian.Uint32(v.Payload)))
	case m.Hash == HashFlow && v.Echo():
		word(uint64(binary.BigEndian.Uint32(v.Payload))<<16 | uint64(binary.BigEndian.Uint16(v.Payload[4:])))
	}
	return h
}

// mix is the finaliser of SplitMix64: every bit of x sways every bit of the
// result.
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}
