package netprobe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/whyslow/whyslow/internal/wire"
)

// patience bounds every wait of a test; nothing takes that long unless it
// never comes.
const patience = 10 * time.Second

// kinds are all kinds of socket.
var kinds = []struct {
	name   string
	cfg    Config
	socket string
	flow   bool
	proto  wire.Protocol
}{
	{"icmp-raw", Config{Method: ICMP}, "raw", true, wire.ICMP},
	{"icmp-ping", Config{Method: ICMP, Unprivileged: true}, "ping", true, wire.ICMP},
	{"udp-raw", Config{Method: UDP}, "raw", true, wire.UDP},
	{"udp-recverr", Config{Method: UDP, Unprivileged: true}, "recverr", true, wire.UDP},
	{"udp-recverr-port", Config{Method: UDP, Port: 53, Unprivileged: true}, "recverr", true, wire.UDP},
	{"tcp-raw", Config{Method: TCP}, "raw", true, wire.TCP},
	{"tcp-connect", Config{Method: TCP, Unprivileged: true}, "connect", false, wire.TCP},
	{"tcp-connect-serial", Config{Method: TCP, Unprivileged: true, Serial: true}, "connect", true, wire.TCP},
}

// eachKind runs f for every kind of socket and family, in the client.
func eachKind(t *testing.T, c *chain, f func(t *testing.T, v6 bool, i int)) {
	for i, k := range kinds {
		for _, v6 := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/v6=%v", k.name, v6), func(t *testing.T) {
				c.here(t)
				f(t, v6, i)
			})
		}
	}
}

func open(t *testing.T, dst netip.Addr, cfg Config) Conn {
	t.Helper()
	conn, err := new(Host).Open(t.Context(), dst, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Errorf("closing: %v", err)
		}
	})
	return conn
}

func send(t *testing.T, conn Conn, p wire.Probe) time.Time {
	t.Helper()
	sent, err := conn.Send(p)
	if err != nil {
		t.Fatalf("sending %+v: %v", p, err)
	}
	return sent
}

func recv(t *testing.T, conn Conn) wire.Reply {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	r, err := conn.Recv(ctx)
	if err != nil {
		t.Fatalf("receiving: %v", err)
	}
	return r
}

// hop is what a path test compares.
type hop struct {
	Kind     wire.Kind
	From     netip.Addr
	ReplyTTL int
}

func TestHopsOfKernelRouters(t *testing.T) {
	const routers, wave = 3, 6
	c := newChain(t, routers)
	eachKind(t, c, func(t *testing.T, v6 bool, i int) {
		k := kinds[i]
		dst := c.server(v6)
		conn := open(t, dst, k.cfg)
		wantInfo := Info{
			Protocol: k.proto, Socket: k.socket, Source: labAddr(v6, 0, 1),
			InterfaceMTU: 1500, FlowStable: k.flow,
		}
		info := conn.(Informer).Info()
		if (info.SourcePort != 0) != k.flow {
			t.Errorf("source port %d of a connection with one flow: %v", info.SourcePort, k.flow)
		}
		info.SourcePort = 0
		if diff := cmp.Diff(wantInfo, info, cmp.Comparer(sameAddr)); diff != "" {
			t.Errorf("info (-want +got):\n%s", diff)
		}
		sent := map[uint16]time.Time{}
		for ttl := 1; ttl <= wave; ttl++ {
			sent[uint16(ttl)] = send(t, conn, wire.Probe{Seq: uint16(ttl), TTL: ttl})
		}
		want, got := map[uint16]hop{}, map[uint16]hop{}
		for ttl := 1; ttl <= wave; ttl++ {
			h := hop{wire.TimeExceeded, labAddr(v6, ttl-1, 2), 65 - ttl}
			if ttl > routers {
				h = hop{wire.PortReply, dst, 64 - routers}
				switch {
				case k.proto == wire.ICMP:
					h.Kind = wire.EchoReply
				case k.socket == "connect":
					h.ReplyTTL = 0 // a TCP socket does not tell
				}
			}
			want[uint16(ttl)] = h
		}
		for range wave {
			r := recv(t, conn)
			got[r.Seq] = hop{r.Kind, r.From, r.TTL}
			checkTimes(t, r, sent[r.Seq], k.socket, k.proto)
			if r.Kind == wire.TimeExceeded && r.QuotedLen < 8 {
				t.Errorf("probe %d: %d bytes quoted", r.Seq, r.QuotedLen)
			}
		}
		if diff := cmp.Diff(want, got, cmp.Comparer(sameAddr)); diff != "" {
			t.Errorf("hops (-want +got):\n%s", diff)
		}
	})
}

func sameAddr(a, b netip.Addr) bool { return a == b }

// checkTimes checks that the times are in order, and the kernel's where the
// kernel has them.
func checkTimes(t *testing.T, r wire.Reply, sent time.Time, socket string, proto wire.Protocol) {
	t.Helper()
	if !r.Sent.IsZero() {
		if r.Sent.Before(sent) {
			t.Errorf("probe %d: kernel sent it %v before we did", r.Seq, sent.Sub(r.Sent))
		}
		sent = r.Sent
	}
	if rtt := r.Received.Sub(sent); rtt < 0 || rtt > patience {
		t.Errorf("probe %d: RTT %v", r.Seq, rtt)
	}
	if proto != wire.TCP && r.Sent.IsZero() {
		t.Errorf("probe %d: no transmit stamp from a %s socket", r.Seq, socket)
	}
	if !r.KernelTime && (proto != wire.TCP || r.Kind == wire.TimeExceeded) {
		t.Errorf("probe %d: no kernel time from a %s socket", r.Seq, socket)
	}
}

func TestOpenTCPPortIsArrivalAndIsTimedByTheKernel(t *testing.T) {
	c := newChain(t, 1)
	for _, v6 := range []bool{false, true} {
		var l net.Listener
		c.at(t, 2, func() {
			var err error
			l, err = net.Listen("tcp", netip.AddrPortFrom(c.server(v6), 8080).String())
			must(t, err)
		})
		defer l.Close()
		for _, unprivileged := range []bool{false, true} {
			conn := open(t, c.server(v6), Config{Method: TCP, Port: 8080, Unprivileged: unprivileged})
			sent := send(t, conn, wire.Probe{Seq: 7})
			r := recv(t, conn)
			if r.Seq != 7 || r.Kind != wire.PortReply || r.From != c.server(v6) || !r.KernelTime || r.Received.Before(sent) {
				t.Errorf("v6=%v unprivileged=%v: %+v", v6, unprivileged, r)
			}
		}
	}
}

// A resolver answers a probe to its port with data, not with an error: it has
// been reached all the same (mtr#332).
func TestDataFromTheProbedPortIsArrival(t *testing.T) {
	c := newChain(t, 1)
	for _, unprivileged := range []bool{false, true} {
		for _, v6 := range []bool{false, true} {
			t.Run(fmt.Sprintf("unprivileged=%v/v6=%v", unprivileged, v6), func(t *testing.T) {
				c.here(t)
				var server *net.UDPConn
				c.at(t, 2, func() {
					var err error
					server, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(c.server(v6), 53)))
					must(t, err)
				})
				defer server.Close()
				conn := open(t, c.server(v6), Config{Method: UDP, Port: 53, Unprivileged: unprivileged})
				send(t, conn, wire.Probe{Seq: 3})
				_, from, err := server.ReadFromUDPAddrPort(make([]byte, 2000))
				must(t, err)
				_, err = server.WriteToUDPAddrPort([]byte("no"), from)
				must(t, err)
				r := recv(t, conn)
				if r.Seq != 3 || r.Kind != wire.PortReply || r.From != c.server(v6) {
					t.Errorf("got %+v", r)
				}
			})
		}
	}
}

func TestConcurrentConnsDoNotMix(t *testing.T) {
	c := newChain(t, 1)
	eachKind(t, c, func(t *testing.T, v6 bool, i int) {
		a, b := open(t, c.server(v6), kinds[i].cfg), open(t, c.server(v6), kinds[i].cfg)
		for n := range 5 {
			send(t, a, wire.Probe{Seq: uint16(n), TTL: 1})
			send(t, b, wire.Probe{Seq: uint16(100 + n), TTL: 1})
		}
		for range 5 {
			if r := recv(t, a); r.Seq >= 100 {
				t.Errorf("first conn received the reply to %d", r.Seq)
			}
			if r := recv(t, b); r.Seq < 100 {
				t.Errorf("second conn received the reply to %d", r.Seq)
			}
		}
	})
}

func TestNoRouteIsUnreachable(t *testing.T) {
	newChain(t, 0)
	for _, dst := range []string{"192.0.2.1", "2001:db8:ffff::1"} {
		// The default route is away; the link's own net stays.
		removeDefaultRoutes(t)
		_, err := new(Host).Open(t.Context(), netip.MustParseAddr(dst), Config{})
		if !errors.Is(err, ErrUnreachable) {
			t.Errorf("%s: got %v, want ErrUnreachable", dst, err)
		}
	}
}

func TestOpenRefusesWhatIsNoTarget(t *testing.T) {
	for _, tt := range []struct {
		name string
		dst  string
		cfg  Config
	}{
		{"multicast", "224.0.0.1", Config{}},
		{"unspecified", "::", Config{}},
		{"broadcast", "255.255.255.255", Config{}},
		{"families differ", "192.0.2.1", Config{Source: netip.MustParseAddr("2001:db8::1")}},
		{"no such method", "192.0.2.1", Config{Method: TCP + 1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			conn, err := new(Host).Open(t.Context(), netip.MustParseAddr(tt.dst), tt.cfg)
			if err == nil {
				conn.Close()
				t.Fatal("opened")
			}
		})
	}
	if _, err := new(Host).Open(t.Context(), netip.Addr{}, Config{}); err == nil {
		t.Error("opened without a destination")
	}
}

func TestSourceAndInterface(t *testing.T) {
	c := newChain(t, 1)
	second := netip.MustParseAddr("10.0.0.77")
	addAddress(t, "r0", second.String()+"/24")
	for _, k := range kinds {
		cfg := k.cfg
		cfg.Source, cfg.Interface = second, "r0"
		conn := open(t, c.server(false), cfg)
		if got := conn.(Informer).Info().Source; got != second {
			t.Errorf("%s: source %v, want %v", k.name, got, second)
		}
		send(t, conn, wire.Probe{Seq: 1, TTL: 1})
		if r := recv(t, conn); r.From != labAddr(false, 0, 2) {
			t.Errorf("%s: got %+v", k.name, r)
		}
	}
	if _, err := new(Host).Open(t.Context(), c.server(false), Config{Interface: "none0"}); err == nil {
		t.Error("opened on an interface that does not exist")
	}
}

func TestLinkLocalDestination(t *testing.T) {
	c := newChain(t, 0)
	var peer netip.Addr
	c.at(t, 1, func() { peer = linkLocal(t, "l0") })
	for _, k := range kinds {
		conn := open(t, peer.WithZone("r0"), k.cfg)
		send(t, conn, wire.Probe{Seq: 1})
		if r := recv(t, conn); r.From != peer {
			t.Errorf("%s: got %+v, want a reply from %v", k.name, r, peer)
		}
	}
}
