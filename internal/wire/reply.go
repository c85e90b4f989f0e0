package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
)

// ParseReply reads a whole IP packet as an answer to a probe of f. The error
// wraps ErrMalformed for broken bytes, ErrNotOurs for any other packet than an
// answer to f, ErrUnnumbered for an answer that names no probe: data from the
// destination, or an error, whose Reply is then Unnumbered.
//
// ICMPv4 checksums are verified. Those of TCP, UDP and ICMPv6 are the
// kernel's: on a virtual link it leaves them unfinished.
func ParseReply(pkt []byte, f Flow) (Reply, error) {
	if err := f.validate(); err != nil {
		return Reply{}, err
	}
	p, err := ParsePacket(pkt)
	if err != nil {
		return Reply{}, err
	}
	if p.Dst != f.Src {
		return Reply{}, fmt.Errorf("%w: packet for %v", ErrNotOurs, p.Dst)
	}
	if p.Fragment() {
		return Reply{}, fmt.Errorf("%w: a fragment", ErrMalformed)
	}
	var r Reply
	switch {
	case p.Proto == ICMP:
		r, err = ParseICMP(p.Payload, p.Src, f)
	case p.Proto == f.Proto && p.Src == f.Dst && p.Proto == TCP:
		r, err = f.parseTCP(p.Payload)
	case p.Proto == f.Proto && p.Src == f.Dst && p.Proto == UDP:
		r, err = f.parseUDP(p.Payload)
	default:
		err = fmt.Errorf("%w: protocol %d from %v", ErrNotOurs, p.Number, p.Src)
	}
	r.From, r.TTL = p.Src, p.TTL
	return r, err
}

// ParseICMP is ParseReply for an ICMP message without its IP header, as ping
// sockets and raw ICMPv6 sockets receive it. The reply's TTL stays unknown.
func ParseICMP(msg []byte, from netip.Addr, f Flow) (Reply, error) {
	if len(msg) < icmpLen {
		return Reply{}, fmt.Errorf("%w: ICMP message of %d bytes", ErrMalformed, len(msg))
	}
	v4 := f.Src.Is4()
	if v4 && Checksum(msg) != 0 {
		return Reply{}, fmt.Errorf("%w: ICMP checksum", ErrMalformed)
	}
	if kindOf(v4, msg[0], msg[1]) == EchoReply {
		return f.parseEchoReply(msg, from)
	}
	r, ok := ErrorReply(f, from, msg[0], msg[1], claimedMTU(v4, msg))
	if !ok {
		return Reply{}, fmt.Errorf("%w: ICMP type %d", ErrNotOurs, msg[0])
	}
	quote := msg[icmpLen:]
	if n, extensible := quotedLength(v4, msg); extensible {
		quote, r.Labels = SplitExtensions(quote, n, 0)
	}
	seq, q, err := MatchQuote(quote, f)
	if err != nil && !errors.Is(err, ErrUnnumbered) {
		return Reply{}, err
	}
	r.Unnumbered = err != nil
	r.Seq = seq
	r.SetQuote(q)
	return r, err
}

// ErrorReply returns the reply that an ICMP error of a type and code from a
// router is, less what its quote shows: what an error queue tells beside the
// quote. mtu counts for "too big" only. It reports false if the type is no
// error.
func ErrorReply(f Flow, from netip.Addr, typ, code uint8, mtu int) (Reply, bool) {
	r := Reply{Kind: kindOf(f.Src.Is4(), typ, code), From: from, Type: typ, Code: code, QuotedTTL: -1, QuotedTOS: -1}
	switch r.Kind {
	case 0, EchoReply:
		return Reply{}, false
	case TooBig:
		r.MTU = mtu
	}
	r.Kind = f.arrival(r)
	return r, true
}

// SetQuote takes over what a quote shows.
func (r *Reply) SetQuote(q Quote) {
	r.QuotedTTL, r.QuotedLen, r.QuotedTOS = q.TTL, q.Len, q.TOS
	r.QuotedMSS, r.Translated = q.MSS, q.Translated
}

// kindOf classifies an ICMP message; 0 means that it answers no probe.
func kindOf(v4 bool, typ, code uint8) Kind {
	if v4 {
		switch t := ipv4.ICMPType(typ); {
		case t == ipv4.ICMPTypeEchoReply:
			return EchoReply
		case t == ipv4.ICMPTypeTimeExceeded:
			return TimeExceeded
		case t == ipv4.ICMPTypeDestinationUnreachable && code == codeFragNeeded:
			return TooBig
		case t == ipv4.ICMPTypeDestinationUnreachable:
			return Unreachable
		case t == ipv4.ICMPTypeParameterProblem, typ == typeSourceQuench, t == ipv4.ICMPTypeRedirect:
			return OtherError
		}
		return 0
	}
	switch t := ipv6.ICMPType(typ); {
	case t == ipv6.ICMPTypeEchoReply:
		return EchoReply
	case t == ipv6.ICMPTypeTimeExceeded:
		return TimeExceeded
	case t == ipv6.ICMPTypePacketTooBig:
		return TooBig
	case t == ipv6.ICMPTypeDestinationUnreachable:
		return Unreachable
	case typ < 128: // all errors are, RFC 4443 section 2.1
		return OtherError
	}
	return 0
}

// ICMP codes and types that golang.org/x/net does not name.
const (
	typeSourceQuench = 4 // IPv4, RFC 6633
	codeFragNeeded   = 4 // IPv4 destination unreachable, RFC 1191
	codePort4        = 3 // IPv4 destination unreachable
	codePort6        = 4 // IPv6 destination unreachable
)

// arrival turns an error into the destination's answer if it is one. A port
// unreachable that quotes our UDP probe is, whatever address it comes from: a
// destination behind a DNAT answers with another. Of other protocols it is a
// firewall's refusal unless the destination itself sent it.
func (f Flow) arrival(r Reply) Kind {
	port := uint8(codePort6)
	if f.Src.Is4() {
		port = codePort4
	}
	if r.Kind == Unreachable && r.Code == port && (f.Proto == UDP || r.From == f.Dst) {
		return PortReply
	}
	return r.Kind
}

// claimedMTU reads the MTU field, which golang.org/x/net/icmp drops for IPv4.
func claimedMTU(v4 bool, msg []byte) int {
	if v4 {
		return int(binary.BigEndian.Uint16(msg[6:]))
	}
	return int(binary.BigEndian.Uint32(msg[4:]))
}

func (f Flow) parseEchoReply(msg []byte, from netip.Addr) (Reply, error) {
	if f.Proto != ICMP {
		return Reply{}, fmt.Errorf("%w: an echo reply", ErrNotOurs)
	}
	if id := binary.BigEndian.Uint16(msg[4:]); id != f.SrcPort {
		return Reply{}, fmt.Errorf("%w: echo reply with id %d", ErrNotOurs, id)
	}
	seq, token, err := f.matchToken(msg[icmpLen:])
	switch {
	case err != nil:
		return Reply{}, err
	case !token: // the reply returns all data, RFC 792
		return Reply{}, fmt.Errorf("%w: echo reply without the token", ErrNotOurs)
	case seq != binary.BigEndian.Uint16(msg[6:]):
		return Reply{}, fmt.Errorf("%w: echo reply with the token of %d", ErrNotOurs, seq)
	}
	return Reply{Kind: EchoReply, From: from, Seq: seq, Type: msg[0], Code: msg[1], QuotedTTL: -1, QuotedTOS: -1}, nil
}

// parseTCP reads a SYN-ACK or RST, which acknowledges the SYN and perhaps data
// on it.
func (f Flow) parseTCP(b []byte) (Reply, error) {
	if len(b) < tcpLen {
		return Reply{}, fmt.Errorf("%w: TCP header of %d bytes", ErrMalformed, len(b))
	}
	flags, ack := b[13], binary.BigEndian.Uint32(b[8:])
	seq := uint16((ack - 1) >> 16)
	if flags&tcpACK == 0 || flags&(tcpSYN|tcpRST) == 0 ||
		binary.BigEndian.Uint16(b[2:]) != f.SrcPort || binary.BigEndian.Uint16(b) != f.DstPort ||
		ack-1-f.tcpSeq(seq) > maxTCPData {
		return Reply{}, fmt.Errorf("%w: TCP flags %#x, acknowledging %d", ErrNotOurs, flags, ack)
	}
	return Reply{Kind: PortReply, Seq: seq, QuotedTTL: -1, QuotedTOS: -1, Reset: flags&tcpRST != 0}, nil
}

// parseUDP reads data from the destination: an arrival, but only a service
// that echoes says of which probe.
func (f Flow) parseUDP(b []byte) (Reply, error) {
	if len(b) < udpLen {
		return Reply{}, fmt.Errorf("%w: UDP header of %d bytes", ErrMalformed, len(b))
	}
	port := binary.BigEndian.Uint16(b)
	if binary.BigEndian.Uint16(b[2:]) != f.SrcPort || port != f.DstPort {
		return Reply{}, fmt.Errorf("%w: UDP from port %d", ErrNotOurs, port)
	}
	r := Reply{Kind: PortReply, QuotedTTL: -1, QuotedTOS: -1}
	seq, err := MatchPayload(b[udpLen:], f)
	if err != nil {
		return r, ErrUnnumbered
	}
	r.Seq = seq
	return r, nil
}
