package netprobe

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"
)

// family holds the numbers in which IPv4 and IPv6 sockets differ, so that
// everything else is written once.
type family struct {
	name       string // "ipv4", "ipv6"
	domain     int
	level      int // of socket options and control messages
	icmp       int // protocol number
	ttl        int // socket option that sets the TTL
	cmsgTTL    int // control message type that carries a TTL, both ways
	tos        int // socket option that sets TOS or traffic class; also a message type
	recvTTL    int // socket option that asks for the reply's TTL
	recvErr    int // socket option of the error queue; also its message type
	extensions int // socket option that asks where RFC 4884 extensions begin
	errOrigin  uint8
	discover   int // socket option of path MTU discovery
	probe      int // its value "set DF, ignore the cache"
	mtu        int // socket option that reads the cached path MTU
	echoReply  uint8
	headerSize int // bytes
}

var (
	family4 = &family{
		name: "ipv4", domain: unix.AF_INET, level: unix.SOL_IP, icmp: unix.IPPROTO_ICMP,
		ttl: unix.IP_TTL, cmsgTTL: unix.IP_TTL, tos: unix.IP_TOS, recvTTL: unix.IP_RECVTTL,
		recvErr: unix.IP_RECVERR, extensions: unix.IP_RECVERR_RFC4884, errOrigin: unix.SO_EE_ORIGIN_ICMP,
		discover: unix.IP_MTU_DISCOVER, probe: unix.IP_PMTUDISC_PROBE, mtu: unix.IP_MTU,
		echoReply: 0, headerSize: 20,
	}
	family6 = &family{
		name: "ipv6", domain: unix.AF_INET6, level: unix.SOL_IPV6, icmp: unix.IPPROTO_ICMPV6,
		ttl: unix.IPV6_UNICAST_HOPS, cmsgTTL: unix.IPV6_HOPLIMIT, tos: unix.IPV6_TCLASS, recvTTL: unix.IPV6_RECVHOPLIMIT,
		recvErr: unix.IPV6_RECVERR, extensions: unix.IPV6_RECVERR_RFC4884, errOrigin: unix.SO_EE_ORIGIN_ICMP6,
		discover: unix.IPV6_MTU_DISCOVER, probe: unix.IPV6_PMTUDISC_PROBE, mtu: unix.IPV6_MTU,
		echoReply: 129, headerSize: 40,
	}
)

// familyOf returns the family of an unmapped address.
func familyOf(a netip.Addr) *family {
	if a.Is4() {
		return family4
	}
	return family6
}

// loopback is the family's loopback address.
func (f *family) loopback() netip.Addr {
	if f == family4 {
		return netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	return netip.IPv6Loopback()
}

// socket opens a non-blocking descriptor.
func (f *family) socket(typ, proto int) (int, error) {
	fd, err := unix.Socket(f.domain, typ|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, proto)
	if err != nil {
		return -1, fmt.Errorf("socket: %w", err)
	}
	return fd, nil
}

// option is one integer socket option. Where the kernel may be too old for it
// or lack it, and the probe still works without, it is optional.
type option struct {
	name        string
	level, opt  int
	value       int
	mayBeAbsent bool
}

func setOptions(fd int, opts ...option) error {
	for _, o := range opts {
		if err := unix.SetsockoptInt(fd, o.level, o.opt, o.value); err != nil && !o.mayBeAbsent {
			return fmt.Errorf("setsockopt %s: %w", o.name, err)
		}
	}
	return nil
}

// probeOptions are the options every probing socket has: DF set with the route
// cache ignored, so that a stale or forged entry cannot shrink a probe.
func (f *family) probeOptions() []option {
	opts := []option{
		{name: "MTU_DISCOVER", level: f.level, opt: f.discover, value: f.probe},
		{name: "SO_RCVBUF", level: unix.SOL_SOCKET, opt: unix.SO_RCVBUF, value: receiveBuffer, mayBeAbsent: true},
	}
	if f == family6 {
		// A flow label made from the ports would change the ECMP path
		// from probe to probe.
		opts = append(opts,
			option{name: "IPV6_AUTOFLOWLABEL", level: f.level, opt: unix.IPV6_AUTOFLOWLABEL, value: 0, mayBeAbsent: true},
			option{name: "IPV6_DONTFRAG", level: f.level, opt: unix.IPV6_DONTFRAG, value: 1, mayBeAbsent: true})
	}
	return opts
}

// receiveBuffer is asked for in bytes; the kernel grants what net.core.rmem_max
// allows. It holds answers and the copies that transmit stamps bring back.
const receiveBuffer = 1 << 20

// errorOptions ask for the error queue, the extensions of what is in it (since
// Linux 5.9), and the TTL of replies.
func (f *family) errorOptions() []option {
	return []option{
		{name: "RECVERR", level: f.level, opt: f.recvErr, value: 1},
		{name: "RECVERR_RFC4884", level: f.level, opt: f.extensions, value: 1, mayBeAbsent: true},
		{name: "RECVTTL", level: f.level, opt: f.recvTTL, value: 1, mayBeAbsent: true},
	}
}

// stampOptions ask for kernel timestamps: of arrivals, and if departure is not
// 0, of departures, which come back through the error queue with the packet.
func stampOptions(departure int) option {
	flags := unix.SOF_TIMESTAMPING_SOFTWARE | unix.SOF_TIMESTAMPING_RX_SOFTWARE | departure
	return option{name: "SO_TIMESTAMPING", level: unix.SOL_SOCKET, opt: unix.SO_TIMESTAMPING, value: flags, mayBeAbsent: true}
}

// bind gives the socket its interface, local address and port (or echo
// identifier). Zero values leave the choice to the kernel.
func bind(fd int, iface string, src netip.Addr, port uint16) error {
	if iface != "" {
		if err := unix.BindToDevice(fd, iface); err != nil {
			return fmt.Errorf("binding to interface %q: %w", iface, err)
		}
	}
	if !src.IsValid() {
		return nil
	}
	sa, err := sockaddr(src, port)
	if err != nil {
		return err
	}
	if err := unix.Bind(fd, sa); err != nil {
		return fmt.Errorf("binding to %v: %w", src, err)
	}
	return nil
}

// sockaddr makes a kernel address. A zone is an interface name or index.
func sockaddr(a netip.Addr, port uint16) (unix.Sockaddr, error) {
	if a.Is4() {
		return &unix.SockaddrInet4{Port: int(port), Addr: a.As4()}, nil
	}
	zone, err := zoneIndex(a.Zone())
	if err != nil {
		return nil, err
	}
	return &unix.SockaddrInet6{Port: int(port), Addr: a.As16(), ZoneId: zone}, nil
}

// addrOf is the reverse of sockaddr, without the zone.
func addrOf(sa unix.Sockaddr) netip.AddrPort {
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(sa.Addr), uint16(sa.Port))
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(sa.Addr).Unmap(), uint16(sa.Port))
	}
	return netip.AddrPort{}
}

// localOf returns a socket's own address and port.
func localOf(fd int) (netip.AddrPort, error) {
	sa, err := unix.Getsockname(fd)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("getsockname: %w", err)
	}
	return addrOf(sa), nil
}

// appendTTL appends the control message that gives one packet its TTL. Unlike
// a socket option it cannot hit the packet of another goroutine.
func (f *family) appendTTL(oob []byte, ttl int) []byte {
	return appendControl(oob, f.level, f.cmsgTTL, uint32(ttl))
}

// appendTOS appends the control message that gives one packet its TOS octet.
func (f *family) appendTOS(oob []byte, tos int) []byte {
	if tos == 0 {
		return oob
	}
	return appendControl(oob, f.level, f.tos, uint32(tos))
}

// stampedSize is up to how many bytes a probe asks for its transmit stamp. It
// comes back with a copy of the packet, and the copies of large ones would
// crowd out the answers.
const stampedSize = 9 << 10

// appendStamp appends what one packet needs to go without a transmit stamp, if
// it is too large for one.
func appendStamp(oob []byte, size int) []byte {
	if size <= stampedSize {
		return oob
	}
	return appendControl(oob, unix.SOL_SOCKET, unix.SO_TIMESTAMPING, 0)
}

// appendControl appends a control message that holds a 32-bit value.
func appendControl(oob []byte, level, typ int, value uint32) []byte {
	at := len(oob)
	oob = append(oob, make([]byte, unix.CmsgSpace(4))...)
	h := oob[at:]
	binary.NativeEndian.PutUint32(h[unix.CmsgLen(0):], value)
	switch unix.SizeofCmsghdr {
	case 16: // 64-bit: size_t, int, int
		binary.NativeEndian.PutUint64(h, uint64(unix.CmsgLen(4)))
		h = h[8:]
	default:
		binary.NativeEndian.PutUint32(h, uint32(unix.CmsgLen(4)))
		h = h[4:]
	}
	binary.NativeEndian.PutUint32(h, uint32(level))
	binary.NativeEndian.PutUint32(h[4:], uint32(typ))
	return oob
}

// errnoOf returns the system call error inside err, 0 if there is none.
func errnoOf(err error) syscall.Errno {
	var e syscall.Errno
	errors.As(err, &e)
	return e
}
