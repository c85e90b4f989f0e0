package dnscheck

import (
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// control prepares a socket before it is connected.
func (h *Host) control(network, _ string, raw syscall.RawConn) error {
	var serr error
	err := raw.Control(func(fd uintptr) {
		if h.Interface != "" {
			if serr = unix.BindToDevice(int(fd), h.Interface); serr != nil {
				return
			}
		}
		// As glibc's res_enable_icmp: without it a connected UDP socket hears
		// of a closed port, but not of a host or net that cannot be reached.
		switch {
		case strings.HasPrefix(network, "udp4"):
			serr = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_RECVERR, 1)
		case strings.HasPrefix(network, "udp6"):
			serr = unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_RECVERR, 1)
		}
	})
	if err != nil {
		return err
	}
	return serr
}
