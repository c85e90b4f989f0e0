package netprobe

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// chain is a row of kernel network namespaces joined by veth pairs: a client,
// routers that forward, a server. Link i is 10.0.i.0/24 and 2001:db8:i::/64;
// its left end is .1, its right end .2.
type chain struct {
	nodes []netns.NsHandle
}

// newChain builds a chain with the given number of routers and moves the
// calling goroutine, locked to its thread, into the client until the test
// ends.
func newChain(t *testing.T, routers int) *chain {
	t.Helper()
	c := newChainWithoutPing(t, routers)
	allowPing(t)
	return c
}

// allowPing permits ping sockets, which a new namespace does not.
func allowPing(t *testing.T) {
	t.Helper()
	sysctl(t, "net/ipv4/ping_group_range", "0 0")
}

func newChainWithoutPing(t *testing.T, routers int) *chain {
	t.Helper()
	runtime.LockOSThread()
	home, err := netns.Get()
	if err != nil {
		unavailable(t, "no network namespaces: %v", err)
	}
	c := &chain{}
	t.Cleanup(func() {
		if len(c.nodes) == 0 {
			home.Close() // never left it, and may not be allowed to return
			runtime.UnlockOSThread()
			return
		}
		if err := netns.Set(home); err != nil {
			t.Errorf("leaving the lab: %v", err)
			return // the thread stays locked, and dies with the goroutine
		}
		for _, n := range append(c.nodes, home) {
			n.Close()
		}
		runtime.UnlockOSThread()
	})
	for i := range routers + 2 {
		n, err := netns.New()
		if err != nil {
			unavailable(t, "no new network namespace: %v", err)
		}
		c.nodes = append(c.nodes, n)
		sysctl(t, "net/ipv6/conf/default/accept_dad", "0")
		sysctl(t, "net/ipv4/icmp_ratelimit", "0")
		sysctl(t, "net/ipv6/icmp/ratelimit", "0")
		// The limit for all probers together is the namespace's own since
		// Linux 6.13; before, tests must stay below it.
		_ = os.WriteFile("/proc/sys/net/ipv4/icmp_msgs_burst", []byte("10000"), 0)
		_ = os.WriteFile("/proc/sys/net/ipv4/icmp_msgs_per_sec", []byte("100000"), 0)
		if i > 0 && i <= routers {
			sysctl(t, "net/ipv4/ip_forward", "1")
			sysctl(t, "net/ipv6/conf/all/forwarding", "1")
		}
		must(t, loopbackUp())
	}
	for i := range routers + 1 {
		c.join(t, i)
	}
	for i := range c.nodes {
		c.route(t, i)
	}
	c.enter(t, 0)
	return c
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func sysctl(t *testing.T, name, value string) {
	t.Helper()
	if err := os.WriteFile("/proc/sys/"+name, []byte(value), 0); err != nil {
		unavailable(t, "sysctl: %v", err)
	}
}

// enter moves the calling thread to a node.
func (c *chain) enter(t *testing.T, node int) {
	t.Helper()
	must(t, netns.Set(c.nodes[node]))
}

// at runs f in a node.
func (c *chain) at(t *testing.T, node int, f func()) {
	t.Helper()
	c.enter(t, node)
	defer c.enter(t, 0)
	f()
}

// here locks a subtest's goroutine to its thread, in the client.
func (c *chain) here(t *testing.T) {
	t.Helper()
	runtime.LockOSThread()
	home, err := netns.Get()
	must(t, err)
	c.enter(t, 0)
	t.Cleanup(func() {
		if err := netns.Set(home); err != nil {
			t.Error(err)
			return
		}
		home.Close()
		runtime.UnlockOSThread()
	})
}

// join makes link i between nodes i and i+1.
func (c *chain) join(t *testing.T, i int) {
	t.Helper()
	right, left := fmt.Sprintf("r%d", i), fmt.Sprintf("l%d", i)
	c.enter(t, i)
	err := netlink.LinkAdd(&netlink.Veth{
		LinkAttrs:     netlink.LinkAttrs{Name: right},
		PeerName:      left,
		PeerNamespace: netlink.NsFd(c.nodes[i+1]),
	})
	if err != nil {
		unavailable(t, "no veth pair: %v", err)
	}
	c.address(t, i, right, i, 1)
	c.address(t, i+1, left, i, 2)
}

func (c *chain) address(t *testing.T, node int, link string, net, host int) {
	t.Helper()
	c.enter(t, node)
	l, err := netlink.LinkByName(link)
	must(t, err)
	for _, a := range []string{fmt.Sprintf("10.0.%d.%d/24", net, host), fmt.Sprintf("2001:db8:%d::%d/64", net, host)} {
		addr, err := netlink.ParseAddr(a)
		must(t, err)
		addr.Flags = unix.IFA_F_NODAD
		must(t, netlink.AddrAdd(l, addr))
	}
	must(t, netlink.LinkSetUp(l))
}

// route gives node i its routes: everything to the right, and what is left of
// it to the left.
func (c *chain) route(t *testing.T, i int) {
	t.Helper()
	c.enter(t, i)
	add := func(dst string, via netip.Addr) {
		r := &netlink.Route{Gw: via.AsSlice()}
		if dst != "" {
			_, n, err := net.ParseCIDR(dst)
			must(t, err)
			r.Dst = n
		} else {
			bits := via.BitLen()
			r.Dst = &net.IPNet{IP: make(net.IP, bits/8), Mask: net.CIDRMask(0, bits)}
		}
		must(t, netlink.RouteAdd(r))
	}
	if i < len(c.nodes)-1 {
		add("", labAddr(false, i, 2))
		add("", labAddr(true, i, 2))
	} else {
		add("", labAddr(false, i-1, 1))
		add("", labAddr(true, i-1, 1))
		return
	}
	for j := range i - 1 {
		add(fmt.Sprintf("10.0.%d.0/24", j), labAddr(false, i-1, 1))
		add(fmt.Sprintf("2001:db8:%d::/64", j), labAddr(true, i-1, 1))
	}
}

// labAddr is an end of link i.
func labAddr(v6 bool, link, host int) netip.Addr {
	if v6 {
		return netip.MustParseAddr(fmt.Sprintf("2001:db8:%d::%d", link, host))
	}
	return netip.MustParseAddr(fmt.Sprintf("10.0.%d.%d", link, host))
}

// server is the last node's address.
func (c *chain) server(v6 bool) netip.Addr { return labAddr(v6, len(c.nodes)-2, 2) }

// setMTU sets the MTU of link i on both ends.
func (c *chain) setMTU(t *testing.T, i, mtu int) {
	t.Helper()
	for node, name := range map[int]string{i: fmt.Sprintf("r%d", i), i + 1: fmt.Sprintf("l%d", i)} {
		c.at(t, node, func() {
			l, err := netlink.LinkByName(name)
			must(t, err)
			must(t, netlink.LinkSetMTU(l, mtu))
		})
	}
}

func removeDefaultRoutes(t *testing.T) {
	t.Helper()
	routes, err := netlink.RouteList(nil, netlink.FAMILY_ALL)
	must(t, err)
	for _, r := range routes {
		if r.Gw != nil {
			must(t, netlink.RouteDel(&r))
		}
	}
}

func addAddress(t *testing.T, link, addr string) {
	t.Helper()
	l, err := netlink.LinkByName(link)
	must(t, err)
	a, err := netlink.ParseAddr(addr)
	must(t, err)
	must(t, netlink.AddrAdd(l, a))
}

// linkLocal returns an interface's own IPv6 address.
func linkLocal(t *testing.T, link string) netip.Addr {
	t.Helper()
	l, err := netlink.LinkByName(link)
	must(t, err)
	addrs, err := netlink.AddrList(l, netlink.FAMILY_V6)
	must(t, err)
	for _, a := range addrs {
		if ip, ok := netip.AddrFromSlice(a.IP); ok && ip.IsLinkLocalUnicast() {
			return ip
		}
	}
	t.Fatalf("%s has no link-local address", link)
	return netip.Addr{}
}

// addNeighbour makes an address that nobody has look as if it were there.
func addNeighbour(t *testing.T, link string, a netip.Addr) {
	t.Helper()
	l, err := netlink.LinkByName(link)
	must(t, err)
	must(t, netlink.NeighAdd(&netlink.Neigh{
		LinkIndex: l.Attrs().Index, State: netlink.NUD_PERMANENT,
		IP: a.AsSlice(), HardwareAddr: net.HardwareAddr{2, 0, 0, 0, 0, 99},
	}))
}

func loopbackDown(t *testing.T) {
	t.Helper()
	lo, err := netlink.LinkByName("lo")
	must(t, err)
	must(t, netlink.LinkSetDown(lo))
}
