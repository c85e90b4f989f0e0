package netprobe

import (
	"crypto/rand"
	"encoding/binary"
	"net/netip"
	"slices"
)

// tlsPorts are the ports where a server expects TLS from the first byte.
var tlsPorts = []uint16{443, 465, 563, 636, 853, 989, 990, 992, 993, 994, 995, 5061, 6697, 8443, 9443}

// opening is the first n bytes of what a client would say on a port, chosen so
// that the server waits for the rest and does no work: a request whose header
// goes on, or a ClientHello whose padding does.
func opening(dst netip.Addr, port uint16, n int) []byte {
	if slices.Contains(tlsPorts, port) {
		return clientHello(n)
	}
	host := netip.AddrPortFrom(dst.WithZone(""), port).String()
	b := []byte("GET / HTTP/1.1\r\nHost: " + host + "\r\nUser-Agent: whyslow\r\nX-Padding: ")
	for len(b) < n {
		b = append(b, '0')
	}
	return b[:n]
}

// clientHello is the first n bytes of a TLS ClientHello that is a little
// longer, by the padding extension (RFC 7685), in records of at most 2^14 bytes
// (RFC 8446 5.1). It offers TLS 1.2, so that it needs no key.
func clientHello(n int) []byte {
	const recordMax, beyond, messageMax = 1 << 14, 300, 0xff00
	var random [64]byte
	_, _ = rand.Read(random[:]) // cannot fail
	body := []byte{3, 3}
	body = append(body, random[:32]...)
	body = append(body, 32)
	body = append(body, random[32:]...)
	body = append(body, 0, 8, 0xc0, 0x2b, 0xc0, 0x2f, 0xc0, 0x2c, 0xc0, 0x30) // ECDHE with AES-GCM
	body = append(body, 1, 0)                                                 // no compression
	extensions := []byte{
		0, 10, 0, 6, 0, 4, 0, 29, 0, 23, // groups: X25519, P-256
		0, 11, 0, 2, 1, 0, // point format: uncompressed
		0, 13, 0, 10, 0, 8, 4, 3, 8, 4, 4, 1, 8, 5, // signatures
		0, 21, // padding, the rest
	}
	message := min(n+beyond, messageMax)
	padding := message - len(body) - 2 - len(extensions) - 2
	extensions = binary.BigEndian.AppendUint16(extensions, uint16(padding))
	extensions = append(extensions, make([]byte, padding)...)
	body = binary.BigEndian.AppendUint16(body, uint16(len(extensions)))
	body = append(body, extensions...)
	hello := append([]byte{1, 0, byte(len(body) >> 8), byte(len(body))}, body...)
	var out []byte
	for record := range slices.Chunk(hello, recordMax) {
		out = append(out, 22, 3, 1, byte(len(record)>>8), byte(len(record)))
		out = append(out, record...)
	}
	for len(out) < n { // longer than any MSS
		out = append(out, 0)
	}
	return out[:n]
}
