package netprobe

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// route is how the kernel would send to a destination.
type route struct {
	dst       netip.Addr // with its zone
	src       netip.Addr // without a zone
	ifIndex   int        // 0 means unknown
	ifMTU     int        // bytes; 0 means unknown
	cachedMTU int        // bytes, of the route; 0 means unknown or as ifMTU
	departure int        // the timestamping flag for departures that the interface can serve
}

// lookupRoute asks the kernel by connecting a UDP socket, which sends nothing.
func lookupRoute(dst netip.Addr, cfg Config) (route, error) {
	f := familyOf(dst)
	fd, err := f.socket(unix.SOCK_DGRAM, unix.IPPROTO_UDP)
	if err != nil {
		return route{}, openError(f.name, err)
	}
	defer unix.Close(fd)
	if err := bind(fd, cfg.Interface, cfg.Source, 0); err != nil {
		return route{}, openError("the source", err)
	}
	port := cfg.Port
	if port == 0 {
		port = defaultUDPPort
	}
	sa, err := sockaddr(dst, port)
	if err != nil {
		return route{}, err
	}
	if err := unix.Connect(fd, sa); err != nil {
		if noRoute(err) {
			return route{}, fmt.Errorf("netprobe: opening %v: %w (%w)", dst, ErrUnreachable, err)
		}
		return route{}, openError(dst.String(), err)
	}
	local, err := localOf(fd)
	if err != nil {
		return route{}, openError(dst.String(), err)
	}
	rt := route{dst: dst, src: local.Addr()}
	rt.ifIndex = egress(dst, rt.src, cfg.Interface)
	rt.ifMTU = mtuOf(fd, rt.ifIndex)
	rt.departure = departureOf(fd, rt.ifIndex)
	if mtu, err := unix.GetsockoptInt(fd, f.level, f.mtu); err == nil && mtu != rt.ifMTU {
		rt.cachedMTU = mtu
	}
	return rt, nil
}

// noRoute reports whether err means that the host has no way to send to an
// address: none, or one of type unreachable, prohibit or blackhole. A v6 host
// without any address of the right scope says EADDRNOTAVAIL.
func noRoute(err error) bool {
	for _, e := range []error{unix.ENETUNREACH, unix.EHOSTUNREACH, unix.EACCES, unix.EINVAL, unix.EADDRNOTAVAIL, unix.ENETDOWN} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// egress returns the index of the interface that packets to dst leave by.
// Where netlink is closed (some sandboxes), the interface that owns src is the
// nearest guess.
func egress(dst, src netip.Addr, iface string) int {
	if iface != "" {
		if ifi, err := net.InterfaceByName(iface); err == nil {
			return ifi.Index
		}
	}
	if zone, err := zoneIndex(dst.Zone()); err == nil && zone != 0 {
		return int(zone)
	}
	opts := &netlink.RouteGetOptions{SrcAddr: src.AsSlice()}
	if routes, err := netlink.RouteGetWithOptions(dst.AsSlice(), opts); err == nil && len(routes) > 0 {
		return routes[0].LinkIndex
	}
	ifaces, err := net.Interfaces()
	if err != nil {
		return 0
	}
	for _, ifi := range ifaces {
		addrs, err := ifi.Addrs()
		if err != nil {
			continue
		}
		for _, a := range addrs {
			if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().Unmap().WithZone("") == src {
				return ifi.Index
			}
		}
	}
	return 0
}

// mtuOf returns an interface's MTU now, 0 if unknown. It asks through a
// socket, which stays in its network namespace whatever thread we run on.
func mtuOf(fd, index int) int {
	if index == 0 {
		return 0
	}
	ifr, err := unix.NewIfreq(nameOf(fd, index))
	if err != nil {
		return 0
	}
	if err := unix.IoctlIfreq(fd, unix.SIOCGIFMTU, ifr); err != nil {
		return 0
	}
	return int(ifr.Uint32())
}

// nameOf returns an interface's name, empty if unknown.
func nameOf(fd, index int) string {
	ifr, err := unix.NewIfreq("")
	if err != nil {
		return ""
	}
	ifr.SetUint32(uint32(index))
	if err := unix.IoctlIfreq(fd, unix.SIOCGIFNAME, ifr); err != nil {
		return ""
	}
	return ifr.Name()
}

// departureOf returns the best stamp of departure that an interface has: when
// its driver hands a packet over, or, where the driver takes none (tunnels),
// when the packet enters the interface's queue.
func departureOf(fd, index int) int {
	info, err := unix.IoctlGetEthtoolTsInfo(fd, nameOf(fd, index))
	if err == nil && info.So_timestamping&unix.SOF_TIMESTAMPING_TX_SOFTWARE == 0 {
		return unix.SOF_TIMESTAMPING_TX_SCHED
	}
	return unix.SOF_TIMESTAMPING_TX_SOFTWARE
}

// zoneIndex resolves the zone of an address; an empty zone is 0.
func zoneIndex(zone string) (uint32, error) {
	if zone == "" {
		return 0, nil
	}
	if n, err := strconv.ParseUint(zone, 10, 32); err == nil {
		return uint32(n), nil
	}
	ifi, err := net.InterfaceByName(zone)
	if err != nil {
		return 0, fmt.Errorf("netprobe: zone %q: %w", zone, err)
	}
	return uint32(ifi.Index), nil
}
