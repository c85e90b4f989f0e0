// Package pmtu measures the path MTU: the largest packet that crosses the path
// in one piece.
//
// Opinions: a size counts as passing only when a packet of that size was
// answered, and as failing only when it failed three times while a smaller one
// passed; what routers claim is a hint, never a result; a lost packet is not a
// size limit.
//
// Limits: the probes test the way there. What the way back carries is found by
// an HTTP experiment elsewhere and put into Result.Backward.
package pmtu

import (
	"errors"
	"net/netip"
	"time"

	"github.com/whyslow/whyslow/internal/netprobe"
)

// Options says what to measure and how. The zero value of every field but Dst
// is useful.
type Options struct {
	// Network sends the probes. Nil means the host's.
	Network netprobe.Network
	// Dst is the address to measure the path to.
	Dst netip.Addr
	// Name is the name the user gave for Dst, for the result only.
	Name string
	// Method is ICMP or UDP. Auto (zero) begins with ICMP echo and falls back
	// to UDP when the destination answers no echo.
	Method netprobe.Method
	// Port is the destination port of UDP probes. Zero means 33434.
	Port uint16
	// HopCount is the destination's TTL if a trace found it. Zero means
	// unknown.
	HopCount int
	// MaxHops is the largest TTL used to locate the limiter. Zero means 30.
	MaxHops int
	// Wait is the longest wait for the first answer. Zero means 1 s.
	Wait time.Duration
	// MaxPackets bounds the probes sent. Zero means 250.
	MaxPackets int
	// Budget bounds the whole measurement. Zero means 8 s.
	Budget time.Duration
	// Source, Interface and Unprivileged are as in netprobe.Config.
	Source       netip.Addr
	Interface    string
	Unprivileged bool
}

// ErrNoDestination says that Options.Dst is not an address.
var ErrNoDestination = errors.New("pmtu: no destination address")
