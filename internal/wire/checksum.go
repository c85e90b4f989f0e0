package wire

import "encoding/binary"

// sum adds b to a ones' complement sum as 16-bit words, RFC 1071. The result
// is not folded; 48 spare bits hold every packet there can be.
func sum(acc uint64, b []byte) uint64 {
	for len(b) >= 8 {
		v := binary.BigEndian.Uint64(b)
		acc += v>>48 + v>>32&0xffff + v>>16&0xffff + v&0xffff
		b = b[8:]
	}
	for len(b) >= 2 {
		acc += uint64(binary.BigEndian.Uint16(b))
		b = b[2:]
	}
	if len(b) == 1 {
		acc += uint64(b[0]) << 8
	}
	return acc
}

// fold reduces a sum to 16 bits with end-around carry.
func fold(acc uint64) uint16 {
	for acc > 0xffff {
		acc = acc>>16 + acc&0xffff
	}
	return uint16(acc)
}

// Checksum returns the Internet checksum of b, RFC 1071. Over data that
// includes a right checksum it returns 0.
func Checksum(b []byte) uint16 { return ^fold(sum(0, b)) }

// pseudo sums the pseudo header of a transport checksum. ipHdr is an IPv4 or
// IPv6 header with its addresses set; proto and n are the transport's protocol
// number and length, which for IPv6 may differ from what the header says,
// RFC 8200 section 8.1.
func pseudo(ipHdr []byte, proto uint8, n int) uint64 {
	addrs := ipHdr[12:20]
	if ipHdr[0]>>4 == 6 {
		addrs = ipHdr[8:40]
	}
	return sum(uint64(proto)+uint64(n>>16)+uint64(n&0xffff), addrs)
}

// adjust returns checksum c after a 16-bit word below it changed from was to
// is, RFC 1624 equation 3.
func adjust(c, was, is uint16) uint16 {
	return ^fold(uint64(^c) + uint64(^was) + uint64(is))
}
