package netprobe

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/whyslow/whyslow/internal/wire"
)

// serverPorts counts the client ports from which n probes reach the server.
func serverPorts(t *testing.T, c *chain, v6 bool, cfg Config, n int) map[uint16]int {
	t.Helper()
	at := netip.AddrPortFrom(c.server(v6), cfg.Port)
	var from func() netip.AddrPort
	c.at(t, len(c.nodes)-1, func() {
		if cfg.Method == UDP {
			l, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(at))
			must(t, err)
			must(t, l.SetDeadline(time.Now().Add(patience)))
			t.Cleanup(func() { l.Close() })
			from = func() netip.AddrPort {
				_, a, err := l.ReadFromUDPAddrPort(make([]byte, 2000))
				must(t, err)
				return a
			}
			return
		}
		l, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(at))
		must(t, err)
		must(t, l.SetDeadline(time.Now().Add(patience)))
		t.Cleanup(func() { l.Close() })
		from = func() netip.AddrPort {
			a, err := l.Accept()
			must(t, err)
			a.Close()
			return a.RemoteAddr().(*net.TCPAddr).AddrPort()
		}
	})
	conn := open(t, c.server(v6), cfg)
	ports := map[uint16]int{}
	for i := range n {
		send(t, conn, wire.Probe{Seq: uint16(i)})
		ports[from().Port()]++
		if cfg.Method == TCP {
			recv(t, conn)
		}
	}
	return ports
}

// A router that spreads flows sends probes of different ports different ways,
// and the path shown is none (mtr#117).
func TestOneFiveTupleWithoutPrivilege(t *testing.T) {
	c := newChain(t, 1)
	for _, v6 := range []bool{false, true} {
		for _, tt := range []struct {
			cfg  Config
			want int
		}{
			{Config{Method: UDP, Port: 33434, Unprivileged: true}, 1},
			{Config{Method: UDP, Port: 53, Unprivileged: true}, 1},
			{Config{Method: TCP, Port: 8080, Unprivileged: true, Serial: true}, 1},
			{Config{Method: TCP, Port: 8081, Unprivileged: true}, 5},
		} {
			if got := serverPorts(t, c, v6, tt.cfg, 5); len(got) != tt.want {
				t.Errorf("%+v, v6=%v: probes of %d flows, want %d: %v", tt.cfg, v6, len(got), tt.want, got)
			}
		}
	}
}

// A serial connection that gave up on a silent hop used the port still held by
// the SYN before.
func TestSerialGoesOnAfterSilence(t *testing.T) {
	c := newChain(t, 0)
	cfg := Config{Method: TCP, Unprivileged: true, Serial: true}
	conn := open(t, silent(t, c), cfg)
	began := time.Now()
	send(t, conn, wire.Probe{Seq: 1})
	send(t, conn, wire.Probe{Seq: 2})
	if took := time.Since(began); took < synLife || took > synLife+time.Second {
		t.Errorf("the second probe left after %v, want %v", took, synLife)
	}
}

func TestQuoteOfEightBytesNamesNoProbeUnlessOneAloneWaits(t *testing.T) {
	newChain(t, 0)
	for _, v6 := range []bool{false, true} {
		dst := labAddr(v6, 0, 99)
		addNeighbour(t, "r0", dst)
		conn := open(t, dst, Config{Method: UDP, Unprivileged: true})
		flow := flowOf(t, conn)
		send(t, conn, wire.Probe{Seq: 1, TTL: 3})
		forge(t, flow, 1, 8)
		if r := recv(t, conn); r.Unnumbered || r.Seq != 1 || r.QuotedLen != 8 || r.Sent.IsZero() {
			t.Errorf("v6=%v: one probe waits: %+v, want number 1", v6, r)
		}
		forge(t, flow, 1, 8) // now none waits
		sent := send(t, conn, wire.Probe{Seq: 2, TTL: 4})
		send(t, conn, wire.Probe{Seq: 3, TTL: 5})
		forge(t, flow, 3, 8)
		r := recv(t, conn)
		if !r.Unnumbered || r.Kind != wire.PortReply || r.From != dst || r.Received.Before(sent) || !r.KernelTime {
			t.Errorf("v6=%v: two probes wait: %+v, want one without a number", v6, r)
		}
		forge(t, flow, 3, 0) // a whole quote has its number
		if r := recv(t, conn); r.Unnumbered || r.Seq != 3 {
			t.Errorf("v6=%v: %+v, want number 3", v6, r)
		}
		forge(t, flow, 2, 8) // and now one alone waits again
		if r := recv(t, conn); r.Unnumbered || r.Seq != 2 {
			t.Errorf("v6=%v: %+v, want number 2", v6, r)
		}
	}
}

func TestRefusedAndAcceptedAreToldApart(t *testing.T) {
	c := newChain(t, 1)
	for _, v6 := range []bool{false, true} {
		c.at(t, 2, func() {
			l, err := net.Listen("tcp", netip.AddrPortFrom(c.server(v6), 8080).String())
			must(t, err)
			t.Cleanup(func() { l.Close() })
		})
		for _, cfg := range []Config{
			{Method: TCP},
			{Method: TCP, Unprivileged: true},
			{Method: TCP, Unprivileged: true, Serial: true},
		} {
			for port, refused := range map[uint16]bool{8080: false, 8081: true} {
				cfg.Port = port
				conn := open(t, c.server(v6), cfg)
				send(t, conn, wire.Probe{Seq: 1})
				if r := recv(t, conn); r.Kind != wire.PortReply || r.Reset != refused { // mtr#326
					t.Errorf("%+v, v6=%v: %+v", cfg, v6, r)
				}
			}
		}
	}
}
