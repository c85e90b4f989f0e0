package netlab_test

import (
	"context"
	"io"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/whyslow/whyslow/internal/netlab"
	"github.com/whyslow/whyslow/internal/netlab/labtest"
	"github.com/whyslow/whyslow/internal/simnet"
)

var (
	client4 = netip.MustParseAddr("198.51.100.1")
	client6 = netip.MustParseAddr("2001:db8:1::1")
	server4 = netip.MustParseAddr("203.0.113.1")
	server6 = netip.MustParseAddr("2001:db8:2::1")
)

// carriers runs a test over each carrier that the host permits.
func carriers(t *testing.T, f func(*testing.T, netlab.Carrier)) {
	t.Helper()
	labtest.Need(t)
	for _, c := range []netlab.Carrier{netlab.TUN, netlab.Veth} {
		t.Run(c.String(), func(t *testing.T) {
			if c == netlab.TUN {
				needTUN(t)
			}
			f(t, c)
		})
	}
}

// needTUN skips where the host's administrator closed /dev/net/tun to this
// user: veth takes its place, so this hides no missing part.
func needTUN(tb testing.TB) {
	tb.Helper()
	f, err := os.OpenFile("/dev/net/tun", os.O_RDWR, 0)
	if err != nil {
		if os.IsPermission(err) && os.Geteuid() != 0 {
			tb.Skipf("TUN devices are closed to this user: %v", err)
		}
		labtest.Skip(tb, err.Error())
	}
	if err := f.Close(); err != nil {
		tb.Fatal(err)
	}
}

// pair starts a lab of a client, one router and a server.
func pair(tb testing.TB, c netlab.Carrier, link simnet.Link) (*netlab.Lab, *netlab.Namespace) {
	tb.Helper()
	n := simnet.New(1)
	client := n.AddHost(simnet.Host{Name: "client", Addrs: []netip.Addr{client4, client6}})
	router := n.AddRouter(simnet.Router{Name: "r1", Addr4: netip.MustParseAddr("192.0.2.1"), Addr6: netip.MustParseAddr("2001:db8::1")})
	server := n.AddHost(simnet.Host{Name: "server", Addrs: []netip.Addr{server4, server6}})
	n.Connect(client, router, simnet.Link{}, simnet.Link{})
	n.Connect(router, server, link, link)
	lab, err := netlab.New(netlab.Config{
		Net: n, Client: client, Carrier: c,
		Ends: []netlab.End{
			{Node: client, Name: "client", Addrs: []netip.Addr{client4, client6}},
			{Node: server, Name: "server", Addrs: []netip.Addr{server4, server6}},
		},
	})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := lab.Close(); err != nil {
			tb.Error(err)
		}
	})
	return lab, lab.Server(server)
}

// greeter listens in ns and says hello to each connection.
func greeter(t *testing.T, ns *netlab.Namespace, addr netip.Addr) string {
	t.Helper()
	l, err := ns.Listen("tcp", netip.AddrPortFrom(addr, 80).String())
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() {
		_ = l.Close()
		<-done
	})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, "hello")
			_ = c.Close()
		}
	}()
	return l.Addr().String()
}

func TestConnectThroughLab(t *testing.T) {
	carriers(t, func(t *testing.T, c netlab.Carrier) {
		_, ns := pair(t, c, simnet.Link{Delay: 10 * time.Millisecond})
		for _, addr := range []netip.Addr{server4, server6} {
			at := greeter(t, ns, addr)
			start := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			conn, err := new(net.Dialer).DialContext(ctx, "tcp", at)
			if err != nil {
				t.Fatalf("connecting to %s: %v", addr, err)
			}
			if took := time.Since(start); took < 20*time.Millisecond {
				t.Errorf("connecting to %s took %v, less than the path's round trip of 20ms", addr, took)
			}
			got, err := io.ReadAll(conn)
			if err != nil || string(got) != "hello" {
				t.Errorf("read %q, %v", got, err)
			}
			_ = conn.Close()
		}
	})
}
