package wire

import (
	"encoding/binary"
	"fmt"
	"math/bits"
)

// Quote is what an ICMP error shows of the probe it is about.
type Quote struct {
	TTL int // when the probe died; -1 means not visible
	// Len is how many bytes of the probe behind its IP header are quoted;
	// padding is not counted.
	Len int
	// Total is the probe's length as the quoted header has it. Some systems
	// quote it in the wrong byte order. Zero means not visible.
	Total int
	// TOS is DSCP and ECN, rewritten on the way perhaps. -1 means not visible.
	TOS int
	// Checksum is the transport checksum as quoted. Zero if not quoted.
	Checksum uint16
	// MSS is the MSS option of a quoted SYN, in bytes. Zero means not visible.
	MSS int
	// Token says that the quote reached far enough to show the flow's token,
	// and showed it.
	Token bool
	// Translated says that a NAT changed the probe's addresses, its ports, or
	// the checksum that depends on them.
	Translated bool

	id uint32 // IPv4 identification
}

// MatchQuote reads the packet that an ICMP error quotes and returns the
// sequence number of the probe of f that it is. The error wraps ErrMalformed
// if the quote is no packet, ErrNotOurs if it is another's, ErrUnnumbered if
// it is of the flow but does not show which probe it is.
//
// A NAT that translates an error's way back may leave the quote as it was
// behind the NAT. Other addresses or ports than ours are accepted where the
// rest proves the probe ours: the token, or what the first 8 bytes hold of it.
func MatchQuote(quote []byte, f Flow) (seq uint16, q Quote, err error) {
	p, err := parseHeader(quote)
	if err != nil {
		return 0, Quote{}, err
	}
	if p.Proto != f.Proto || (p.Version == 4) != f.Src.Is4() {
		return 0, Quote{}, fmt.Errorf("%w: quotes protocol %d from %v to %v", ErrNotOurs, p.Number, p.Src, p.Dst)
	}
	if p.FragOffset != 0 {
		return 0, Quote{}, fmt.Errorf("%w: quotes a later fragment", ErrNotOurs)
	}
	// A total length below the 8 bytes every quote has is in the wrong byte
	// order, or was lowered by a router that subtracts the header.
	b := p.Payload
	if p.Len-p.HeaderLen < icmpLen {
		b = quote[p.HeaderLen:]
	}
	q = Quote{TTL: p.TTL, Len: len(b), Total: p.Len, TOS: int(p.TOS)}
	if p.Version == 4 {
		q.id = p.ID
	}
	q.Translated = p.Src != f.Src || p.Dst != f.Dst
	segments := []int{p.Len - p.HeaderLen, int(bits.ReverseBytes16(uint16(p.Len))) - p.HeaderLen}
	return f.match(b, q, segments)
}

// MatchTransport is MatchQuote for a quote without its IP header, as the
// kernel's error queue gives it for ping and TCP sockets. The addresses are
// then the kernel's word.
func MatchTransport(b []byte, f Flow) (seq uint16, q Quote, err error) {
	return f.match(b, Quote{TTL: -1, TOS: -1, Len: len(b)}, nil)
}

// MatchConnect is MatchTransport for a SYN that the kernel made for a
// connecting socket: it has the ports of the flow, and every option the kernel
// likes, but no sequence number of ours.
func MatchConnect(b []byte, f Flow) (Quote, error) {
	if len(b) < 8 {
		return Quote{}, fmt.Errorf("%w: %d bytes quoted", ErrMalformed, len(b))
	}
	if binary.BigEndian.Uint16(b) != f.SrcPort || binary.BigEndian.Uint16(b[2:]) != f.DstPort {
		return Quote{}, fmt.Errorf("%w: TCP from port %d to %d", ErrNotOurs,
			binary.BigEndian.Uint16(b), binary.BigEndian.Uint16(b[2:]))
	}
	q := Quote{TTL: -1, TOS: -1, Len: len(b)}
	return q, f.readSYN(b, &q, nil)
}

// MatchPayload returns the sequence number in the payload of a UDP probe, as
// the kernel's error queue gives it for UDP sockets. The error wraps
// ErrMalformed if the payload is too short to show it: a router may quote 8
// bytes, which end before the payload.
func MatchPayload(b []byte, f Flow) (seq uint16, err error) {
	if len(b) < tokenLen {
		return 0, fmt.Errorf("%w: %d bytes of payload", ErrMalformed, len(b))
	}
	if binary.BigEndian.Uint32(b[4:]) != f.token() {
		return 0, fmt.Errorf("%w: foreign payload", ErrNotOurs)
	}
	return binary.BigEndian.Uint16(b), nil
}

// match reads a transport header of the flow, possibly cut short, and
// completes q. segments are lengths that the whole may have had; nil means
// unknown.
func (f Flow) match(b []byte, q Quote, segments []int) (seq uint16, _ Quote, err error) {
	if len(b) < 8 {
		return 0, Quote{}, fmt.Errorf("%w: %d bytes quoted", ErrMalformed, len(b))
	}
	// A router that quotes 8 bytes pads them with zeros where it appends MPLS
	// labels. No probe has only zeros there.
	if len(b) >= 8+tokenLen && padding(b[8:]) {
		b, q.Len = b[:8], 8
	}
	switch f.Proto {
	case ICMP:
		seq, err = f.matchEcho(b, &q)
	case TCP:
		seq, err = f.matchSYN(b, &q, segments)
	case UDP:
		seq, err = f.matchUDP(b, &q)
	default:
		err = fmt.Errorf("%w: protocol %d", ErrFlow, f.Proto)
	}
	return seq, q, err
}

// matchToken checks the payload if it is there at all.
func (f Flow) matchToken(payload []byte) (seq uint16, shown bool, err error) {
	if len(payload) < tokenLen {
		return 0, false, nil
	}
	seq, err = MatchPayload(payload, f)
	return seq, err == nil, err
}

func (f Flow) matchEcho(b []byte, q *Quote) (seq uint16, err error) {
	id := binary.BigEndian.Uint16(b[4:])
	if b[0] != echoType(f.Src) || b[1] != 0 {
		return 0, fmt.Errorf("%w: ICMP type %d", ErrNotOurs, b[0])
	}
	seq = binary.BigEndian.Uint16(b[6:])
	q.Checksum = binary.BigEndian.Uint16(b[2:])
	inside, shown, err := f.matchToken(b[icmpLen:])
	if err != nil {
		return 0, err
	}
	same := q.Checksum == f.checksum(seq)
	switch {
	case shown && inside != seq:
		return 0, fmt.Errorf("%w: echo %d holds the token of %d", ErrNotOurs, seq, inside)
	case shown:
	// The checksum is made of the token, and that of ICMPv4 covers no
	// addresses: with the identifier it is proof enough.
	case id != f.SrcPort, q.Translated && !(f.Src.Is4() && same):
		return 0, fmt.Errorf("%w: ICMP id %d", ErrNotOurs, id)
	}
	q.Token = shown
	q.Translated = q.Translated || id != f.SrcPort || q.Checksum != 0 && !same
	return seq, nil
}

func (f Flow) matchUDP(b []byte, q *Quote) (seq uint16, err error) {
	src, dst := binary.BigEndian.Uint16(b), binary.BigEndian.Uint16(b[2:])
	q.Checksum = binary.BigEndian.Uint16(b[6:])
	inside, shown, err := f.matchToken(b[udpLen:])
	if err != nil {
		return 0, err
	}
	q.Token = shown
	ours := !q.Translated && src == f.SrcPort && dst == f.DstPort
	if !ours && !shown {
		return 0, fmt.Errorf("%w: UDP from port %d to %d", ErrNotOurs, src, dst)
	}
	switch {
	case shown:
		seq = inside // a NAT changes the checksum, but not this
	case q.Checksum == 0:
		return 0, fmt.Errorf("%w: UDP checksum gone", ErrUnnumbered)
	default:
		// The identification of IPv4 has the number too. If the two differ
		// one of them was rewritten, and nobody knows which.
		seq = q.Checksum - 1
		if q.id != 0 && q.id != uint32(seq) {
			return 0, fmt.Errorf("%w: UDP checksum of probe %d, identification of %d", ErrUnnumbered, seq, q.id)
		}
	}
	q.Translated = q.Translated || src != f.SrcPort || dst != f.DstPort || f.udpChanged(b, q.Checksum, seq)
	return seq, nil
}

// udpChanged reports whether a quoted UDP checksum is neither the one that was
// sent nor absent nor unfinished.
func (f Flow) udpChanged(b []byte, c, seq uint16) bool {
	want := f.checksum(seq)
	n := int(binary.BigEndian.Uint16(b[4:]))
	return c != 0 && want != 0 && c != want && c != f.unfinished(n)
}

// unfinished is the checksum that a packet of n bytes has before the network
// card completes it. On virtual links nobody does, and routers of the same
// machine quote it.
func (f Flow) unfinished(n int) uint16 { return fold(f.pseudo(n)) }

// pseudo sums the pseudo header of a transport segment of n bytes.
func (f Flow) pseudo(n int) uint64 {
	var ip [ipv6Len]byte
	h := appendHeader(ip[:0], header{src: f.Src, dst: f.Dst}, 0)
	return pseudo(h, numberOf(f.Proto, f.Src.Is4()), n)
}

// matchSYN reads a quoted SYN of Build's. A SYN has no token: where the
// addresses are not ours, its ports and the flow's key in the sequence number
// must be.
func (f Flow) matchSYN(b []byte, q *Quote, segments []int) (seq uint16, err error) {
	n := binary.BigEndian.Uint32(b[4:])
	seq = uint16(n >> 16)
	if binary.BigEndian.Uint16(b) != f.SrcPort || binary.BigEndian.Uint16(b[2:]) != f.DstPort || n != f.tcpSeq(seq) {
		return 0, fmt.Errorf("%w: TCP sequence number %d", ErrNotOurs, n)
	}
	return seq, f.readSYN(b, q, segments)
}

// readSYN reads what a quoted SYN shows behind its ports and sequence number.
func (f Flow) readSYN(b []byte, q *Quote, segments []int) error {
	if len(b) < tcpLen || b[12]|b[13] == 0 { // padding, in which a NAT "repaired" the checksum
		return nil
	}
	if b[13]&(tcpSYN|tcpACK|tcpRST|tcpFIN) != tcpSYN {
		return fmt.Errorf("%w: TCP flags %#x", ErrNotOurs, b[13])
	}
	q.Checksum = binary.BigEndian.Uint16(b[16:])
	off := int(b[12]>>4) * 4
	if off < tcpLen {
		return nil
	}
	q.MSS = mssOf(b[tcpLen:min(off, len(b))])
	if len(b) >= off && q.Checksum != 0 && endShown(b, off, q.MSS) && !f.synSound(b, q.Checksum, append(segments, off)) {
		q.Translated = true
	}
	return nil
}

// endShown reports whether the last option of a SYN is what was quoted and not
// padding: Linux ends its options with a window scale, we with the MSS.
func endShown(b []byte, off, mss int) bool {
	return off == tcpLen || b[off-1] != 0 || off == tcpLen+mssLen && mss != 0
}

// padding reports whether there are only zeros.
func padding(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

// synSound reports whether a quoted checksum is right for the addresses the
// SYN was sent with. An MSS clamp changes the segment and repairs the
// checksum, which stays right; a NAT repairs it for other addresses. Data on a
// SYN is zero and needs not be quoted, but its length counts.
func (f Flow) synSound(b []byte, c uint16, segments []int) bool {
	for _, n := range segments {
		if n < tcpLen {
			continue
		}
		if fold(sum(f.pseudo(n), b[:min(n, len(b))])) == 0xffff || c == f.unfinished(n) {
			return true
		}
	}
	return false
}

// mssOf returns the MSS among TCP options; 0 if there is none.
func mssOf(options []byte) int {
	if at := mssAt(options); at >= 0 {
		return int(binary.BigEndian.Uint16(options[at:]))
	}
	return 0
}

// mssAt returns where among TCP options the value of the MSS is, RFC 9293
// section 3.2; -1 if it is not there.
func mssAt(options []byte) int {
	const end, nop, mss = 0, 1, 2
	for at := 0; at < len(options) && options[at] != end; {
		if options[at] == nop {
			at++
			continue
		}
		if at+1 >= len(options) || options[at+1] < 2 || at+int(options[at+1]) > len(options) {
			break
		}
		if options[at] == mss && options[at+1] == mssLen {
			return at + 2
		}
		at += int(options[at+1])
	}
	return -1
}
