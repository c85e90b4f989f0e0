// Package netprobe sends TTL- and size-limited probes and receives what comes
// back, on this host's sockets.
//
// Opinions: no privilege unless it buys something; one implementation for both
// address families; a reply counts only if its quote is ours; a send time is
// taken before the send and replaced by the kernel's where there is one, so an
// RTT is never negative.
package netprobe

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/whyslow/whyslow/internal/wire"
)

// Network opens probing connections. A nil Network in an options struct means
// the host's; the model in modelnet is another.
type Network interface {
	Open(ctx context.Context, dst netip.Addr, cfg Config) (Conn, error)
}

// Conn sends probes to one destination and receives the replies. Send and Recv
// may run at the same time in two goroutines; neither may be called by two.
type Conn interface {
	// Send sends one probe and returns its send time. A packet the first
	// link cannot carry gives a *TooBigError.
	Send(wire.Probe) (sent time.Time, err error)
	// Recv waits for the next reply. It returns ctx.Err() when ctx ends, also
	// if that is already the case.
	Recv(ctx context.Context) (wire.Reply, error)
	Close() error
}

// Method chooses the sockets of a Conn.
type Method uint8

// The methods. Auto tries icmp, then udp, then tcp, and takes the first that
// the host permits.
const (
	Auto Method = iota
	ICMP        // echo: raw socket or ping socket
	UDP         // IP_RECVERR, or raw where permitted
	TCP         // connect with a TTL, or raw SYN where permitted
)

// Config says how to probe. The zero Config lets the host choose.
type Config struct {
	Method Method
	// Port is the destination port for UDP and TCP. Zero means 33434 for UDP
	// and 443 for TCP.
	Port uint16
	// Source is the local address. The zero Addr means the kernel's choice.
	Source netip.Addr
	// Interface binds to a network interface by name. Empty means none.
	Interface string
	// Unprivileged forbids raw sockets even where they are permitted.
	Unprivileged bool
	// Serial keeps one 5-tuple for TCP without raw sockets too, by connecting
	// from one local port, one probe after the other: Send waits up to a second
	// for the answer to the probe before. By default up to 128 connect at once,
	// each from a port of its own. It changes nothing elsewhere.
	Serial bool
	// Segments asks, for TCP, for probes of any size: data of established
	// connections, whose acknowledgement is the answer (a PortReply). The
	// destination's MSS bounds the size, see Info.Largest.
	Segments bool
}

// Info is what is known of an open Conn.
type Info struct {
	Protocol     wire.Protocol
	Socket       string     // "ping", "raw", "recverr", "connect", "model"
	Source       netip.Addr // local address in use
	SourcePort   uint16     // local port, or the identifier of echoes; 0 if each probe has another
	InterfaceMTU int        // bytes; 0 means unknown
	Largest      int        // bytes; the largest probe that the destination takes (TCP: by its MSS); 0 means any
	CachedMTU    int        // the kernel's path MTU cache (IP_MTU); 0 means unknown or same as InterfaceMTU
	FlowStable   bool       // every probe keeps one 5-tuple, so one ECMP path
}

// Informer is implemented by every Conn of this package and of modelnet.
type Informer interface{ Info() Info }

// TooBigError says that a probe did not leave the host: it is larger than the
// first link's MTU.
type TooBigError struct{ MTU int } // bytes; 0 means the kernel did not say

func (e *TooBigError) Error() string {
	return fmt.Sprintf("netprobe: probe exceeds the interface MTU %d", e.MTU)
}

// ErrNotPermitted says that the host refuses every socket of the method.
var ErrNotPermitted = errors.New("netprobe: not permitted on this host")

// ErrUnsupported says that the platform has no implementation.
var ErrUnsupported = errors.New("netprobe: not supported on this platform")

// ErrUnreachable says that the host has no route to the destination.
var ErrUnreachable = errors.New("netprobe: no route to the destination")
