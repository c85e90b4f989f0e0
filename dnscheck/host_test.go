package dnscheck

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// udpPeer answers each datagram with what reply makes of it.
func udpPeer(t *testing.T, reply func(q []byte) [][]byte) netip.AddrPort {
	t.Helper()
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 4096)
		for {
			n, from, err := c.ReadFrom(buf)
			if err != nil {
				return
			}
			for _, r := range reply(append([]byte(nil), buf[:n]...)) {
				c.WriteTo(r, from)
			}
		}
	}()
	t.Cleanup(func() { c.Close(); <-done })
	return netip.MustParseAddrPort(c.LocalAddr().String())
}

// tcpPeer serves each connection with f.
func tcpPeer(t *testing.T, f func(net.Conn)) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			f(c)
			c.Close()
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return netip.MustParseAddrPort(l.Addr().String())
}

// reply packs an answer to the query q.
func replyTo(t testing.TB, q []byte, edit func(*dns.Msg)) []byte {
	m := new(dns.Msg)
	if err := m.Unpack(q); err != nil {
		t.Error(err)
		return nil
	}
	r := new(dns.Msg).SetReply(m)
	r.RecursionAvailable = true
	rr, _ := dns.NewRR(m.Question[0].Name + " 60 IN A 192.0.2.1")
	r.Answer = []dns.RR{rr}
	if edit != nil {
		edit(r)
	}
	b, err := r.Pack()
	if err != nil {
		t.Error(err)
	}
	return b
}

func exchange(t *testing.T, server netip.AddrPort, tcp bool, limit time.Duration) (*Answer, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	return new(Host).Exchange(ctx, Query{Server: server, Name: "www.example.com", Type: dns.TypeA, TCP: tcp})
}

const long, short = 20 * time.Second, 200 * time.Millisecond

func wantOutcome(t *testing.T, err error, want Outcome) {
	t.Helper()
	var oe *OutcomeError
	if !errors.As(err, &oe) || oe.Outcome != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestHostUDP(t *testing.T) {
	a, err := exchange(t, udpPeer(t, func(q []byte) [][]byte { return [][]byte{replyTo(t, q, nil)} }), false, long)
	if err != nil {
		t.Fatal(err)
	}
	if len(a.Msg.Answer) != 1 || a.Elapsed <= 0 || a.Truncated {
		t.Errorf("answer %+v", a)
	}
}

// miekg/dns#1156: a late reply to an earlier query is no id mismatch, and
// replies to other questions are waited past.
func TestHostWaitsPastOtherReplies(t *testing.T) {
	server := udpPeer(t, func(q []byte) [][]byte {
		otherID := replyTo(t, q, nil)
		otherID[0] ^= 0xff
		otherName := replyTo(t, q, func(m *dns.Msg) { m.Question[0].Name = "evil.example.com." })
		otherType := replyTo(t, q, func(m *dns.Msg) { m.Question[0].Qtype = dns.TypeTXT })
		return [][]byte{otherID, otherName, otherType, q, {1, 2, 3}, replyTo(t, q, nil)}
	})
	a, err := exchange(t, server, false, long)
	if err != nil {
		t.Fatal(err)
	}
	if a.Ignored < 4 {
		t.Errorf("ignored %d replies, want at least 4", a.Ignored)
	}
}

func TestHostOnlyMismatches(t *testing.T) {
	server := udpPeer(t, func(q []byte) [][]byte {
		return [][]byte{replyTo(t, q, func(m *dns.Msg) { m.Question[0].Name = "evil.example.com." })}
	})
	_, err := exchange(t, server, false, short)
	wantOutcome(t, err, Mismatch)
}

// A closed port is known at once, not after the wait.
func TestHostRefused(t *testing.T) {
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := netip.MustParseAddrPort(c.LocalAddr().String())
	c.Close()
	began := time.Now()
	_, err = exchange(t, server, false, long)
	wantOutcome(t, err, Refused)
	if d := time.Since(began); d > long/2 {
		t.Errorf("took %v", d)
	}
	_, err = exchange(t, server, true, long)
	wantOutcome(t, err, Refused)
	if oe := asOutcome(err); oe == nil || oe.Connect <= 0 {
		t.Errorf("a refused handshake measures the way too: %+v", oe)
	}
}

func TestHostTimeout(t *testing.T) {
	server := udpPeer(t, func([]byte) [][]byte { return nil })
	_, err := exchange(t, server, false, short)
	wantOutcome(t, err, Timeout)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = new(Host).Exchange(ctx, Query{Server: server, Name: "a.example", Type: dns.TypeA})
	wantOutcome(t, err, Interrupted)
}

func TestHostUnreachable(t *testing.T) {
	h := &Host{Source: netip.MustParseAddr("192.0.2.99")} // not ours
	_, err := h.Exchange(t.Context(), Query{Server: netip.MustParseAddrPort("127.0.0.1:53"), Name: "a.example", Type: dns.TypeA})
	wantOutcome(t, err, Unreachable)
}

// A source address of one family does not keep servers of the other from being
// asked.
func TestHostSourceOfTheOtherFamily(t *testing.T) {
	server := udpPeer(t, func(q []byte) [][]byte { return [][]byte{replyTo(t, q, func(*dns.Msg) {})} })
	h := &Host{Source: netip.MustParseAddr("2001:db8::99")}
	if _, err := h.Exchange(t.Context(), Query{Server: server, Name: "a.example", Type: dns.TypeA}); err != nil {
		t.Error(err)
	}
}

// TC is looked at before the records: a datagram cut inside one still says so,
// and so does one cut without TC (zdns#255).
func TestHostTruncated(t *testing.T) {
	for name, tc := range map[string]bool{"TC, cut inside a record": true, "cut without TC": false} {
		t.Run(name, func(t *testing.T) {
			server := udpPeer(t, func(q []byte) [][]byte {
				b := replyTo(t, q, func(m *dns.Msg) {
					m.Truncated, m.Compress = tc, true
					m.Answer = append(m.Answer, m.Answer[0])
				})
				return [][]byte{b[:len(b)-7]}
			})
			a, err := exchange(t, server, false, long)
			if err != nil {
				t.Fatal(err)
			}
			if !a.Truncated || len(a.Msg.Answer) != 1 {
				t.Errorf("truncated %v with %d records, want true and the one before the cut", a.Truncated, len(a.Msg.Answer))
			}
		})
	}
}

// An answer whose name points to itself ends in a clear outcome.
func TestHostCompressionLoop(t *testing.T) {
	server := udpPeer(t, func(q []byte) [][]byte { return [][]byte{compressionLoop(t, q)} })
	_, err := exchange(t, server, false, long)
	wantOutcome(t, err, Malformed)
}

func compressionLoop(t testing.TB, q []byte) []byte {
	b := replyTo(t, q, func(m *dns.Msg) { m.Answer = nil })
	b[7] = 1
	at := len(b)
	return append(b, 0xc0|byte(at>>8), byte(at), 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, 1, 2, 3, 4)
}

// nmap#103: a PTR set too large for UDP comes whole over TCP.
func TestHostTCP(t *testing.T) {
	server := tcpPeer(t, func(c net.Conn) {
		q := readFrame(c)
		b := replyTo(t, q, func(m *dns.Msg) {
			for range 300 {
				m.Answer = append(m.Answer, m.Answer[0])
			}
		})
		c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(b))), b...))
	})
	a, err := exchange(t, server, true, long)
	if err != nil {
		t.Fatal(err)
	}
	if len(a.Msg.Answer) != 301 || a.Connect <= 0 || a.Elapsed < a.Connect {
		t.Errorf("%d records, connect %v of %v", len(a.Msg.Answer), a.Connect, a.Elapsed)
	}
}

func readFrame(c net.Conn) []byte {
	var size [2]byte
	if _, err := io.ReadFull(c, size[:]); err != nil {
		return nil
	}
	b := make([]byte, binary.BigEndian.Uint16(size[:]))
	io.ReadFull(c, b)
	return b
}

func TestHostTCPFailures(t *testing.T) {
	hangUp := tcpPeer(t, func(c net.Conn) { readFrame(c) })
	_, err := exchange(t, hangUp, true, long)
	wantOutcome(t, err, Closed)

	hold := make(chan struct{})
	silent := tcpPeer(t, func(c net.Conn) { <-hold })
	t.Cleanup(func() { close(hold) })
	_, err = exchange(t, silent, true, short)
	wantOutcome(t, err, Timeout)

	other := tcpPeer(t, func(c net.Conn) {
		q := readFrame(c)
		b := replyTo(t, q, func(m *dns.Msg) { m.Id++ })
		for range 100 {
			if _, err := c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(b))), b...)); err != nil {
				return
			}
		}
	})
	_, err = exchange(t, other, true, long)
	var oe *OutcomeError
	if !errors.As(err, &oe) {
		t.Errorf("got %v", err)
	}
}

// A late answer to the first query serves the second one on the same flow and
// id, as in glibc, which keeps its socket.
func TestFlowKeepsLateAnswer(t *testing.T) {
	release := make(chan struct{})
	n := 0
	server := udpPeer(t, func(q []byte) [][]byte {
		if n++; n > 1 {
			return nil // only the first query is ever answered
		}
		<-release
		return [][]byte{replyTo(t, q, nil)}
	})
	flow := new(Flow)
	defer flow.Close()
	q := Query{Server: server, Name: "www.example.com", Type: dns.TypeA, ID: 4711, Flow: flow}
	ctx, cancel := context.WithTimeout(t.Context(), short)
	defer cancel()
	_, err := new(Host).Exchange(ctx, q)
	wantOutcome(t, err, Timeout)
	close(release)
	ctx, cancel = context.WithTimeout(t.Context(), long)
	defer cancel()
	if _, err := new(Host).Exchange(ctx, q); err != nil {
		t.Errorf("the late answer was not taken: %v", err)
	}
}

// miekg/dns#36: many queries share one socket instead of exhausting them.
func TestFlowSharesSocket(t *testing.T) {
	ports := map[string]bool{}
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 512)
		for range 20 {
			n, from, err := c.ReadFrom(buf)
			if err != nil {
				return
			}
			ports[from.String()] = true
			c.WriteTo(replyTo(t, buf[:n], nil), from)
		}
	}()
	flow := new(Flow)
	defer flow.Close()
	for range 20 {
		ctx, cancel := context.WithTimeout(t.Context(), long)
		_, err := new(Host).Exchange(ctx, Query{Server: netip.MustParseAddrPort(c.LocalAddr().String()), Name: "a.example", Type: dns.TypeA, Flow: flow})
		cancel()
		if err != nil {
			t.Fatal(err)
		}
	}
	<-done
	if len(ports) != 1 {
		t.Errorf("20 queries on one flow left from %d ports", len(ports))
	}
}

func FuzzReadReply(f *testing.F) {
	q := Query{Name: "www.example.com", Type: dns.TypeA, ID: 7}
	query, err := packQuery(&q)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(query)
	f.Add(replyTo(f, query, nil))
	f.Add(compressionLoop(f, query))
	f.Add(replyTo(f, query, func(m *dns.Msg) { m.Truncated = true; m.SetEdns0(1232, true) }))
	f.Add(replyTo(f, query, func(m *dns.Msg) {
		m.Answer = []dns.RR{&dns.CNAME{Hdr: dns.RR_Header{Name: "www.example.com.", Rrtype: dns.TypeCNAME, Class: 1}, Target: "www.example.com."}}
	}))
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := readReply(q, b)
		if err != nil {
			return
		}
		m := a.Msg
		if m.Id != q.ID || !m.Response || len(m.Answer)+len(m.Ns)+len(m.Extra) > maxRecords {
			t.Errorf("accepted %+v", m.MsgHdr)
		}
		addrs, chain := follow(q.Name, m.Answer)
		if len(chain) > maxChain {
			t.Errorf("chain of %d", len(chain))
		}
		for _, x := range addrs {
			if !x.IsValid() {
				t.Error("invalid address")
			}
		}
		_, _, _ = ede(m), minTTL(m.Answer), soaZone(m)
	})
}
