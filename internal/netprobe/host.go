package netprobe

import (
	"context"
	"fmt"
	"net/netip"
)

// Host is the Network of this machine: its own sockets and routes. The zero
// Host is ready for use. It may be used by several goroutines; one Host should
// serve all instruments of a run, so that they share one Budget.
//
// Limits: Linux only. With Config.Segments the kernel's route cache bounds what
// can be tried. Without privilege a TCP probe must be answered within
// 950 ms, before the kernel repeats the SYN; at most 128 are in flight; and they
// do not keep one 5-tuple (Info.FlowStable) unless Config.Serial is set.
type Host struct {
	budget Budget
}

var _ Network = (*Host)(nil)

// Budget returns the account of ICMP errors that all instruments using h
// share. It is nil, and harmless, for a nil Host.
func (h *Host) Budget() *Budget {
	if h == nil {
		return nil
	}
	return &h.budget
}

// Open opens a Conn to dst with the sockets the host permits. It fails with
// ErrNotPermitted if the host refuses all sockets of cfg.Method, with
// ErrUnreachable if there is no route to dst, and with ErrUnsupported if the
// platform cannot probe by that method at all.
func (h *Host) Open(ctx context.Context, dst netip.Addr, cfg Config) (Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	dst = dst.Unmap()
	if err := checkTarget(dst, &cfg); err != nil {
		return nil, err
	}
	return openHost(ctx, dst, cfg)
}

// checkTarget refuses what no probe can be sent to, and normalises the source
// address in cfg.
func checkTarget(dst netip.Addr, cfg *Config) error {
	switch {
	case !dst.IsValid():
		return fmt.Errorf("netprobe: opening: no destination address")
	case dst.IsUnspecified(), dst.IsMulticast(), dst == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return fmt.Errorf("netprobe: opening: %v is not a unicast address", dst)
	}
	cfg.Source = cfg.Source.Unmap()
	if cfg.Source.IsValid() && cfg.Source.Is4() != dst.Is4() {
		return fmt.Errorf("netprobe: opening: source %v and destination %v are of different address families", cfg.Source, dst)
	}
	if cfg.Method > TCP {
		return fmt.Errorf("netprobe: opening: unknown method %d", cfg.Method)
	}
	return nil
}

// String returns the method's name on the command line.
func (m Method) String() string {
	switch m {
	case Auto:
		return "auto"
	case ICMP:
		return "icmp"
	case UDP:
		return "udp"
	case TCP:
		return "tcp"
	}
	return fmt.Sprintf("Method(%d)", uint8(m))
}
