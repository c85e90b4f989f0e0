package httpcheck

import (
	"fmt"
	"net"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/whyslow/whyslow/internal/millis"
)

// control returns the hook that sets what must be set before connect, nil for
// nothing.
func (o *Options) control() (controlFunc, error) {
	if o.MSS == 0 && o.Interface == "" {
		return nil, nil
	}
	mss, device := o.MSS, o.Interface
	return func(_, _ string, c syscall.RawConn) error {
		var err error
		cerr := c.Control(func(fd uintptr) {
			if device != "" {
				if err = unix.BindToDevice(int(fd), device); err != nil {
					err = fmt.Errorf("binding to interface %q: %w", device, err)
					return
				}
			}
			if mss != 0 {
				if err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_MAXSEG, mss); err != nil {
					err = fmt.Errorf("clamping the segment size to %d: %w", mss, err)
				}
			}
		})
		if cerr != nil {
			return cerr
		}
		return err
	}, nil
}

// canClamp says whether MSS works here.
const canClamp = true

// tcpInfo reads TCP_INFO. Nil if the socket does not tell.
func tcpInfo(conn net.Conn) *TCP {
	sc, ok := conn.(syscall.Conn)
	if !ok {
		return nil
	}
	rc, err := sc.SyscallConn()
	if err != nil {
		return nil
	}
	var info unix.TCPInfo
	// The length tells which fields this kernel has; unix.GetsockoptTCPInfo
	// keeps it to itself.
	size := uint32(unsafe.Sizeof(info))
	var errno syscall.Errno
	err = rc.Control(func(fd uintptr) {
		_, _, errno = unix.Syscall6(unix.SYS_GETSOCKOPT, fd, unix.IPPROTO_TCP, unix.TCP_INFO,
			uintptr(unsafe.Pointer(&info)), uintptr(unsafe.Pointer(&size)), 0)
	})
	if err != nil || errno != 0 {
		return nil
	}
	t := &TCP{
		RTT:        micros(info.Rtt),
		MinRTT:     micros(info.Min_rtt),
		RcvRTT:     micros(info.Rcv_rtt),
		SndMSS:     int(info.Snd_mss),
		RcvMSS:     int(info.Rcv_mss),
		AdvMSS:     int(info.Advmss),
		Timestamps: info.Options&tcpiOptTimestamps != 0,
		PMTU:       int(info.Pmtu),
		Retrans:    int(info.Total_retrans),
		RTOs:       -1,
		OutOfOrder: int(info.Rcv_ooopack),
		RcvSpace:   int(info.Rcv_space),
		BytesIn:    int64(info.Bytes_received),
	}
	if uintptr(size) >= unsafe.Offsetof(info.Total_rto)+unsafe.Sizeof(info.Total_rto) { // Linux 6.7
		t.RTOs = int(info.Total_rto)
	}
	return t
}

// tcpiOptTimestamps is TCPI_OPT_TIMESTAMPS of linux/tcp.h.
const tcpiOptTimestamps = 1

// micros converts a time of TCP_INFO. 0 and ^0 both mean that there was no
// sample yet, as after a SYN was sent twice without TCP timestamps.
func micros(us uint32) millis.Value {
	if us == 0 || us == ^uint32(0) {
		return millis.Value{}
	}
	return millis.Of(time.Duration(us) * time.Microsecond)
}
