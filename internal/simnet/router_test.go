package simnet_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/whyslow/whyslow/internal/simnet"
	"github.com/whyslow/whyslow/internal/wire"
)

// A slow control plane delays what a router says, not what it forwards.
func TestSlowControlPlane(t *testing.T) {
	b := newBench(t, 2, func(i int, r *simnet.Router) {
		if i == 1 {
			r.ControlDelay, r.ControlJitter = 200*ms, 50*ms
		}
	})
	f := flow(wire.ICMP, false)
	b.send(f, wire.Probe{Seq: 1, TTL: 1})
	b.send(f, wire.Probe{Seq: 2, TTL: 2})
	b.send(f, wire.Probe{Seq: 3, TTL: 3})
	ping := f
	ping.Dst = router4(1)
	got := b.replies(f, b.run(time.Second))
	if len(got) != 3 || got[0] != (answer{2, wire.TimeExceeded, router4(2), 4 * ms}) ||
		got[1] != (answer{3, wire.EchoReply, server4, 6 * ms}) {
		t.Fatalf("answers %+v", got)
	}
	if a := got[2]; a.Seq != 1 || a.At < 202*ms || a.At > 252*ms {
		t.Errorf("slow answer %+v", a)
	}
	b.send(ping, wire.Probe{Seq: 1})
	if got := b.replies(ping, b.run(time.Second)); len(got) != 1 || got[0].Kind != wire.EchoReply || got[0].At < 1202*ms || got[0].At > 1252*ms {
		t.Errorf("echo of the router itself: %+v", got)
	}
}

func TestSilence(t *testing.T) {
	tests := []struct {
		name   string
		change func(*simnet.Router)
		error  bool
		echo   bool
	}{
		{"talks", func(*simnet.Router) {}, true, true},
		{"silent", func(r *simnet.Router) { r.Silent = true }, false, false},
		{"echo silent", func(r *simnet.Router) { r.EchoSilent = true }, true, false},
		{"no address", func(r *simnet.Router) { r.Addr4 = netip.Addr{} }, false, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, 1, func(_ int, r *simnet.Router) { tt.change(r) })
			f := flow(wire.ICMP, false)
			ping := f
			ping.Dst = router4(1)
			b.send(f, wire.Probe{Seq: 1, TTL: 1})
			if got := b.replies(f, b.run(time.Second)); (len(got) == 1) != tt.error {
				t.Errorf("errors %+v", got)
			}
			b.send(ping, wire.Probe{Seq: 2})
			if got := b.run(time.Second); tt.echo != (len(got) == 1) {
				t.Errorf("%d answers to an echo", len(got))
			}
			b.send(f, wire.Probe{Seq: 3})
			if got := b.replies(f, b.run(time.Second)); len(got) != 1 || got[0].Kind != wire.EchoReply {
				t.Errorf("through it: %+v", got)
			}
		})
	}
}

// Error limits are a burst, then a trickle, as Linux has them; echo replies
// and "too big" are exempt.
func TestErrorLimit(t *testing.T) {
	tests := []struct {
		name     string
		v6       bool
		burst    int
		every    time.Duration
		probe    wire.Probe
		interval time.Duration
		want     []int // answers to 10 probes sent at once, and to each of 4 bursts of 2 an interval apart
	}{
		{"IPv4", false, 0, 0, wire.Probe{TTL: 1}, time.Second, []int{6, 1, 1, 1, 1}},
		{"IPv6", true, 0, 0, wire.Probe{TTL: 1}, 100 * ms, []int{6, 1, 1, 1, 1}},
		{"halves add up", false, 0, 0, wire.Probe{TTL: 1}, 500 * ms, []int{6, 0, 1, 0, 1}},
		{"own", false, 2, 10 * ms, wire.Probe{TTL: 1}, 15 * ms, []int{2, 1, 2, 1, 2}},
		{"none", false, -1, 0, wire.Probe{TTL: 1}, ms, []int{10, 2, 2, 2, 2}},
		{"too big", false, 0, 0, wire.Probe{Size: 1500}, ms, []int{10, 2, 2, 2, 2}},
		{"echo of the server", false, 0, 0, wire.Probe{Size: 100}, 100 * ms, []int{10, 2, 2, 2, 2}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, 1, func(_ int, r *simnet.Router) { r.ErrorBurst, r.ErrorEvery = tt.burst, tt.every })
			b.link(0, simnet.Link{})
			b.link(1, simnet.Link{MTU: 1400})
			f := flow(wire.ICMP, tt.v6)
			var got []int
			for round := range 5 {
				n := 2
				if round == 0 {
					n = 10
				}
				for range n {
					b.send(f, tt.probe)
				}
				got = append(got, len(b.run(tt.interval)))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("answers a round (-want +got):\n%s", diff)
			}
		})
	}
}

// Each prober has a limit of its own, and a host's port unreachables have one.
func TestErrorLimitOfHost(t *testing.T) {
	b := newBench(t, 1, nil)
	other := netip.MustParseAddr("192.0.2.77")
	second := b.AddHost(simnet.Host{Addrs: []netip.Addr{other}})
	b.Connect(second, b.ids[1], simnet.Link{}, simnet.Link{})
	n := 0
	b.Attach(second, func(time.Time, []byte) { n++ })
	f, g := flow(wire.UDP, false), flow(wire.UDP, false)
	g.Src = other
	for i := range 8 {
		b.send(f, wire.Probe{Seq: uint16(i)})
		pkt, err := wire.Build(nil, g, wire.Probe{Seq: uint16(i)})
		if err != nil {
			t.Fatal(err)
		}
		b.Send(second, epoch, pkt)
	}
	if got := len(b.run(time.Second)); got != 6 || n != 6 {
		t.Errorf("%d and %d answers, want 6 each", got, n)
	}
	if got := b.Stats().ErrorsLimit; got != 4 {
		t.Errorf("%d errors limited, want 4", got)
	}
}

func TestTooBig(t *testing.T) {
	tests := []struct {
		name   string
		policy simnet.TooBigPolicy
		claim  int
		want   int // claimed MTU, -1 for silence
	}{
		{"honest", simnet.Honest, 0, 1400},
		{"absent", simnet.Absent, 0, -1},
		{"lies 0", simnet.Lying, 0, 0},
		{"lies 68", simnet.Lying, 68, 68},
		{"lies above", simnet.Lying, 1600, 1600},
	}
	for _, tt := range tests {
		for _, v6 := range []bool{false, true} {
			t.Run(tt.name, func(t *testing.T) {
				b := newBench(t, 3, func(i int, r *simnet.Router) { r.TooBig, r.TooBigClaim = tt.policy, tt.claim })
				b.link(2, simnet.Link{Delay: ms, MTU: 1400})
				f := flow(wire.UDP, v6)
				b.send(f, wire.Probe{Seq: 1, Size: 1401})
				b.send(f, wire.Probe{Seq: 2, Size: 1400})
				got := b.run(time.Second)
				if passed := got[len(got)-1]; b.replies(f, []arrival{passed})[0] != (answer{2, wire.PortReply, f.Dst, 8 * ms}) {
					t.Errorf("1400 bytes: %+v", b.replies(f, got))
				}
				if tt.want < 0 {
					if len(got) != 1 {
						t.Errorf("black hole spoke: %+v", b.replies(f, got))
					}
					return
				}
				r, err := wire.ParseReply(got[0].pkt, f)
				from := router4(2)
				if v6 {
					from = router6(2)
				}
				if err != nil || r.Kind != wire.TooBig || r.MTU != tt.want || r.From != from || r.Seq != 1 || r.QuotedTTL != 63 {
					t.Errorf("%+v, %v", r, err)
				}
			})
		}
	}
}

// Without DF a router fragments, and the model host puts the packet together.
func TestFragmentation(t *testing.T) {
	b := newBench(t, 2, nil)
	b.link(1, simnet.Link{Delay: ms, MTU: 1000})
	f := flow(wire.ICMP, false)
	pkt, err := wire.Build(nil, f, wire.Probe{Seq: 4, Size: 1500})
	if err != nil {
		t.Fatal(err)
	}
	pkt[6] = 0 // clear DF, and take its bit out of the header checksum
	pkt[10], pkt[11] = 0, 0
	c := wire.Checksum(pkt[:20])
	pkt[10], pkt[11] = byte(c>>8), byte(c)
	b.Send(b.client(), epoch, pkt)
	var whole wire.Reassembler
	var got []arrival
	for _, a := range b.run(time.Second) {
		if len(a.pkt) > 1000 {
			t.Errorf("%d bytes crossed a link of 1000", len(a.pkt))
		}
		if pkt := whole.Add(a.pkt); pkt != nil {
			got = append(got, arrival{a.at, pkt})
		}
	}
	b.want(f, got, answer{4, wire.EchoReply, server4, 6 * ms})
	if s := b.Stats(); s.Fragments != 4 {
		t.Errorf("%d fragments, want 2 each way", s.Fragments)
	}
}

func TestFilters(t *testing.T) {
	tests := []struct {
		name   string
		filter simnet.Filter
		proto  wire.Protocol
		port   uint16
		passes bool
	}{
		{"UDP", simnet.Filter{Proto: wire.UDP}, wire.UDP, 33434, false},
		{"UDP spares ICMP", simnet.Filter{Proto: wire.UDP}, wire.ICMP, 0, true},
		{"UDP port", simnet.Filter{Proto: wire.UDP, DstPort: 53}, wire.UDP, 53, false},
		{"other UDP port", simnet.Filter{Proto: wire.UDP, DstPort: 53}, wire.UDP, 54, true},
		{"TCP port", simnet.Filter{Proto: wire.TCP, DstPort: 80}, wire.TCP, 80, false},
		{"other TCP port", simnet.Filter{Proto: wire.TCP, DstPort: 80}, wire.TCP, 443, true},
		{"ICMP", simnet.Filter{Proto: wire.ICMP}, wire.ICMP, 0, false},
		{"ICMP drops errors", simnet.Filter{Proto: wire.ICMP}, wire.UDP, 33434, false},
		{"echo", simnet.Filter{Proto: wire.ICMP, Echo: true}, wire.ICMP, 0, false},
		{"echo spares errors", simnet.Filter{Proto: wire.ICMP, Echo: true}, wire.UDP, 33434, true},
		{"any protocol", simnet.Filter{DstPort: 443}, wire.TCP, 443, false},
	}
	for _, tt := range tests {
		for _, v6 := range []bool{false, true} {
			t.Run(tt.name, func(t *testing.T) {
				b := newBench(t, 2, func(i int, r *simnet.Router) {
					if i == 2 {
						r.Filters = []simnet.Filter{tt.filter}
					}
				})
				f := flow(tt.proto, v6)
				f.DstPort = tt.port
				b.send(f, wire.Probe{Seq: 1})
				b.send(f, wire.Probe{Seq: 2, TTL: 2}) // a TTL runs out before the filter
				got := b.replies(f, b.run(time.Second))
				if got[0].Seq != 2 || got[0].Kind != wire.TimeExceeded {
					t.Errorf("at the filter: %+v", got)
				}
				if passed := len(got) == 2; passed != tt.passes || passed == (b.Stats().Filtered > 0) {
					t.Errorf("answers %+v, stats %+v", got, b.Stats())
				}
			})
		}
	}
}

func TestUnreachable(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		b := newBench(t, 2, nil)
		f := flow(wire.UDP, v6)
		f.Dst = netip.MustParseAddr("203.0.113.1")
		from := router4(1)
		if v6 {
			f.Dst, from = netip.MustParseAddr("2001:db8:ffff::1"), router6(1)
		}
		b.send(f, wire.Probe{Seq: 1})
		b.want(f, b.run(time.Second), answer{1, wire.Unreachable, from, 2 * ms})
		// A route leads one hop further.
		b.Route(b.ids[1], netip.PrefixFrom(f.Dst, f.Dst.BitLen()), b.ids[2])
		if v6 {
			from = router6(2)
		} else {
			from = router4(2)
		}
		b.send(f, wire.Probe{Seq: 2})
		b.want(f, b.run(time.Second), answer{2, wire.Unreachable, from, 1004 * ms})
	}
}

// Routes to Nowhere, or to what is no neighbour, are unreachable; the longest
// prefix counts.
func TestRoutes(t *testing.T) {
	b := newBench(t, 2, nil)
	f := flow(wire.UDP, false)
	b.Route(b.ids[1], netip.MustParsePrefix("198.51.100.0/24"), simnet.Nowhere)
	b.send(f, wire.Probe{Seq: 1})
	b.want(f, b.run(time.Second), answer{1, wire.Unreachable, router4(1), 2 * ms})
	b.Route(b.ids[1], netip.MustParsePrefix("198.51.100.8/30"), b.ids[2])
	b.Route(b.ids[1], netip.PrefixFrom(client4, 32), b.client())
	b.Route(b.ids[1], netip.MustParsePrefix("0.0.0.0/0"), simnet.Nowhere)
	b.send(f, wire.Probe{Seq: 2})
	b.want(f, b.run(time.Second), answer{2, wire.PortReply, server4, 1006 * ms})
	b.Route(b.ids[1], netip.MustParsePrefix("198.51.100.8/30"), b.server())
	b.send(f, wire.Probe{Seq: 3})
	b.want(f, b.run(time.Second), answer{3, wire.Unreachable, router4(1), 2002 * ms})
}

// The way back may be another: the answers come from the same routers, later,
// and with other TTLs.
func TestAsymmetricRoute(t *testing.T) {
	b := newBench(t, 2, nil)
	detour := make([]simnet.NodeID, 3)
	for i := range detour {
		detour[i] = b.AddRouter(simnet.Router{Addr4: router4(10 + i)})
	}
	far := simnet.Link{Delay: 20 * ms}
	b.Connect(b.ids[2], detour[0], far, far)
	b.Connect(detour[0], detour[1], far, far)
	b.Connect(detour[1], detour[2], far, far)
	b.Connect(detour[2], b.ids[1], far, far)
	back := netip.PrefixFrom(client4, 32)
	b.Route(b.ids[2], back, detour[0])
	b.Route(detour[0], back, detour[1])
	b.Route(detour[1], back, detour[2])
	f := flow(wire.ICMP, false)
	b.send(f, wire.Probe{Seq: 1, TTL: 1})
	b.send(f, wire.Probe{Seq: 2, TTL: 2})
	b.send(f, wire.Probe{Seq: 3})
	got := b.run(time.Second)
	b.want(f, got,
		answer{1, wire.TimeExceeded, router4(1), 2 * ms},
		answer{2, wire.TimeExceeded, router4(2), (2 + 81) * ms},
		answer{3, wire.EchoReply, server4, (3 + 1 + 81) * ms})
	var ttls []int
	for _, a := range got {
		r, _ := wire.ParseReply(a.pkt, f)
		ttls = append(ttls, r.TTL)
	}
	if diff := cmp.Diff([]int{64, 60, 59}, ttls); diff != "" {
		t.Errorf("TTLs of the answers (-want +got):\n%s", diff)
	}
}

func TestRoutingLoop(t *testing.T) {
	b := newBench(t, 2, nil)
	f := flow(wire.UDP, false)
	b.Route(b.ids[2], netip.PrefixFrom(server4, 32), b.ids[1])
	for ttl := 1; ttl <= 4; ttl++ {
		b.send(f, wire.Probe{Seq: uint16(ttl), TTL: ttl})
	}
	b.want(f, b.run(time.Second),
		answer{1, wire.TimeExceeded, router4(1), 2 * ms},
		answer{2, wire.TimeExceeded, router4(2), 4 * ms},
		answer{3, wire.TimeExceeded, router4(1), 4 * ms},
		answer{4, wire.TimeExceeded, router4(2), 6 * ms})
}

func TestHostAnswers(t *testing.T) {
	n := simnet.New(1)
	client := n.AddHost(simnet.Host{Addrs: []netip.Addr{client4}})
	server := n.AddHost(simnet.Host{Addrs: []netip.Addr{server4}, EchoSilent: true})
	n.Connect(client, server, simnet.Link{}, simnet.Link{})
	n.OpenTCP(server, 443)
	var got []byte
	n.Attach(client, func(_ time.Time, pkt []byte) { got = append([]byte(nil), pkt...) })
	ask := func(p wire.Protocol, port uint16) []byte {
		f := flow(p, false)
		f.DstPort = port
		pkt, err := wire.Build(nil, f, wire.Probe{Seq: 5})
		if err != nil {
			t.Fatal(err)
		}
		got = nil
		n.Send(client, epoch, pkt)
		n.Run(epoch)
		if got != nil {
			if _, err := wire.ParseReply(got, f); err != nil {
				t.Error(err)
			}
		}
		return got
	}
	const flags, synAck, rstAck = 33, 0x12, 0x14
	if b := ask(wire.TCP, 443); b == nil || b[flags] != synAck {
		t.Errorf("open port: %x", b)
	}
	if b := ask(wire.TCP, 80); b == nil || b[flags] != rstAck {
		t.Errorf("closed port: %x", b)
	}
	if b := ask(wire.UDP, 53); b == nil || b[20] != 3 || b[21] != 3 {
		t.Errorf("UDP: %x", b)
	}
	if b := ask(wire.ICMP, 0); b != nil {
		t.Errorf("echo to a host that answers none: %x", b)
	}
}

// No error is sent about an error: one that can't return just ends.
func TestNoErrorAboutError(t *testing.T) {
	b := newBench(t, 2, nil)
	b.Route(b.ids[1], netip.PrefixFrom(client4, 32), simnet.Nowhere)
	b.send(flow(wire.UDP, false), wire.Probe{Seq: 1, TTL: 2})
	b.run(time.Second)
	if s := b.Stats(); s.Errors != 1 || s.Unroutable != 1 {
		t.Errorf("stats %+v", s)
	}
}
