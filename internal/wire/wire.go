// Package wire is the packet codec of whyslow: it builds the probes that
// netprobe and simnet send and reads what comes back, down to the packet an
// ICMP error quotes.
//
// Everything read here comes from strangers. Every length is checked against
// what arrived, nothing is allocated by a number found in a packet, and a
// reply is only a reply if its quote is one of our probes: the address it came
// from proves nothing.
package wire

import (
	"net/netip"
	"time"
)

// Protocol is what a probe looks like to the routers on its way.
type Protocol uint8

// The protocols a probe can use. The zero value is not a protocol.
const (
	UDP  Protocol = iota + 1 // RFC 768
	ICMP                     // echo request, RFC 792 and RFC 4443
	TCP                      // SYN, RFC 9293
)

// String returns the name in JSON output: "udp", "icmp", "tcp".
func (p Protocol) String() string {
	switch p {
	case UDP:
		return "udp"
	case ICMP:
		return "icmp"
	case TCP:
		return "tcp"
	}
	return "none"
}

// Flow is what all probes of one connection share and what a quote must show
// to be ours.
type Flow struct {
	Proto Protocol
	Src   netip.Addr // unmapped
	Dst   netip.Addr // unmapped
	// SrcPort is the UDP or TCP source port, or the ICMP echo identifier.
	SrcPort uint16
	// DstPort is the UDP or TCP destination port.
	DstPort uint16
}

// Probe is one packet to send.
type Probe struct {
	// Seq identifies the probe within its connection.
	Seq uint16
	// TTL is the IPv4 TTL or IPv6 hop limit. Zero means 64.
	TTL int
	// Size is the packet's size in bytes, IP header included. Zero means the
	// smallest the protocol allows with room for the token.
	Size int
	// TOS is the IPv4 TOS or IPv6 traffic class octet: DSCP (RFC 2474) and
	// ECN (RFC 3168).
	TOS int
}

// Kind is what a reply means for a path measurement.
type Kind uint8

// The kinds of reply. The zero value is not a reply.
const (
	TimeExceeded Kind = iota + 1 // a router on the way, RFC 792, RFC 4443 3.3
	Unreachable                  // destination unreachable, any code but "too big"
	TooBig                       // fragmentation needed (RFC 1191) or packet too big (RFC 8201)
	EchoReply                    // the destination answered an echo
	PortReply                    // the destination itself answered: port unreachable, SYN-ACK, RST or UDP data
	OtherError                   // parameter problem and the rest
)

// Reply is an answer to one of our probes.
type Reply struct {
	Seq      uint16
	Kind     Kind
	From     netip.Addr // who sent it; unmapped
	Received time.Time  // kernel time where Stamp says so
	// Sent is the probe's send time if the receiver knows a better one than
	// Send returned (a kernel transmit stamp). Zero means it does not.
	Sent time.Time
	// Type and Code are the ICMP type and code as they came; 0, 0 for a TCP
	// or UDP answer.
	Type, Code uint8
	// MTU is the next-hop MTU a TooBig claims, exactly as it came, absurd
	// values included. Only meaningful for TooBig.
	MTU int
	// TTL is the reply's own TTL on arrival. Zero means unknown.
	TTL int
	// QuotedTTL is the TTL of the quoted probe when it died, normally 1 (or
	// 0). -1 means not visible.
	QuotedTTL int
	// QuotedLen is how many bytes of the probe behind its IP header the error
	// quoted. Zero for replies that quote nothing.
	QuotedLen int
	// QuotedTOS is the IPv4 TOS or IPv6 traffic class octet of the quoted
	// probe: DSCP (RFC 2474) and ECN (RFC 3168). -1 means not visible.
	QuotedTOS int
	// QuotedMSS is the MSS option of the quoted SYN, in bytes. Zero means not
	// visible.
	QuotedMSS int
	// Translated says that the quoted probe is not as it was sent: a NAT
	// (RFC 3022) before the one who quotes changed its address or port, and so
	// its checksum.
	Translated bool
	// Labels are the MPLS label stack entries that the error carries, top
	// first. Nil means none.
	Labels []Label
	// Unnumbered says that the error is about a probe of this flow but quotes
	// too little to tell which. Seq means nothing then.
	Unnumbered bool
	// Reset says that the TCP answer of a PortReply was a RST, not a SYN-ACK.
	Reset bool
	// KernelTime says that Received was taken by the kernel.
	KernelTime bool
}

// Label is an MPLS label stack entry as an ICMP error carries it, RFC 4950.
type Label struct {
	Value  uint32 `json:"label"` // 20 bits
	TC     uint8  `json:"tc"`    // traffic class, 3 bits
	Bottom bool   `json:"bottom"`
	TTL    uint8  `json:"ttl"`
}
