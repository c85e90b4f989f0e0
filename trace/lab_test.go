package trace

import (
	"context"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/whyslow/whyslow/internal/netprobe/modelnet"
	"github.com/whyslow/whyslow/internal/simnet"
)

// plan describes a chain client – routers – server for a test.
type plan struct {
	seed    uint64
	routers int           // zero means 11
	delay   time.Duration // of each link, one way; zero means 2.5 ms
	v6      bool
	router  func(ttl int, r *simnet.Router)         // changes the router at a TTL
	link    func(ttl int, there, back *simnet.Link) // changes the link to a TTL
	server  simnet.Host
	open    []uint16 // TCP ports
	host    modelnet.Options
	after   func(l *lab) // changes the finished topology
}

// lab is a plan built. It must be made and used in one synctest bubble.
type lab struct {
	*modelnet.Network
	net            *simnet.Net
	client, server simnet.NodeID
	routers        []simnet.NodeID
	dst            netip.Addr
	ttl            int // of the server
}

func addr4(b byte) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, b, 1}) }
func addr6(b byte) netip.Addr {
	return netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 0, b, 15: 1})
}

func build(t *testing.T, p plan) *lab {
	t.Helper()
	if p.routers == 0 {
		p.routers = 11
	}
	if p.delay == 0 {
		p.delay = 2500 * time.Microsecond
	}
	l := &lab{net: simnet.New(p.seed), ttl: p.routers + 1, dst: addr4(200)}
	if p.v6 {
		l.dst = addr6(200)
	}
	l.client = l.net.AddHost(simnet.Host{Name: "client", Addrs: []netip.Addr{addr4(100), addr6(100)}})
	before := l.client
	connect := func(ttl int, to simnet.NodeID) {
		there, back := simnet.Link{Delay: p.delay}, simnet.Link{Delay: p.delay}
		if p.link != nil {
			p.link(ttl, &there, &back)
		}
		l.net.Connect(before, to, there, back)
		before = to
	}
	for ttl := 1; ttl <= p.routers; ttl++ {
		r := simnet.Router{Addr4: addr4(byte(ttl)), Addr6: addr6(byte(ttl))}
		if p.router != nil {
			p.router(ttl, &r)
		}
		id := l.net.AddRouter(r)
		l.routers = append(l.routers, id)
		connect(ttl, id)
	}
	h := p.server
	h.Addrs = []netip.Addr{addr4(200), addr6(200)}
	l.server = l.net.AddHost(h)
	connect(l.ttl, l.server)
	l.net.OpenTCP(l.server, append(p.open, 443)...)
	if p.after != nil {
		p.after(l)
	}
	l.Network = modelnet.NewWith(l.net, l.client, p.host)
	return l
}

// inLab runs f in virtual time with a plan built.
func inLab(t *testing.T, p plan, f func(t *testing.T, l *lab)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := build(t, p)
		defer l.Close()
		f(t, l)
	})
}

// traced runs a trace that must not fail.
func traced(t *testing.T, l *lab, opt Options) *Result {
	t.Helper()
	opt.Network, opt.Dst = l.Network, l.dst
	res, err := Run(context.Background(), opt)
	if err != nil {
		t.Fatalf("Run: %v", err)
	}
	return res
}

// elapsed is the trace's time in virtual time.
func elapsed(res *Result) time.Duration { return res.Elapsed.Duration() }
