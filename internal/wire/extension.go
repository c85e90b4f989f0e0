package wire

import (
	"encoding/binary"

	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
)

// The extension structure of RFC 4884 that carries MPLS labels, RFC 4950.
const (
	extHeaderLen  = 4
	extVersion    = 2
	objHeaderLen  = 4
	classMPLS     = 1
	typeIncoming  = 1
	labelLen      = 4
	originalLen   = 128 // the least "original datagram" field in front of it
	maxLabels     = 16  // deeper stacks than any network has
	maxExtObjects = 32
)

// SplitExtensions splits what an ICMP error holds behind its 8 bytes into the
// quoted packet and the MPLS labels of the extension structure behind it, RFC
// 4884 and RFC 4950.
//
// An error queue gives the same bytes less the first few: cut is how many
// bytes of the quote the kernel took off the front of data (the IP header; for
// UDP sockets the UDP header too), and length is where in data the extensions
// begin, 0 if nobody said: ee_data&0xffff with IP_RECVERR_RFC4884.
//
// Nothing here fails. A length beyond the message, as a broken router sends
// it, means no length; without one, offset 128 is tried, where the routers of
// before RFC 4884 put their labels (its section 5.5). What is no extension
// structure stays part of the quote.
func SplitExtensions(data []byte, length, cut int) (quote []byte, labels []Label) {
	for _, at := range []int{length, originalLen - cut} {
		if at <= 0 || at > len(data) {
			continue
		}
		if labels, ok := parseExtensions(data[at:]); ok {
			return data[:at], labels
		}
		if at == length && at >= originalLen-cut {
			return data[:at], nil // as RFC 4884 has it, with what we can't read behind
		}
	}
	return data, nil
}

// parseExtensions reads an extension structure. It reports false for what is
// none: another version, a wrong checksum, no sound object.
func parseExtensions(b []byte) (labels []Label, ok bool) {
	if len(b) < extHeaderLen+objHeaderLen || b[0]>>4 != extVersion {
		return nil, false
	}
	// A checksum of 0 was not computed.
	if b[2]|b[3] != 0 && Checksum(b) != 0 {
		return nil, false
	}
	b = b[extHeaderLen:]
	for range maxExtObjects {
		if len(b) < objHeaderLen {
			break
		}
		n := int(binary.BigEndian.Uint16(b))
		if n < objHeaderLen || n > len(b) {
			break // what was read in front of it stands
		}
		ok = true
		if b[2] == classMPLS && b[3] == typeIncoming {
			labels = appendLabels(labels, b[objHeaderLen:n])
		}
		b = b[n:]
	}
	return labels, ok
}

// appendExtensions appends an extension structure with one label stack.
func appendExtensions(dst []byte, labels []Label) []byte {
	start := len(dst)
	dst = append(dst, extVersion<<4, 0, 0, 0)
	dst = binary.BigEndian.AppendUint16(dst, uint16(objHeaderLen+labelLen*len(labels)))
	dst = append(dst, classMPLS, typeIncoming)
	for _, l := range labels {
		v := l.Value<<12 | uint32(l.TC&7)<<9 | uint32(l.TTL)
		if l.Bottom {
			v |= 1 << 8
		}
		dst = binary.BigEndian.AppendUint32(dst, v)
	}
	binary.BigEndian.PutUint16(dst[start+2:], Checksum(dst[start:]))
	return dst
}

// appendLabels reads label stack entries, RFC 3032 section 2.1.
func appendLabels(labels []Label, b []byte) []Label {
	for ; len(b) >= labelLen && len(labels) < maxLabels; b = b[labelLen:] {
		v := binary.BigEndian.Uint32(b)
		labels = append(labels, Label{Value: v >> 12, TC: uint8(v >> 9 & 7), Bottom: v>>8&1 != 0, TTL: uint8(v)})
	}
	return labels
}

// quotedLength returns what the length field of an ICMP error says of the
// quote, in bytes; 0 where the type has no such field. RFC 4884 sections 4.1
// to 4.5.
func quotedLength(v4 bool, msg []byte) (n int, extensible bool) {
	if v4 {
		switch ipv4.ICMPType(msg[0]) {
		case ipv4.ICMPTypeDestinationUnreachable, ipv4.ICMPTypeTimeExceeded, ipv4.ICMPTypeParameterProblem:
			return int(msg[5]) * 4, true
		}
		return 0, false
	}
	switch ipv6.ICMPType(msg[0]) {
	case ipv6.ICMPTypeDestinationUnreachable, ipv6.ICMPTypeTimeExceeded:
		return int(msg[4]) * 8, true
	}
	return 0, false
}
