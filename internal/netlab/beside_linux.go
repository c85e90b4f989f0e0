package netlab

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// forwarding makes a router of the calling thread's namespace.
func forwarding() {
	sysctl("net/ipv4/ip_forward", "1")
	sysctl("net/ipv6/conf/all/forwarding", "1")
	// Flows are spread by addresses, protocol and ports.
	sysctl("net/ipv4/fib_multipath_hash_policy", "1")
	sysctl("net/ipv6/fib_multipath_hash_policy", "1")
}

// widen puts the routers beside router i in place. nodes are those of the
// chain, client and server included.
func (c *Chain) widen(cfg ChainConfig, nodes []*Namespace, i int) error {
	front, behind := nodes[i], nodes[i+2]
	rights, lefts := []string{rightOf(front)}, []string{left}
	for k, addrs := range cfg.Beside[i] {
		r, err := newNamespace(fmt.Sprintf("router %d beside %d", i+1, k+1), false, c.files)
		if err != nil {
			return err
		}
		c.beside = append(c.beside, r)
		if err := r.Do(cfg.settings); err != nil {
			return fmt.Errorf("preparing %s: %w", r.name, err)
		}
		toRight, toLeft := fmt.Sprintf("%s%d", right, k+1), fmt.Sprintf("%s%d", left, k+1)
		index := 100 + len(c.beside)*2
		err = errors.Join(
			linkUp(front, r, toRight, left, index, cfg.mtu(i)),
			linkUp(r, behind, right, toLeft, index+1, cfg.mtu(i+1)))
		if err != nil {
			return err
		}
		err = errors.Join(
			r.handle(func(h *netlink.Handle) error {
				forwarding()
				return errors.Join(setAddrs(h, left, addrs, cfg.Client), setAddrs(h, right, nil, cfg.Server))
			}),
			front.handle(func(h *netlink.Handle) error { return setAddrs(h, toRight, nil, addrs) }),
			behind.handle(func(h *netlink.Handle) error { return setAddrs(h, toLeft, nil, addrs) }))
		if err != nil {
			return err
		}
		rights, lefts = append(rights, toRight), append(lefts, toLeft)
	}
	if cfg.Back[i] {
		return behind.handle(func(h *netlink.Handle) error { return spread(h, cfg.Client, lefts[1:2]) })
	}
	return front.handle(func(h *netlink.Handle) error { return spread(h, cfg.Server, rights) })
}

// spread replaces the routes to addresses by ones over several devices. They
// need gateways for that in IPv6; on these links any will do, since none is
// asked for its hardware address.
func spread(h *netlink.Handle, to []netip.Addr, devices []string) error {
	for _, a := range to {
		gateway := net.IPv4(169, 254, 0, 1)
		if a.Is6() {
			gateway = net.ParseIP("fe80::1")
		}
		route := &netlink.Route{Dst: host(a)}
		for _, d := range devices {
			link, err := h.LinkByName(d)
			if err != nil {
				return err
			}
			route.MultiPath = append(route.MultiPath, &netlink.NexthopInfo{
				LinkIndex: link.Attrs().Index, Gw: gateway, Flags: unix.RTNH_F_ONLINK,
			})
		}
		old, err := h.RouteListFiltered(familyOf(a), &netlink.Route{Dst: host(a)}, netlink.RT_FILTER_DST)
		if err != nil {
			return fmt.Errorf("finding the route to %s: %w", a, err)
		}
		for k := range old {
			if err := h.RouteDel(&old[k]); err != nil {
				return fmt.Errorf("removing the route to %s: %w", a, err)
			}
		}
		if err := h.RouteAdd(route); err != nil {
			return fmt.Errorf("adding a route to %s over %v: %w", a, devices, err)
		}
	}
	return nil
}

func familyOf(a netip.Addr) int {
	if a.Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}
