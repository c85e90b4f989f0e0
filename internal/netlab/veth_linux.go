package netlab

import (
	"errors"
	"fmt"
	"net"
	"runtime"
	"sync/atomic"
	"unsafe"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

const (
	// packetIgnoreOutgoing is PACKET_IGNORE_OUTGOING of linux/if_packet.h.
	packetIgnoreOutgoing = 23
	etherHeader          = 14
	// ringBytes bounds the memory of one receive ring. A ring, unlike a
	// socket buffer, may be larger than net.core.rmem_max, which an ordinary
	// user can't raise and which holds fewer packets than a window.
	ringBytes = 8 << 20
)

// vethPort is the far side of a veth pair, in a namespace without addresses,
// read through a TPACKET_V2 ring.
type vethPort struct {
	fd        int
	ring      []byte
	frameSize int
	at        int  // frame to look at next
	held      bool // the frame before it was handed out and not given back

	header [etherHeader]byte
	iov    [2]unix.Iovec
}

// newWires makes the namespace that the far sides of veth pairs live in.
func newWires() (*Namespace, error) {
	ns, err := newNamespace("the wires", false, nil)
	if err != nil {
		return nil, err
	}
	err = ns.Do(func() error {
		// Nothing that arrives here may be answered by this kernel.
		sysctl("net/ipv6/conf/default/disable_ipv6", "1")
		sysctl("net/ipv4/ip_forward", "0")
		return nil
	})
	if err != nil {
		ns.close()
		return nil, err
	}
	return ns, nil
}

// farName names the far side of a pair.
func farName(index int) string { return fmt.Sprintf("w%d", index) }

// settlePair waits until both sides of a pair carry packets.
func settlePair(ns, wires *Namespace, near string, index int) error {
	return errors.Join(
		ns.handle(func(h *netlink.Handle) error { return settle(h, near) }),
		wires.handle(func(h *netlink.Handle) error { return settle(h, farName(index)) }))
}

// newVeth makes a pair whose near side has the given name in ns and whose far
// side lives in wires, and opens the far side.
func newVeth(ns, wires *Namespace, name string, index, mtu int) (*vethPort, error) {
	far := farName(index)
	// Locally administered addresses; the near side's ends in 1, the far
	// side's in 2.
	nearAddr := net.HardwareAddr{2, 0, 0, 0, byte(index), 1}
	farAddr := net.HardwareAddr{2, 0, 0, 0, byte(index), 2}
	err := ns.Do(func() error {
		h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
		if err != nil {
			return err
		}
		defer h.Close()
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.HardwareAddr, attrs.MTU, attrs.TxQLen = name, nearAddr, mtu, -1
		return h.LinkAdd(&netlink.Veth{
			LinkAttrs: attrs, PeerName: far, PeerHardwareAddr: farAddr,
			PeerNamespace: netlink.NsFd(wires.netns), PeerMTU: 65535,
		})
	})
	if err != nil {
		return nil, &PermissionError{Reason: NoCarrier, Err: fmt.Errorf("making a veth pair: %w", err)}
	}
	if err := ns.Do(func() error { return offloadsOff(name) }); err != nil {
		return nil, err
	}
	v := &vethPort{fd: -1}
	if err := wires.Do(func() error { return v.open(far, mtu) }); err != nil {
		return nil, errors.Join(fmt.Errorf("opening the far side of a veth pair: %w", err), v.close())
	}
	copy(v.header[0:6], nearAddr)
	copy(v.header[6:12], farAddr)
	v.iov[0].Base = &v.header[0]
	v.iov[0].SetLen(etherHeader)
	return v, nil
}

// open brings the far side up and opens a packet socket with a ring on it. It
// runs in the wires' namespace.
func (v *vethPort) open(name string, mtu int) error {
	if err := offloadsOff(name); err != nil {
		return err
	}
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer h.Close()
	link, err := h.LinkByName(name)
	if err != nil {
		return err
	}
	if err := errors.Join(h.LinkSetARPOff(link), h.LinkSetUp(link)); err != nil {
		return err
	}
	// Protocol 0 receives nothing until bind names the one device.
	if v.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0); err != nil {
		return fmt.Errorf("packet socket: %w", err)
	}
	if err := unix.SetsockoptInt(v.fd, unix.SOL_PACKET, packetIgnoreOutgoing, 1); err != nil {
		return fmt.Errorf("PACKET_IGNORE_OUTGOING: %w", err)
	}
	_ = unix.SetsockoptInt(v.fd, unix.SOL_SOCKET, unix.SO_SNDBUF, 4<<20) // as much as is granted
	if err := v.makeRing(mtu); err != nil {
		return err
	}
	all := uint16(unix.ETH_P_ALL)
	addr := &unix.SockaddrLinklayer{Protocol: all<<8 | all>>8, Ifindex: link.Attrs().Index}
	if err := unix.Bind(v.fd, addr); err != nil {
		return fmt.Errorf("binding the packet socket: %w", err)
	}
	return nil
}

// makeRing maps the receive ring: one frame for each packet.
func (v *vethPort) makeRing(mtu int) error {
	if err := unix.SetsockoptInt(v.fd, unix.SOL_PACKET, unix.PACKET_VERSION, unix.TPACKET_V2); err != nil {
		return fmt.Errorf("TPACKET_V2: %w", err)
	}
	v.frameSize = 2048
	for v.frameSize < mtu+256 { // room for the frame's own headers
		v.frameSize *= 2
	}
	block := max(v.frameSize, 64<<10)
	req := &unix.TpacketReq{
		Block_size: uint32(block), Block_nr: uint32(ringBytes / block),
		Frame_size: uint32(v.frameSize), Frame_nr: uint32(ringBytes / v.frameSize),
	}
	if err := unix.SetsockoptTpacketReq(v.fd, unix.SOL_PACKET, unix.PACKET_RX_RING, req); err != nil {
		return fmt.Errorf("PACKET_RX_RING: %w", err)
	}
	ring, err := unix.Mmap(v.fd, 0, ringBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("mapping the ring: %w", err)
	}
	v.ring = ring
	return nil
}

// status is the word that says whose the frame at index i is.
func (v *vethPort) status(i int) *uint32 {
	return (*uint32)(unsafe.Pointer(&v.ring[i*v.frameSize]))
}

func (v *vethPort) next() []byte {
	frames := len(v.ring) / v.frameSize
	if v.held {
		before := (v.at + frames - 1) % frames
		atomic.StoreUint32(v.status(before), unix.TP_STATUS_KERNEL)
		v.held = false
	}
	if atomic.LoadUint32(v.status(v.at))&unix.TP_STATUS_USER == 0 {
		return nil
	}
	frame := v.ring[v.at*v.frameSize : (v.at+1)*v.frameSize]
	head := (*unix.Tpacket2Hdr)(unsafe.Pointer(&frame[0]))
	start, end := int(head.Net), int(head.Mac)+int(head.Snaplen)
	v.at, v.held = (v.at+1)%frames, true
	if start > end || end > len(frame) {
		return frame[:0]
	}
	return frame[start:end]
}

func (v *vethPort) write(pkt []byte) bool {
	proto := uint16(unix.ETH_P_IP)
	if pkt[0]>>4 == 6 {
		proto = unix.ETH_P_IPV6
	}
	v.header[12], v.header[13] = byte(proto>>8), byte(proto)
	v.iov[1].Base = &pkt[0]
	v.iov[1].SetLen(len(pkt))
	_, _, errno := unix.RawSyscall(unix.SYS_WRITEV, uintptr(v.fd), uintptr(unsafe.Pointer(&v.iov[0])), 2)
	runtime.KeepAlive(pkt)
	v.iov[1].Base = nil
	return errno == 0
}

func (v *vethPort) close() error {
	var errs []error
	if v.ring != nil {
		errs = append(errs, unix.Munmap(v.ring))
		v.ring = nil
	}
	if v.fd >= 0 {
		errs = append(errs, unix.Close(v.fd))
		v.fd = -1
	}
	return errors.Join(errs...)
}

// ethtoolValue is struct ethtool_value, and ethtoolRequest struct ifreq with a
// pointer in it.
type (
	ethtoolValue   struct{ cmd, data uint32 }
	ethtoolRequest struct {
		name [unix.IFNAMSIZ]byte
		data *ethtoolValue
		_    [16]byte
	}
)

// offloadsOff makes a device of the calling thread's namespace hand over
// packets as they would travel: no larger than the MTU, checksums filled in.
func offloadsOff(name string) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("socket for ethtool: %w", err)
	}
	defer func() { _ = unix.Close(fd) }()
	off := func(cmd uint32) error {
		value := &ethtoolValue{cmd: cmd, data: 0}
		req := &ethtoolRequest{data: value}
		copy(req.name[:unix.IFNAMSIZ-1], name)
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(req)))
		runtime.KeepAlive(req.data)
		if errno != 0 {
			return errno
		}
		return nil
	}
	for _, cmd := range []uint32{
		unix.ETHTOOL_STSO, unix.ETHTOOL_SGSO, unix.ETHTOOL_SGRO,
		unix.ETHTOOL_SUFO, unix.ETHTOOL_SSG, unix.ETHTOOL_SRXCSUM,
	} {
		_ = off(cmd) // a feature that the device lacks is off
	}
	if err := off(unix.ETHTOOL_STXCSUM); err != nil {
		return fmt.Errorf("turning checksum offload of %s off: %w", name, err)
	}
	return nil
}
