//go:build !linux

package netprobe

import (
	"context"
	"fmt"
	"net/netip"
	"runtime"
)

// openHost refuses: without Linux's error queue the errors of routers would
// need privilege, and without its DF control sizes would mean nothing.
func openHost(_ context.Context, dst netip.Addr, _ Config) (Conn, error) {
	return nil, fmt.Errorf("netprobe: opening %v on %s: %w", dst, runtime.GOOS, ErrUnsupported)
}

func hostCapabilities(ctx context.Context) []Capability {
	ids := []CapabilityID{
		CapRawICMP4, CapRawICMP6, CapPing4, CapPing6, CapUDPErrors4, CapUDPErrors6,
		CapTCPConnect4, CapTCPConnect6, CapExtensions4, CapExtensions6,
		CapTimestampsRX, CapTimestampsTX,
		CapTUN, CapNamespaces, CapPacket,
	}
	list := make([]Capability, len(ids))
	for i, id := range ids {
		list[i] = Capability{
			ID: id, State: Unavailable, Remedy: RemedyPlatform,
			Detail: "not supported on " + runtime.GOOS,
		}
	}
	return list
}
