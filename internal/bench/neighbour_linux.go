package main

import (
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
)

// neighbour tells the client's kernel a hardware address for a destination.
// The lab has no ARP and needs none, but scamper, which writes Ethernet frames
// itself when it measures path MTUs, sends nothing to whom it has no address.
func neighbour(dst netip.Addr) error {
	link, err := netlink.LinkByName("lab0")
	if err != nil {
		return fmt.Errorf("finding the client's device: %w", err)
	}
	if err := netlink.LinkSetARPOn(link); err != nil {
		return fmt.Errorf("turning ARP on: %w", err)
	}
	err = netlink.NeighSet(&netlink.Neigh{
		LinkIndex: link.Attrs().Index, IP: dst.AsSlice(), State: netlink.NUD_REACHABLE,
		HardwareAddr: net.HardwareAddr{2, 0, 0, 0, 0, 1}, // the far side takes every frame
	})
	if err != nil {
		return fmt.Errorf("naming a neighbour: %w", err)
	}
	return nil
}
