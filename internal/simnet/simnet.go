// Package simnet is an event-driven model of a routed network: hosts and
// routers joined by links that delay, jitter, lose, queue and limit.
//
// The model has no clock and no goroutines. Whoever drives it says what time
// it is: a test in virtual time, netlab in real time. Packets are real bytes:
// TTLs are decremented, checksums are right, and an ICMP error quotes what
// arrived.
//
// Opinions: routers behave as Linux does where real ones differ, down to the
// order of their checks (route, TTL, size, filter) and the limit on errors; a
// link never reorders; the same seed and the same calls give the same packets.
// What is wrong with a topology itself (an unknown node, an address given
// twice) is a mistake in the program and panics.
//
// Limits: one link between two nodes, links without corruption or duplication,
// no multicast, no link layer; MPLS labels take no room.
package simnet

import (
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/whyslow/whyslow/internal/wire"
)

// Net is a network. It is not safe for concurrent use: its driver serialises
// all calls. A deliver function may call Send.
type Net struct {
	rng      *rand.Rand
	seed     uint64 // what routers that spread flows start from
	nodes    []*node
	owners   map[netip.Addr]NodeID
	next     [][]*link // next hop by node and destination; nil when outdated
	events   eventHeap
	sequence uint64
	free     []*packet
	stats    Stats

	// base is the first time the Net was told; events count from there.
	base    time.Time
	started bool
}

// New returns an empty network that draws all randomness from seed.
func New(seed uint64) *Net {
	return &Net{
		rng:    rand.New(rand.NewPCG(seed, 0x77687973_6c6f7721)),
		seed:   mix(seed ^ 0x77687973_6c6f7721),
		owners: make(map[netip.Addr]NodeID),
	}
}

// NodeID names a host or router of one Net.
type NodeID int

// Nowhere as the next hop of a route makes its destinations unreachable.
const Nowhere NodeID = -1

// Link is one direction of a link. The zero Link is perfect: it carries 1500
// bytes at once.
type Link struct {
	// Delay is the propagation delay. Jitter is the most that is added to
	// it, uniformly; packets keep their order.
	Delay, Jitter time.Duration
	// Loss is the probability, 0 to 1, that a packet is lost on the wire.
	Loss float64
	// Rate in bit/s. Zero means unlimited.
	Rate int64
	// Queue is how many bytes may wait in front of Rate, the packet being
	// sent included. Zero means 100 ms worth, and at least 10 packets.
	Queue int
	// MTU in bytes. Zero means 1500. Both directions normally share it.
	MTU int
}

// Filter drops packets that a router would forward.
type Filter struct {
	// Proto to drop. Zero means all. ICMP includes errors.
	Proto wire.Protocol
	// DstPort to drop, for UDP and TCP. Zero means all.
	DstPort uint16
	// Echo limits an ICMP filter to echo requests and replies.
	Echo bool
	// Share is the share that is dropped, 0…1. Zero means all.
	Share float64
	// Reject says so by port unreachable, as Linux's reject does by default;
	// without it the router drops without a word.
	Reject bool
}

// TooBigPolicy is what a router does about a packet that does not fit the next
// link and must not be fragmented.
type TooBigPolicy uint8

// The policies.
const (
	Honest TooBigPolicy = iota // reports the link's MTU
	Absent                     // says nothing: a black hole
	Lying                      // reports TooBigClaim
)

// Router forwards packets. The zero value of every field but the addresses is
// a router like Linux.
type Router struct {
	Name string
	// Addr4 and Addr6 are the source of what the router itself sends; it
	// answers echo to them. Without an address it sends nothing of that
	// family.
	Addr4, Addr6 netip.Addr
	// ControlDelay delays what the router itself sends, errors and echo
	// replies, and never what it forwards. ControlJitter is the most that is
	// added, uniformly, to each message for itself.
	ControlDelay, ControlJitter time.Duration
	// Silent routers send nothing of their own.
	Silent bool
	// EchoSilent routers do not answer echo, but send errors.
	EchoSilent bool
	// ErrorBurst and ErrorEvery limit the ICMP errors to each address: a
	// burst, then one an interval. Zero means 6, and 1 s for IPv4 or 100 ms
	// for IPv6. A negative burst means no limit. Echo replies and "too big"
	// are exempt.
	ErrorBurst int
	ErrorEvery time.Duration
	// Quote is how many bytes of a packet an error quotes behind the IP
	// header. Zero means as Linux: messages of up to 576 bytes, IPv6 1280.
	Quote int
	// TooBig is the policy, TooBigClaim the MTU it claims if Lying, in bytes.
	TooBig      TooBigPolicy
	TooBigClaim int
	Filters     []Filter

	// ReplyTTL is the TTL of what the router itself sends. Zero means 64, as
	// Linux; others begin at 128 or 255.
	ReplyTTL int
	// ErrorFrom4 and ErrorFrom6 are the source of the router's errors in
	// place of its own addresses, whoever they belong to; ErrorAsDst takes
	// the destination of the packet they are about.
	ErrorFrom4, ErrorFrom6 netip.Addr
	ErrorAsDst             bool
	// Labels is an MPLS label stack that the router's errors show. See LSP
	// for one that a path gives. NoLength leaves out the length field of RFC
	// 4884 in front of it.
	Labels   []wire.Label
	NoLength bool
	// ClampMSS lowers the MSS option of SYNs that the router forwards to so
	// many bytes. Zero means never.
	ClampMSS int
	Remark   Remark
	NAT      *NAT
	Forge    *Forgery
}

// Host is an end of the network. Unless a real stack is attached, it answers
// echo, refuses UDP with port unreachable, and answers TCP as OpenTCP says.
type Host struct {
	Name       string
	Addrs      []netip.Addr
	EchoSilent bool // answers no echo
	// ErrorBurst and ErrorEvery are as for a Router: Linux limits port
	// unreachables too.
	ErrorBurst int
	ErrorEvery time.Duration
	ReplyTTL   int // as for a Router
}

// Stats counts packets since the Net was made.
type Stats struct {
	Sent        uint64 // that hosts emitted through Send
	Forwarded   uint64 // by routers, once a hop
	Delivered   uint64 // to hosts and routers they were for
	Lost        uint64 // on links, by Loss
	QueueDrops  uint64 // for want of room before Rate
	Filtered    uint64
	TooBig      uint64 // dropped as larger than a link's MTU
	Expired     uint64 // TTL ran out
	Unroutable  uint64 // no way to the destination
	Malformed   uint64 // Send was given what is no IP packet
	Fragments   uint64 // made by routers and hosts
	Errors      uint64 // ICMP errors sent by routers and hosts
	ErrorsLimit uint64 // ICMP errors not sent because of the limit
	EchoReplies uint64 // sent by routers and model hosts
	Forged      uint64 // false errors by Forge
}

// Stats returns the counters.
func (n *Net) Stats() Stats { return n.stats }

// Send makes a host emit an IP packet at a time. The packet is copied. What is
// no IP packet is counted and dropped, as is what exceeds the MTU of the
// host's link and must not be fragmented: a real stack does not send that.
func (n *Net) Send(from NodeID, now time.Time, pkt []byte) {
	nd := n.node(from)
	p := n.packet()
	p.buf = append(p.buf[:0], pkt...)
	if !n.view(p) {
		n.stats.Malformed++
		n.release(p)
		return
	}
	n.stats.Sent++
	n.emit(nd, n.since(now), p)
}

// Run processes all events due at or before now. It returns when the next one
// is due, if one is pending. Every event happens at its own time, however late
// Run is called, so that a driver's lateness does not add up along a path.
func (n *Net) Run(now time.Time) (next time.Time, pending bool) {
	limit := n.since(now)
	for len(n.events) > 0 && n.events[0].at <= limit {
		e := n.events.pop()
		if e.emit {
			n.emit(e.node, e.at, e.pkt)
		} else {
			n.arrive(e.node, e.at, e.pkt)
		}
	}
	if len(n.events) == 0 {
		return time.Time{}, false
	}
	return n.base.Add(n.events[0].at), true
}

// since converts a time to the events' scale.
func (n *Net) since(t time.Time) time.Duration {
	if !n.started {
		n.base, n.started = t, true
	}
	return t.Sub(n.base)
}

// upTo returns a uniform duration from 0 to d.
func (n *Net) upTo(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return time.Duration(n.rng.Int64N(int64(d) + 1))
}
