package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// capture sees every packet of a device with the kernel's time of it, as
// tcpdump does. It is no file of Go's, whose poller a packet would wake: that
// wake-up comes in the middle of a send, before the sender's own time stamp.
type capture struct {
	fd  int
	buf []byte
	oob []byte
}

// captured is a packet; data is valid until the next one.
type captured struct {
	at       time.Time
	outgoing bool
	data     []byte // from the IP header on
}

// openCapture opens a capture of a device of this process's namespace.
func openCapture(device string) (*capture, error) {
	ifi, err := net.InterfaceByName(device)
	if err != nil {
		return nil, err
	}
	// SOCK_DGRAM leaves the link header out, whatever the carrier.
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("opening a packet socket: %w", err)
	}
	for opt, v := range map[int]int{unix.SO_TIMESTAMPNS: 1, unix.SO_RCVBUFFORCE: 8 << 20} {
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, opt, v); err != nil {
			_ = unix.Close(fd)
			return nil, fmt.Errorf("packet socket: %w", err)
		}
	}
	all := binary.NativeEndian.Uint16([]byte{0, unix.ETH_P_ALL}) // network order
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: ifi.Index}); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("binding a packet socket to %s: %w", device, err)
	}
	return &capture{fd: fd, buf: make([]byte, 1<<16), oob: make([]byte, 256)}, nil
}

// wait waits until there is a packet, or for so long.
func (c *capture) wait(atMost time.Duration) {
	ts := unix.NsecToTimespec(int64(atMost))
	// Whatever it says, next tells.
	_, _ = unix.Ppoll([]unix.PollFd{{Fd: int32(c.fd), Events: unix.POLLIN}}, &ts, nil)
}

// next returns the next packet, and whether there is one.
func (c *capture) next() (p captured, ok bool, err error) {
	n, oobn, _, from, err := unix.Recvmsg(c.fd, c.buf, c.oob, unix.MSG_DONTWAIT)
	switch {
	case errors.Is(err, unix.EAGAIN):
		return captured{}, false, nil
	case err != nil:
		return captured{}, false, fmt.Errorf("reading a packet socket: %w", err)
	}
	p = captured{data: c.buf[:n]}
	if ll, ok := from.(*unix.SockaddrLinklayer); ok {
		p.outgoing = ll.Pkttype == unix.PACKET_OUTGOING
	}
	msgs, err := unix.ParseSocketControlMessage(c.oob[:oobn])
	if err != nil {
		return captured{}, false, err
	}
	for _, m := range msgs {
		if m.Header.Level == unix.SOL_SOCKET && m.Header.Type == unix.SO_TIMESTAMPNS && len(m.Data) >= int(unsafe.Sizeof(unix.Timespec{})) {
			ts := (*unix.Timespec)(unsafe.Pointer(&m.Data[0]))
			p.at = time.Unix(ts.Unix())
		}
	}
	return p, true, nil
}

func (c *capture) close() { _ = unix.Close(c.fd) }
