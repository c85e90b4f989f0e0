package wire

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
)

// Message is an ICMP error to build.
type Message struct {
	From netip.Addr // of the family of the packet it is about
	// Kind and Port choose type and code: TimeExceeded, TooBig, or
	// Unreachable with a Reason.
	Kind   Kind
	Reason Reason
	// MTU is what TooBig claims. Bytes; IPv4 has room for 16 bits.
	MTU int
	// Quote is how many bytes of the packet are quoted behind its IP header.
	// Zero means as Linux: the whole message is at most 576 bytes for IPv4,
	// 1280 for IPv6. It is at least 8.
	Quote int
	// TTL of the message. Zero means 64.
	TTL int
	// Labels are appended in an extension structure, RFC 4950, behind 128
	// bytes of quote and padding. A TooBig of IPv6 has no room for them.
	Labels []Label
	// NoLength leaves out the length field that says where the labels are, as
	// routers of before RFC 4884 do.
	NoLength bool
}

// Reason is why a packet could not be delivered.
type Reason uint8

// The reasons of an Unreachable.
const (
	NoRoute    Reason = iota // network unreachable; IPv6: no route to destination
	NoHost                   // host unreachable; IPv6: address unreachable
	NoPort                   // port unreachable
	Prohibited               // communication administratively prohibited
)

// typeCode is the ICMP type and code of m.
func (m Message) typeCode() (typ, code uint8, err error) {
	v4 := m.From.Is4()
	switch m.Kind {
	case TimeExceeded:
		if v4 {
			return uint8(ipv4.ICMPTypeTimeExceeded), 0, nil
		}
		return uint8(ipv6.ICMPTypeTimeExceeded), 0, nil
	case TooBig:
		if v4 {
			return uint8(ipv4.ICMPTypeDestinationUnreachable), codeFragNeeded, nil
		}
		return uint8(ipv6.ICMPTypePacketTooBig), 0, nil
	case Unreachable:
		if m.Reason > Prohibited {
			break
		}
		if v4 {
			return uint8(ipv4.ICMPTypeDestinationUnreachable), [...]uint8{0, 1, codePort4, 13}[m.Reason], nil
		}
		return uint8(ipv6.ICMPTypeDestinationUnreachable), [...]uint8{0, 3, codePort6, 1}[m.Reason], nil
	}
	return 0, 0, fmt.Errorf("wire: no ICMP error of kind %d, reason %d", m.Kind, m.Reason)
}

// ErrorFor appends the IP packet of an ICMP error about pkt to dst.
func ErrorFor(dst, pkt []byte, m Message) ([]byte, error) {
	p, err := ParsePacket(pkt)
	if err != nil {
		return dst, err
	}
	typ, code, err := m.typeCode()
	if err != nil {
		return dst, err
	}
	if p.Src.Is4() != m.From.Is4() {
		return dst, fmt.Errorf("%w: error from %v about a packet from %v", ErrFlow, m.From, p.Src)
	}
	limit := 576
	if p.Version == 6 {
		limit = 1280
	}
	h := header{src: m.From, dst: p.Src, number: numberOf(ICMP, p.Version == 4), ttl: m.TTL}
	if p.Version == 4 {
		h.tos = 0xc0 // internetwork control, RFC 1812 section 4.3.2.5
	}
	quote := limit - h.len() - icmpLen
	if m.Quote > 0 {
		quote = min(p.HeaderLen+max(m.Quote, 8), 0xffff-h.len()-icmpLen)
	}
	quote = min(quote, p.Len)
	var ext []byte
	padding := 0
	if len(m.Labels) > 0 && (m.Kind != TooBig || p.Version == 4) {
		quote = min(quote, originalLen)
		padding = originalLen - quote
		ext = appendExtensions(nil, m.Labels)
	}
	start := len(dst)
	dst = appendHeader(dst, h, icmpLen+quote+padding+len(ext))
	body := len(dst)
	dst = append(dst, typ, code, 0, 0)
	dst = binary.BigEndian.AppendUint32(dst, m.rest(p.Version, ext != nil))
	dst = append(dst, pkt[:quote]...)
	dst = append(append(dst, make([]byte, padding)...), ext...)
	setICMPChecksum(dst[start:body], dst[body:])
	return dst, nil
}

// rest is the second word of the ICMP header.
func (m Message) rest(version int, extended bool) (v uint32) {
	if m.Kind == TooBig {
		v = uint32(m.MTU)
		if version == 4 {
			v &= 0xffff // the other half of the word is not the MTU's
		}
	}
	switch {
	case !extended || m.NoLength:
	case version == 4:
		v |= originalLen / 4 << 16
	default:
		v |= originalLen / 8 << 24
	}
	return v
}

func (h header) len() int {
	if h.src.Is4() {
		return ipv4Len
	}
	return ipv6Len
}

func setICMPChecksum(ip, msg []byte) {
	var acc uint64
	if ip[0]>>4 == 6 {
		acc = pseudo(ip, numICMPv6, len(msg))
	}
	binary.BigEndian.PutUint16(msg[2:], ^fold(sum(acc, msg)))
}

// reply starts an answer to p: a header with the addresses exchanged and
// room for n bytes of payload behind it.
func reply(dst []byte, p *Packet, n int, df bool) (out, ip, payload []byte) {
	h := header{src: p.Dst, dst: p.Src, number: p.Number, df: df}
	start := len(dst)
	dst = appendHeader(dst, h, n)
	dst = append(dst, make([]byte, n)...)
	hlen := h.len()
	return dst, dst[start : start+hlen], dst[start+hlen:]
}

// EchoReplyTo appends the answer to an echo request to dst, with DF clear and
// a TTL of 64, as Linux sends it. It returns ErrNotOurs if pkt is no echo
// request.
func EchoReplyTo(dst, pkt []byte) ([]byte, error) {
	p, err := ParsePacket(pkt)
	if err != nil {
		return dst, err
	}
	if !p.EchoRequest() {
		return dst, fmt.Errorf("%w: no echo request", ErrNotOurs)
	}
	dst, ip, b := reply(dst, &p, len(p.Payload), false)
	copy(b, p.Payload)
	b[0] = uint8(ipv4.ICMPTypeEchoReply)
	if p.Version == 6 {
		b[0] = uint8(ipv6.ICMPTypeEchoReply)
	}
	b[2], b[3] = 0, 0
	setICMPChecksum(ip, b)
	return dst, nil
}

// EchoRequest reports whether p is a whole ICMP echo request.
func (p *Packet) EchoRequest() bool {
	return p.Proto == ICMP && !p.Fragment() && len(p.Payload) >= icmpLen && p.Payload[0] == echoType(p.Src)
}

// TCPReplyTo appends the answer to a TCP segment to dst: a SYN-ACK to a SYN if
// the port is open, otherwise a RST that acknowledges it. It returns
// ErrNotOurs where TCP stays silent: to a RST, and to anything but a SYN on an
// open port.
func TCPReplyTo(dst, pkt []byte, open bool) ([]byte, error) {
	p, err := ParsePacket(pkt)
	if err != nil {
		return dst, err
	}
	if p.Proto != TCP || p.Fragment() || len(p.Payload) < tcpLen {
		return dst, fmt.Errorf("%w: no TCP segment", ErrNotOurs)
	}
	seg := p.Payload
	flags, off := seg[13], int(seg[12]>>4)*4
	if off < tcpLen || off > len(seg) {
		return dst, fmt.Errorf("%w: TCP data offset %d", ErrMalformed, off)
	}
	syn := flags&(tcpSYN|tcpACK|tcpRST) == tcpSYN
	if flags&tcpRST != 0 || open && !syn {
		return dst, fmt.Errorf("%w: TCP flags %#x", ErrNotOurs, flags)
	}
	n := tcpLen
	if open {
		n += mssLen
	}
	dst, ip, b := reply(dst, &p, n, true)
	copy(b[0:2], seg[2:4])
	copy(b[2:4], seg[0:2])
	b[12] = byte(n / 4 << 4)
	ack := binary.BigEndian.Uint32(seg[4:]) + uint32(flags&tcpSYN)>>1 + uint32(flags&tcpFIN)
	switch {
	case open: // data on a SYN is not acknowledged without Fast Open, RFC 7413
		binary.BigEndian.PutUint32(b[4:], ^ack) // an initial sequence number
		b[13] = tcpSYN | tcpACK
		binary.BigEndian.PutUint16(b[14:], 65160)
		b[20], b[21] = 2, mssLen
		binary.BigEndian.PutUint16(b[22:], uint16(1500-len(ip)-tcpLen))
	case flags&tcpACK != 0: // RFC 9293 section 3.10.7.1
		copy(b[4:8], seg[8:12])
		ack = 0
		b[13] = tcpRST
	default:
		ack += uint32(len(seg) - off)
		b[13] = tcpRST | tcpACK
	}
	binary.BigEndian.PutUint32(b[8:], ack)
	binary.BigEndian.PutUint16(b[16:], ^fold(sum(pseudo(ip, numTCP, n), b)))
	return dst, nil
}
