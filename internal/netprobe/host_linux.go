package netprobe

import (
	"context"
	"net/netip"
)

func openHost(ctx context.Context, dst netip.Addr, cfg Config) (Conn, error) {
	return nil, ErrNotPermitted
}

func hostCapabilities(ctx context.Context) []Capability { return nil }
