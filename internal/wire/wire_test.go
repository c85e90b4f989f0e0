package wire

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
)

func build(tb testing.TB, f Flow, p Probe) []byte {
	tb.Helper()
	b, err := Build(nil, f, p)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// transportSum is 0 if the transport checksum of a packet is right.
func transportSum(tb testing.TB, pkt []byte) uint16 {
	tb.Helper()
	p, err := ParsePacket(pkt)
	if err != nil {
		tb.Fatal(err)
	}
	if p.Number == numICMP {
		return Checksum(p.Payload)
	}
	return ^fold(sum(pseudo(pkt, p.Number, len(p.Payload)), p.Payload))
}

func TestBuild(t *testing.T) {
	for _, proto := range []Protocol{UDP, ICMP, TCP} {
		for _, v6 := range []bool{false, true} {
			f := testFlow(proto, v6)
			var icmpSums []uint16
			for _, p := range []Probe{{}, {Seq: 1, TTL: 7, Size: 100}, {Seq: 0x7001, Size: 101}, {Seq: 300, TTL: 255, Size: 9000}, {Seq: 30000}} {
				pkt := build(t, f, p)
				v, err := ParsePacket(pkt)
				if err != nil {
					t.Fatal(err)
				}
				want := Packet{
					Version: 4, Src: f.Src, Dst: f.Dst, TTL: 64, Number: numberOf(proto, !v6), Proto: proto, DF: true,
					ID: uint32(p.Seq), HeaderLen: ipv4Len, Len: f.MinSize(), Payload: pkt[f.ipLen():],
				}
				if v6 {
					want.Version, want.HeaderLen, want.ID = 6, ipv6Len, 0
				}
				if p.Size > 0 {
					want.Len = p.Size
				}
				if p.TTL > 0 {
					want.TTL = p.TTL
				}
				if diff := cmp.Diff(want, v, addrs, cmp.AllowUnexported(Packet{})); diff != "" {
					t.Errorf("%v of %+v (-want +got):\n%s", p, f, diff)
				}
				if !v6 && Checksum(pkt[:ipv4Len]) != 0 {
					t.Errorf("%v of %+v: wrong header checksum", p, f)
				}
				if c := transportSum(t, pkt); c != 0 {
					t.Errorf("%v of %+v: transport checksum off by %#x", p, f, c)
				}
				// Every cut down to what RFC 792 promises shows the probe.
				for n := len(pkt); n >= f.ipLen()+8; n -= 1 + n/50 {
					seq, q, err := MatchQuote(pkt[:n], f)
					if err != nil || seq != p.Seq || q.Len != n-f.ipLen() || q.TTL != v.TTL {
						t.Fatalf("%v of %+v: a quote of %d bytes gives %d, %+v, %v", p, f, n, seq, q, err)
					}
				}
				icmpSums = append(icmpSums, binary.BigEndian.Uint16(v.Payload[2:]))
			}
			if proto == ICMP {
				for _, c := range icmpSums {
					if c != icmpSums[0] {
						t.Errorf("ICMP checksums differ within the flow: %x", icmpSums)
					}
				}
			}
		}
	}
}

func TestBuildErrors(t *testing.T) {
	udp := testFlow(UDP, false)
	mixed := udp
	mixed.Dst = server6
	mapped := udp
	mapped.Src = netip.MustParseAddr("::ffff:192.0.2.1")
	tests := []struct {
		name  string
		flow  Flow
		probe Probe
		want  error
	}{
		{"no protocol", Flow{Src: client4, Dst: server4}, Probe{}, ErrFlow},
		{"no addresses", Flow{Proto: UDP}, Probe{}, ErrFlow},
		{"two families", mixed, Probe{}, ErrFlow},
		{"mapped address", mapped, Probe{}, ErrFlow},
		{"small", udp, Probe{Size: 35}, ErrSize},
		{"small TCP", testFlow(TCP, true), Probe{Size: 63}, ErrSize},
		{"negative", udp, Probe{Size: -1}, ErrSize},
		{"large", udp, Probe{Size: 65536}, ErrSize},
		{"large TCP", testFlow(TCP, false), Probe{Size: 60000}, ErrSize},
		{"no checksum for it", udp, Probe{Seq: 0xffff}, ErrSeq},
		{"last checksum", udp, Probe{Seq: 0xfffe}, nil},
		{"largest", udp, Probe{Size: 65535}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := Build(nil, tt.flow, tt.probe); !errors.Is(err, tt.want) {
				t.Errorf("Build: %v, want %v", err, tt.want)
			}
			if _, err := BuildPayload(tt.flow, tt.probe); !errors.Is(err, tt.want) {
				t.Errorf("BuildPayload: %v, want %v", err, tt.want)
			}
		})
	}
}

func TestMatchQuote(t *testing.T) {
	edit := func(b []byte, change func([]byte)) []byte {
		b = append([]byte(nil), b...)
		change(b)
		return b
	}
	at := func(i int, v byte) func([]byte) { return func(b []byte) { b[i] = v } }
	udp, udp6, echo, syn := testFlow(UDP, false), testFlow(UDP, true), testFlow(ICMP, false), testFlow(TCP, false)
	echo6 := testFlow(ICMP, true)
	probe := Probe{Seq: 700, TTL: 1, Size: 120}
	e6 := build(t, echo6, probe)
	u, u6, e, s := build(t, udp, probe), build(t, udp6, probe), build(t, echo, probe), build(t, syn, probe)
	options := append(append(append([]byte{}, u[:20]...), 7, 7, 4, 0, 0, 0, 0, 0), u[20:]...)
	options[0] = 0x47
	// Hop-by-hop options, then destination options, before the UDP header.
	extended := append(append(append([]byte{}, u6[:40]...),
		numDestOpts, 0, 1, 4, 0, 0, 0, 0, numUDP, 1, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0), u6[40:]...)
	extended[6] = numHopByHop
	fragment6 := append(append(append([]byte{}, u6[:40]...), numUDP, 0, 0, 1, 0, 0, 0, 9), u6[40:]...)
	fragment6[6] = numFragment
	tests := []struct {
		name  string
		flow  Flow
		quote []byte
		want  error
	}{
		{"whole", udp, u, nil},
		{"8 bytes", udp, u[:28], nil},
		{"7 bytes", udp, u[:27], ErrMalformed},
		{"IP options", udp, options, nil},
		{"IP options, 8 bytes", udp, options[:36], nil},
		{"IPv6 extension headers", udp6, extended, nil},
		{"IPv6 extension headers, 8 bytes", udp6, extended[:72], nil},
		{"IPv6 extension header cut", udp6, extended[:60], ErrMalformed},
		{"IPv6 extension header endless", udp6, edit(extended, at(41, 255)), ErrMalformed},
		{"IPv6 first fragment", udp6, fragment6, nil},
		{"IPv6 later fragment", udp6, edit(fragment6, at(43, 9)), ErrNotOurs},
		{"IPv4 later fragment", udp, edit(u, at(7, 2)), ErrNotOurs},
		{"TTL and DSCP rewritten", udp, edit(edit(u, at(8, 0)), at(1, 0x20)), nil},
		{"length in the wrong byte order", udp, edit(u, func(b []byte) { b[2], b[3] = b[3], b[2] }), nil},
		{"length without the header", udp, edit(u, at(3, 100)), nil},
		{"length 0", udp, edit(u, at(3, 0)), nil},
		{"checksum rewritten by a NAT", udp, edit(u, at(26, 0x77)), nil},
		{"checksum gone, token there", udp, edit(edit(u, at(26, 0)), at(27, 0)), nil},
		{"checksum gone, 8 bytes", udp, edit(edit(u, at(26, 0)), at(27, 0))[:28], ErrUnnumbered},
		{"checksum rewritten by a NAT, 8 bytes", udp, edit(u, at(26, 0x77))[:28], ErrUnnumbered},
		{"identification rewritten, 8 bytes", udp, edit(u, at(4, 0x77))[:28], ErrUnnumbered},
		{"identification gone, 8 bytes", udp, edit(edit(u, at(4, 0)), at(5, 0))[:28], nil},
		{"other destination", udp, edit(u[:28], at(19, 8)), ErrNotOurs},
		{"other source", udp, edit(u[:28], at(15, 8)), ErrNotOurs},
		{"other source port", udp, edit(u[:28], at(21, 0)), ErrNotOurs},
		{"other destination port", udp, edit(u[:28], at(23, 0)), ErrNotOurs},
		{"other source, with the token", udp, edit(u, at(15, 8)), nil},
		{"other source, with another's token", udp, edit(edit(u, at(15, 8)), at(33, 0)), ErrNotOurs},
		{"other source port, with the token", udp, edit(u, at(21, 0)), nil},
		{"other destination and port, with the token", udp, edit(edit(u, at(19, 8)), at(23, 0)), nil},
		{"other payload", udp, edit(u, at(33, 0)), ErrNotOurs},
		{"other protocol", udp, s, ErrNotOurs},
		{"other family", udp, u6, ErrNotOurs},
		{"header length 16", udp, edit(u, at(0, 0x44)), ErrMalformed},
		{"header longer than the quote", udp, edit(u[:28], at(0, 0x4f)), ErrMalformed},
		{"version 5", udp, edit(u, at(0, 0x55)), ErrMalformed},
		{"empty", udp, nil, ErrMalformed},
		{"one byte", udp6, u6[:1], ErrMalformed},
		{"echo", echo, e, nil},
		{"echo, 8 bytes", echo, e[:28], nil},
		{"echo reply quoted", echo, edit(e, at(20, 0)), ErrNotOurs},
		{"echo of another id", echo, edit(e[:28], at(25, 0)), ErrNotOurs},
		{"echo of another id, with the token", echo, edit(e, at(25, 0)), nil},
		{"echo from another source", echo, edit(e[:28], at(15, 8)), nil}, // by its id and checksum
		{"echo from another source, other checksum", echo, edit(edit(e[:28], at(15, 8)), at(22, 0)), ErrNotOurs},
		{"echo from another source, IPv6", echo6, edit(e6[:48], at(23, 8)), ErrNotOurs},
		{"echo from another source, IPv6, with the token", echo6, edit(e6, at(23, 8)), nil},
		{"echo, other token", echo, edit(e, at(33, 0)), ErrNotOurs},
		{"echo, other number than its token", echo, edit(e, at(27, 0)), ErrNotOurs},
		{"SYN", syn, s, nil},
		{"SYN, 8 bytes", syn, s[:28], nil},
		{"SYN, other key", syn, edit(s, at(27, s[27]^1)), ErrNotOurs},
		{"SYN from another source", syn, edit(s, at(15, 8)), nil}, // by its ports and key
		{"SYN from another source and port", syn, edit(edit(s, at(15, 8)), at(21, 0)), ErrNotOurs},
		{"SYN-ACK quoted", syn, edit(s, at(33, 0x12)), ErrNotOurs},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			seq, q, err := MatchQuote(tt.quote, tt.flow)
			if !errors.Is(err, tt.want) {
				t.Fatalf("error %v, want %v", err, tt.want)
			}
			if err == nil && seq != probe.Seq {
				t.Errorf("seq %d, want %d (%+v)", seq, probe.Seq, q)
			}
		})
	}
}

// icmpPacket is an IP packet from a router to the client.
func icmpPacket(tb testing.TB, m icmp.Message, v6 bool) []byte {
	tb.Helper()
	h := header{src: router4, dst: client4, number: numICMP, ttl: 60}
	var psh []byte
	if v6 {
		h = header{src: router6, dst: client6, number: numICMPv6, ttl: 60}
		psh = icmp.IPv6PseudoHeader(router6.AsSlice(), client6.AsSlice())
	}
	b, err := m.Marshal(psh)
	if err != nil {
		tb.Fatal(err)
	}
	return append(appendHeader(nil, h, len(b)), b...)
}

func TestParseReply(t *testing.T) {
	udp, echo, syn := testFlow(UDP, false), testFlow(ICMP, false), testFlow(TCP, false)
	echo6, udp6 := testFlow(ICMP, true), testFlow(UDP, true)
	probe := Probe{Seq: 700, Size: 120}
	fail := func(f Flow, m Message) []byte {
		b, err := ErrorFor(nil, build(t, f, probe), m)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	must := func(b []byte, err error) []byte {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	corrupt := func(b []byte, i int) []byte {
		b = append([]byte(nil), b...)
		b[i] ^= 0x40
		return b
	}
	data := func(f Flow, payload string) []byte { // from the probed port
		b := appendHeader(nil, header{src: f.Dst, dst: f.Src, number: numUDP}, udpLen+len(payload))
		b = binary.BigEndian.AppendUint16(b, f.DstPort)
		b = binary.BigEndian.AppendUint16(b, f.SrcPort)
		return append(append(b, 0, 0, 0, 0), payload...)
	}
	synAck := must(TCPReplyTo(nil, build(t, syn, probe), true))
	rst := must(TCPReplyTo(nil, build(t, syn, probe), false))
	pong := must(EchoReplyTo(nil, build(t, echo, probe)))
	shortPong := icmpPacket(t, icmp.Message{Type: ipv4.ICMPTypeEchoReply, Body: &icmp.Echo{ID: 40001, Seq: 700}}, false)
	tests := []struct {
		name string
		flow Flow
		pkt  []byte
		want Kind
		err  error
	}{
		{"time exceeded", udp, fail(udp, Message{From: router4, Kind: TimeExceeded}), TimeExceeded, nil},
		{"time exceeded, 8 bytes", udp, fail(udp, Message{From: router4, Kind: TimeExceeded, Quote: 8}), TimeExceeded, nil},
		{"no route", udp, fail(udp, Message{From: router4, Kind: Unreachable}), Unreachable, nil},
		{"no host, IPv6", udp6, fail(udp6, Message{From: router6, Kind: Unreachable, Reason: NoHost}), Unreachable, nil},
		{"prohibited", udp, fail(udp, Message{From: router4, Kind: Unreachable, Reason: Prohibited}), Unreachable, nil},
		{"port unreachable of UDP from behind a DNAT", udp, fail(udp, Message{From: router4, Kind: Unreachable, Reason: NoPort}), PortReply, nil},
		{"port unreachable of TCP from a firewall", syn, fail(syn, Message{From: router4, Kind: Unreachable, Reason: NoPort}), Unreachable, nil},
		{"port unreachable of TCP from the destination", syn, fail(syn, Message{From: server4, Kind: Unreachable, Reason: NoPort}), PortReply, nil},
		{"too big", udp, fail(udp, Message{From: router4, Kind: TooBig, MTU: 1400}), TooBig, nil},
		{"too big, IPv6", udp6, fail(udp6, Message{From: router6, Kind: TooBig, MTU: 70000}), TooBig, nil},
		{"source quench", udp, icmpPacket(t, icmp.Message{Type: ipv4.ICMPType(4), Body: &icmp.RawBody{Data: append(make([]byte, 4), build(t, udp, probe)...)}}, false), OtherError, nil},
		{"parameter problem, IPv6", udp6, icmpPacket(t, icmp.Message{Type: ipv6.ICMPTypeParameterProblem, Body: &icmp.ParamProb{Data: build(t, udp6, probe)}}, true), OtherError, nil},
		{"SYN-ACK", syn, synAck, PortReply, nil},
		{"RST that acknowledges data", syn, rst, PortReply, nil},
		{"echo reply", echo, pong, EchoReply, nil},
		{"UDP data that echoes", udp, data(udp, string(build(t, udp, probe)[28:])), PortReply, nil},
		{"UDP data", udp, data(udp, "hello, world"), PortReply, ErrUnnumbered},
		{"UDP data from another port", udp, corrupt(data(udp, "x"), 20), 0, ErrNotOurs},
		{"SYN-ACK of another SYN", syn, corrupt(synAck, 31), 0, ErrNotOurs},
		{"SYN-ACK to another port", syn, corrupt(synAck, 23), 0, ErrNotOurs},
		{"ACK only", syn, func() []byte { b := append([]byte(nil), synAck...); b[33] = tcpACK; return b }(), 0, ErrNotOurs},
		{"empty", udp, nil, 0, ErrMalformed},
		{"echo reply to another token", echo, func() []byte { o := echo; o.DstPort++; return must(EchoReplyTo(nil, build(t, o, probe))) }(), 0, ErrNotOurs},
		{"echo reply without data", echo, shortPong, 0, ErrNotOurs},
		{"echo reply to a UDP flow", udp, pong, 0, ErrNotOurs},
		{"echo request", echo, icmpPacket(t, icmp.Message{Type: ipv4.ICMPTypeEcho, Body: &icmp.Echo{ID: 40001, Seq: 700, Data: make([]byte, 20)}}, false), 0, ErrNotOurs},
		{"neighbour advertisement", echo6, icmpPacket(t, icmp.Message{Type: ipv6.ICMPTypeNeighborAdvertisement, Body: &icmp.RawBody{Data: make([]byte, 20)}}, true), 0, ErrNotOurs},
		{"ICMP checksum", udp, corrupt(fail(udp, Message{From: router4, Kind: TimeExceeded}), 60), 0, ErrMalformed},
		{"not for us", udp, corrupt(fail(udp, Message{From: router4, Kind: TimeExceeded}), 17), 0, ErrNotOurs},
		{"fragment", udp, corrupt(fail(udp, Message{From: router4, Kind: TimeExceeded}), 7), 0, ErrMalformed},
		{"cut short", udp, fail(udp, Message{From: router4, Kind: TimeExceeded})[:50], 0, ErrMalformed},
		{"own probe", udp, build(t, udp, probe), 0, ErrNotOurs},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r, err := ParseReply(tt.pkt, tt.flow)
			if !errors.Is(err, tt.err) || r.Kind != tt.want {
				t.Fatalf("kind %v, error %v, want %v, %v", r.Kind, err, tt.want, tt.err)
			}
			if err == nil && r.Seq != probe.Seq {
				t.Errorf("seq %d, want %d", r.Seq, probe.Seq)
			}
			if strings.HasPrefix(tt.name, "too big") {
				want := map[bool]int{false: 1400, true: 70000}[tt.flow.Src.Is6()]
				if r.MTU != want {
					t.Errorf("MTU %d, want %d", r.MTU, want)
				}
			}
		})
	}
}

// Next-hop MTUs of 0 and other absurdities arrive as they were sent.
func TestClaimedMTU(t *testing.T) {
	f := testFlow(ICMP, false)
	for _, mtu := range []int{0, 68, 552, 65535} {
		b, err := ErrorFor(nil, build(t, f, Probe{Seq: 1, Size: 1500}), Message{From: router4, Kind: TooBig, MTU: mtu})
		if err != nil {
			t.Fatal(err)
		}
		if r, err := ParseReply(b, f); err != nil || r.MTU != mtu || r.Kind != TooBig {
			t.Errorf("claim %d: %+v, %v", mtu, r, err)
		}
	}
}

func TestErrorForErrors(t *testing.T) {
	pkt := build(t, testFlow(UDP, false), Probe{})
	for name, m := range map[string]Message{
		"no kind":      {From: router4},
		"no reason":    {From: router4, Kind: Unreachable, Reason: 99},
		"other family": {From: router6, Kind: TimeExceeded},
		"no address":   {Kind: TimeExceeded},
	} {
		if _, err := ErrorFor(nil, pkt, m); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestICMPError(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		f := testFlow(ICMP, v6)
		from := router4
		if v6 {
			from = router6
		}
		echo := build(t, f, Probe{Size: 100})
		fail, err := ErrorFor(nil, echo, Message{From: from, Kind: TimeExceeded})
		if err != nil {
			t.Fatal(err)
		}
		for _, tt := range []struct {
			pkt  []byte
			want bool
		}{{echo, false}, {fail, true}, {build(t, testFlow(UDP, v6), Probe{}), false}} {
			p, err := ParsePacket(tt.pkt)
			if err != nil || p.ICMPError() != tt.want {
				t.Errorf("IPv6 %v: ICMPError = %v, %v, want %v", v6, p.ICMPError(), err, tt.want)
			}
		}
	}
}

func TestTCPReplyTo(t *testing.T) {
	f := testFlow(TCP, false)
	syn := build(t, f, Probe{Seq: 9})
	flags := func(v byte) []byte { b := append([]byte(nil), syn...); b[33] = v; return b }
	for _, tt := range []struct {
		name string
		pkt  []byte
		open bool
		want byte // flags, 0 for silence
	}{
		{"SYN to open", syn, true, tcpSYN | tcpACK},
		{"SYN to closed", syn, false, tcpRST | tcpACK},
		{"ACK to closed", flags(tcpACK), false, tcpRST},
		{"ACK to open", flags(tcpACK), true, 0},
		{"RST to closed", flags(tcpRST), false, 0},
		{"no TCP", build(t, testFlow(UDP, false), Probe{}), true, 0},
	} {
		b, err := TCPReplyTo(nil, tt.pkt, tt.open)
		if tt.want == 0 {
			if !errors.Is(err, ErrNotOurs) {
				t.Errorf("%s: %x, %v, want silence", tt.name, b, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
		} else if b[33] != tt.want || transportSum(t, b) != 0 {
			t.Errorf("%s: flags %#x, checksum off by %#x", tt.name, b[33], transportSum(t, b))
		}
	}
}

func TestDecrementTTL(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		pkt := build(t, testFlow(UDP, v6), Probe{TTL: 255})
		for want := 254; want >= 0; want-- {
			if got := DecrementTTL(pkt); got != want {
				t.Fatalf("TTL %d, want %d", got, want)
			}
			if !v6 && Checksum(pkt[:ipv4Len]) != 0 {
				t.Fatalf("TTL %d: wrong checksum", want)
			}
		}
	}
}
