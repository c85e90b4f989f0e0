package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
)

// Errors of the parsers, wrapped with what was wrong.
var (
	// ErrMalformed says that bytes are not what they claim to be.
	ErrMalformed = errors.New("wire: malformed packet")
	// ErrNotOurs says that a packet is sound but answers no probe of the flow.
	ErrNotOurs = errors.New("wire: not an answer to this flow")
	// ErrUnnumbered says that a packet answers the flow but does not show
	// which probe: UDP data from the destination, or an error that quotes too
	// little. The Reply that comes with it is right but for Seq.
	ErrUnnumbered = errors.New("wire: answer names no probe")
)

// IP protocol numbers that the model and the codec know.
const (
	numHopByHop = 0
	numICMP     = 1
	numTCP      = 6
	numUDP      = 17
	numRouting  = 43
	numFragment = 44
	numAH       = 51
	numICMPv6   = 58
	numDestOpts = 60
)

const (
	ipv4Len = 20
	ipv6Len = 40
	icmpLen = 8
	udpLen  = 8
	tcpLen  = 20

	// maxExtensions bounds the IPv6 extension headers followed. Each type
	// may occur once, destination options twice, RFC 8200 section 4.1.
	maxExtensions = 8
)

// Packet is a view of an IP packet's header. The slices alias the bytes that
// were parsed.
type Packet struct {
	Version  int // 4 or 6
	Src, Dst netip.Addr
	TTL      int // IPv4 TTL or IPv6 hop limit
	// TOS is the IPv4 type of service or IPv6 traffic class: DSCP and ECN.
	TOS uint8
	// Number is the protocol number of the payload, behind IPv6 extension
	// headers.
	Number uint8
	// Proto is Number as a Protocol, 0 if it is none of them. ICMP of the
	// other family is none.
	Proto Protocol
	// DF says that no router may fragment the packet: the IPv4 flag, and
	// always for IPv6.
	DF bool
	// FragOffset is where a fragment's payload belongs, in bytes; MF says
	// that more follow it. Both are zero for a whole packet.
	FragOffset int
	MF         bool
	// ID is the IPv4 identification or that of an IPv6 fragment header.
	ID uint32
	// HeaderLen is the length of the IP header with options or extension
	// headers, and so where the payload begins. Bytes.
	HeaderLen int
	// Len is the packet's length as its header says. Bytes.
	Len int
	// Payload is what follows the header. In a quote it is cut short.
	Payload []byte

	fragHdr int // offset of an IPv6 fragment header, 0 if there is none
}

// Fragment reports whether the packet is a piece of a larger one.
func (p *Packet) Fragment() bool { return p.MF || p.FragOffset != 0 }

// Ports returns the first two 16-bit words behind the IP header: source and
// destination port of UDP and TCP. Zero if they are not there, as in all
// fragments but the first.
func (p *Packet) Ports() (src, dst uint16) {
	if p.FragOffset != 0 || len(p.Payload) < 4 {
		return 0, 0
	}
	return binary.BigEndian.Uint16(p.Payload), binary.BigEndian.Uint16(p.Payload[2:])
}

// ICMPError reports whether the packet is an ICMP error, which must not be
// answered by another, RFC 1122 section 3.2.2 and RFC 4443 section 2.4. What
// is too short to tell counts as one.
func (p *Packet) ICMPError() bool {
	if p.Proto != ICMP {
		return false
	}
	if len(p.Payload) < 1 {
		return true
	}
	if p.Version == 6 {
		return p.Payload[0] < 128
	}
	switch p.Payload[0] {
	case 0, 8, 9, 10, 13, 14, 15, 16, 17, 18: // queries and their replies
		return false
	}
	return true
}

// Echo reports whether the packet is an ICMP echo request or reply.
func (p *Packet) Echo() bool {
	if p.Proto != ICMP || p.FragOffset != 0 || len(p.Payload) == 0 {
		return false
	}
	t := p.Payload[0]
	if p.Version == 6 {
		return t == uint8(ipv6.ICMPTypeEchoRequest) || t == uint8(ipv6.ICMPTypeEchoReply)
	}
	return t == uint8(ipv4.ICMPTypeEcho) || t == uint8(ipv4.ICMPTypeEchoReply)
}

// ParsePacket reads the header of a whole IP packet. Bytes behind the length
// the header claims are padding and ignored. The IPv4 header checksum is not
// verified.
func ParsePacket(b []byte) (Packet, error) {
	p, err := parseHeader(b)
	if err != nil {
		return Packet{}, err
	}
	if p.Len > len(b) || p.Len < p.HeaderLen {
		return Packet{}, fmt.Errorf("%w: %d of %d bytes", ErrMalformed, len(b), p.Len)
	}
	return p, nil
}

// parseHeader reads a header whose payload may be cut short and whose length
// may be wrong, as it is in the quotes of some systems.
func parseHeader(b []byte) (Packet, error) {
	if len(b) < 1 {
		return Packet{}, fmt.Errorf("%w: empty", ErrMalformed)
	}
	switch b[0] >> 4 {
	case 4:
		return parseIPv4(b)
	case 6:
		return parseIPv6(b)
	}
	return Packet{}, fmt.Errorf("%w: IP version %d", ErrMalformed, b[0]>>4)
}

func parseIPv4(b []byte) (Packet, error) {
	if len(b) < ipv4Len {
		return Packet{}, fmt.Errorf("%w: IPv4 header of %d bytes", ErrMalformed, len(b))
	}
	hlen := int(b[0]&0x0f) * 4
	if hlen < ipv4Len || hlen > len(b) {
		return Packet{}, fmt.Errorf("%w: IPv4 header length %d", ErrMalformed, hlen)
	}
	flags := binary.BigEndian.Uint16(b[6:])
	p := Packet{
		Version:    4,
		Src:        netip.AddrFrom4([4]byte(b[12:16])),
		Dst:        netip.AddrFrom4([4]byte(b[16:20])),
		TTL:        int(b[8]),
		TOS:        b[1],
		Number:     b[9],
		DF:         flags&0x4000 != 0,
		MF:         flags&0x2000 != 0,
		FragOffset: int(flags&0x1fff) * 8,
		ID:         uint32(binary.BigEndian.Uint16(b[4:])),
		HeaderLen:  hlen,
		Len:        int(binary.BigEndian.Uint16(b[2:])),
	}
	p.Proto = protocolOf(4, p.Number)
	p.Payload = b[hlen:min(max(p.Len, hlen), len(b))]
	return p, nil
}

func parseIPv6(b []byte) (Packet, error) {
	if len(b) < ipv6Len {
		return Packet{}, fmt.Errorf("%w: IPv6 header of %d bytes", ErrMalformed, len(b))
	}
	p := Packet{
		Version:   6,
		Src:       netip.AddrFrom16([16]byte(b[8:24])),
		Dst:       netip.AddrFrom16([16]byte(b[24:40])),
		TTL:       int(b[7]),
		TOS:       uint8(binary.BigEndian.Uint16(b) >> 4),
		Number:    b[6],
		DF:        true,
		HeaderLen: ipv6Len,
		Len:       ipv6Len + int(binary.BigEndian.Uint16(b[4:])),
	}
	end := min(p.Len, len(b))
	for range maxExtensions {
		n := extensionLen(p.Number, b[p.HeaderLen:end])
		if n == 0 {
			break
		}
		if p.HeaderLen+n > end {
			return Packet{}, fmt.Errorf("%w: IPv6 extension header %d cut short", ErrMalformed, p.Number)
		}
		ext := b[p.HeaderLen:]
		if p.Number == numFragment {
			off := binary.BigEndian.Uint16(ext[2:])
			p.FragOffset, p.MF = int(off&^7), off&1 != 0
			p.ID = binary.BigEndian.Uint32(ext[4:])
			p.fragHdr = p.HeaderLen
		}
		p.Number = ext[0]
		p.HeaderLen += n
		if p.FragOffset != 0 {
			break // what follows is the middle of the packet
		}
	}
	p.Proto = protocolOf(6, p.Number)
	p.Payload = b[p.HeaderLen:end]
	return p, nil
}

// extensionLen returns the length of the extension header of the given type
// at the start of b, 0 if the type is none. A length above len(b) means that
// the header is cut short.
func extensionLen(number uint8, b []byte) int {
	switch number {
	case numHopByHop, numRouting, numDestOpts, numAH:
		if len(b) < 2 {
			return len(b) + 1
		}
		if number == numAH { // counted in words of 4, RFC 4302 section 2.2
			return (int(b[1]) + 2) * 4
		}
		return (int(b[1]) + 1) * 8
	case numFragment:
		return 8
	}
	return 0
}

func protocolOf(version int, number uint8) Protocol {
	switch {
	case number == numUDP:
		return UDP
	case number == numTCP:
		return TCP
	case number == numICMP && version == 4, number == numICMPv6 && version == 6:
		return ICMP
	}
	return 0
}

// numberOf is the protocol number of p in the family of addr.
func numberOf(p Protocol, v4 bool) uint8 {
	switch {
	case p == UDP:
		return numUDP
	case p == TCP:
		return numTCP
	case v4:
		return numICMP
	}
	return numICMPv6
}

// DecrementTTL lowers the TTL of an IP packet by one, repairs the IPv4 header
// checksum, and returns the new TTL. It must be given a packet that
// ParsePacket accepts with a TTL of at least 1.
func DecrementTTL(b []byte) int {
	if b[0]>>4 == 6 {
		b[7]--
		return int(b[7])
	}
	was := binary.BigEndian.Uint16(b[8:])
	b[8]--
	is := binary.BigEndian.Uint16(b[8:])
	binary.BigEndian.PutUint16(b[10:], adjust(binary.BigEndian.Uint16(b[10:]), was, is))
	return int(b[8])
}

// header describes an IP header to write.
type header struct {
	src, dst netip.Addr
	number   uint8
	ttl      int // 0 means 64
	tos      uint8
	df       bool
	id       uint16
	flow     uint32 // IPv6 flow label, 20 bits
}

const defaultTTL = 64

// appendHeader appends an IP header for n bytes of payload.
func appendHeader(dst []byte, h header, n int) []byte {
	ttl := uint8(defaultTTL)
	if h.ttl > 0 {
		ttl = uint8(min(h.ttl, 255))
	}
	if h.src.Is4() {
		start := len(dst)
		dst = append(dst, 0x45, h.tos)
		dst = binary.BigEndian.AppendUint16(dst, uint16(ipv4Len+n))
		dst = binary.BigEndian.AppendUint16(dst, h.id)
		var flags uint16
		if h.df {
			flags = 0x4000
		}
		dst = binary.BigEndian.AppendUint16(dst, flags)
		dst = append(dst, ttl, h.number, 0, 0)
		src, to := h.src.As4(), h.dst.As4()
		dst = append(dst, src[:]...)
		dst = append(dst, to[:]...)
		setHeaderChecksum(dst[start:])
		return dst
	}
	dst = binary.BigEndian.AppendUint32(dst, 6<<28|uint32(h.tos)<<20|h.flow&0xfffff)
	dst = binary.BigEndian.AppendUint16(dst, uint16(n))
	dst = append(dst, h.number, ttl)
	src, to := h.src.As16(), h.dst.As16()
	dst = append(dst, src[:]...)
	return append(dst, to[:]...)
}

// setHeaderChecksum computes the checksum of the IPv4 header b begins with.
func setHeaderChecksum(b []byte) {
	hlen := int(b[0]&0x0f) * 4
	b[10], b[11] = 0, 0
	binary.BigEndian.PutUint16(b[10:], Checksum(b[:hlen]))
}
