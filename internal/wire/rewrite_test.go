package wire

import (
	"net/netip"
	"testing"
)

// A rewritten packet has right checksums and its new tuple, and rewriting it
// back gives the same bytes.
func TestRewrite(t *testing.T) {
	for _, proto := range []Protocol{UDP, ICMP, TCP} {
		for _, v6 := range []bool{false, true} {
			f := testFlow(proto, v6)
			pkt := build(t, f, Probe{Seq: 9, Size: 301})
			was, ok := tupleOf(t, pkt)
			if !ok || was.Src != f.Src || was.Dst != f.Dst || was.SrcPort != f.SrcPort {
				t.Fatalf("tuple %+v, %v", was, ok)
			}
			to := natTuple(was, v6)
			got := append([]byte(nil), pkt...)
			Rewrite(got, to)
			if is, ok := tupleOf(t, got); !ok || is != to {
				t.Errorf("%v, IPv6 %v: tuple %+v, want %+v", proto, v6, is, to)
			}
			if c := transportSum(t, got); c != 0 {
				t.Errorf("%v, IPv6 %v: transport checksum off by %#x", proto, v6, c)
			}
			if !v6 && Checksum(got[:ipv4Len]) != 0 {
				t.Errorf("%v: header checksum wrong", proto)
			}
			Rewrite(got, was)
			if string(got) != string(pkt) {
				t.Errorf("%v, IPv6 %v: there and back gives\n%x, want\n%x", proto, v6, got, pkt)
			}
		}
	}
}

func tupleOf(tb testing.TB, pkt []byte) (Tuple, bool) {
	tb.Helper()
	p, err := ParsePacket(pkt)
	if err != nil {
		tb.Fatal(err)
	}
	return p.Tuple()
}

func natTuple(t Tuple, v6 bool) Tuple {
	t.Src = netip.MustParseAddr("203.0.113.5")
	if v6 {
		t.Src = netip.MustParseAddr("2001:db8:ff::5")
	}
	t.SrcPort = 1024
	return t
}

// An error about a translated packet, translated back, quotes the probe.
func TestRewriteQuote(t *testing.T) {
	for _, proto := range []Protocol{UDP, ICMP, TCP} {
		for _, v6 := range []bool{false, true} {
			for _, quote := range []int{0, 8, 16} {
				for _, stale := range []bool{false, true} {
					f := testFlow(proto, v6)
					pkt := build(t, f, Probe{Seq: 9, Size: 301})
					was, _ := tupleOf(t, pkt)
					Rewrite(pkt, natTuple(was, v6))
					m := Message{From: router4, Kind: TimeExceeded, Quote: quote, Labels: []Label{{Value: 3}}}
					if v6 {
						m.From = router6
					}
					fail, err := ErrorFor(nil, pkt, m)
					if err != nil {
						t.Fatal(err)
					}
					p, err := ParsePacket(fail)
					if err != nil {
						t.Fatal(err)
					}
					if q, ok := p.QuotedTuple(); !ok || q != natTuple(was, v6) {
						t.Errorf("quoted tuple %+v, %v", q, ok)
					}
					RewriteQuote(fail, was, stale)
					back := was
					back.Src, back.Dst, back.SrcPort, back.DstPort = m.From, was.Src, 0, 0
					Rewrite(fail, back)
					if c := transportSum(t, fail); c != 0 {
						t.Errorf("ICMP checksum off by %#x", c)
					}
					r, err := ParseReply(fail, f)
					if proto == UDP && stale && quote == 8 {
						// The checksum is the number no more; that the
						// identification contradicts it is seen.
						if !v6 && !r.Unnumbered {
							t.Errorf("stale checksum: %+v, %v", r, err)
						}
						continue
					}
					if err != nil || r.Seq != 9 || len(r.Labels) != 1 {
						t.Errorf("%v, IPv6 %v, quote %d, stale %v: %+v, %v", proto, v6, quote, stale, r, err)
					}
				}
			}
		}
	}
}

func TestClampMSS(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		f := testFlow(TCP, v6)
		syn := build(t, f, Probe{Seq: 3})
		odd := append([]byte(nil), syn...) // NOP, MSS, end
		odd = append(odd, 0, 0, 0, 0)
		n := f.ipLen()
		odd[n+12] = (tcpLen + 8) / 4 << 4
		copy(odd[n+20:], []byte{1, 2, 4, 5, 180, 1, 1, 0})
		if v6 {
			odd[5] += 4
		} else {
			odd[3] += 4
			setHeaderChecksum(odd)
		}
		odd[n+16], odd[n+17] = 0, 0
		c := ^fold(sum(f.pseudo(28), odd[n:]))
		odd[n+16], odd[n+17] = byte(c>>8), byte(c)
		for name, pkt := range map[string][]byte{"even": syn, "odd": odd} {
			if transportSum(t, pkt) != 0 {
				t.Fatal("test packet is wrong")
			}
			if ClampMSS(pkt, 1460) {
				t.Errorf("%s: clamped to what it was", name)
			}
			if !ClampMSS(pkt, 1300) || transportSum(t, pkt) != 0 {
				t.Errorf("%s: checksum off by %#x", name, transportSum(t, pkt))
			}
			if _, q, err := MatchQuote(pkt, f); err != nil || q.MSS != 1300 || q.Translated {
				t.Errorf("%s: %+v, %v", name, q, err)
			}
		}
		if ClampMSS(build(t, testFlow(UDP, v6), Probe{}), 500) {
			t.Error("clamped UDP")
		}
	}
}

func TestSetTOSAndTTL(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		pkt := build(t, testFlow(UDP, v6), Probe{TOS: 0x12})
		want := append([]byte(nil), pkt...)
		SetTOS(pkt, 0xb9)
		SetTTL(pkt, 200)
		p, err := ParsePacket(pkt)
		if err != nil || p.TOS != 0xb9 || p.TTL != 200 || !v6 && Checksum(pkt[:ipv4Len]) != 0 {
			t.Errorf("%+v, %v", p, err)
		}
		SetTOS(pkt, 0x12)
		SetTTL(pkt, 64)
		if string(pkt) != string(want) {
			t.Errorf("there and back gives\n%x, want\n%x", pkt, want)
		}
	}
}

// Whatever passes a NAT or a clamp in the model, they do not panic.
func FuzzRewrite(f *testing.F) {
	for _, e := range exchanges(f) {
		f.Add(e.pkt)
		f.Add(e.raw)
	}
	f.Fuzz(func(t *testing.T, pkt []byte) {
		for _, v6 := range []bool{false, true} {
			to := natTuple(Tuple{Dst: testFlow(UDP, v6).Dst, DstPort: 7}, v6)
			b := append([]byte(nil), pkt...)
			RewriteQuote(b, to, false)
			Rewrite(b, to)
			ClampMSS(b, 500)
			if len(b) != len(pkt) {
				t.Error("another length")
			}
		}
	})
}
