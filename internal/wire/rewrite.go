package wire

import (
	"encoding/binary"
	"net/netip"
)

// Tuple is what a flow is told by: addresses and ports. An echo request has
// its identifier as the source port, a reply as the destination port; the
// other one is 0.
type Tuple struct {
	Proto   Protocol
	Src     netip.Addr
	Dst     netip.Addr
	SrcPort uint16
	DstPort uint16
}

// Reverse is the tuple of the answers.
func (t Tuple) Reverse() Tuple {
	return Tuple{Proto: t.Proto, Src: t.Dst, Dst: t.Src, SrcPort: t.DstPort, DstPort: t.SrcPort}
}

// Tuple returns the packet's tuple. It reports false for what has none: other
// protocols, ICMP but echo, fragments, and what is too short to tell.
func (p *Packet) Tuple() (Tuple, bool) {
	t := Tuple{Proto: p.Proto, Src: p.Src, Dst: p.Dst}
	if p.Proto == 0 || p.Fragment() || len(p.Payload) < 8 {
		return Tuple{}, false
	}
	if p.Proto != ICMP {
		t.SrcPort, t.DstPort = p.Ports()
		return t, true
	}
	id := binary.BigEndian.Uint16(p.Payload[4:])
	switch {
	case !p.Echo():
		return Tuple{}, false
	case p.Payload[0] == echoType(p.Src):
		t.SrcPort = id
	default:
		t.DstPort = id
	}
	return t, true
}

// QuotedTuple returns the tuple of the packet that an ICMP error quotes.
func (p *Packet) QuotedTuple() (Tuple, bool) {
	q, ok := p.quoted()
	if !ok {
		return Tuple{}, false
	}
	return q.Tuple()
}

func (p *Packet) quoted() (Packet, bool) {
	if !p.ICMPError() || p.Fragment() || len(p.Payload) < icmpLen {
		return Packet{}, false
	}
	q, err := parseHeader(p.Payload[icmpLen:])
	return q, err == nil && q.Version == p.Version
}

// edit changes words of a packet and keeps the sum of what changed, RFC 1624.
type edit struct{ delta uint64 }

// put writes v over old.
func (e *edit) put(old, v []byte) {
	for i := 0; i+1 < len(old); i += 2 {
		e.delta += uint64(^binary.BigEndian.Uint16(old[i:])) + uint64(binary.BigEndian.Uint16(v[i:]))
	}
	copy(old, v)
}

// repair brings the checksum at the front of b up to date.
func (e edit) repair(b []byte) {
	binary.BigEndian.PutUint16(b, ^fold(uint64(^binary.BigEndian.Uint16(b))+e.delta))
}

// Rewrite gives the IP packet b the addresses and ports of t, as a NAT does,
// and repairs the checksums. What is not there, as in later fragments, is left
// alone, and so is what is no packet.
func Rewrite(b []byte, t Tuple) {
	p, err := ParsePacket(b)
	if err != nil || (p.Version == 4) != t.Src.Is4() || (p.Version == 4) != t.Dst.Is4() {
		return
	}
	addresses := putAddresses(b, &p, t)
	ports, sumAt := putPorts(&p, t)
	repairTransport(&p, addresses, ports, sumAt)
}

// RewriteQuote does to the packet that an ICMP error b quotes what Rewrite does
// to a packet, and repairs the error's checksum. Unless stale, the quoted
// transport checksum is repaired where it is quoted.
func RewriteQuote(b []byte, t Tuple, stale bool) {
	p, err := ParsePacket(b)
	if err != nil {
		return
	}
	q, ok := p.quoted()
	if !ok || (q.Version == 4) != t.Src.Is4() || (q.Version == 4) != t.Dst.Is4() {
		return
	}
	msg := b[p.HeaderLen:p.Len]
	addresses := putAddresses(msg[icmpLen:], &q, t)
	ports, sumAt := putPorts(&q, t)
	if !stale {
		repairTransport(&q, addresses, ports, sumAt)
	}
	msg[2], msg[3] = 0, 0
	setICMPChecksum(b, msg)
}

// putAddresses writes the addresses of an IP header and repairs its checksum.
func putAddresses(b []byte, p *Packet, t Tuple) (e edit) {
	if p.Version == 4 {
		e.put(b[12:16], t.Src.AsSlice())
		e.put(b[16:20], t.Dst.AsSlice())
		e.repair(b[10:])
		return e
	}
	e.put(b[8:24], t.Src.AsSlice())
	e.put(b[24:40], t.Dst.AsSlice())
	return e
}

// putPorts writes the ports of a transport header, and says where in the
// payload the checksum is; -1 if there is none.
func putPorts(p *Packet, t Tuple) (e edit, sumAt int) {
	if p.FragOffset != 0 || len(p.Payload) < 8 {
		return e, -1
	}
	word := func(at int, v uint16) {
		e.put(p.Payload[at:at+2], []byte{byte(v >> 8), byte(v)})
	}
	switch {
	case p.Proto == ICMP:
		if p.Echo() {
			word(4, t.SrcPort|t.DstPort) // one of them is 0
		}
		return e, 2
	case p.Proto == UDP:
		sumAt = 6
	case p.Proto == TCP:
		sumAt = 16
	default:
		return e, -1
	}
	word(0, t.SrcPort)
	word(2, t.DstPort)
	return e, sumAt
}

// repairTransport repairs a transport checksum if it is there.
func repairTransport(p *Packet, addresses, ports edit, sumAt int) {
	if sumAt < 0 || sumAt+2 > len(p.Payload) {
		return
	}
	if p.Number != numICMP { // whose checksum has no pseudo header
		ports.delta += addresses.delta
	}
	c := p.Payload[sumAt : sumAt+2]
	if p.Proto == UDP && c[0]|c[1] == 0 {
		return // it has none
	}
	ports.repair(c)
	if p.Proto == UDP && c[0]|c[1] == 0 {
		c[0], c[1] = 0xff, 0xff // RFC 768
	}
}

// SetTTL changes the TTL of an IP packet that ParsePacket accepts.
func SetTTL(b []byte, ttl int) {
	if b[0]>>4 == 6 {
		b[7] = byte(ttl)
		return
	}
	b[8] = byte(ttl)
	setHeaderChecksum(b)
}

// SetTOS changes DSCP and ECN of an IP packet that ParsePacket accepts.
func SetTOS(b []byte, tos uint8) {
	if b[0]>>4 == 6 {
		b[0] = 6<<4 | tos>>4
		b[1] = tos<<4 | b[1]&0xf
		return
	}
	b[1] = tos
	setHeaderChecksum(b)
}

// ClampMSS lowers the MSS option of a SYN to at most mss bytes and repairs the
// checksum. It reports whether it changed the packet.
func ClampMSS(b []byte, mss int) bool {
	p, err := ParsePacket(b)
	if err != nil || p.Proto != TCP || p.Fragment() || len(p.Payload) < tcpLen || p.Payload[13]&tcpSYN == 0 {
		return false
	}
	end := int(p.Payload[12]>>4) * 4
	if end < tcpLen || end > len(p.Payload) {
		return false
	}
	at := mssAt(p.Payload[tcpLen:end])
	if at < 0 || int(binary.BigEndian.Uint16(p.Payload[tcpLen+at:])) <= mss {
		return false
	}
	at += tcpLen
	if at%2 != 0 { // behind an odd number of NOPs: sum it anew
		binary.BigEndian.PutUint16(p.Payload[at:], uint16(mss))
		p.Payload[16], p.Payload[17] = 0, 0
		binary.BigEndian.PutUint16(p.Payload[16:], ^fold(sum(pseudo(b, numTCP, len(p.Payload)), p.Payload)))
		return true
	}
	var e edit
	e.put(p.Payload[at:at+2], []byte{byte(mss >> 8), byte(mss)})
	e.repair(p.Payload[16:18])
	return true
}
