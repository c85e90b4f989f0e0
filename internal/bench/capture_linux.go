package main

import (
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// capture sees every packet of a device with the kernel's time of it, as
// tcpdump does.
type capture struct {
	file *os.File // so that closing it wakes a reader
	buf  []byte
	oob  []byte
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
	return &capture{file: os.NewFile(uintptr(fd), "capture"), buf: make([]byte, 1<<16), oob: make([]byte, 256)}, nil
}

// next waits for a packet. It fails once the capture is closed.
func (c *capture) next() (captured, error) {
	raw, err := c.file.SyscallConn()
	if err != nil {
		return captured{}, err
	}
	var n, oobn int
	var from unix.Sockaddr
	var rerr error
	err = raw.Read(func(fd uintptr) bool {
		n, oobn, _, from, rerr = unix.Recvmsg(int(fd), c.buf, c.oob, 0)
		return rerr != unix.EAGAIN
	})
	if err != nil {
		return captured{}, err
	}
	if rerr != nil {
		return captured{}, rerr
	}
	p := captured{data: c.buf[:n]}
	if ll, ok := from.(*unix.SockaddrLinklayer); ok {
		p.outgoing = ll.Pkttype == unix.PACKET_OUTGOING
	}
	msgs, err := unix.ParseSocketControlMessage(c.oob[:oobn])
	if err != nil {
		return captured{}, err
	}
	for _, m := range msgs {
		if m.Header.Level == unix.SOL_SOCKET && m.Header.Type == unix.SO_TIMESTAMPNS && len(m.Data) >= int(unsafe.Sizeof(unix.Timespec{})) {
			ts := (*unix.Timespec)(unsafe.Pointer(&m.Data[0]))
			p.at = time.Unix(ts.Unix())
		}
	}
	return p, nil
}

func (c *capture) close() { _ = c.file.Close() }
