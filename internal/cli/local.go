package cli

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/whyslow/whyslow/dnscheck"
)

// What only this host gets wrong must not be measured: it would be told as a
// fault of the network. The flags are checked alone, with a target that is an
// address before anything is sent, with one that is a name once its addresses
// are known.

// checkLocal refuses an interface and a source address that this host has not.
func (c *common) checkLocal() error {
	if c.iface != "" {
		if err := checkInterface(c.iface); err != nil {
			return usagef("--interface: %w", err)
		}
	}
	switch a := c.source; {
	case !a.IsValid():
		return nil
	case c.ipv4 && a.Is6():
		return usagef("--source: %s is IPv6, and -4, --ipv4 wants IPv4: of the other address family", a)
	case c.ipv6 && a.Is4():
		return usagef("--source: %s is IPv4, and -6, --ipv6 wants IPv6: of the other address family", a)
	case a.IsLinkLocalUnicast() && a.Is6() && a.Zone() == "":
		return usagef("--source: %s needs its interface: %s%%%s", a, a, anInterface())
	case !isOwn(a):
		return usagef("--source: %s is no address of this host%s", a, ownAddresses(a.Is4()))
	}
	return nil
}

func checkInterface(name string) error {
	if runtime.GOOS != "linux" {
		return errors.New("needs Linux; elsewhere --source with the interface's address does it")
	}
	i, err := net.InterfaceByName(name)
	if err != nil {
		return errors.New(strconv.Quote(name) + " is no interface of this host" + interfaces())
	}
	if i.Flags&net.FlagUp == 0 {
		return errors.New(name + " is down; to change that: ip link set " + name + " up")
	}
	return nil
}

// isOwn reports whether this host has the address. Nothing is sent: a UDP
// socket is bound to the address and connected to it, which the kernel refuses
// for a foreign one.
func isOwn(a netip.Addr) bool {
	if a.IsUnspecified() || isGroup(a) {
		return false
	}
	c, err := net.DialUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(a, 0)), net.UDPAddrFromAddrPort(netip.AddrPortFrom(a, 9)))
	if err != nil {
		return false
	}
	_ = c.Close()
	return true
}

// isGroup reports whether an address stands for several hosts.
func isGroup(a netip.Addr) bool {
	return a.IsMulticast() || a == netip.AddrFrom4([4]byte{255, 255, 255, 255})
}

// few bounds what an error lists.
const few = 8

// ownAddresses lists the addresses of one family for a remedy, "" if there are
// none.
func ownAddresses(ipv4 bool) string {
	addrs, _ := net.InterfaceAddrs() // none known, none listed
	var own []string
	for _, a := range addrs {
		p, err := netip.ParsePrefix(a.String())
		if err == nil && p.Addr().Is4() == ipv4 && !p.Addr().IsLinkLocalUnicast() {
			own = append(own, p.Addr().String())
		}
	}
	return listed(own)
}

func interfaces() string {
	all, _ := net.Interfaces()
	var names []string
	for _, i := range all {
		names = append(names, i.Name)
	}
	return listed(names)
}

func listed(words []string) string {
	switch {
	case len(words) == 0:
		return ""
	case len(words) > few:
		return "; this host has " + strings.Join(words[:few], ", ") + " …"
	}
	return "; this host has " + strings.Join(words, ", ")
}

// anInterface is an interface for an example.
func anInterface() string {
	all, _ := net.Interfaces()
	for _, i := range all {
		if i.Flags&net.FlagLoopback == 0 && i.Flags&net.FlagUp != 0 {
			return i.Name
		}
	}
	return "eth0"
}

// reaches refuses an address to which, with these flags, this host cannot send
// a packet at all.
func (c *common) reaches(a netip.Addr) error {
	switch {
	case c.ipv6 && a.Is4():
		return usagef("-6, --ipv6: %s is an IPv4 address; leave the flag out", a)
	case c.ipv4 && a.Is6():
		return usagef("-4, --ipv4: %s is an IPv6 address; leave the flag out", a)
	case isGroup(a):
		return usagef("%s is the address of a group or of all, and no host has it", a)
	}
	if err := c.checkZone(a); err != nil {
		return err
	}
	if c.iface != "" {
		if err := c.throughInterface(a); err != nil {
			return err
		}
	}
	switch s := c.source; {
	case !s.IsValid():
		return nil
	case s.Is4() != a.Is4():
		return usagef("--source: %s cannot reach %s, which is of the other address family%s", s, a, ownAddresses(a.Is4()))
	case s.IsLoopback() && !a.IsLoopback() && !isOwn(a):
		return usagef("--source: %s reaches this host alone, and %s is another%s", s, a, ownAddresses(a.Is4()))
	}
	return nil
}

// checkZone wants the interface of an address that is the same on every link.
func (c *common) checkZone(a netip.Addr) error {
	switch {
	case !a.Is6() || !a.IsLinkLocalUnicast():
		return nil
	case a.Zone() == "" && c.iface == "":
		return usagef("%s is the same on every link: name its interface, as in %s%%%s, or with --interface", a, a, anInterface())
	case a.Zone() == "":
		return nil
	}
	if _, err := net.InterfaceByName(a.Zone()); err == nil {
		return nil
	}
	if n, err := strconv.Atoi(a.Zone()); err == nil {
		if _, err := net.InterfaceByIndex(n); err == nil {
			return nil
		}
	}
	return usagef("%s: %q is no interface of this host%s", a.WithZone(""), a.Zone(), interfaces())
}

// throughInterface refuses what the kernel would wait for in vain: loopback
// addresses are reached through the loopback interface, and others are not.
func (c *common) throughInterface(a netip.Addr) error {
	i, err := net.InterfaceByName(c.iface)
	if err != nil {
		return nil // checked before; gone since
	}
	if i.Flags&net.FlagLoopback == 0 {
		if a.IsLoopback() {
			return usagef("--interface: %s is this host itself, which %s does not reach; leave the flag out", a, c.iface)
		}
		return nil
	}
	addrs, _ := i.Addrs()
	if a.IsLoopback() || slices.ContainsFunc(addrs, func(n net.Addr) bool {
		p, err := netip.ParsePrefix(n.String())
		return err == nil && p.Addr() == a
	}) {
		return nil
	}
	return usagef("--interface: %s reaches this host alone, and not %s; choose another%s", c.iface, a, interfaces())
}

// usable are those addresses of a host that the flags permit to reach; the
// error says why there are none.
func (c *common) usable(host string, addrs []netip.Addr) ([]netip.Addr, error) {
	var good []netip.Addr
	var wrong error
	for _, a := range addrs {
		if err := c.reaches(a.Unmap()); err == nil {
			good = append(good, a)
		} else if wrong == nil {
			wrong = err
		}
	}
	if good == nil && wrong != nil {
		return nil, usagef("%s: %w", host, wrong)
	}
	return good, nil
}

// targetFamily is the family in which the target is to be reached: 4, 6, or 0
// for either. A source address has only one to offer.
func (c *common) targetFamily() int {
	switch f := c.family(); {
	case f != 0 || !c.source.IsValid():
		return f
	case c.source.Is4():
		return 4
	}
	return 6
}

// lacking says which address a host lacks, where a flag asked for one; "" if
// none did.
func (c *common) lacking(host string) string {
	family := map[int]string{4: "IPv4", 6: "IPv6"}[c.targetFamily()]
	switch {
	case family == "":
		return ""
	case c.ipv4:
		return host + " has no IPv4 address, which -4, --ipv4 asks for"
	case c.ipv6:
		return host + " has no IPv6 address, which -6, --ipv6 asks for"
	}
	return host + " has no " + family + " address, and --source " + c.source.String() + " reaches no other; " +
		"leave it out, or give an address of the other family"
}

// checkNameservers refuses flags with which none of the configured nameservers
// can be asked for the target's name. A name of the hosts file needs none.
func (c *common) checkNameservers(ctx context.Context, name string) error {
	if !c.source.IsValid() && c.iface == "" {
		return nil
	}
	conf, err := dnscheck.LoadResolvConf(c.resolvConf)
	if err != nil {
		return explain("reading the resolver configuration", err)
	}
	wrong := c.checkServers(conf.Nameservers)
	if wrong == nil {
		return nil
	}
	if _, err := netip.ParseAddr(name); err == nil {
		return usagef("asking a nameserver of %s for the name of %s: %w", conf.File, name, wrong)
	}
	o := c.dnsOptions(name)
	o.Exchanger = noExchange{}
	if stub, err := dnscheck.Resolve(ctx, o); err == nil && stub.Found() {
		return nil
	}
	return usagef("asking a nameserver of %s for %s: %w; or give the target as an address", conf.File, name, wrong)
}

// checkServers is reaches for servers, of which one is enough.
func (c *common) checkServers(servers []netip.Addr) error {
	asking := *c
	asking.ipv4, asking.ipv6 = false, false // say what to ask for, not over what
	var wrong error
	for _, a := range servers {
		err := asking.reaches(a.Unmap())
		if err == nil {
			return nil
		}
		wrong = err
	}
	return wrong
}

// noExchange answers no question, so that only the hosts file can.
type noExchange struct{}

func (noExchange) Exchange(context.Context, dnscheck.Query) (*dnscheck.Answer, error) {
	return nil, errors.New("not asked")
}
