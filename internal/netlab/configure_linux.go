package netlab

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// connect makes the device of an end in its namespace and returns its name and
// the port behind it, with the descriptor to wait on.
func connect(ns, wires *Namespace, e End, index int) (name string, p port, fd int, err error) {
	name = "eth0"
	if ns.netns < 0 {
		name = "lab0"
	}
	if err := ns.Do(namespaceSettings); err != nil {
		return "", nil, -1, err
	}
	if wires != nil {
		v, err := newVeth(ns, wires, name, index, e.MTU)
		if err != nil {
			return "", nil, -1, err
		}
		return name, &ownedVeth{vethPort: v, ns: ns, name: name}, v.fd, nil
	}
	var t *tunPort
	err = ns.Do(func() (err error) {
		t, err = newTUN(name)
		return err
	})
	if err != nil {
		return "", nil, -1, err
	}
	return name, t, t.fd, nil
}

// ownedVeth removes its pair when it is closed: one in the client's namespace
// would outlive the lab.
type ownedVeth struct {
	*vethPort
	ns   *Namespace
	name string
}

func (o *ownedVeth) close() error {
	err := o.vethPort.close()
	gone := o.ns.Do(func() error { return removeDevice(o.name) })
	if errors.Is(gone, errClosed) {
		gone = nil // the pair went with its namespace
	}
	return errors.Join(err, gone)
}

// withHandle runs f with a netlink socket of the calling thread's namespace.
func withHandle(f func(*netlink.Handle) error) error {
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("netlink: %w", err)
	}
	defer h.Close()
	return f(h)
}

func removeDevice(name string) error {
	return withHandle(func(h *netlink.Handle) error {
		link, err := h.LinkByName(name)
		if err != nil {
			return fmt.Errorf("netlab: removing %s: %w", name, err)
		}
		return h.LinkDel(link)
	})
}

// settle waits until the kernel has taken notice that the device's other side
// is up too. It does so in the background, and drops what is sent before.
func settle(h *netlink.Handle, name string) error {
	return await(name+" to come up", func() (bool, error) {
		link, err := h.LinkByName(name)
		if err != nil || link.Attrs().OperState != netlink.OperUp {
			return false, err
		}
		// The state is set before the queues open, under the lock that every
		// change takes: one more change, and they are open.
		return true, h.LinkSetUp(link)
	})
}

// settleAddrs waits until addresses of the calling thread's namespace are its
// own. An IPv6 address becomes that in the background, even without duplicate
// address detection.
func settleAddrs(h *netlink.Handle, addrs []netip.Addr) error {
	for _, a := range addrs {
		err := await(a.String()+" to become local", func() (bool, error) {
			routes, err := h.RouteGet(a.AsSlice())
			if err != nil {
				return false, nil // no route to it yet
			}
			return len(routes) > 0 && routes[0].Type == unix.RTN_LOCAL, nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// await asks until ready says so.
func await(what string, ready func() (bool, error)) error {
	deadline := time.Now().Add(5 * time.Second)
	for {
		ok, err := ready()
		if err != nil {
			return fmt.Errorf("waiting for %s: %w", what, err)
		}
		if ok {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("waiting for %s: it takes too long", what)
		}
		time.Sleep(time.Millisecond)
	}
}

// sysctl sets a variable of the calling thread's namespace. It is best effort:
// /proc/sys is read-only in many containers, and older kernels lack some.
func sysctl(name, value string) {
	_ = os.WriteFile(filepath.Join("/proc/sys", name), []byte(value), 0o644)
}

// namespaceSettings prepares the calling thread's namespace: the loopback
// device, and settings a new namespace has wrong or inherits from the host.
func namespaceSettings() error {
	group := strconv.Itoa(os.Getegid())
	for name, value := range map[string]string{
		// A new namespace opens ping sockets to nobody.
		"net/ipv4/ping_group_range": group + " " + group,
		// One lab must not teach the next about its paths.
		"net/ipv4/tcp_no_metrics_save":        "1",
		"net/ipv4/ip_unprivileged_port_start": "0",
		"net/ipv4/ip_forward":                 "0",
		// A different way back is part of the model.
		"net/ipv4/conf/all/rp_filter":                              "0",
		"net/ipv4/conf/default/rp_filter":                          "0",
		"net/ipv6/conf/default/accept_dad":                         "0",
		"net/ipv6/conf/default/accept_ra":                          "0",
		"net/ipv6/conf/default/router_solicitations":               "0",
		"net/ipv6/conf/default/disable_ipv6":                       "0",
		"net/ipv6/conf/all/disable_ipv6":                           "0",
		"net/ipv6/conf/default/addr_gen_mode":                      "1", // no link-local addresses
		"net/ipv6/conf/lo/disable_ipv6":                            "0",
		"net/ipv4/conf/all/accept_local":                           "0",
		"net/ipv4/conf/default/accept_redirects":                   "0",
		"net/ipv6/conf/default/accept_redirects":                   "0",
		"net/ipv4/conf/default/igmpv2_unsolicited_report_interval": "0",
	} {
		sysctl(name, value)
	}
	return withHandle(func(h *netlink.Handle) error {
		lo, err := h.LinkByName("lo")
		if err != nil {
			return fmt.Errorf("finding lo: %w", err)
		}
		return h.LinkSetUp(lo)
	})
}

// configure gives an end's device its addresses and routes.
func configure(ns *Namespace, e End, device string) error {
	return ns.handle(func(h *netlink.Handle) error { return configureDevice(h, e, device) })
}

func configureDevice(h *netlink.Handle, e End, device string) error {
	link, err := h.LinkByName(device)
	if err != nil {
		return fmt.Errorf("finding %s: %w", device, err)
	}
	// Without ARP every neighbour is taken to be there.
	if err := h.LinkSetARPOff(link); err != nil {
		return fmt.Errorf("turning ARP off on %s: %w", device, err)
	}
	if err := h.LinkSetMTU(link, e.MTU); err != nil {
		return fmt.Errorf("setting the MTU of %s to %d: %w", device, e.MTU, err)
	}
	if err := h.LinkSetTxQLen(link, queue); err != nil {
		return fmt.Errorf("setting the queue of %s: %w", device, err)
	}
	if err := h.LinkSetUp(link); err != nil {
		return fmt.Errorf("bringing %s up: %w", device, err)
	}
	families := map[bool]bool{}
	for _, a := range e.Addrs {
		if err := h.AddrAdd(link, &netlink.Addr{IPNet: host(a), Flags: unix.IFA_F_NODAD}); err != nil {
			return fmt.Errorf("adding %s to %s: %w", a, device, err)
		}
		families[a.Is4()] = true
	}
	for v4 := range families {
		all := &net.IPNet{IP: net.IPv6zero, Mask: net.CIDRMask(0, 128)}
		if v4 {
			all = &net.IPNet{IP: net.IPv4zero.To4(), Mask: net.CIDRMask(0, 32)}
		}
		route := &netlink.Route{LinkIndex: link.Attrs().Index, Dst: all, Scope: netlink.SCOPE_LINK}
		if !v4 {
			route.Scope = netlink.SCOPE_UNIVERSE // IPv6 routes have none
		}
		if err := h.RouteAdd(route); err != nil {
			return fmt.Errorf("adding the default route through %s: %w", device, err)
		}
	}
	return settleAddrs(h, e.Addrs)
}
