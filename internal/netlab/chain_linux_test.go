package netlab_test

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/whyslow/whyslow/internal/netlab"
	"github.com/whyslow/whyslow/internal/netlab/labtest"
	"github.com/whyslow/whyslow/internal/simnet"
)

// hop is what a path measurement sees of one hop.
type hop struct {
	From       netip.Addr
	Type, Code uint8
	MTU        uint32
}

// probe sends one datagram and returns the ICMP error it meets.
func probe(dst netip.Addr, ttl, size int) (hop, error) {
	family, level, ttlOpt, errOpt, discover := unix.AF_INET, unix.IPPROTO_IP, unix.IP_TTL, unix.IP_RECVERR, unix.IP_MTU_DISCOVER
	headers := 28
	var sa unix.Sockaddr
	if dst.Is4() {
		sa = &unix.SockaddrInet4{Port: 33434 + ttl, Addr: dst.As4()}
	} else {
		family, level, ttlOpt, errOpt, discover = unix.AF_INET6, unix.IPPROTO_IPV6, unix.IPV6_UNICAST_HOPS, unix.IPV6_RECVERR, unix.IPV6_MTU_DISCOVER
		headers = 48
		sa = &unix.SockaddrInet6{Port: 33434 + ttl, Addr: dst.As16()}
	}
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return hop{}, err
	}
	defer func() { _ = unix.Close(fd) }()
	for opt, value := range map[int]int{ttlOpt: ttl, errOpt: 1, discover: unix.IP_PMTUDISC_PROBE} {
		if err := unix.SetsockoptInt(fd, level, opt, value); err != nil {
			return hop{}, fmt.Errorf("socket option %d: %w", opt, err)
		}
	}
	if err := unix.Sendto(fd, make([]byte, size-headers), 0, sa); err != nil {
		return hop{}, err
	}
	fds := []unix.PollFd{{Fd: int32(fd)}} // POLLERR needs no asking
	deadline := time.Now().Add(10 * time.Second)
	for {
		n, err := unix.Poll(fds, int(time.Until(deadline).Milliseconds()))
		if n > 0 {
			break
		}
		if err != nil && !errors.Is(err, unix.EINTR) || time.Now().After(deadline) {
			return hop{}, fmt.Errorf("no answer at TTL %d", ttl)
		}
	}
	oob := make([]byte, 512)
	_, n, _, _, err := unix.Recvmsg(fd, make([]byte, 64), oob, unix.MSG_ERRQUEUE)
	if err != nil {
		return hop{}, err
	}
	msgs, err := unix.ParseSocketControlMessage(oob[:n])
	if err != nil || len(msgs) == 0 {
		return hop{}, fmt.Errorf("control message: %v", err)
	}
	data := msgs[0].Data
	ee := (*unix.SockExtendedErr)(unsafe.Pointer(&data[0]))
	h := hop{Type: ee.Type, Code: ee.Code, MTU: ee.Info}
	data = data[unsafe.Sizeof(*ee):]
	if family == unix.AF_INET {
		h.From, _ = netip.AddrFromSlice(data[4:8])
	} else {
		h.From, _ = netip.AddrFromSlice(data[8:24])
	}
	return h, nil
}

// path probes dst with rising TTL, then with a packet of full size.
func path(t *testing.T, dst netip.Addr, hops int) []hop {
	t.Helper()
	var out []hop
	for ttl := 1; ttl <= hops; ttl++ {
		h, err := probe(dst, ttl, 100)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, h)
	}
	h, err := probe(dst, 64, 1500)
	if err != nil {
		t.Fatal(err)
	}
	return append(out, h)
}

// TestModelAndKernelGiveTheSamePath builds one topology twice.
func TestModelAndKernelGiveTheSamePath(t *testing.T) {
	labtest.Need(t)
	cfg := netlab.ChainConfig{
		Client: []netip.Addr{client4, client6},
		Server: []netip.Addr{server4, server6},
		MTUs:   []int{1500, 1500, 1500, 1400, 1500, 1500},
	}
	for i := range 5 {
		cfg.Routers = append(cfg.Routers, []netip.Addr{
			netip.AddrFrom4([4]byte{192, 0, 2, byte(i + 1)}),
			netip.MustParseAddr(fmt.Sprintf("2001:db8:f::%d", i+1)),
		})
	}
	targets := map[string]netip.Addr{"IPv4": server4, "IPv6": server6}
	model, kernel := map[string][]hop{}, map[string][]hop{}
	lab, err := netlab.New(modelOf(cfg))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lab.Close() })
	for name, dst := range targets {
		model[name] = path(t, dst, len(cfg.Routers)+1)
	}
	if err := lab.Close(); err != nil {
		t.Fatal(err)
	}
	chain, err := netlab.NewKernelChain(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = chain.Close() })
	for name, dst := range targets {
		kernel[name] = path(t, dst, len(cfg.Routers)+1)
	}
	if err := chain.Close(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(kernel, model, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
		t.Errorf("the model's path differs from the kernel's (-want +got):\n%s", diff)
	}
	// Both could be wrong alike.
	if got := kernel["IPv4"][2].From; got != cfg.Routers[2][0] {
		t.Errorf("third hop %v, want %v", got, cfg.Routers[2][0])
	}
	if got := kernel["IPv4"][6]; got.From != cfg.Routers[2][0] || got.MTU != 1400 {
		t.Errorf("a full packet met %+v, want an MTU of 1400 at %v", got, cfg.Routers[2][0])
	}
}

// modelOf is the topology of a chain in the model.
func modelOf(c netlab.ChainConfig) netlab.Config {
	n := simnet.New(1)
	client := n.AddHost(simnet.Host{Name: "client", Addrs: c.Client})
	last := client
	for i, addrs := range c.Routers {
		r := n.AddRouter(simnet.Router{Name: fmt.Sprintf("r%d", i+1), Addr4: addrs[0], Addr6: addrs[1]})
		n.Connect(last, r, simnet.Link{MTU: c.MTUs[i]}, simnet.Link{MTU: c.MTUs[i]})
		last = r
	}
	server := n.AddHost(simnet.Host{Name: "server", Addrs: c.Server})
	end := simnet.Link{MTU: c.MTUs[len(c.Routers)]}
	n.Connect(last, server, end, end)
	return netlab.Config{Net: n, Client: client, Ends: []netlab.End{
		{Node: client, Addrs: c.Client}, {Node: server, Addrs: c.Server},
	}}
}
