package netprobe

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/whyslow/whyslow/internal/wire"
	"golang.org/x/sys/unix"
)

// scamper once printed an RTT of 4294967.260 ms.
func TestClockIsNeverBeforeTheSend(t *testing.T) {
	now := time.Now()
	wall := now.Round(0)
	for _, tt := range []struct {
		name       string
		stamp      time.Time
		sent, want time.Time
		ok         bool
	}{
		{"between", wall.Add(-5 * time.Millisecond), now.Add(-20 * time.Millisecond), now.Add(-5 * time.Millisecond), true},
		{"at the send", wall.Add(-20 * time.Millisecond), now.Add(-20 * time.Millisecond), now.Add(-20 * time.Millisecond), true},
		{"none", time.Time{}, now.Add(-20 * time.Millisecond), now, false},
		{"clock stepped back since", wall.Add(time.Hour), now.Add(-20 * time.Millisecond), now, false},
		{"clock stepped forward since", wall.Add(-time.Hour), now.Add(-20 * time.Millisecond), now, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := clock(tt.stamp, now, tt.sent)
			if ok != tt.ok || got.Sub(tt.want) != 0 || got.Before(tt.sent) {
				t.Errorf("got %v before now, %v; want %v, %v", now.Sub(got), ok, now.Sub(tt.want), tt.ok)
			}
		})
	}
}

// control builds a control message.
func control(level, typ int, data []byte) []byte {
	b := make([]byte, unix.CmsgSpace(len(data)))
	copy(b[unix.CmsgLen(0):], data)
	if unix.SizeofCmsghdr == 16 {
		binary.NativeEndian.PutUint64(b, uint64(unix.CmsgLen(len(data))))
		binary.NativeEndian.PutUint32(b[8:], uint32(level))
		binary.NativeEndian.PutUint32(b[12:], uint32(typ))
	} else {
		binary.NativeEndian.PutUint32(b, uint32(unix.CmsgLen(len(data))))
		binary.NativeEndian.PutUint32(b[4:], uint32(level))
		binary.NativeEndian.PutUint32(b[8:], uint32(typ))
	}
	return b
}

func extendedErr(origin, typ, code uint8, info uint32, offender []byte) []byte {
	b := make([]byte, 16, 16+len(offender))
	b[4], b[5], b[6] = origin, typ, code
	binary.NativeEndian.PutUint32(b[8:], info)
	return append(b, offender...)
}

func sockaddrBytes(family uint16, addr []byte, at, size int) []byte {
	b := make([]byte, size)
	binary.NativeEndian.PutUint16(b, family)
	copy(b[at:], addr)
	return b
}

func TestParseControl(t *testing.T) {
	stamp := make([]byte, 48)
	binary.NativeEndian.PutUint64(stamp, 1700000000)
	binary.NativeEndian.PutUint64(stamp[8:], 5)
	off4 := sockaddrBytes(unix.AF_INET, []byte{203, 0, 113, 1}, 4, 16)
	a6 := netip.MustParseAddr("2001:db8::1").As16()
	off6 := sockaddrBytes(unix.AF_INET6, a6[:], 8, 28)
	join := func(parts ...[]byte) (b []byte) {
		for _, p := range parts {
			b = append(b, p...)
		}
		return b
	}
	for _, tt := range []struct {
		name string
		fam  *family
		oob  []byte
		want message
	}{
		{"nothing", family4, nil, message{}},
		{"v4 error", family4, join(
			control(unix.SOL_SOCKET, unix.SO_TIMESTAMPING, stamp),
			family4.appendTTL(nil, 61),
			control(unix.SOL_IP, unix.IP_RECVERR, extendedErr(2, 3, 4, 1400, off4)),
		), message{
			ttl: 61, stamp: time.Unix(1700000000, 5), queued: true, origin: 2, typ: 3, code: 4, info: 1400,
			offender: netip.MustParseAddr("203.0.113.1"),
		}},
		{"v6 error", family6, control(unix.SOL_IPV6, unix.IPV6_RECVERR, extendedErr(3, 2, 0, 1280, off6)), message{
			queued: true, origin: 3, typ: 2, info: 1280, offender: netip.MustParseAddr("2001:db8::1"),
		}},
		{"no offender", family4, control(unix.SOL_IP, unix.IP_RECVERR, extendedErr(4, 0, 0, 0, nil)), message{queued: true, origin: 4}},
		{"short error", family4, control(unix.SOL_IP, unix.IP_RECVERR, make([]byte, 15)), message{}},
		{"short stamp", family4, control(unix.SOL_SOCKET, unix.SO_TIMESTAMPING, stamp[:16]), message{}},
		{"zero stamp", family4, control(unix.SOL_SOCKET, unix.SO_TIMESTAMPING, make([]byte, 48)), message{}},
		{"another family's", family6, family4.appendTTL(nil, 61), message{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got message
			parseControl(tt.fam, tt.oob, &got)
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(message{}), cmp.Comparer(sameAddr), cmp.Comparer(sameAddrPort)); diff != "" {
				t.Errorf("message (-want +got):\n%s", diff)
			}
		})
	}
}

func sameAddrPort(a, b netip.AddrPort) bool { return a == b }

func TestDepartedFindsThePacketBehindAnyLinkHeader(t *testing.T) {
	for _, dst := range []string{"192.0.2.1", "2001:db8::1"} {
		flow := wire.Flow{Proto: wire.UDP, Dst: netip.MustParseAddr(dst), SrcPort: 5000, DstPort: 33434}
		flow.Src = netip.MustParseAddr(map[bool]string{true: "192.0.2.9", false: "2001:db8::9"}[flow.Dst.Is4()])
		pkt, err := wire.Build(nil, flow, wire.Probe{Seq: 12, Size: 500})
		must(t, err)
		for _, link := range []int{0, 14, 18} {
			if seq, ok := departed(append(make([]byte, link), pkt...), flow); !ok || seq != 12 {
				t.Errorf("%s behind %d bytes: %d, %v", dst, link, seq, ok)
			}
		}
		if _, ok := departed(pkt[:len(pkt)-1], flow); ok {
			t.Errorf("%s: a packet cut short is accepted", dst)
		}
		flow.SrcPort++
		if _, ok := departed(pkt, flow); ok {
			t.Errorf("%s: another flow's packet is accepted", dst)
		}
	}
}

// FuzzErrorQueue feeds what a recvmsg on an error queue returned, for each kind
// of socket and family. Whatever comes out must be a reply about this flow.
func FuzzErrorQueue(f *testing.F) {
	const udp, ping, connect = 0, 1, 2
	flows := map[bool]wire.Flow{
		false: {Src: netip.MustParseAddr("192.0.2.9"), Dst: netip.MustParseAddr("192.0.2.1"), SrcPort: 5000, DstPort: 33434},
		true:  {Src: netip.MustParseAddr("2001:db8::9"), Dst: netip.MustParseAddr("2001:db8::1"), SrcPort: 5000, DstPort: 33434},
	}
	protos := []wire.Protocol{udp: wire.UDP, ping: wire.ICMP, connect: wire.TCP}
	for _, v6 := range []bool{false, true} {
		fam, flow := family4, flows[v6]
		offender := sockaddrBytes(unix.AF_INET, []byte{1, 2, 3, 4}, 4, 16)
		if v6 {
			fam, offender = family6, sockaddrBytes(unix.AF_INET6, make([]byte, 16), 8, 28)
		}
		for kind, proto := range protos {
			flow.Proto = proto
			pkt, err := wire.Build(nil, flow, wire.Probe{Seq: 1, TTL: 1, Size: 200})
			must(f, err)
			quote := pkt[fam.headerSize:]
			if kind == udp {
				quote = quote[udpHeader:]
			}
			ee := extendedErr(fam.errOrigin, 11, 0, 0, offender)
			f.Add(control(fam.level, fam.recvErr, ee), quote, uint16(33434), uint8(kind), v6)
			binary.NativeEndian.PutUint16(ee[12:], uint16(len(quote)))
			labels := append(quote, 0x20, 0, 0, 0, 0, 8, 1, 1, 0, 1, 0x51, 1)
			f.Add(control(fam.level, fam.recvErr, ee), labels, uint16(33434), uint8(kind), v6)
			f.Add(control(fam.level, fam.recvErr, ee), quote[:8], uint16(33434), uint8(kind), v6)
		}
	}
	f.Fuzz(func(t *testing.T, oob, data []byte, port uint16, kind uint8, v6 bool) {
		fam, flow := family4, flows[v6]
		if v6 {
			fam = family6
		}
		kind %= 3
		flow.Proto = protos[kind]
		m := message{data: data, name: netip.AddrPortFrom(flow.Dst, port)}
		parseControl(fam, oob, &m)
		departed(data, flow)
		if kind == connect {
			if r, ok := connectError(m, &member{flow: flow, probe: wire.Probe{Seq: 1}}, fam); ok && (r.Seq != 1 || r.Kind == 0 || !r.From.IsValid()) {
				t.Errorf("accepted %+v", r)
			}
			return
		}
		c := &datagramConn{core: newCore(flow, Info{}), fam: fam}
		c.dialect = udpDialect{c.core}
		if kind == ping {
			c.dialect = pingDialect{c.core}
		}
		c.note(wire.Probe{Seq: 1, TTL: 1}, time.Now())
		if r, ok := c.failed(m); ok {
			c.deliver(r, m.stamp, time.Now())
		}
		if r, ok := c.pop(); ok && (r.Seq != 1 || r.Unnumbered || r.Kind == 0 || !r.From.IsValid() || r.Received.Before(c.probes[1].sent)) {
			t.Errorf("delivered %+v", r)
		}
	})
}

func TestUDPDataIsOfTheFarthestUnansweredProbe(t *testing.T) {
	c := newCore(wire.Flow{}, Info{})
	now := time.Now()
	for ttl := 1; ttl <= 5; ttl++ {
		c.note(wire.Probe{Seq: uint16(ttl), TTL: ttl}, now)
	}
	var got []uint16
	for range 3 { // hops 3 to 5 reach it
		seq, ok := c.unansweredFarthest()
		if !ok {
			t.Fatal("none left")
		}
		c.stamped(&wire.Reply{Seq: seq}, time.Time{}, now)
		got = append(got, seq)
	}
	if diff := cmp.Diff([]uint16{5, 4, 3}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
