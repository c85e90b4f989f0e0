// Package pmtu measures the path MTU: the largest packet that crosses the path
// in one piece.
//
// Opinions: a size counts as passing only when a packet of that size was
// answered, and as failing only when it failed three times while a smaller one
// passed; what routers claim is a hint, never a result; a lost packet is not a
// size limit.
//
// Limits: the probes test the way there. An echo comes back at its own size,
// so where only the way back is narrow, UDP tells (small answers), if the
// destination answers it. What the way back carries is found by fetching a page
// over HTTP with segments of several sizes, if Options.Fetch can. A "too big" that a probe
// provokes enters the kernel's route cache like any other, for ten minutes on
// Linux: measure speed first.
package pmtu

import (
	"cmp"
	"errors"
	"fmt"
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
	// Method is ICMP, UDP or TCP. Auto (zero) begins with ICMP echo and falls
	// back to UDP, and then to TCP, when the destination answers none of it.
	Method netprobe.Method
	// Port is the destination port of UDP probes. Zero means 33434.
	Port uint16
	// TCPPort is the destination port of TCP probes. Zero means 443.
	TCPPort uint16
	// HopCount is the destination's TTL if a trace found it. Zero means
	// unknown.
	HopCount int
	// RTT is the round trip to the destination if known; it shortens the wait
	// for a destination that does not answer. Zero means unknown.
	RTT time.Duration
	// MaxHops is the largest TTL used to locate the limiter. Zero means 30; at
	// most 64.
	MaxHops int
	// Wait is the longest wait for the first answer. Zero means 1 s.
	Wait time.Duration
	// MaxPackets bounds the probes sent. Zero means 300.
	MaxPackets int
	// Budget bounds the whole measurement. Zero means 8 s.
	Budget time.Duration
	// Fetch fetches a page from the destination, to find out what comes back.
	// Nil means that the way back is not measured.
	Fetch Fetch
	// Source, Interface and Unprivileged are as in netprobe.Config.
	Source       netip.Addr
	Interface    string
	Unprivileged bool
}

// ErrNoDestination says that Options.Dst is not an address.
var ErrNoDestination = errors.New("pmtu: no destination address")

// normalise checks the options and replaces zero values by what they mean.
func (o *Options) normalise() error {
	o.Dst = o.Dst.Unmap()
	switch {
	case !o.Dst.IsValid():
		return ErrNoDestination
	case o.Method > netprobe.TCP:
		return fmt.Errorf("pmtu: method %v cannot measure sizes", o.Method)
	case o.HopCount < 0 || o.RTT < 0 || o.MaxHops < 0 || o.Wait < 0 || o.MaxPackets < 0 || o.Budget < 0:
		return errors.New("pmtu: negative option")
	}
	if o.Network == nil {
		o.Network = &netprobe.Host{}
	}
	if o.Wait == 0 {
		o.Wait = time.Second
		if o.RTT > 0 {
			o.Wait = min(o.Wait, 3*o.RTT+200*time.Millisecond)
		}
	}
	o.TCPPort = cmp.Or(o.TCPPort, 443)
	o.MaxHops = min(cmp.Or(o.MaxHops, 30), 64)
	o.MaxPackets = cmp.Or(o.MaxPackets, 300)
	o.Budget = cmp.Or(o.Budget, 8*time.Second)
	return nil
}

// methods are the protocols to try, in order.
func (o *Options) methods() []netprobe.Method {
	if o.Method != netprobe.Auto {
		return []netprobe.Method{o.Method}
	}
	return []netprobe.Method{netprobe.ICMP, netprobe.UDP, netprobe.TCP}
}

func (o *Options) config(m netprobe.Method) netprobe.Config {
	c := netprobe.Config{Method: m, Source: o.Source, Interface: o.Interface, Unprivileged: o.Unprivileged}
	switch m {
	case netprobe.UDP:
		c.Port = o.Port
	case netprobe.TCP:
		c.Port, c.Segments = o.TCPPort, true
	}
	return c
}
