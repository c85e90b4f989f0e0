package simnet_test

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/whyslow/whyslow/internal/simnet"
	"github.com/whyslow/whyslow/internal/wire"
)

var (
	client4 = netip.MustParseAddr("192.0.2.1")
	client6 = netip.MustParseAddr("2001:db8::1")
	server4 = netip.MustParseAddr("198.51.100.9")
	server6 = netip.MustParseAddr("2001:db8:9::9")
	epoch   = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
)

const ms = time.Millisecond

func router4(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, byte(i), 1}) }
func router6(i int) netip.Addr { return netip.MustParseAddr(fmt.Sprintf("2001:db8:0:%x::1", i)) }

func flow(p wire.Protocol, v6 bool) wire.Flow {
	f := wire.Flow{Proto: p, Src: client4, Dst: server4, SrcPort: 40001, DstPort: 33434}
	if v6 {
		f.Src, f.Dst = client6, server6
	}
	return f
}

// arrival is a packet that reached a host with a real stack.
type arrival struct {
	at  time.Duration // since epoch
	pkt []byte
}

// bench is a client, routers and a server with 1 ms between neighbours, all
// but the server's stack being the test's.
type bench struct {
	*simnet.Net
	t   *testing.T
	ids []simnet.NodeID // client, routers, server
	got []arrival       // at the client
	now time.Duration
}

// newBench makes a bench; change may alter router i (from 1) before it is added.
func newBench(t *testing.T, routers int, change func(i int, r *simnet.Router)) *bench {
	b := &bench{t: t, Net: simnet.New(7)}
	b.ids = append(b.ids, b.AddHost(simnet.Host{Name: "client", Addrs: []netip.Addr{client4, client6}}))
	for i := 1; i <= routers; i++ {
		r := simnet.Router{Name: fmt.Sprintf("r%d", i), Addr4: router4(i), Addr6: router6(i)}
		if change != nil {
			change(i, &r)
		}
		b.ids = append(b.ids, b.AddRouter(r))
	}
	b.ids = append(b.ids, b.AddHost(simnet.Host{Name: "server", Addrs: []netip.Addr{server4, server6}}))
	for i := range b.ids[1:] {
		b.link(i, simnet.Link{Delay: ms})
	}
	b.Attach(b.ids[0], func(now time.Time, pkt []byte) {
		b.got = append(b.got, arrival{now.Sub(epoch), append([]byte(nil), pkt...)})
	})
	return b
}

// client and server are the ends.
func (b *bench) client() simnet.NodeID { return b.ids[0] }
func (b *bench) server() simnet.NodeID { return b.ids[len(b.ids)-1] }

// link gives the link between node i and the next both ways the same values.
func (b *bench) link(i int, l simnet.Link) { b.Connect(b.ids[i], b.ids[i+1], l, l) }

// send sends a probe from the client.
func (b *bench) send(f wire.Flow, p wire.Probe) {
	b.t.Helper()
	pkt, err := wire.Build(nil, f, p)
	if err != nil {
		b.t.Fatal(err)
	}
	b.Send(b.client(), epoch.Add(b.now), pkt)
}

// run lets d pass and returns what reached the client.
func (b *bench) run(d time.Duration) []arrival {
	b.now += d
	b.Run(epoch.Add(b.now))
	got := b.got
	b.got = nil
	return got
}

// answer is a reply without what the tests never look at.
type answer struct {
	Seq  uint16
	Kind wire.Kind
	From netip.Addr
	At   time.Duration
}

// replies reads the answers to a flow; other packets fail the test.
func (b *bench) replies(f wire.Flow, got []arrival) []answer {
	b.t.Helper()
	var all []answer
	for _, a := range got {
		r, err := wire.ParseReply(a.pkt, f)
		if err != nil {
			b.t.Fatalf("at %v: %v", a.at, err)
		}
		all = append(all, answer{r.Seq, r.Kind, r.From, a.at})
	}
	return all
}

func (b *bench) want(f wire.Flow, got []arrival, want ...answer) {
	b.t.Helper()
	if diff := cmp.Diff(want, b.replies(f, got), cmpopts.EquateComparable(netip.Addr{})); diff != "" {
		b.t.Errorf("answers (-want +got):\n%s", diff)
	}
}

func TestPath(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		addr, dst := router4, server4
		if v6 {
			addr, dst = router6, server6
		}
		for _, tt := range []struct {
			proto wire.Protocol
			last  wire.Kind
		}{{wire.UDP, wire.PortReply}, {wire.ICMP, wire.EchoReply}, {wire.TCP, wire.PortReply}} {
			t.Run(fmt.Sprint(tt.proto, v6), func(t *testing.T) {
				b := newBench(t, 3, nil)
				f := flow(tt.proto, v6)
				for ttl := 1; ttl <= 5; ttl++ {
					b.send(f, wire.Probe{Seq: uint16(ttl), TTL: ttl})
				}
				b.want(f, b.run(time.Second),
					answer{1, wire.TimeExceeded, addr(1), 2 * ms},
					answer{2, wire.TimeExceeded, addr(2), 4 * ms},
					answer{3, wire.TimeExceeded, addr(3), 6 * ms},
					answer{4, tt.last, dst, 8 * ms},
					answer{5, tt.last, dst, 8 * ms})
				if s := b.Stats(); s.Expired != 3 || s.Sent != 5 {
					t.Errorf("stats %+v", s)
				}
			})
		}
	}
}

// Errors quote what arrived: the TTL that ran out, the tail as far as the
// router quotes it.
func TestQuote(t *testing.T) {
	for _, tt := range []struct{ quote, want int }{{8, 8}, {0, 576 - 20 - 8 - 20}, {100, 100}, {1000, 1000}} {
		b := newBench(t, 2, func(_ int, r *simnet.Router) { r.Quote = tt.quote })
		f := flow(wire.UDP, false)
		b.send(f, wire.Probe{Seq: 9, TTL: 2, Size: 1500})
		got := b.run(time.Second)
		if len(got) != 1 {
			t.Fatalf("quote %d: %d packets", tt.quote, len(got))
		}
		r, err := wire.ParseReply(got[0].pkt, f)
		if err != nil || r.QuotedLen != tt.want || r.QuotedTTL != 1 || r.TTL != 63 {
			t.Errorf("quote %d: %+v, %v, want %d bytes", tt.quote, r, err, tt.want)
		}
	}
}

// A packet that crosses the network is the one sent, but for a lower TTL, and
// its header checksum is right.
func TestForwarding(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		b := newBench(t, 5, nil)
		var got []byte
		b.Attach(b.server(), func(_ time.Time, pkt []byte) { got = append([]byte(nil), pkt...) })
		f := flow(wire.TCP, v6)
		b.send(f, wire.Probe{Seq: 3, TTL: 64, Size: 700})
		b.run(time.Second)
		want, err := wire.Build(nil, f, wire.Probe{Seq: 3, TTL: 59, Size: 700})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("IPv6 %v (-want +got):\n%s", v6, diff)
		}
	}
}

func TestDelayPerDirection(t *testing.T) {
	b := newBench(t, 1, nil)
	b.Connect(b.ids[1], b.ids[2], simnet.Link{Delay: 30 * ms}, simnet.Link{Delay: 5 * ms})
	f := flow(wire.ICMP, false)
	b.send(f, wire.Probe{Seq: 1})
	b.want(f, b.run(time.Second), answer{1, wire.EchoReply, server4, 37 * ms})
	b.SetLink(b.ids[1], b.ids[2], simnet.Link{Delay: 10 * ms})
	b.send(f, wire.Probe{Seq: 2})
	b.want(f, b.run(time.Second), answer{2, wire.EchoReply, server4, 1017 * ms})
}

func TestJitterKeepsOrder(t *testing.T) {
	b := newBench(t, 1, nil)
	b.Connect(b.ids[1], b.ids[2], simnet.Link{Jitter: 20 * ms}, simnet.Link{})
	f := flow(wire.ICMP, false)
	var seqs []uint16
	for i := range 300 {
		b.send(f, wire.Probe{Seq: uint16(i)})
		for _, a := range b.replies(f, b.run(3*ms)) {
			seqs = append(seqs, a.Seq)
		}
	}
	for _, a := range b.replies(f, b.run(time.Second)) {
		seqs = append(seqs, a.Seq)
	}
	if len(seqs) != 300 {
		t.Errorf("%d of 300 packets came", len(seqs))
	}
	for i := range seqs {
		if seqs[i] != uint16(i) {
			t.Fatalf("packet %d came as number %d", seqs[i], i)
		}
	}

	// Alone, packets spread over the whole range.
	least, most := time.Hour, time.Duration(0)
	for i := range 200 {
		b.send(f, wire.Probe{Seq: uint16(i)})
		sent := b.now
		for _, a := range b.replies(f, b.run(time.Second)) {
			if a.Seq == uint16(i) {
				least, most = min(least, a.At-sent), max(most, a.At-sent)
			}
		}
	}
	if least < 2*ms || least > 4*ms || most < 20*ms || most > 22*ms {
		t.Errorf("round trips from %v to %v, want 2 ms to 22 ms", least, most)
	}
}

func TestLoss(t *testing.T) {
	const sent = 4000
	b := newBench(t, 1, nil)
	b.SetLink(b.ids[1], b.ids[2], simnet.Link{Loss: 0.1})
	f := flow(wire.ICMP, false)
	for i := range sent {
		b.send(f, wire.Probe{Seq: uint16(i)})
	}
	got := len(b.run(time.Second))
	if lost := int(b.Stats().Lost); lost != sent-got || lost < sent*8/100 || lost > sent*12/100 {
		t.Errorf("%d of %d lost, %d answered", lost, sent, got)
	}
}

// The same seed loses the same packets, another seed others.
func TestSeed(t *testing.T) {
	run := func(seed uint64) (seqs []uint16) {
		n := simnet.New(seed)
		a := n.AddHost(simnet.Host{Addrs: []netip.Addr{client4}})
		z := n.AddHost(simnet.Host{Addrs: []netip.Addr{server4}})
		n.Connect(a, z, simnet.Link{Loss: 0.5, Jitter: ms}, simnet.Link{Loss: 0.1, Jitter: ms})
		f := flow(wire.ICMP, false)
		n.Attach(a, func(_ time.Time, pkt []byte) {
			r, err := wire.ParseReply(pkt, f)
			if err != nil {
				t.Error(err)
			}
			seqs = append(seqs, r.Seq)
		})
		for i := range 200 {
			pkt, err := wire.Build(nil, f, wire.Probe{Seq: uint16(i)})
			if err != nil {
				t.Fatal(err)
			}
			n.Send(a, epoch, pkt)
		}
		n.Run(epoch.Add(time.Second))
		return seqs
	}
	if diff := cmp.Diff(run(1), run(1)); diff != "" {
		t.Errorf("seed 1 twice:\n%s", diff)
	}
	if cmp.Equal(run(1), run(2)) {
		t.Error("seeds 1 and 2 agree")
	}
}

func TestRateAndQueue(t *testing.T) {
	b := newBench(t, 1, nil)
	// 1000 bytes take 8 ms; the queue holds four packets.
	b.SetLink(b.ids[1], b.ids[2], simnet.Link{Delay: ms, Rate: 1e6, Queue: 4000})
	f := flow(wire.UDP, false)
	var at []time.Duration
	b.Attach(b.server(), func(now time.Time, _ []byte) { at = append(at, now.Sub(epoch)) })
	for i := range 6 {
		b.send(f, wire.Probe{Seq: uint16(i), Size: 1000})
	}
	b.run(time.Second)
	if diff := cmp.Diff([]time.Duration{10 * ms, 18 * ms, 26 * ms, 34 * ms}, at); diff != "" {
		t.Errorf("arrivals (-want +got):\n%s", diff)
	}
	if got := b.Stats().QueueDrops; got != 2 {
		t.Errorf("%d packets dropped, want 2", got)
	}
}

// A queue of no stated size holds 100 ms, but not less than 10 packets.
func TestDefaultQueue(t *testing.T) {
	for _, tt := range []struct {
		rate int64
		want int
	}{{12e6, 100}, {1e5, 10}} {
		b := newBench(t, 1, nil)
		b.SetLink(b.ids[1], b.ids[2], simnet.Link{Rate: tt.rate})
		n := 0
		b.Attach(b.server(), func(time.Time, []byte) { n++ })
		for i := range 300 {
			b.send(flow(wire.UDP, false), wire.Probe{Seq: uint16(i), Size: 1500})
		}
		b.run(time.Minute)
		if n != tt.want {
			t.Errorf("rate %d: %d packets passed, want %d", tt.rate, n, tt.want)
		}
	}
}

// However late the driver is, packets have the times they should have.
func TestLateDriver(t *testing.T) {
	b := newBench(t, 3, nil)
	f := flow(wire.ICMP, true)
	b.send(f, wire.Probe{Seq: 1})
	next, pending := b.Run(epoch)
	if want := epoch.Add(ms); !pending || !next.Equal(want) {
		t.Errorf("next event %v, %v, want %v", next, pending, want)
	}
	b.want(f, b.run(time.Hour), answer{1, wire.EchoReply, server6, 8 * ms})
	if next, pending := b.Run(epoch.Add(time.Hour)); pending {
		t.Errorf("pending at the end: %v", next)
	}
}

func TestMalformed(t *testing.T) {
	b := newBench(t, 1, nil)
	for _, pkt := range [][]byte{nil, {0x45}, make([]byte, 100), append([]byte{0x45, 0, 255, 255}, make([]byte, 60)...)} {
		b.Send(b.client(), epoch, pkt)
	}
	b.run(time.Second)
	if s := b.Stats(); s.Malformed != 4 || s.Sent != 0 {
		t.Errorf("stats %+v", s)
	}
}

func TestMistakesPanic(t *testing.T) {
	for name, f := range map[string]func(n *simnet.Net){
		"unknown node":       func(n *simnet.Net) { n.Connect(0, 5, simnet.Link{}, simnet.Link{}) },
		"address twice":      func(n *simnet.Net) { n.AddHost(simnet.Host{Addrs: []netip.Addr{client4}}) },
		"not connected":      func(n *simnet.Net) { n.SetLink(0, 1, simnet.Link{}) },
		"sent from nowhere":  func(n *simnet.Net) { n.Send(9, epoch, nil) },
		"attached to nobody": func(n *simnet.Net) { n.Attach(simnet.Nowhere, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			n := simnet.New(1)
			n.AddHost(simnet.Host{Addrs: []netip.Addr{client4}})
			n.AddHost(simnet.Host{Addrs: []netip.Addr{server4}})
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			f(n)
		})
	}
}
