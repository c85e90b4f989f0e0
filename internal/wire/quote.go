package wire

import (
	"encoding/binary"
	"fmt"
)

// Quote is what an ICMP error shows of the probe it is about.
type Quote struct {
	TTL int // when the probe died
	// Len is how many bytes of the probe behind its IP header are quoted;
	// padding is not counted.
	Len int
	// Total is the probe's length as the quoted header has it. Some systems
	// quote it in the wrong byte order.
	Total int
	TOS   uint8 // DSCP and ECN, rewritten on the way perhaps
	// Checksum is the transport checksum as quoted. One that differs from
	// the probe's was changed by a NAT. Zero if not quoted.
	Checksum uint16
	// Token says that the quote reached far enough to show the flow's token,
	// and showed it.
	Token bool
}

// MatchQuote reads the packet that an ICMP error quotes and returns the
// sequence number of the probe of f that it is. The error wraps ErrMalformed
// if the quote is no packet, ErrNotOurs if it is another's.
func MatchQuote(quote []byte, f Flow) (seq uint16, q Quote, err error) {
	p, err := parseHeader(quote)
	if err != nil {
		return 0, Quote{}, err
	}
	if p.Src != f.Src || p.Dst != f.Dst || p.Proto != f.Proto {
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
	q = Quote{TTL: p.TTL, Len: len(b), Total: p.Len, TOS: p.TOS}
	seq, q.Checksum, q.Token, err = f.match(b)
	if err != nil {
		return 0, Quote{}, err
	}
	return seq, q, nil
}

// MatchTransport is MatchQuote for a quote without its IP header, as the
// kernel's error queue gives it for ping and TCP sockets. The addresses are
// then the kernel's word.
func MatchTransport(b []byte, f Flow) (seq uint16, err error) {
	seq, _, _, err = f.match(b)
	return seq, err
}

// MatchPayload returns the sequence number in the payload of a UDP probe, as
// the kernel's error queue gives it for UDP sockets.
func MatchPayload(b []byte, f Flow) (seq uint16, err error) {
	if len(b) < tokenLen {
		return 0, fmt.Errorf("%w: %d bytes of payload", ErrMalformed, len(b))
	}
	if binary.BigEndian.Uint32(b[4:]) != f.token() {
		return 0, fmt.Errorf("%w: foreign payload", ErrNotOurs)
	}
	return binary.BigEndian.Uint16(b), nil
}

// match reads a transport header of the flow, possibly cut short.
func (f Flow) match(b []byte) (seq, checksum uint16, token bool, err error) {
	if len(b) < 8 {
		return 0, 0, false, fmt.Errorf("%w: %d bytes quoted", ErrMalformed, len(b))
	}
	switch f.Proto {
	case ICMP:
		return f.matchEcho(b, echoType(f.Src))
	case TCP:
		return f.matchSYN(b)
	case UDP:
		return f.matchUDP(b)
	}
	return 0, 0, false, fmt.Errorf("%w: protocol %d", ErrFlow, f.Proto)
}

// matchToken checks the payload if it is there at all.
func (f Flow) matchToken(payload []byte) (seq uint16, shown bool, err error) {
	if len(payload) < tokenLen {
		return 0, false, nil
	}
	seq, err = MatchPayload(payload, f)
	return seq, err == nil, err
}

func (f Flow) matchEcho(b []byte, typ uint8) (seq, checksum uint16, token bool, err error) {
	if b[0] != typ || b[1] != 0 || binary.BigEndian.Uint16(b[4:]) != f.SrcPort {
		return 0, 0, false, fmt.Errorf("%w: ICMP type %d, id %d", ErrNotOurs, b[0], binary.BigEndian.Uint16(b[4:]))
	}
	seq = binary.BigEndian.Uint16(b[6:])
	inside, token, err := f.matchToken(b[icmpLen:])
	if err == nil && token && inside != seq {
		err = fmt.Errorf("%w: echo %d holds the token of %d", ErrNotOurs, seq, inside)
	}
	if err != nil {
		return 0, 0, false, err
	}
	return seq, binary.BigEndian.Uint16(b[2:]), token, nil
}

func (f Flow) matchSYN(b []byte) (seq, checksum uint16, token bool, err error) {
	n := binary.BigEndian.Uint32(b[4:])
	seq = uint16(n >> 16)
	if binary.BigEndian.Uint16(b) != f.SrcPort || binary.BigEndian.Uint16(b[2:]) != f.port(seq) || n != f.tcpSeq(seq) {
		return 0, 0, false, fmt.Errorf("%w: TCP sequence number %d", ErrNotOurs, n)
	}
	if len(b) >= tcpLen {
		if b[13]&(tcpSYN|tcpACK|tcpRST|tcpFIN) != tcpSYN {
			return 0, 0, false, fmt.Errorf("%w: TCP flags %#x", ErrNotOurs, b[13])
		}
		checksum = binary.BigEndian.Uint16(b[16:])
	}
	return seq, checksum, false, nil
}

func (f Flow) matchUDP(b []byte) (seq, checksum uint16, token bool, err error) {
	port := binary.BigEndian.Uint16(b[2:])
	checksum = binary.BigEndian.Uint16(b[6:])
	if binary.BigEndian.Uint16(b) != f.SrcPort || port != f.DstPort && (!f.PortPerProbe || port < f.DstPort) {
		return 0, 0, false, fmt.Errorf("%w: UDP to port %d", ErrNotOurs, port)
	}
	inside, token, err := f.matchToken(b[udpLen:])
	switch {
	case err != nil:
		return 0, 0, false, err
	case f.PortPerProbe:
		seq = port - f.DstPort
		if token && inside != seq {
			return 0, 0, false, fmt.Errorf("%w: port of probe %d, token of %d", ErrNotOurs, seq, inside)
		}
	case token:
		seq = inside // a NAT changes the checksum, but not this
	case checksum == 0:
		return 0, 0, false, fmt.Errorf("%w: UDP checksum gone", ErrNotOurs)
	default:
		seq = checksum - 1
	}
	return seq, checksum, token, nil
}
