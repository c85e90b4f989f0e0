package netprobe

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/whyslow/whyslow/internal/wire"
	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
	"golang.org/x/sys/unix"
)

// timeExceeded has the router from say that quote expired, with extensions.
func timeExceeded(t *testing.T, from, to netip.Addr, quote []byte, ext ...icmp.Extension) {
	t.Helper()
	m := icmp.Message{Type: ipv4.ICMPTypeTimeExceeded, Body: &icmp.TimeExceeded{Data: quote, Extensions: ext}}
	var psh []byte
	if to.Is6() {
		m.Type = ipv6.ICMPTypeTimeExceeded
		psh = icmp.IPv6PseudoHeader(from.AsSlice(), to.AsSlice())
	}
	b, err := m.Marshal(psh)
	must(t, err)
	f := familyOf(to)
	fd, err := f.socket(unix.SOCK_RAW, unix.IPPROTO_RAW)
	must(t, err)
	defer unix.Close(fd)
	sa, err := sockaddr(to, 0)
	must(t, err)
	pkt := withHeader(message{data: b, name: netip.AddrPortFrom(from, 0), ttl: 61}, to, byte(f.icmp))
	must(t, unix.Sendto(fd, pkt, 0, sa))
}

// numberOf is the IP protocol of a kind of probe.
func numberOf(proto wire.Protocol, f *family) byte {
	switch proto {
	case wire.UDP:
		return unix.IPPROTO_UDP
	case wire.TCP:
		return unix.IPPROTO_TCP
	}
	return byte(f.icmp)
}

// eachQuoted sends one probe of every kind and gives f what left, so that f can
// answer for a router with what it likes to quote.
func eachQuoted(t *testing.T, p wire.Probe, f func(t *testing.T, i int, conn Conn, pkt []byte, src, router netip.Addr)) {
	c := newChain(t, 0)
	for _, v6 := range []bool{false, true} {
		dst, router := labAddr(v6, 0, 99), labAddr(v6, 0, 2)
		addNeighbour(t, "r0", dst)
		for i, k := range kinds {
			t.Run(fmt.Sprintf("%s/v6=%v", k.name, v6), func(t *testing.T) {
				c.here(t)
				conn := open(t, dst, k.cfg)
				wire := newCapture(t, "r0")
				send(t, conn, p)
				f(t, i, conn, wire.sent(t, numberOf(k.proto, familyOf(dst))), labAddr(v6, 0, 1), router)
			})
		}
	}
}

// A router in an MPLS network tells the labels the probe came with, RFC 4950.
func TestLabelsAreReadWithoutPrivilege(t *testing.T) {
	want := []wire.Label{{Value: 16014, TC: 5, TTL: 1}, {Value: 299776, Bottom: true, TTL: 254}}
	labels := &icmp.MPLSLabelStack{Class: 1, Type: 1, Labels: []icmp.MPLSLabel{
		{Label: 16014, TC: 5, TTL: 1}, {Label: 299776, S: true, TTL: 254},
	}}
	eachQuoted(t, wire.Probe{Seq: 4, TTL: 3}, func(t *testing.T, i int, conn Conn, pkt []byte, src, router netip.Addr) {
		timeExceeded(t, router, src, pkt, labels)
		r := recv(t, conn)
		if diff := cmp.Diff(want, r.Labels); diff != "" || r.Seq != 4 || r.Kind != wire.TimeExceeded || r.From != router || r.TTL != 61 || r.Translated {
			t.Errorf("got %+v\nlabels (-want +got):\n%s", r, diff)
		}
	})
}

func TestTypeOfServiceIsSentAndSeenInQuotes(t *testing.T) {
	const tos = 0xb8 // EF
	eachQuoted(t, wire.Probe{Seq: 1, TTL: 3, TOS: tos}, func(t *testing.T, i int, conn Conn, pkt []byte, src, router netip.Addr) {
		if p, err := wire.ParsePacket(pkt); err != nil || p.TOS != tos {
			t.Errorf("left with TOS %#x, %v", p.TOS, err)
		}
		timeExceeded(t, router, src, pkt)
		wantTOS, wantTTL := -1, -1
		if kinds[i].socket == "raw" {
			wantTOS, wantTTL = tos, 3
		}
		if r := recv(t, conn); r.QuotedTOS != wantTOS || r.QuotedTTL != wantTTL {
			t.Errorf("got %+v", r)
		}
	})
}

// Behind a clamp the quoted SYN has another MSS and a checksum that is right;
// behind a NAT it has a checksum that is right for another address.
func TestClampAndNATAreSeenInQuotedSYN(t *testing.T) {
	for _, tt := range []struct {
		name   string
		mss    uint16
		source byte // last octet; 0 means as it is
	}{{"as sent", 0, 0}, {"clamped", 1360, 0}, {"translated", 0, 201}} {
		t.Run(tt.name, func(t *testing.T) {
			eachQuoted(t, wire.Probe{Seq: 1, TTL: 3}, func(t *testing.T, i int, conn Conn, pkt []byte, src, router netip.Addr) {
				if kinds[i].proto != wire.TCP {
					return
				}
				want := uint16(1500 - ipLen(pkt) - 20)
				option := bytes.Index(pkt[ipLen(pkt)+20:], []byte{2, 4}) + ipLen(pkt) + 20
				if tt.mss != 0 {
					want = tt.mss
					binary.BigEndian.PutUint16(pkt[option+2:], tt.mss)
				}
				last := 15
				if src.Is6() {
					last = 23
				}
				was := pkt[last]
				if tt.source != 0 {
					pkt[last] = tt.source
				}
				finish(pkt, 16)
				pkt[last] = was // which a NAT puts back on the way back
				timeExceeded(t, router, src, pkt)
				if r := recv(t, conn); r.QuotedMSS != int(want) || r.Translated != (tt.source != 0) {
					t.Errorf("MSS %d, translated %v: %+v", want, tt.source != 0, r)
				}
			})
		})
	}
}

// A NAT that restores the identifier of a quoted echo may leave its checksum.
func TestNATIsSeenInQuotedEcho(t *testing.T) {
	eachQuoted(t, wire.Probe{Seq: 1, TTL: 3}, func(t *testing.T, i int, conn Conn, pkt []byte, src, router netip.Addr) {
		if kinds[i].proto != wire.ICMP {
			return
		}
		pkt[ipLen(pkt)+2] ^= 0x10
		timeExceeded(t, router, src, pkt)
		if r := recv(t, conn); !r.Translated || r.Seq != 1 {
			t.Errorf("got %+v", r)
		}
	})
}
