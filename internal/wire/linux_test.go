package wire

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

var (
	client4 = netip.MustParseAddr("192.0.2.1")
	router4 = netip.MustParseAddr("192.0.2.2")
	server4 = netip.MustParseAddr("198.51.100.9")
	client6 = netip.MustParseAddr("2001:db8::1")
	router6 = netip.MustParseAddr("2001:db8::2")
	server6 = netip.MustParseAddr("2001:db8:9::9")
)

// addrs lets cmp compare addresses.
var addrs = cmpopts.EquateComparable(netip.Addr{})

func testFlow(p Protocol, v6 bool) Flow {
	if v6 {
		return Flow{Proto: p, Src: client6, Dst: server6, SrcPort: 40001, DstPort: 33434}
	}
	return Flow{Proto: p, Src: client4, Dst: server4, SrcPort: 40001, DstPort: 33434}
}

// readCapture returns the IP packets of testdata/linux.pcap.
func readCapture(tb testing.TB) [][]byte {
	tb.Helper()
	b, err := os.ReadFile("testdata/linux.pcap")
	if err != nil {
		tb.Fatal(err)
	}
	const fileHeader, recordHeader, ethernet = 24, 16, 14
	var packets [][]byte
	for b = b[fileHeader:]; len(b) > 0; {
		n := int(binary.LittleEndian.Uint32(b[8:]))
		packets = append(packets, b[recordHeader+ethernet:recordHeader+n])
		b = b[recordHeader+n:]
	}
	return packets
}

// exchange is a probe of the capture and the answer to it.
type exchange struct {
	flow  Flow
	probe Probe
	reply Reply
	pkt   []byte // the probe
	raw   []byte // the answer
}

func (e exchange) String() string {
	family := "4"
	if e.flow.Src.Is6() {
		family = "6"
	}
	return fmt.Sprintf("%v%s port %d seq %d", e.flow.Proto, family, e.flow.SrcPort, e.probe.Seq)
}

// exchanges says what is in the capture.
func exchanges(tb testing.TB) []exchange {
	type row struct {
		seq       uint16
		ttl, size int
		kind      Kind
		router    bool
		typ, code uint8
		quoted    int // TTL
		length    int // of the quote
	}
	error4, error6 := 576-2*ipv4Len-icmpLen, 1280-2*ipv6Len-icmpLen
	rows := map[bool]map[Protocol][]row{
		false: {
			UDP: {
				{258, 1, 0, TimeExceeded, true, 11, 0, 1, 16}, {772, 0, 0, PortReply, false, 3, 3, 63, 16},
				{1286, 0, 1500, TooBig, true, 3, 4, 64, error4}, {1287, 0, 1301, PortReply, false, 3, 3, 63, error4},
				{2000, 0, 101, PortReply, false, 3, 3, 63, 81},
			},
			ICMP: {
				{258, 1, 0, TimeExceeded, true, 11, 0, 1, 16}, {772, 0, 0, EchoReply, false, 0, 0, -1, 0},
				{1286, 0, 1500, TooBig, true, 3, 4, 64, error4}, {1287, 0, 1301, EchoReply, false, 0, 0, -1, 0},
				{2000, 0, 101, EchoReply, false, 0, 0, -1, 0},
			},
			TCP: {
				{258, 1, 0, TimeExceeded, true, 11, 0, 1, 24}, {772, 0, 0, PortReply, false, 0, 0, -1, 0},
				{1286, 0, 1500, TooBig, true, 3, 4, 64, error4}, {1287, 0, 1301, PortReply, false, 0, 0, -1, 0},
			},
		},
		true: {
			UDP: {
				{258, 1, 0, TimeExceeded, true, 3, 0, 1, 16}, {772, 0, 0, PortReply, false, 1, 4, 63, 16},
				{1286, 0, 1500, TooBig, true, 2, 0, 64, error6}, {1287, 0, 1301, PortReply, false, 1, 4, 63, error6},
				{2000, 0, 101, PortReply, false, 1, 4, 63, 61},
			},
			ICMP: {
				{258, 1, 0, TimeExceeded, true, 3, 0, 1, 16}, {772, 0, 0, EchoReply, false, 129, 0, -1, 0},
				{1286, 0, 1500, TooBig, true, 2, 0, 64, error6}, {1287, 0, 1301, EchoReply, false, 129, 0, -1, 0},
				{2000, 0, 101, EchoReply, false, 129, 0, -1, 0},
			},
			TCP: {
				{258, 1, 0, TimeExceeded, true, 3, 0, 1, 24}, {772, 0, 0, PortReply, false, 0, 0, -1, 0},
				{1287, 0, 1301, PortReply, false, 0, 0, -1, 0},
			},
		},
	}
	packets := readCapture(tb)
	var all []exchange
	for _, p := range []Protocol{UDP, ICMP, TCP} {
		for _, v6 := range []bool{false, true} {
			for _, r := range rows[v6][p] {
				e := exchange{flow: testFlow(p, v6), probe: Probe{Seq: r.seq, TTL: r.ttl, Size: r.size}}
				if r.seq == 2000 {
					e.flow.SrcPort = 40002
				}
				e.reply = Reply{Seq: r.seq, Kind: r.kind, From: e.flow.Dst, Type: r.typ, Code: r.code, TTL: 63, QuotedTTL: r.quoted, QuotedLen: r.length}
				if r.router {
					e.reply.TTL, e.reply.From = 64, router4
					if v6 {
						e.reply.From = router6
					}
				}
				if r.kind == TooBig {
					e.reply.MTU = 1400
				}
				if r.quoted < 0 {
					e.reply.QuotedTOS = -1
				}
				if p == TCP && r.quoted >= 0 {
					e.reply.QuotedMSS = 1500 - e.flow.ipLen() - tcpLen
				}
				e.reply.Reset = p == TCP && r.quoted < 0 // its ports were closed
				e.pkt, e.raw, packets = packets[0], packets[1], packets[2:]
				all = append(all, e)
			}
		}
	}
	if len(packets) > 0 {
		tb.Fatalf("%d packets left in the capture", len(packets))
	}
	return all
}

// What Build makes is what the kernel makes of BuildPayload, and both are what
// a real network answered.
func TestBuildAgainstLinux(t *testing.T) {
	for _, e := range exchanges(t) {
		t.Run(e.String(), func(t *testing.T) {
			got, err := Build([]byte{1, 2}, e.flow, e.probe)
			if err != nil {
				t.Fatal(err)
			}
			want, got := e.pkt, got[2:]
			if e.flow.SrcPort == 40002 { // an IP header of the kernel's
				hlen := e.flow.ipLen()
				want, got = want[hlen:], got[hlen:]
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("Build (-want +got):\n%s", diff)
			}
			payload, err := BuildPayload(e.flow, e.probe)
			if err != nil {
				t.Fatal(err)
			}
			wantPayload := e.pkt[e.flow.ipLen():]
			switch e.flow.Proto {
			case UDP:
				wantPayload = wantPayload[udpLen:]
			case TCP:
				wantPayload = nil
			}
			if diff := cmp.Diff(wantPayload, payload); diff != "" {
				t.Errorf("BuildPayload (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseReplyFromLinux(t *testing.T) {
	all := exchanges(t)
	for _, e := range all {
		t.Run(e.String(), func(t *testing.T) {
			got, err := ParseReply(e.raw, e.flow)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(e.reply, got, addrs); diff != "" {
				t.Errorf("ParseReply (-want +got):\n%s", diff)
			}
			for _, other := range all {
				if other.flow == e.flow {
					continue
				}
				if r, err := ParseReply(e.raw, other.flow); err == nil {
					t.Errorf("taken for an answer to %v: %+v", other, r)
				}
			}
		})
	}
}

// The answers that models give are, but for identifications and flow labels,
// those of Linux.
func TestAnswersAgainstLinux(t *testing.T) {
	for _, e := range exchanges(t) {
		t.Run(e.String(), func(t *testing.T) {
			probe := append([]byte(nil), e.pkt...)
			fromServer := e.reply.From == e.flow.Dst
			if fromServer {
				DecrementTTL(probe)
			}
			got, err := answer(e, probe)
			if err != nil {
				t.Fatal(err)
			}
			if fromServer {
				DecrementTTL(got)
			}
			want := append([]byte(nil), e.raw...)
			neutral(want)
			neutral(got)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
		})
	}
}

func answer(e exchange, probe []byte) ([]byte, error) {
	switch {
	case e.reply.Kind == EchoReply:
		return EchoReplyTo(nil, probe)
	case e.flow.Proto == TCP && e.reply.Kind == PortReply:
		return TCPReplyTo(nil, probe, false)
	case e.reply.Kind == PortReply:
		return ErrorFor(nil, probe, Message{From: e.reply.From, Kind: Unreachable, Reason: NoPort})
	}
	return ErrorFor(nil, probe, Message{From: e.reply.From, Kind: e.reply.Kind, MTU: e.reply.MTU})
}

// neutral removes what the kernel chooses freely: identification and flow
// label.
func neutral(b []byte) {
	if b[0]>>4 == 6 {
		b[1] &= 0xf0
		b[2], b[3] = 0, 0
		return
	}
	b[4], b[5] = 0, 0
	setHeaderChecksum(b)
}
