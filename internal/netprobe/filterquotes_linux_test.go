package netprobe

import (
	"net/netip"
	"testing"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/whyslow/whyslow/internal/wire"
)

// With 64 traces at once each raw socket was woken for the answers of all, and
// they took twelve times as long as one. What is ours must still pass, also
// where a NAT has changed it.
func TestRawSocketIsNotWokenForOthers(t *testing.T) {
	for _, f := range []*family{family4, family6} {
		src, dst, other := netip.MustParseAddr("192.0.2.10"), netip.MustParseAddr("203.0.113.80"), netip.MustParseAddr("192.0.2.99")
		if f == family6 {
			src, dst, other = netip.MustParseAddr("2001:db8:2::10"), netip.MustParseAddr("2001:db8:3::80"), netip.MustParseAddr("2001:db8:2::99")
		}
		for _, proto := range []wire.Protocol{wire.ICMP, wire.UDP, wire.TCP} {
			ours := wire.Flow{Proto: proto, Src: src, Dst: dst, SrcPort: 4711, DstPort: 33434}
			with := func(change func(*wire.Flow)) wire.Flow {
				o := ours
				change(&o)
				return o
			}
			filter := disassembled(t, quoteFilter(f, ours))
			for name, tt := range map[string]struct {
				pkt  []byte
				pass bool
			}{
				"time exceeded":         {expiry(t, f, ours, 0), true},
				"only 8 bytes quoted":   {expiry(t, f, ours, f.headerSize+8), true},
				"destination changed":   {expiry(t, f, with(func(o *wire.Flow) { o.Dst = other }), 0), true},
				"source changed":        {expiry(t, f, with(func(o *wire.Flow) { o.Src = other }), 0), true},
				"source, port changed":  {expiry(t, f, with(func(o *wire.Flow) { o.Src, o.SrcPort = other, 99 }), 0), true},
				"another's":             {expiry(t, f, with(func(o *wire.Flow) { o.SrcPort = 4712 }), 0), false},
				"another's to another":  {expiry(t, f, with(func(o *wire.Flow) { o.SrcPort, o.Dst = 4712, other }), 0), false},
				"our echo reply":        {echoAnswer(t, f, ours), proto == wire.ICMP},
				"another's echo reply":  {echoAnswer(t, f, with(func(o *wire.Flow) { o.SrcPort = 4712 })), false},
				"cut off":               {expiry(t, f, ours, f.headerSize+1), false},
				"nothing behind the IP": {expiry(t, f, ours, 0)[:max(f.headerSize%40, 1)], false},
			} {
				n, err := filter.Run(tt.pkt)
				if err != nil {
					t.Fatal(err)
				}
				if (n > 0) != tt.pass {
					t.Errorf("%s, %v: %s: passes %v", f.name, proto, name, n > 0)
				}
			}
			if f == family4 {
				pkt := expiry(t, f, ours, 0)
				pkt[28] = 0x46 // a quote with options is left to the parser
				if n, err := filter.Run(pkt); err != nil || n == 0 {
					t.Errorf("%v: a quote with options is dropped: %v", proto, err)
				}
			}
		}
	}
}

func disassembled(t *testing.T, prog []unix.SockFilter) *bpf.VM {
	t.Helper()
	var ins []bpf.Instruction
	for _, p := range prog {
		ins = append(ins, bpf.RawInstruction{Op: p.Code, Jt: p.Jt, Jf: p.Jf, K: p.K}.Disassemble())
	}
	vm, err := bpf.NewVM(ins)
	if err != nil {
		t.Fatalf("%v in %v", err, ins)
	}
	return vm
}

// expiry is a time exceeded about a probe, as a raw socket is handed it,
// quoting so many bytes; all if 0.
func expiry(t *testing.T, f *family, flow wire.Flow, quoted int) []byte {
	t.Helper()
	probe, err := wire.Build(nil, flow, wire.Probe{Seq: 7, TTL: 3})
	if err != nil {
		t.Fatal(err)
	}
	if quoted == 0 {
		quoted = len(probe)
	}
	typ := byte(11)
	if f == family6 {
		typ = 3
	}
	return append(ipHeader(f), append([]byte{typ, 0, 0, 0, 0, 0, 0, 0}, probe[:quoted]...)...)
}

func echoAnswer(t *testing.T, f *family, flow wire.Flow) []byte {
	t.Helper()
	return append(ipHeader(f), f.echoReply, 0, 0, 0, byte(flow.SrcPort>>8), byte(flow.SrcPort), 0, 7)
}

// ipHeader is what stands before the ICMP header.
func ipHeader(f *family) []byte {
	if f == family6 {
		return nil
	}
	b := make([]byte, 20)
	b[0] = 0x45
	return b
}
