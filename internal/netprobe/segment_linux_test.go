package netprobe

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"github.com/whyslow/whyslow/internal/wire"
	"golang.org/x/sys/unix"
)

// accept has the server take connections on a port and read what comes.
func accept(t *testing.T, c *chain, v6 bool, port uint16) {
	t.Helper()
	c.at(t, len(c.nodes)-1, func() {
		l, err := net.Listen("tcp", netip.AddrPortFrom(c.server(v6), port).String())
		must(t, err)
		t.Cleanup(func() { l.Close() })
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				go func() {
					_, _ = io.Copy(io.Discard, conn)
					conn.Close()
				}()
			}
		}()
	})
}

// setEnd sets the MTU of one end of a link.
func (c *chain) setEnd(t *testing.T, node int, link string, mtu int) {
	t.Helper()
	c.at(t, node, func() {
		l, err := netlink.LinkByName(link)
		must(t, err)
		must(t, netlink.LinkSetMTU(l, mtu))
	})
}

func TestSegmentsHaveTheSizeAskedFor(t *testing.T) {
	c := newChain(t, 1)
	for _, v6 := range []bool{false, true} {
		for _, port := range []uint16{8080, 8443} {
			t.Run(fmt.Sprintf("v6=%v/port=%d", v6, port), func(t *testing.T) {
				c.here(t)
				accept(t, c, v6, port)
				conn := open(t, c.server(v6), Config{Method: TCP, Port: port, Segments: true})
				wire4 := newCapture(t, "r0")
				sizes := []int{100, 576, 1280, 1399, 1400, 1499, 1500, 1500, 1500, 1500, 1500, 1500}
				sent := map[uint16]time.Time{}
				for i, size := range sizes {
					sent[uint16(i)] = send(t, conn, wire.Probe{Seq: uint16(i), Size: size})
				}
				want, got := map[int]int{}, map[int]int{}
				for _, size := range sizes {
					want[size]++
				}
				for range sizes {
					r := recv(t, conn)
					if r.Kind != wire.PortReply || r.From != c.server(v6) {
						t.Errorf("got %+v", r)
					}
					checkTimes(t, r, sent[r.Seq], "connect", wire.UDP) // stamped like UDP
				}
				for {
					p, ok := wire4.next(t, true)
					if !ok {
						break
					}
					if n := len(p.data) - ipLen(p.data); p.out && n > 32 && protocolOf(p.data) == unix.IPPROTO_TCP && p.data[ipLen(p.data)+13]&2 == 0 {
						got[len(p.data)]++
						if p.data[0]>>4 == 4 && p.data[6]&0x40 == 0 {
							t.Error("a segment without DF")
						}
					}
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("packets by size (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// What TCP finds out about a path whose routers tell, whose routers do not,
// and whose destination takes less than the path carries.
func TestSegmentsFindWhatPasses(t *testing.T) {
	type outcome struct {
		Kind wire.Kind // 0: silence
		MTU  int
	}
	for _, v6 := range []bool{false, true} {
		for _, tt := range []struct {
			name    string
			narrow  func(t *testing.T, c *chain)
			largest int
			want    map[int]outcome
		}{
			{"told", func(t *testing.T, c *chain) { c.setMTU(t, 1, 1400) }, 0,
				map[int]outcome{1400: {wire.PortReply, 0}, 1401: {wire.TooBig, 1400}, 1500: {wire.TooBig, 1400}}},
			// A veth end takes 4 bytes more than its MTU, for a VLAN tag.
			{"black hole", func(t *testing.T, c *chain) { c.setEnd(t, 2, "l1", 1396) }, 0,
				map[int]outcome{1400: {wire.PortReply, 0}, 1401: {0, 0}, 1500: {0, 0}}},
			{"the server's MSS", func(t *testing.T, c *chain) { c.setEnd(t, 3, "l2", 1300) }, 1300,
				map[int]outcome{1299: {wire.PortReply, 0}, 1300: {wire.PortReply, 0}}},
		} {
			t.Run(fmt.Sprintf("%s/v6=%v", tt.name, v6), func(t *testing.T) {
				c := newChain(t, 2)
				accept(t, c, v6, 8080)
				tt.narrow(t, c)
				conn := open(t, c.server(v6), Config{Method: TCP, Port: 8080, Segments: true, Unprivileged: true})
				if info := conn.(Informer).Info(); info.Largest != tt.largest || info.InterfaceMTU != 1500 {
					t.Errorf("info %+v, want largest %d", info, tt.largest)
				}
				got := map[int]outcome{}
				for size := range tt.want {
					send(t, conn, wire.Probe{Seq: uint16(size), Size: size})
					got[size] = outcome{}
				}
				ctx, cancel := context.WithTimeout(t.Context(), segmentLife+500*time.Millisecond)
				defer cancel()
				for range tt.want {
					r, err := conn.Recv(ctx)
					if err != nil {
						break
					}
					got[int(r.Seq)] = outcome{r.Kind, r.MTU}
				}
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("outcomes (-want +got):\n%s", diff)
				}
				var big *TooBigError
				if _, err := conn.Send(wire.Probe{Seq: 9, Size: 1501}); !errors.As(err, &big) {
					t.Errorf("1501 bytes: %v", err)
				}
			})
		}
	}
}

func TestSegmentsToAPortThatRefuses(t *testing.T) {
	c := newChain(t, 0)
	before := descriptors(t)
	_, err := new(Host).Open(t.Context(), c.server(false), Config{Method: TCP, Port: 8081, Segments: true})
	if !errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("got %v, want ECONNREFUSED", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = new(Host).Open(ctx, silent(t, c), Config{Method: TCP, Segments: true})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want the deadline", err)
	}
	if left := descriptors(t) - before; left > 0 {
		t.Errorf("%d descriptors left", left)
	}
}

func TestSegmentConnectionsAreFewAndReturned(t *testing.T) {
	c := newChain(t, 0)
	accept(t, c, false, 8080)
	before := descriptors(t)
	conn, err := new(Host).Open(t.Context(), c.server(false), Config{Method: TCP, Port: 8080, Segments: true})
	must(t, err)
	for i := range uint16(20) {
		send(t, conn, wire.Probe{Seq: i, Size: 600})
		// The server's ends are descriptors of this process too, and it closes
		// them when it comes to it.
		most := before + 2*segmentsAtOnce + segmentsAtOnce
		for end := time.Now().Add(patience); descriptors(t) > most; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%d descriptors", descriptors(t)-before)
			}
		}
	}
	must(t, conn.Close())
	if _, err := conn.Send(wire.Probe{Seq: 30, Size: 600}); !errors.Is(err, net.ErrClosed) {
		t.Errorf("sending after Close: %v", err)
	}
	for end := time.Now().Add(patience); descriptors(t) > before; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d descriptors left", descriptors(t)-before)
		}
	}
}

// An acknowledgement of pieces was taken for one of the whole.
func TestSegmentInPiecesHasNotPassed(t *testing.T) {
	const n = 1448
	whole := unix.TCPInfo{State: stateEstablished, Snd_mss: n, Data_segs_out: 1, Bytes_acked: n + 1}
	for _, tt := range []struct {
		name   string
		change func(*unix.TCPInfo)
		want   segmentVerdict
	}{
		{"acknowledged", func(*unix.TCPInfo) {}, segmentPassed},
		{"not yet written", func(i *unix.TCPInfo) { i.Data_segs_out, i.Bytes_acked = 0, 1 }, segmentWaits},
		{"under way", func(i *unix.TCPInfo) { i.Unacked, i.Bytes_acked = 1, 1 }, segmentWaits},
		{"repeated whole", func(i *unix.TCPInfo) { i.Total_retrans, i.Data_segs_out = 1, 2 }, segmentPassed},
		{"repeated in pieces", func(i *unix.TCPInfo) { i.Total_retrans, i.Data_segs_out, i.Snd_mss = 2, 3, 1000 }, segmentSplit},
		{"sent in pieces", func(i *unix.TCPInfo) { i.Data_segs_out = 2 }, segmentSplit},
		{"refused by the route", func(i *unix.TCPInfo) { i.Notsent_bytes, i.Bytes_acked = n, 1 }, segmentSplit},
		{"reset", func(i *unix.TCPInfo) { i.State, i.Unacked, i.Bytes_acked = 7, 1, 1 }, segmentLost},
		{"acknowledged, then reset", func(i *unix.TCPInfo) { i.State = 7 }, segmentPassed},
	} {
		info := whole
		tt.change(&info)
		if got := verdictOf(&info, n); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// What a server receives must look like a client that is about to go on.
func TestOpeningIsAValidBeginning(t *testing.T) {
	dst := netip.MustParseAddr("2001:db8::1")
	for _, n := range []int{1, 5, 40, 100, 300, 1448, 8948, 16300, 17000, 32000, 65000} {
		plain, hello := opening(dst, 80, n), opening(dst, 443, n)
		if len(plain) != n || len(hello) != n {
			t.Fatalf("%d and %d bytes, want %d", len(plain), len(hello), n)
		}
		req, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(append(bytes.Clone(plain), "\r\n\r\n"...))))
		if n > 100 && (err != nil || req.Method != "GET" || req.Host != "[2001:db8::1]:80") {
			t.Errorf("%d bytes as a request: %v, %v", n, req, err)
		}
		// A TLS server finds nothing wrong but that the rest is missing.
		client, server := net.Pipe()
		done := make(chan error, 1)
		go func() { done <- tls.Server(server, &tls.Config{}).Handshake() }()
		_, werr := client.Write(hello)
		client.Close()
		if err := <-done; !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) || werr != nil {
			t.Errorf("%d bytes as a ClientHello: %v, %v", n, err, werr)
		}
		server.Close()
	}
	if host := strings.SplitN(string(opening(dst.WithZone("eth0"), 80, 200)), "\r\n", 3)[1]; strings.Contains(host, "eth0") {
		t.Errorf("a zone is nobody else's business: %q", host)
	}
}
