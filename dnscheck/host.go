package dnscheck

import (
	"context"
	"net/netip"
)

// Host exchanges queries over this host's UDP and TCP. The zero Host is ready.
type Host struct {
	Source    netip.Addr // local address; the zero Addr leaves it to the kernel
	Interface string     // SO_BINDTODEVICE (Linux)
}

// Exchange implements Exchanger.
func (h *Host) Exchange(ctx context.Context, q Query) (*Answer, error) { return nil, nil }
