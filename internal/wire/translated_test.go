package wire

import (
	"encoding/binary"
	"net/netip"
	"testing"
)

// A NAT or an MSS clamp shows in what an error quotes.
func TestQuoteShowsWhatChangedOnTheWay(t *testing.T) {
	public := map[bool]netip.Addr{false: netip.MustParseAddr("203.0.113.5"), true: netip.MustParseAddr("2001:db8:ff::5")}
	for _, v6 := range []bool{false, true} {
		for _, proto := range []Protocol{UDP, ICMP, TCP} {
			f := testFlow(proto, v6)
			n := f.ipLen()
			probe := Probe{Seq: 77, TTL: 3, Size: n + 100, TOS: 0xb8}
			pkt := build(t, f, probe)
			outside := f
			outside.Src, outside.SrcPort = public[v6], 1024
			sumAt := map[Protocol]int{UDP: 6, ICMP: 2, TCP: 16}[proto]
			clamped := append([]byte(nil), pkt...)
			if proto == TCP {
				binary.BigEndian.PutUint16(clamped[n+22:], 1200)
				binary.BigEndian.PutUint16(clamped[n+16:], 0)
				binary.BigEndian.PutUint16(clamped[n+16:], ^fold(sum(f.pseudo(100), clamped[n:])))
			}
			rewritten := append([]byte(nil), pkt...) // un-NATed, but for the checksum
			rewritten[n+sumAt] ^= 0x55
			unfinished := append([]byte(nil), pkt...)
			binary.BigEndian.PutUint16(unfinished[n+sumAt:], f.unfinished(100))
			gone := append([]byte(nil), pkt...)
			gone[n+sumAt], gone[n+sumAt+1] = 0, 0
			natted := append([]byte(nil), pkt...) // the quote as it was outside
			src := public[v6].AsSlice()
			copy(natted[map[bool]int{false: 12, true: 8}[v6]:], src)
			type test struct {
				name       string
				quote      []byte
				translated bool
				mss        int // 0: as sent; -1: not quoted
			}
			tests := []test{
				{"as sent", pkt, false, 0},
				{"cut to 8 bytes", pkt[:n+8], false, -1},
				{"cut to a TCP header", pkt[:n+20], false, -1},
				{"cut in the options", pkt[:n+23], false, -1},
				{"MSS clamped", clamped, false, 1200},
				{"checksum of other addresses", rewritten, true, 0},
				{"outside the NAT", natted, true, 0},
				{"checksum gone", gone, false, 0},
			}
			if proto != ICMP {
				tests = append(tests, test{"checksum unfinished", unfinished, false, 0})
			}
			for _, tt := range tests {
				seq, q, err := MatchQuote(tt.quote, f)
				if err != nil || seq != probe.Seq || q.Translated != tt.translated || q.TOS != 0xb8 {
					t.Errorf("%v, IPv6 %v, %s: seq %d, %+v, %v", proto, v6, tt.name, seq, q, err)
				}
				mss := tt.mss
				switch {
				case proto != TCP || mss < 0:
					mss = 0
				case mss == 0:
					mss = 1500 - n - tcpLen
				}
				if q.MSS != mss {
					t.Errorf("%v, IPv6 %v, %s: MSS %d, want %d", proto, v6, tt.name, q.MSS, mss)
				}
				seq, tq, err := MatchTransport(tt.quote[n:], f)
				if err != nil || seq != probe.Seq || tq.MSS != mss || tq.TTL != -1 || tq.TOS != -1 {
					t.Errorf("%v, IPv6 %v, %s, without the header: seq %d, %+v, %v", proto, v6, tt.name, seq, tq, err)
				}
			}
		}
	}
}

// A SYN of the kernel's own, with the options it sends.
func TestMatchConnect(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		f := testFlow(TCP, v6)
		syn := make([]byte, 40)
		binary.BigEndian.PutUint16(syn, f.SrcPort)
		binary.BigEndian.PutUint16(syn[2:], f.DstPort)
		binary.BigEndian.PutUint32(syn[4:], 0xdeadbeef)
		syn[12], syn[13] = 10<<4, tcpSYN
		copy(syn[20:], []byte{1, 4, 2, 8, 10, 1, 2, 3, 4, 0, 0, 0, 0, 2, 4, 5, 180, 1, 3, 3})
		binary.BigEndian.PutUint16(syn[16:], ^fold(sum(f.pseudo(len(syn)), syn)))
		if q, err := MatchConnect(syn, f); err != nil || q.MSS != 1460 || q.Translated {
			t.Errorf("%+v, %v", q, err)
		}
		padded := append(append([]byte(nil), syn...), make([]byte, 68)...)
		if q, err := MatchConnect(padded, f); err != nil || q.MSS != 1460 || q.Translated {
			t.Errorf("padded: %+v, %v", q, err)
		}
		if q, err := MatchConnect(syn[:8], f); err != nil || q.MSS != 0 || q.Translated {
			t.Errorf("8 bytes: %+v, %v", q, err)
		}
		nat := append([]byte(nil), syn...)
		nat[17] ^= 9
		if q, err := MatchConnect(nat, f); err != nil || q.MSS != 1460 || !q.Translated {
			t.Errorf("NAT: %+v, %v", q, err)
		}
		other := f
		other.SrcPort++
		if q, err := MatchConnect(syn, other); err == nil {
			t.Errorf("taken for another's: %+v", q)
		}
	}
}
