package demo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/whyslow/whyslow/internal/diagnose"
	"github.com/whyslow/whyslow/internal/netlab/servers"
)

// loopbackStage is a plan whose servers stand on loopback, on ports that the
// kernel chose: no privilege, no namespaces, no network between.
type loopbackStage struct {
	site
	plan    *plan
	dir     string
	config  string
	dnsPort uint16
	web     netip.AddrPort
}

var loopback = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// deadLoopback is an address of this host where nothing but our own mute
// socket is: systems other than Linux have no second IPv4 one.
func deadLoopback() netip.Addr {
	if runtime.GOOS == "linux" {
		return netip.AddrFrom4([4]byte{127, 0, 0, 54})
	}
	return netip.IPv6Loopback()
}

func newLoopbackStage(_ context.Context, p *plan) (st stage, err error) {
	s := &loopbackStage{plan: p}
	p.truth = onLoopback(p.truth)
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if s.dir, err = os.MkdirTemp("", "whyslow-demo-"); err != nil {
		return nil, err
	}
	ports, err := freePorts(3)
	if err != nil {
		return nil, err
	}
	s.dnsPort, s.web = ports[0], netip.AddrPortFrom(loopback, ports[2])
	var conf string
	if p.dns.deadFirst {
		if err := s.mute(netip.AddrPortFrom(deadLoopback(), s.dnsPort)); err != nil {
			return nil, err
		}
		conf = fmt.Sprintf("nameserver %s\n", deadLoopback())
	}
	conf += fmt.Sprintf("nameserver %s\n", loopback)
	s.config = filepath.Join(s.dir, "resolv.conf")
	if err := os.WriteFile(s.config, []byte(conf), 0o600); err != nil {
		return nil, err
	}
	return s, s.start(p, ground{
		web: servers.Host{}, resolver: servers.Host{}, authority: servers.Host{},
		webAddr:       s.web,
		resolverAddr:  netip.AddrPortFrom(loopback, ports[0]),
		authorityAddr: netip.AddrPortFrom(loopback, ports[1]),
		visitor:       loopback,
	})
}

// onLoopback says a truth in the addresses of this stage.
func onLoopback(t Truth) Truth {
	to := strings.NewReplacer(deadAddr.String(), deadLoopback().String(), resolverAddr.String(), loopback.String(),
		authorityAddr.String(), loopback.String(), webAddr.String(), loopback.String())
	t.Where, t.Story = to.Replace(t.Where), to.Replace(t.Story)
	return t
}

// mute holds a UDP port that never answers.
func (s *loopbackStage) mute(at netip.AddrPort) error {
	c, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(at))
	if err != nil {
		return err
	}
	s.closers = append(s.closers, c.Close)
	return nil
}

// freePorts returns ports that are free for TCP and UDP on loopback. Another
// process may take one before we do; the start then fails and says so.
func freePorts(n int) ([]uint16, error) {
	var ports []uint16
	for len(ports) < n {
		l, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.AddrPortFrom(loopback, 0)))
		if err != nil {
			return nil, err
		}
		defer func() { _ = l.Close() }() // held until all are chosen
		port := l.Addr().(*net.TCPAddr).AddrPort().Port()
		u, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(loopback, port)))
		if err != nil {
			continue
		}
		_ = u.Close()
		ports = append(ports, port)
	}
	return ports, nil
}

func (s *loopbackStage) options() diagnose.Options {
	return diagnose.Options{URL: s.plan.urlAt(s.web.Port()), ResolvConf: s.config, DNSPort: s.dnsPort, RootCAs: s.ca.Pool()}
}

func (s *loopbackStage) close() error {
	err := s.site.close()
	if s.dir != "" {
		err = errors.Join(err, os.RemoveAll(s.dir))
	}
	return err
}
