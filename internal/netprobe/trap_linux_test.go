package netprobe

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/whyslow/whyslow/internal/wire"
	"golang.org/x/sys/unix"
)

// traceroute showed a destination at hop 13 of 12 that way.
func TestQueuedErrorDoesNotLoseNextProbe(t *testing.T) {
	for _, f := range []*family{family4, family6} {
		t.Run(f.name, func(t *testing.T) {
			s, closedPort, server := refusedSocket(t, f)
			to, err := sockaddr(f.loopback(), closedPort)
			must(t, err)
			attempts := 0
			before := func() { attempts++ }
			never := func() bool { return false }
			must(t, s.send([]byte("draws an error"), nil, to, before, never))
			waitPending(t, s)
			to, err = sockaddr(f.loopback(), uint16(server.LocalAddr().(*net.UDPAddr).Port))
			must(t, err)
			must(t, s.send([]byte("next"), nil, to, before, never))
			if attempts != 3 {
				t.Errorf("%d attempts to send 2 packets; want 3: no error was in the way", attempts)
			}
			must(t, server.SetReadDeadline(time.Now().Add(patience)))
			b := make([]byte, 100)
			n, _, err := server.ReadFrom(b)
			if err != nil || string(b[:n]) != "next" {
				t.Errorf("server got %q, %v", b[:n], err)
			}
			must(t, s.control(func(fd int) error {
				m, err := newReader(f).read(fd, unix.MSG_ERRQUEUE)
				if err != nil || m.offender != f.loopback() {
					t.Errorf("the queued error is gone: %+v, %v", m, err)
				}
				return nil
			}))
		})
	}
}

// refusedSocket returns a socket with an error queue and nobody who reads it,
// a port that refuses, and a server.
func refusedSocket(t *testing.T, f *family) (*sock, uint16, *net.UDPConn) {
	t.Helper()
	at := netip.AddrPortFrom(f.loopback(), 0)
	server, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(at))
	if err != nil {
		unavailable(t, "no %s loopback: %v", f.name, err)
	}
	t.Cleanup(func() { server.Close() })
	gone, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(at))
	must(t, err)
	port := uint16(gone.LocalAddr().(*net.UDPAddr).Port)
	must(t, gone.Close())
	s, err := withSocket(t.Context(), f, unix.SOCK_DGRAM, 0, "test", func(fd int) error {
		return setOptions(fd, f.errorOptions()...)
	})
	must(t, err)
	t.Cleanup(func() { s.close() })
	return s, port, server
}

func waitPending(t *testing.T, s *sock) {
	t.Helper()
	must(t, s.control(func(fd int) error {
		p := []unix.PollFd{{Fd: int32(fd)}} // POLLERR is always reported
		n, err := unix.Poll(p, int(patience/time.Millisecond))
		if err == nil && n == 0 {
			err = errors.New("no error arrived")
		}
		return err
	}))
}

func TestBurstOverErrorsLosesNothing(t *testing.T) {
	c := newChain(t, 1)
	eachKind(t, c, func(t *testing.T, v6 bool, i int) {
		const burst = 40
		conn := open(t, c.server(v6), kinds[i].cfg)
		for n := range burst { // every other one draws an error at once
			send(t, conn, wire.Probe{Seq: uint16(n), TTL: 1 + n%2})
		}
		got := map[uint16]bool{}
		for range burst {
			got[recv(t, conn).Seq] = true
		}
		if len(got) != burst {
			t.Errorf("%d of %d probes answered", len(got), burst)
		}
	})
}

// A port unreachable for somebody else's datagram was taken for arrival by mtr
// (mtr#375).
// Sockets that are connected are left out: the kernel hands them errors about
// their own 4-tuple only.
func TestForeignPortUnreachableIsNotAdopted(t *testing.T) {
	c := newChain(t, 1)
	eachKind(t, c, func(t *testing.T, v6 bool, i int) {
		k := kinds[i]
		conn := open(t, c.server(v6), k.cfg)
		if _, connected := conn.(*swarmConn); connected {
			return
		}
		flow := flowOf(t, conn)
		const ours = 5
		send(t, conn, wire.Probe{Seq: ours, TTL: 9})
		recv(t, conn)
		forge(t, flow, ours, 0)
		if r := recv(t, conn); r.Seq != ours || r.From != flow.Dst {
			t.Fatalf("an error about our own probe gave %+v; the test tests nothing", r)
		}
		otherDst, otherFlow := flow, flow
		otherDst.Dst = labAddr(v6, 1, 1)
		otherFlow.SrcPort++
		forge(t, otherDst, ours, 0)
		forge(t, otherFlow, ours, 0)
		if flow.Proto == wire.UDP { // the same ports, another payload
			forgeWith(t, otherDst, ours, 0, flow.Dst)
		}
		forge(t, flow, 77, 0) // a probe that was never sent
		forge(t, flow, 78, 8) // the same in a short quote
		// Everything comes in order: the next reply is the next probe's.
		send(t, conn, wire.Probe{Seq: 6, TTL: 1})
		if r := recv(t, conn); r.Seq != 6 {
			t.Errorf("adopted a foreign error: %+v", r)
		}
	})
}

// forge sends ourselves a port unreachable from the destination that quotes a
// probe of flow, up to quote bytes of it.
func forge(t *testing.T, flow wire.Flow, seq uint16, quote int) {
	t.Helper()
	forgeWith(t, flow, seq, quote, flow.Dst)
}

// forgeWith is forge with the quoted destination address replaced.
func forgeWith(t *testing.T, flow wire.Flow, seq uint16, quote int, dst netip.Addr) {
	t.Helper()
	pkt, err := wire.Build(nil, flow, wire.Probe{Seq: seq})
	must(t, err)
	if dst.Is4() {
		a := dst.As4()
		copy(pkt[16:], a[:])
	} else {
		a := dst.As16()
		copy(pkt[24:], a[:])
	}
	msg, err := wire.ErrorFor(nil, pkt, wire.Message{From: dst, Kind: wire.Unreachable, Reason: wire.NoPort, Quote: quote})
	must(t, err)
	fd, err := familyOf(flow.Src).socket(unix.SOCK_RAW, unix.IPPROTO_RAW)
	must(t, err)
	defer unix.Close(fd)
	to, err := sockaddr(flow.Src, 0)
	must(t, err)
	must(t, unix.Sendto(fd, msg, 0, to))
}

func flowOf(t *testing.T, conn Conn) wire.Flow {
	t.Helper()
	switch c := conn.(type) {
	case *datagramConn:
		return c.flow
	case *rawConn:
		return c.flow
	case *swarmConn:
		return c.flow
	}
	t.Fatalf("unknown %T", conn)
	return wire.Flow{}
}

func TestTooBigForTheInterface(t *testing.T) {
	c := newChain(t, 1)
	eachKind(t, c, func(t *testing.T, v6 bool, i int) {
		k := kinds[i]
		if k.socket == "connect" {
			return // a SYN has the size the kernel gives it
		}
		conn := open(t, c.server(v6), k.cfg)
		sizes := []int{1501, 9000}
		if k.proto != wire.TCP {
			sizes = append(sizes, 65535)
		}
		for _, size := range sizes {
			_, err := conn.Send(wire.Probe{Seq: 1, Size: size})
			var big *TooBigError
			if !errors.As(err, &big) || big.MTU != 1500 {
				t.Errorf("size %d: got %v, want *TooBigError with 1500", size, err)
			}
		}
		send(t, conn, wire.Probe{Seq: 2, Size: 1500})
		if r := recv(t, conn); r.Seq != 2 || r.Kind != wire.PortReply && r.Kind != wire.EchoReply {
			t.Errorf("got %+v", r)
		}
	})
}

func TestCachedMTUDoesNotShrinkProbes(t *testing.T) {
	c := newChain(t, 2)
	c.setMTU(t, 1, 1400)
	eachKind(t, c, func(t *testing.T, v6 bool, i int) {
		k := kinds[i]
		if k.proto == wire.TCP {
			return // a SYN is small
		}
		conn := open(t, c.server(v6), k.cfg)
		for n := range uint16(3) { // the first fills the kernel's cache
			send(t, conn, wire.Probe{Seq: n, Size: 1500})
			r := recv(t, conn)
			if r.Seq != n || r.Kind != wire.TooBig || r.MTU != 1400 || r.From != labAddr(v6, 0, 2) {
				t.Errorf("probe %d: %+v, want too big, 1400, from the router", n, r)
			}
		}
		send(t, conn, wire.Probe{Seq: 9, Size: 1400})
		if r := recv(t, conn); r.Seq != 9 || r.Kind == wire.TooBig {
			t.Errorf("a probe of 1400 bytes: %+v", r)
		}
		info := open(t, c.server(v6), k.cfg).(Informer).Info()
		if info.InterfaceMTU != 1500 || info.CachedMTU != 1400 && k.socket != "raw" {
			t.Errorf("interface %d, cached %d; want 1500, 1400", info.InterfaceMTU, info.CachedMTU)
		}
	})
}

func TestRecvWakes(t *testing.T) {
	c := newChain(t, 0)
	eachKind(t, c, func(t *testing.T, v6 bool, i int) {
		conn := open(t, c.server(v6), kinds[i].cfg)
		ctx, cancel := context.WithCancel(t.Context())
		got := make(chan error, 1)
		go func() {
			_, err := conn.Recv(ctx)
			got <- err
		}()
		cancel()
		if err := <-got; !errors.Is(err, context.Canceled) {
			t.Errorf("after the context ended: %v", err)
		}
		send(t, conn, wire.Probe{Seq: 1})
		if _, err := conn.Recv(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("with a context that had ended: %v", err)
		}
		recv(t, conn)
		go func() {
			_, err := conn.Recv(t.Context())
			got <- err
		}()
		must(t, conn.Close())
		if err := <-got; !errors.Is(err, net.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
		if _, err := conn.Send(wire.Probe{Seq: 2}); !errors.Is(err, net.ErrClosed) {
			t.Errorf("sending after Close: %v", err)
		}
		must(t, conn.Close())
	})
}

func TestDescriptorsAreBoundedAndReturned(t *testing.T) {
	c := newChain(t, 0)
	atStart := descriptors(t)
	conn, err := new(Host).Open(t.Context(), silent(t, c), Config{Method: TCP, Unprivileged: true})
	must(t, err)
	for n := range swarmSize + 10 {
		send(t, conn, wire.Probe{Seq: uint16(n)})
		if open := descriptors(t) - atStart; open > swarmSize+10 {
			t.Fatalf("%d descriptors after %d probes", open, n)
		}
	}
	must(t, conn.Close())
	if left := descriptors(t) - atStart; left > 0 {
		t.Errorf("%d descriptors left after Close", left)
	}
}

// silent returns an address that nobody answers for, nor soon says so.
func silent(t *testing.T, c *chain) netip.Addr {
	t.Helper()
	a := labAddr(false, 0, 99)
	addNeighbour(t, "r0", a)
	return a
}

func descriptors(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	return len(list)
}

func TestPrivilegeIsNotUsedWhenForbidden(t *testing.T) {
	c := newChainWithoutPing(t, 0)
	conn := open(t, c.server(false), Config{Unprivileged: true})
	if info := conn.(Informer).Info(); info.Socket != "recverr" || info.Protocol != wire.UDP {
		t.Errorf("auto without ping sockets took %+v", info)
	}
	_, err := new(Host).Open(t.Context(), c.server(true), Config{Method: ICMP, Unprivileged: true})
	if !errors.Is(err, ErrNotPermitted) {
		t.Errorf("got %v, want ErrNotPermitted", err)
	}
	allowPing(t)
	conn = open(t, c.server(false), Config{Unprivileged: true})
	if got := conn.(Informer).Info().Socket; got != "ping" {
		t.Errorf("auto took %q, want ping", got)
	}
	conn = open(t, c.server(false), Config{})
	if got := conn.(Informer).Info().Socket; got != "raw" {
		t.Errorf("auto took %q, want raw", got)
	}
}

// The copies that transmit stamps bring back of 64 KiB probes filled the
// receive buffer, and answers were dropped.
func TestLargeProbesGoWithoutTransmitStamp(t *testing.T) {
	newChain(t, 0)
	for _, k := range kinds {
		if k.proto == wire.TCP {
			continue
		}
		for _, f := range []*family{family4, family6} {
			conn := open(t, f.loopback(), k.cfg)
			for seq, size := range map[uint16]int{1: 1500, 2: 65000} {
				send(t, conn, wire.Probe{Seq: seq, Size: size})
				if r := recv(t, conn); r.Seq != seq || r.Sent.IsZero() != (size > stampedSize) {
					t.Errorf("%s, %s, %d bytes: %+v", k.name, f.name, size, r)
				}
			}
		}
	}
}
