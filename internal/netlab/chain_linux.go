package netlab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Chain is a chain of kernel routers that runs.
type Chain struct {
	Client, Server *Namespace

	routers []*Namespace
	beside  []*Namespace
	files   *fileSystem
	once    sync.Once
	err     error
}

// NewKernelChain builds a chain. Like a Lab it needs a process that Enter or
// Main started, and takes the place of one.
func NewKernelChain(cfg ChainConfig) (*Chain, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if !Inside() {
		return nil, ErrOutside
	}
	c := &Chain{}
	if err := c.start(cfg); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// start builds what a chain consists of; Close undoes it from any point.
func (c *Chain) start(cfg ChainConfig) (err error) {
	if c.files, err = newFileSystem(); err != nil {
		return err
	}
	if c.Client, err = newNamespace("client", true, c.files); err != nil {
		return err
	}
	for i := range cfg.Routers {
		r, err := newNamespace(fmt.Sprintf("router %d", i+1), false, c.files)
		if err != nil {
			return err
		}
		c.routers = append(c.routers, r)
	}
	if c.Server, err = newNamespace("server", false, c.files); err != nil {
		return err
	}
	nodes := append(append([]*Namespace{c.Client}, c.routers...), c.Server)
	for _, ns := range nodes {
		if err := ns.Do(cfg.settings); err != nil {
			return fmt.Errorf("netlab: preparing %s: %w", ns.name, err)
		}
	}
	for i := range len(nodes) - 1 {
		if err := linkUp(nodes[i], nodes[i+1], rightOf(nodes[i]), left, i, cfg.mtu(i)); err != nil {
			return fmt.Errorf("netlab: link %d: %w", i, err)
		}
	}
	if err := c.address(cfg); err != nil {
		return err
	}
	for i := range cfg.Beside {
		if err := c.widen(cfg, nodes, i); err != nil {
			return fmt.Errorf("netlab: routers beside router %d: %w", i+1, err)
		}
	}
	for i, rules := range cfg.Rules {
		if err := c.routers[i].filter(rules); err != nil {
			return err
		}
	}
	return nil
}

// settings prepares the calling thread's namespace for a node of a chain.
func (c ChainConfig) settings() error {
	err := namespaceSettings()
	if c.Unlimited {
		sysctl("net/ipv4/icmp_ratelimit", "0")
		sysctl("net/ipv4/icmp_msgs_per_sec", "1000000")
		sysctl("net/ipv4/icmp_msgs_burst", "1000000")
		sysctl("net/ipv6/icmp/ratelimit", "0")
	}
	return err
}

// filter gives the namespace netfilter rules.
func (ns *Namespace) filter(rules string) error {
	p, err := ns.Start(Command{Path: "nft", Args: []string{"-f", "-"}, Stdin: strings.NewReader(rules)})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := p.Wait(ctx); err != nil {
		return fmt.Errorf("netlab: nft in %s: %w: %s", ns.name, err, p.Output())
	}
	return nil
}

// The client's side of a link is called right, the server's left, as seen from
// the node they belong to; the client's own has a lab device's name.
const (
	left  = "left"
	right = "right"
)

func rightOf(ns *Namespace) string {
	if ns.netns < 0 {
		return "lab0"
	}
	return right
}

// linkUp joins two neighbours with a veth pair, whose ends have these names.
func linkUp(a, b *Namespace, ofA, ofB string, index, mtu int) error {
	// Both ends have the same hardware address and no ARP: what one sends "to
	// itself" is for the other, and no packet waits for a neighbour.
	hw := net.HardwareAddr{2, 0, 0, 1, 0, byte(index)}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.HardwareAddr, attrs.MTU, attrs.TxQLen = ofA, hw, mtu, -1
	err := a.handle(func(h *netlink.Handle) error {
		return h.LinkAdd(&netlink.Veth{
			LinkAttrs: attrs, PeerName: ofB, PeerHardwareAddr: hw,
			PeerNamespace: netlink.NsFd(b.netns), PeerMTU: uint32(mtu),
		})
	})
	if err != nil {
		return &PermissionError{Reason: NoCarrier, Err: fmt.Errorf("making a veth pair: %w", err)}
	}
	up := func(name string) func(*netlink.Handle) error {
		return func(h *netlink.Handle) error {
			link, err := h.LinkByName(name)
			if err != nil {
				return err
			}
			return errors.Join(h.LinkSetARPOff(link), h.LinkSetUp(link), offloadsOff(name))
		}
	}
	if err := errors.Join(a.handle(up(ofA)), b.handle(up(ofB))); err != nil {
		return err
	}
	return errors.Join(
		a.handle(func(h *netlink.Handle) error { return settle(h, ofA) }),
		b.handle(func(h *netlink.Handle) error { return settle(h, ofB) }))
}

// address gives every node its addresses and routes.
func (c *Chain) address(cfg ChainConfig) error {
	err := c.Client.handle(func(h *netlink.Handle) error {
		return setAddrs(h, rightOf(c.Client), cfg.Client, cfg.Server)
	})
	for i, r := range c.routers {
		err = errors.Join(err, r.handle(func(h *netlink.Handle) error {
			forwarding()
			// The errors for the client leave on the left: that interface's
			// address is their source.
			server := cfg.Server
			if cfg.NoRoute[i] {
				server = nil
			}
			return errors.Join(setAddrs(h, left, cfg.Routers[i], cfg.Client), setAddrs(h, right, nil, server))
		}))
	}
	err = errors.Join(err, c.Server.handle(func(h *netlink.Handle) error {
		return setAddrs(h, left, cfg.Server, cfg.Client)
	}))
	// The way to each router, for those that talk to it.
	nodes := append(append([]*Namespace{c.Client}, c.routers...), c.Server)
	for i, addrs := range cfg.Routers {
		for k, ns := range nodes {
			device := rightOf(ns)
			if k == i+1 {
				continue
			}
			if k > i+1 {
				device = left
			}
			err = errors.Join(err, ns.handle(func(h *netlink.Handle) error { return setAddrs(h, device, nil, addrs) }))
		}
	}
	if err != nil {
		return fmt.Errorf("netlab: addressing a chain: %w", err)
	}
	return nil
}

// setAddrs adds addresses to a device, and routes through it.
func setAddrs(h *netlink.Handle, device string, addrs, routes []netip.Addr) error {
	link, err := h.LinkByName(device)
	if err != nil {
		return err
	}
	for _, a := range addrs {
		if err := h.AddrAdd(link, &netlink.Addr{IPNet: host(a), Flags: unix.IFA_F_NODAD}); err != nil {
			return fmt.Errorf("adding %s to %s: %w", a, device, err)
		}
	}
	for _, a := range routes {
		route := &netlink.Route{LinkIndex: link.Attrs().Index, Dst: host(a)}
		if a.Is4() {
			route.Scope = netlink.SCOPE_LINK
		}
		if err := h.RouteAdd(route); err != nil {
			return fmt.Errorf("adding a route to %s through %s: %w", a, device, err)
		}
	}
	return settleAddrs(h, addrs)
}

// handle runs f with a netlink socket of the namespace, on a thread in it.
func (ns *Namespace) handle(f func(*netlink.Handle) error) error {
	return ns.Do(func() error { return withHandle(f) })
}

func host(a netip.Addr) *net.IPNet {
	return &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(a.BitLen(), a.BitLen())}
}

// Close removes the chain.
func (c *Chain) Close() error {
	c.once.Do(func() {
		var errs []error
		if c.Client != nil {
			// The last lab's device may be missing if building failed.
			_ = c.Client.Do(func() error { return removeDevice(rightOf(c.Client)) })
			c.Client.close()
		}
		for _, ns := range append(append(c.routers, c.beside...), c.Server) {
			if ns != nil {
				ns.close()
			}
		}
		if c.files != nil {
			errs = append(errs, c.files.close())
		}
		c.err = errors.Join(errs...)
	})
	return c.err
}
