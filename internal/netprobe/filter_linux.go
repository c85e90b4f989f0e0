package netprobe

import (
	"encoding/binary"
	"net/netip"

	"github.com/whyslow/whyslow/internal/wire"
	"golang.org/x/sys/unix"
)

// ICMP types that can answer a probe.
var (
	answers4 = []uint8{0, 3, 11, 12}    // echo reply, unreachable, time exceeded, parameter problem
	answers6 = []uint8{1, 2, 3, 4, 129} // unreachable, too big, time exceeded, parameter problem, echo reply
)

// filterICMP lets through the ICMP types that can answer a probe. It saves
// wake-ups; what a packet means is decided by its bytes.
func filterICMP(fd int, f *family) error {
	if f == family4 {
		blocked := ^uint32(0)
		for _, t := range answers4 {
			blocked &^= 1 << t
		}
		return unix.SetsockoptInt(fd, unix.SOL_RAW, unix.ICMP_FILTER, int(blocked))
	}
	var filter unix.ICMPv6Filter
	for i := range filter.Data {
		filter.Data[i] = ^uint32(0)
	}
	for _, t := range answers6 {
		filter.Data[t>>5] &^= 1 << (t & 31)
	}
	return unix.SetsockoptICMPv6Filter(fd, unix.SOL_ICMPV6, unix.ICMPV6_FILTER, &filter)
}

// filterPort lets through only segments to one local TCP port: a raw TCP
// socket is handed every segment the host receives.
func filterPort(fd int, f *family, port uint16) error {
	const (
		ldxIHL  = unix.BPF_LDX | unix.BPF_B | unix.BPF_MSH // X = 4*([k]&0xf)
		ldhX    = unix.BPF_LD | unix.BPF_H | unix.BPF_IND
		ldh     = unix.BPF_LD | unix.BPF_H | unix.BPF_ABS
		jeq     = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		ret     = unix.BPF_RET | unix.BPF_K
		dstPort = 2 // offset in the TCP header
	)
	prog := []unix.SockFilter{{Code: ldxIHL}, {Code: ldhX, K: dstPort}}
	if f == family6 { // no IP header in the buffer
		prog = []unix.SockFilter{{Code: ldh, K: dstPort}}
	}
	prog = append(prog,
		unix.SockFilter{Code: jeq, K: uint32(port), Jf: 1},
		unix.SockFilter{Code: ret, K: 0xffff},
		unix.SockFilter{Code: ret})
	return unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
		&unix.SockFprog{Len: uint16(len(prog)), Filter: &prog[0]})
}

// bindDevice binds a socket to an interface, if there is one to bind to.
func bindDevice(fd int, iface string) error { return bind(fd, iface, netip.Addr{}, 0) }

// withHeader puts an IP header before a message whose own the kernel took off,
// from what the kernel told about it, so that one parser judges all replies.
func withHeader(m message, dst netip.Addr, proto byte) []byte {
	src := m.name.Addr()
	if src.Is4() && dst.Is4() {
		const size = 20
		b := make([]byte, size, size+len(m.data))
		b[0] = 0x45
		binary.BigEndian.PutUint16(b[2:], uint16(size+len(m.data)))
		b[8], b[9] = byte(m.ttl), proto
		s, d := src.As4(), dst.As4()
		copy(b[12:], s[:])
		copy(b[16:], d[:])
		binary.BigEndian.PutUint16(b[10:], wire.Checksum(b))
		return append(b, m.data...)
	}
	const size = 40
	b := make([]byte, size, size+len(m.data))
	b[0] = 0x60
	binary.BigEndian.PutUint16(b[4:], uint16(len(m.data)))
	b[6], b[7] = proto, byte(m.ttl)
	s, d := src.As16(), dst.As16()
	copy(b[8:], s[:])
	copy(b[24:], d[:])
	return append(b, m.data...)
}
