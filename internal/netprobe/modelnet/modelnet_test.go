package modelnet_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/whyslow/whyslow/internal/netprobe"
	"github.com/whyslow/whyslow/internal/netprobe/modelnet"
	"github.com/whyslow/whyslow/internal/simnet"
	"github.com/whyslow/whyslow/internal/wire"
)

var (
	client4 = netip.MustParseAddr("192.0.2.1")
	client6 = netip.MustParseAddr("2001:db8::1")
	server4 = netip.MustParseAddr("198.51.100.9")
	server6 = netip.MustParseAddr("2001:db8:9::9")
)

// chain is a client, n routers 1 ms apart, and a server.
func chain(n int, change func(i int, r *simnet.Router)) (*simnet.Net, []simnet.NodeID) {
	m := simnet.New(1)
	nodes := []simnet.NodeID{m.AddHost(simnet.Host{Name: "client", Addrs: []netip.Addr{client4, client6}})}
	for i := 1; i <= n; i++ {
		r := simnet.Router{
			Name:  fmt.Sprintf("r%d", i),
			Addr4: netip.AddrFrom4([4]byte{10, 0, byte(i), 1}),
			Addr6: netip.MustParseAddr(fmt.Sprintf("2001:db8:0:%d::1", i)),
		}
		if change != nil {
			change(i, &r)
		}
		nodes = append(nodes, m.AddRouter(r))
	}
	nodes = append(nodes, m.AddHost(simnet.Host{Name: "server", Addrs: []netip.Addr{server4, server6}}))
	for i := range nodes[1:] {
		l := simnet.Link{Delay: time.Millisecond}
		m.Connect(nodes[i], nodes[i+1], l, l)
	}
	return m, nodes
}

func open(t *testing.T, w *modelnet.Network, dst netip.Addr, cfg netprobe.Config) netprobe.Conn {
	t.Helper()
	c, err := w.Open(t.Context(), dst, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func send(t *testing.T, c netprobe.Conn, p wire.Probe) time.Time {
	t.Helper()
	at, err := c.Send(p)
	if err != nil {
		t.Fatalf("Send(%+v): %v", p, err)
	}
	return at
}

// A trace in one burst sees every hop and the destination in exact times.
func TestTrace(t *testing.T) {
	type hop struct {
		Kind      wire.Kind
		From      string
		RTT       time.Duration
		QuotedTTL int
		Code      [2]uint8
	}
	const routers = 3
	tests := []struct {
		name string
		dst  netip.Addr
		cfg  netprobe.Config
		last hop
	}{
		{"icmp4", server4, netprobe.Config{Method: netprobe.ICMP}, hop{wire.EchoReply, "198.51.100.9", 8e6, -1, [2]uint8{0, 0}}},
		{"icmp6", server6, netprobe.Config{}, hop{wire.EchoReply, "2001:db8:9::9", 8e6, -1, [2]uint8{129, 0}}},
		{"udp4", server4, netprobe.Config{Method: netprobe.UDP}, hop{wire.PortReply, "198.51.100.9", 8e6, 1, [2]uint8{3, 3}}},
		{"udp6", server6, netprobe.Config{Method: netprobe.UDP}, hop{wire.PortReply, "2001:db8:9::9", 8e6, 1, [2]uint8{1, 4}}},
		{"udp4 unprivileged", server4, netprobe.Config{Method: netprobe.UDP, Unprivileged: true}, hop{wire.PortReply, "198.51.100.9", 8e6, -1, [2]uint8{3, 3}}},
		{"tcp4 closed", server4, netprobe.Config{Method: netprobe.TCP, Port: 81}, hop{wire.PortReply, "198.51.100.9", 8e6, -1, [2]uint8{0, 0}}},
		{"tcp6 open", server6, netprobe.Config{Method: netprobe.TCP}, hop{wire.PortReply, "2001:db8:9::9", 8e6, -1, [2]uint8{0, 0}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, nodes := chain(routers, nil)
				m.OpenTCP(nodes[len(nodes)-1], 443)
				w := modelnet.New(m, nodes[0])
				defer w.Close()
				c := open(t, w, tt.dst, tt.cfg)
				sent := make(map[uint16]time.Time)
				for ttl := 1; ttl <= routers+1; ttl++ {
					sent[uint16(ttl)] = send(t, c, wire.Probe{Seq: uint16(ttl), TTL: ttl})
				}
				got := make(map[uint16]hop)
				for range sent {
					r, err := c.Recv(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					got[r.Seq] = hop{r.Kind, r.From.String(), r.Received.Sub(sent[r.Seq]), r.QuotedTTL, [2]uint8{r.Type, r.Code}}
				}
				want := map[uint16]hop{routers + 1: tt.last}
				for i := 1; i <= routers; i++ {
					h := hop{wire.TimeExceeded, fmt.Sprintf("10.0.%d.1", i), time.Duration(i) * 2e6, 1, [2]uint8{11, 0}}
					if tt.dst.Is6() {
						h.From, h.Code = fmt.Sprintf("2001:db8:0:%d::1", i), [2]uint8{3, 0}
					}
					if tt.cfg.Unprivileged {
						h.QuotedTTL = -1
					}
					want[uint16(i)] = h
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("replies (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// Large echoes come back in fragments where the way back is narrower, and are
// put together.
func TestFragmentedReply(t *testing.T) {
	for _, dst := range []netip.Addr{server4, server6} {
		t.Run(dst.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, nodes := chain(2, nil)
				m.SetLink(nodes[2], nodes[1], simnet.Link{Delay: time.Millisecond, MTU: 1300})
				w := modelnet.New(m, nodes[0])
				defer w.Close()
				c := open(t, w, dst, netprobe.Config{Method: netprobe.ICMP})
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				for seq := uint16(1); ; seq++ {
					if seq == 4 {
						t.Fatal("no answer to a large echo")
					}
					send(t, c, wire.Probe{Seq: seq, Size: 1500})
					wait, stop := context.WithTimeout(ctx, 100*time.Millisecond)
					r, err := c.Recv(wait)
					stop()
					if errors.Is(err, context.DeadlineExceeded) {
						continue // IPv6: the server learns the path MTU from the first
					}
					if err != nil || r.Kind != wire.EchoReply || r.Seq != seq {
						t.Fatalf("Recv = %+v, %v", r, err)
					}
					if dst.Is4() && seq > 1 {
						t.Errorf("IPv4 took %d echoes", seq)
					}
					return
				}
			})
		})
	}
}

func TestTooBig(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, nodes := chain(2, nil)
		narrow := simnet.Link{MTU: 1400}
		m.SetLink(nodes[2], nodes[3], narrow)
		w := modelnet.New(m, nodes[0])
		defer w.Close()
		c := open(t, w, server4, netprobe.Config{Method: netprobe.ICMP})
		if info := c.(netprobe.Informer).Info(); info.InterfaceMTU != 1500 || info.Source != client4 || !info.FlowStable {
			t.Errorf("Info = %+v", info)
		}
		var tooBig *netprobe.TooBigError
		if _, err := c.Send(wire.Probe{Seq: 1, Size: 1501}); !errors.As(err, &tooBig) || tooBig.MTU != 1500 {
			t.Errorf("Send of 1501 bytes: %v, want a TooBigError of 1500", err)
		}
		send(t, c, wire.Probe{Seq: 2, Size: 1401})
		r, err := c.Recv(t.Context())
		if err != nil || r.Kind != wire.TooBig || r.MTU != 1400 || r.Seq != 2 {
			t.Errorf("Recv = %+v, %v, want too big, 1400", r, err)
		}
		send(t, c, wire.Probe{Seq: 3, Size: 1400})
		if r, err := c.Recv(t.Context()); err != nil || r.Kind != wire.EchoReply || r.Seq != 3 {
			t.Errorf("Recv = %+v, %v, want the echo reply", r, err)
		}
	})
}

func TestOptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, nodes := chain(1, nil)
		w := modelnet.NewWith(m, nodes[0], modelnet.Options{
			Deny: []netprobe.Method{netprobe.ICMP}, InterfaceMTU: 1280, CachedMTU: 552, Unprivileged: true,
		})
		defer w.Close()
		ctx := t.Context()
		if _, err := w.Open(ctx, server4, netprobe.Config{Method: netprobe.ICMP}); !errors.Is(err, netprobe.ErrNotPermitted) {
			t.Errorf("Open with a denied method: %v", err)
		}
		if _, err := w.Open(ctx, server4, netprobe.Config{Source: netip.MustParseAddr("203.0.113.1")}); err == nil {
			t.Error("Open from a foreign address succeeded")
		}
		c := open(t, w, server4, netprobe.Config{})
		want := netprobe.Info{Protocol: wire.UDP, Socket: "model", Source: client4, SourcePort: 40001, InterfaceMTU: 1280, CachedMTU: 552, FlowStable: true}
		if diff := cmp.Diff(want, c.(netprobe.Informer).Info(), cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
			t.Errorf("Info (-want +got):\n%s", diff)
		}
	})
}

// Without raw sockets a UDP quote of 8 bytes does not say which probe it is.
func TestShortQuoteIsUnnumbered(t *testing.T) {
	for _, unprivileged := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			m, nodes := chain(1, func(_ int, r *simnet.Router) { r.Quote = 8 })
			w := modelnet.New(m, nodes[0])
			defer w.Close()
			c := open(t, w, server4, netprobe.Config{Method: netprobe.UDP, Unprivileged: unprivileged})
			send(t, c, wire.Probe{Seq: 7, TTL: 1})
			r, err := c.Recv(t.Context())
			if err != nil || r.Unnumbered != unprivileged || !unprivileged && r.Seq != 7 || r.Kind != wire.TimeExceeded {
				t.Errorf("unprivileged %v: %+v, %v", unprivileged, r, err)
			}
		})
	}
}

func TestUnreachable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := simnet.New(1)
		alone := m.AddHost(simnet.Host{Addrs: []netip.Addr{client4}})
		w := modelnet.New(m, alone)
		defer w.Close()
		for _, dst := range []netip.Addr{server4, server6} {
			if _, err := w.Open(t.Context(), dst, netprobe.Config{}); !errors.Is(err, netprobe.ErrUnreachable) {
				t.Errorf("Open(%v): %v, want ErrUnreachable", dst, err)
			}
		}
	})
}

func TestEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, nodes := chain(1, nil)
		w := modelnet.New(m, nodes[0])
		c := open(t, w, server4, netprobe.Config{})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		send(t, c, wire.Probe{Seq: 1})
		time.Sleep(time.Second) // virtual: the reply is there
		if _, err := c.Recv(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("Recv with an ended context: %v", err)
		}
		if r, err := c.Recv(t.Context()); err != nil || r.Seq != 1 {
			t.Errorf("Recv = %+v, %v", r, err)
		}
		closed := make(chan error)
		go func() {
			_, err := c.Recv(context.Background())
			closed <- err
		}()
		synctest.Wait()
		if err := w.Close(); err != nil {
			t.Error(err)
		}
		if err := <-closed; !errors.Is(err, net.ErrClosed) {
			t.Errorf("Recv on a closed connection: %v", err)
		}
		if _, err := c.Send(wire.Probe{Seq: 2}); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Send on a closed connection: %v", err)
		}
		if _, err := w.Open(t.Context(), server4, netprobe.Config{}); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Open on a closed network: %v", err)
		}
		if err := w.Close(); err != nil {
			t.Errorf("second Close: %v", err)
		}
	})
}

// What concurrent connections receive is their own.
func TestConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, nodes := chain(2, nil)
		w := modelnet.New(m, nodes[0])
		defer w.Close()
		a := open(t, w, server4, netprobe.Config{})
		b := open(t, w, server4, netprobe.Config{})
		send(t, a, wire.Probe{Seq: 1, TTL: 1})
		send(t, b, wire.Probe{Seq: 2})
		time.Sleep(time.Second)
		w.Model(func(n *simnet.Net) {
			if got := n.Stats().Sent; got != 2 {
				t.Errorf("%d packets sent, want 2", got)
			}
		})
		for seq, c := range map[uint16]netprobe.Conn{1: a, 2: b} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if r, err := c.Recv(ctx); err != nil || r.Seq != seq {
				t.Errorf("Recv = %+v, %v, want seq %d", r, err, seq)
			}
			if r, err := c.Recv(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("a second Recv = %+v, %v", r, err)
			}
			cancel()
		}
	})
}
