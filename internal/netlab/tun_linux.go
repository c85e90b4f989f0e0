package netlab

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// queue is how many packets a device holds for the driver: enough for the
// largest window a sender opens at once, as the kernel does not hold back a
// sender whose packets wait in a device of this kind.
const queue = 4096

// tunPort is a TUN device: it is there while its descriptor is open.
type tunPort struct {
	fd  int
	buf [65536]byte
}

// tunOpens reports whether this process may open /dev/net/tun.
func tunOpens() bool {
	fd, err := openTUN()
	if err != nil {
		return false
	}
	_ = unix.Close(fd)
	return true
}

func openTUN() (int, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("opening /dev/net/tun: %w", err)
	}
	return fd, nil
}

// newTUN makes a device in the calling thread's namespace. Without IFF_VNET_HDR
// the kernel hands over whole packets with complete checksums.
func newTUN(name string) (*tunPort, error) {
	fd, err := openTUN()
	if err != nil {
		return nil, err
	}
	req, err := unix.NewIfreq(name)
	if err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	req.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, req); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("making the TUN device %s: %w", name, err)
	}
	return &tunPort{fd: fd}, nil
}

func (t *tunPort) next() []byte {
	n, _, errno := unix.RawSyscall(unix.SYS_READ, uintptr(t.fd), uintptr(unsafe.Pointer(&t.buf[0])), uintptr(len(t.buf)))
	if errno != 0 {
		return nil
	}
	return t.buf[:n]
}

func (t *tunPort) write(pkt []byte) bool {
	_, _, errno := unix.RawSyscall(unix.SYS_WRITE, uintptr(t.fd), uintptr(unsafe.Pointer(&pkt[0])), uintptr(len(pkt)))
	return errno == 0
}

func (t *tunPort) close() error {
	if err := unix.Close(t.fd); err != nil {
		return fmt.Errorf("netlab: closing a TUN device: %w", err)
	}
	return nil
}
