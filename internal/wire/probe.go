package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
)

// Behind the transport header every UDP and ICMP probe begins with its token:
//
//	0  sequence number
//	2  word that brings the checksum to its intended value
//	4  32 bits derived from the flow
//
// The rest is zero. So the checksum, which lies in the first 8 bytes and
// therefore in every quote, is ours to choose, and the payload, where a router
// quotes that much, proves that the probe was ours.
const tokenLen = 8

// mssLen is the length of a SYN's only option, RFC 9293 section 3.2.
const mssLen = 4

// tcpKeyMask bounds the part of a TCP sequence number that does not count
// probes. Bits 14 and 15 stay free so that an answer which acknowledges data
// on the SYN does not carry into the probe's number.
const tcpKeyMask = 0x3fff

// maxTCPData is the most data on a SYN that leaves its acknowledgement
// readable.
const maxTCPData = 0xffff - tcpKeyMask - 2

// Errors of Build and BuildPayload, wrapped with the values.
var (
	// ErrFlow says that a Flow cannot be sent: no protocol, or addresses that
	// are missing or of two families.
	ErrFlow = errors.New("wire: impossible flow")
	// ErrSize says that a probe's size is too small for the protocol or above
	// 65535 bytes.
	ErrSize = errors.New("wire: impossible probe size")
	// ErrSeq says that the flow cannot number this many probes: no UDP
	// checksum stands for sequence number 65535.
	ErrSeq = errors.New("wire: sequence number out of range")
)

func (f Flow) validate() error {
	switch {
	case f.Proto < UDP || f.Proto > TCP:
		return fmt.Errorf("%w: protocol %d", ErrFlow, f.Proto)
	case !f.Src.IsValid() || !f.Dst.IsValid() || f.Src.Is4() != f.Dst.Is4() || f.Src.Is4In6() || f.Dst.Is4In6():
		return fmt.Errorf("%w: from %v to %v", ErrFlow, f.Src, f.Dst)
	}
	return nil
}

// token is what a payload shows to be of this flow.
func (f Flow) token() uint32 {
	const prime = 16777619 // FNV-1a
	h := uint32(2166136261)
	mix := func(b ...byte) {
		for _, c := range b {
			h = (h ^ uint32(c)) * prime
		}
	}
	src, dst := f.Src.As16(), f.Dst.As16()
	mix(src[:]...)
	mix(dst[:]...)
	mix(byte(f.Proto), byte(f.SrcPort>>8), byte(f.SrcPort), byte(f.DstPort>>8), byte(f.DstPort))
	return h
}

func (f Flow) ipLen() int {
	if f.Src.Is4() {
		return ipv4Len
	}
	return ipv6Len
}

// checksum is what the transport checksum of probe seq is brought to, 0 if
// that is not chosen. UDP carries the sequence number there, one higher
// because 0 means "no checksum"; ICMP keeps one value for the flow, since
// routers that spread flows hash the checksum where UDP has its ports.
func (f Flow) checksum(seq uint16) uint16 {
	switch f.Proto {
	case UDP:
		return seq + 1
	case ICMP:
		return uint16(f.token()%0xfffe) + 1
	}
	return 0
}

// MinSize is the size in bytes of the smallest probe of the flow, IP header
// included.
func (f Flow) MinSize() int { return f.ipLen() + f.minTransport() }

func (f Flow) minTransport() int {
	switch f.Proto {
	case UDP:
		return udpLen + tokenLen
	case ICMP:
		return icmpLen + tokenLen
	}
	return tcpLen + mssLen
}

// transportLen is the length of probe p without its IP header.
func (f Flow) transportLen(p Probe) (int, error) {
	n := p.Size - f.ipLen()
	if p.Size == 0 {
		n = f.minTransport()
	}
	switch {
	case n < f.minTransport(), p.Size > 0xffff,
		f.Proto == TCP && n-f.minTransport() > maxTCPData:
		return 0, fmt.Errorf("%w: %d bytes of %v", ErrSize, p.Size, f.Proto)
	case f.Proto == UDP && p.Seq == 0xffff:
		return 0, fmt.Errorf("%w: %d has no UDP checksum", ErrSeq, p.Seq)
	}
	return n, nil
}

// Build appends a whole IP packet to dst: DF set, checksums right, and the
// sequence number readable in the first 8 bytes behind the IP header. The
// IPv4 identification is the sequence number too, so that captures can be
// read.
func Build(dst []byte, f Flow, p Probe) ([]byte, error) {
	if err := f.validate(); err != nil {
		return dst, err
	}
	n, err := f.transportLen(p)
	if err != nil {
		return dst, err
	}
	h := header{
		src: f.Src, dst: f.Dst, number: numberOf(f.Proto, f.Src.Is4()),
		ttl: p.TTL, tos: uint8(p.TOS), df: true, id: p.Seq, flow: f.token(),
	}
	start := len(dst)
	dst = appendHeader(dst, h, n)
	return f.appendTransport(dst, dst[start:], p, n), nil
}

// BuildPayload returns what a socket hands to the kernel for probe p: the
// payload of a UDP socket, the ICMP message of a ping socket. Sent from f.Src
// and f.SrcPort, the kernel's packet is the one that Build makes, but for the
// IP header. A TCP socket takes no payload: the result is nil.
func BuildPayload(f Flow, p Probe) ([]byte, error) {
	if err := f.validate(); err != nil {
		return nil, err
	}
	n, err := f.transportLen(p)
	if err != nil || f.Proto == TCP {
		return nil, err
	}
	var ip [ipv6Len]byte
	b := f.appendTransport(nil, appendHeader(ip[:0], header{src: f.Src, dst: f.Dst}, 0), p, n)
	if f.Proto == UDP {
		b = b[udpLen:]
	}
	return b, nil
}

// appendTransport appends n bytes, the transport header and payload of probe
// p; ip is the IP header, for its addresses.
func (f Flow) appendTransport(dst, ip []byte, p Probe, n int) []byte {
	start := len(dst)
	dst = append(dst, make([]byte, n)...)
	b := dst[start:]
	if f.Proto == TCP {
		f.putSYN(b, p.Seq)
		binary.BigEndian.PutUint16(b[16:], ^fold(sum(pseudo(ip, numTCP, n), b)))
		return dst
	}
	number, sumAt := uint8(numUDP), 6
	if f.Proto == ICMP {
		number, sumAt = numberOf(ICMP, f.Src.Is4()), 2
		b[0] = echoType(f.Src)
		binary.BigEndian.PutUint16(b[4:], f.SrcPort)
		binary.BigEndian.PutUint16(b[6:], p.Seq)
	} else {
		binary.BigEndian.PutUint16(b, f.SrcPort)
		binary.BigEndian.PutUint16(b[2:], f.DstPort)
		binary.BigEndian.PutUint16(b[4:], uint16(n))
	}
	token := b[8:] // both headers have 8 bytes
	binary.BigEndian.PutUint16(token, p.Seq)
	binary.BigEndian.PutUint32(token[4:], f.token())
	var acc uint64
	if number != numICMP {
		acc = pseudo(ip, number, n)
	}
	if c := f.checksum(p.Seq); c != 0 {
		binary.BigEndian.PutUint16(b[sumAt:], c)
		binary.BigEndian.PutUint16(token[2:], ^fold(sum(acc, b)))
		return dst
	}
	c := ^fold(sum(acc, b))
	if c == 0 {
		c = 0xffff // RFC 768
	}
	binary.BigEndian.PutUint16(b[sumAt:], c)
	return dst
}

// putSYN writes a TCP header with an MSS option.
func (f Flow) putSYN(b []byte, seq uint16) {
	binary.BigEndian.PutUint16(b, f.SrcPort)
	binary.BigEndian.PutUint16(b[2:], f.DstPort)
	binary.BigEndian.PutUint32(b[4:], f.tcpSeq(seq))
	b[12] = (tcpLen + mssLen) / 4 << 4
	b[13] = tcpSYN
	binary.BigEndian.PutUint16(b[14:], 64240) // window, as Linux opens it
	mss := uint16(1460)
	if !f.Src.Is4() {
		mss = 1440
	}
	b[20], b[21] = 2, mssLen
	binary.BigEndian.PutUint16(b[22:], mss)
}

// tcpSeq is the TCP sequence number of probe seq.
func (f Flow) tcpSeq(seq uint16) uint32 {
	return uint32(seq)<<16 | f.token()&tcpKeyMask
}

func echoType(a netip.Addr) uint8 {
	if a.Is4() {
		return uint8(ipv4.ICMPTypeEcho)
	}
	return uint8(ipv6.ICMPTypeEchoRequest)
}

// TCP flags, RFC 9293 section 3.1.
const (
	tcpFIN = 0x01
	tcpSYN = 0x02
	tcpRST = 0x04
	tcpACK = 0x10
)
