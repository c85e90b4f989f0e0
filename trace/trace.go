// Package trace finds the routers on the way to a host and tells which of them
// really cost time or packets.
//
// Opinions: every TTL is probed at once, by every method, and only what is
// missing is asked again, so a pass takes one round trip to the destination; a
// router that answers late is not a router that forwards late, so delay and
// loss are read from what lies behind a hop (Segments, LossAt), never from the
// hop alone; and loss is sampled by echoes to addresses, which no router's limit
// on ICMP errors touches (Sample).
//
// Limits: Run traces one flow, so of several parallel paths it sees one;
// Discover looks for the others.
package trace

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"github.com/whyslow/whyslow/internal/netprobe"
)

// Options says what to trace and how. The zero value of every field but Dst is
// useful.
type Options struct {
	// Network sends the probes. Nil means the host's.
	Network netprobe.Network
	// Dst is the address to trace.
	Dst netip.Addr
	// Name is the name the user gave for Dst, for the result only.
	Name string
	// Method is the probes' protocol. Auto (zero) begins with ICMP echo, adds
	// UDP and then TCP while the destination does not answer, and keeps the
	// first view that reaches it.
	Method netprobe.Method
	// Port is the destination port of UDP probes (zero: 33434) and TCP probes
	// (zero: 443). With Auto it is the TCP port alone: that of the service.
	Port uint16
	// MaxHops is the largest TTL. Zero means 30; at most 64.
	MaxHops int
	// FirstHop is the least TTL probed. Zero means 1.
	FirstHop int
	// Queries is the number of probes a hop, sent in as many rounds. Zero
	// means 3; negative means until the context ends.
	Queries int
	// Wait is how long a probe that nobody answers is waited for, be it a hop's
	// or the destination's, as with traceroute's -w. Zero leaves it to what
	// was seen: 1.2 s for a destination, over all methods, and for hops what
	// the round trips of the others suggest, at least 250 ms.
	Wait time.Duration
	// Interval is the time between two rounds, and so the least between two
	// probes to the same TTL. Zero means a third of the round trip to the
	// destination, 5 to 17 ms, for up to five rounds, which is what routers
	// send errors for; 100 ms for more, and 1 s if Queries is negative. Where
	// a router has no errors left, a round leaves it out.
	Interval time.Duration
	// Source, Interface and Unprivileged are as in netprobe.Config.
	Source       netip.Addr
	Interface    string
	Unprivileged bool
	// Names gives the name of an address, "" if it has none. It is called
	// concurrently and must return when its context ends. Nil means no names.
	Names func(ctx context.Context, addr netip.Addr) string
	// Origin gives the autonomous system of an address, nil if unknown, under
	// the same terms. Nil means none are asked for.
	Origin func(ctx context.Context, addr netip.Addr) *AS
	// NamesGrace is how long a finished trace waits for names. Zero means
	// 300 ms.
	NamesGrace time.Duration
	// Budget bounds the whole trace. Zero means 5 s on top of Wait and the
	// rounds' intervals; none if Queries is negative.
	Budget time.Duration

	given  time.Duration // Wait as the caller has it
	group  *commons      // what the traces of a Group share; nil for one alone
	member int           // which of them this is
}

// SampleOptions says how to sample loss and jitter. The zero value is useful.
type SampleOptions struct {
	// Network, Source, Interface and Unprivileged are as in Options.
	Network      netprobe.Network
	Source       netip.Addr
	Interface    string
	Unprivileged bool
	// Count is the number of echoes an address. Zero means 100.
	Count int
	// Interval is the time between two echoes to one address. Zero means 10 ms.
	Interval time.Duration
	// Port is the TCP port tried when the destination answers no echo. Zero
	// means the trace's, or else 443.
	Port uint16
	// TCPCount is the number of TCP connects then. Zero means 20.
	TCPCount int
	// TCPInterval is the time between two of them. Zero means 50 ms.
	TCPInterval time.Duration
	// DestinationOnly leaves the routers out.
	DestinationOnly bool
}

// ErrNoDestination says that Options.Dst is not an address.
var ErrNoDestination = errors.New("trace: no destination address")
