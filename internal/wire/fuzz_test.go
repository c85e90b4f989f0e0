package wire

import (
	"errors"
	"testing"
)

func fuzzFlows() []Flow {
	var all []Flow
	for _, p := range []Protocol{UDP, ICMP, TCP} {
		for _, v6 := range []bool{false, true} {
			all = append(all, testFlow(p, v6))
		}
	}
	return all
}

// known reports whether err is one that callers can tell apart.
func known(err error) bool {
	return errors.Is(err, ErrMalformed) || errors.Is(err, ErrNotOurs) || errors.Is(err, ErrUnnumbered)
}

// Whatever arrives, ParseReply neither panics nor accepts what does not show
// one of our probes.
func FuzzParseReply(f *testing.F) {
	for _, e := range exchanges(f) {
		f.Add(e.raw)
		f.Add(e.raw[:len(e.raw)/2])
	}
	f.Fuzz(func(t *testing.T, pkt []byte) {
		for _, flow := range fuzzFlows() {
			r, err := ParseReply(pkt, flow)
			if err != nil {
				if !known(err) {
					t.Errorf("unknown error %v", err)
				}
				continue
			}
			p, err := ParsePacket(pkt)
			switch {
			case err != nil || p.Dst != flow.Src || p.Src != r.From || p.TTL != r.TTL:
				t.Errorf("accepted %+v of packet %+v, %v", r, p, err)
			case r.Kind < TimeExceeded || r.Kind > OtherError:
				t.Errorf("kind %d", r.Kind)
			case len(r.Labels) > maxLabels || len(r.Labels) > len(pkt)/labelLen:
				t.Errorf("%d labels in %d bytes", len(r.Labels), len(pkt))
			case r.Kind != EchoReply && p.Proto == ICMP && (r.QuotedLen < 8 || r.QuotedLen > len(pkt) || r.QuotedTTL < 0):
				t.Errorf("quote of %d bytes with TTL %d in %d bytes", r.QuotedLen, r.QuotedTTL, len(pkt))
			case p.Proto == TCP && (flow.Proto != TCP || p.Src != flow.Dst):
				t.Errorf("TCP from %v for %+v", p.Src, flow)
			}
			if r.Kind == EchoReply {
				if _, err := MatchPayload(p.Payload[icmpLen:], flow); err != nil {
					t.Errorf("echo reply without the token: %v", err)
				}
			}
		}
	})
}

// Whatever is quoted, MatchQuote accepts only what Build makes: the bytes that
// identify a probe are compared with a probe built anew.
func FuzzMatchQuote(f *testing.F) {
	for _, e := range exchanges(f) {
		f.Add(e.pkt)
		f.Add(e.pkt[:e.flow.ipLen()+8])
	}
	f.Fuzz(func(t *testing.T, quote []byte) {
		for _, flow := range fuzzFlows() {
			seq, q, err := MatchQuote(quote, flow)
			if err != nil {
				if !known(err) {
					t.Errorf("unknown error %v", err)
				}
				continue
			}
			p, err := parseHeader(quote)
			if err != nil || p.Proto != flow.Proto || p.FragOffset != 0 {
				t.Fatalf("accepted %+v, %v", p, err)
			}
			same := map[Protocol][2]int{UDP: {0, 4}, ICMP: {4, 8}, TCP: {0, 8}}[flow.Proto]
			if q.Translated && q.Token { // the token stands for addresses and ports
				at := p.HeaderLen + 8
				if got, err := MatchPayload(quote[at:], flow); err != nil || got != seq {
					t.Errorf("token of %d, %v, for %d", got, err, seq)
				}
				continue
			}
			if (p.Src != flow.Src || p.Dst != flow.Dst) && (!q.Translated || flow.Proto == UDP || flow.Proto == ICMP && p.Version == 6) {
				t.Fatalf("accepted %+v without a proof: %+v", p, q)
			}
			if q.Len < 8 || q.Len > len(quote) || q.TTL != p.TTL {
				t.Errorf("quote %+v of %d bytes", q, len(quote))
			}
			probe, err := Build(nil, flow, Probe{Seq: seq})
			if err != nil {
				if flow.Proto == UDP && seq == 0xffff {
					continue // only a token says so, and none was sent
				}
				t.Fatalf("seq %d can't be sent: %v", seq, err)
			}
			want, got := probe[flow.ipLen():], quote[p.HeaderLen:]
			if string(want[same[0]:same[1]]) != string(got[same[0]:same[1]]) {
				t.Errorf("accepted %x for %x", got[:8], want[:8])
			}
		}
	})
}

// Whatever stands behind a quote, SplitExtensions returns a front of what it
// was given, and no more labels than bytes.
func FuzzSplitExtensions(f *testing.F) {
	for _, length := range []int{0, 16, 128, 136, 1 << 20, -4} {
		f.Add(extended(128, Label{Value: 16014, TTL: 1}, Label{Value: 5, Bottom: true}), length, 28)
		f.Add(extended(100, Label{Value: 1<<20 - 1, TC: 7}), length, 0)
	}
	f.Fuzz(func(t *testing.T, data []byte, length, cut int) {
		quote, labels := SplitExtensions(data, length, cut)
		if len(quote) > len(data) || len(labels) > maxLabels || len(labels)*labelLen > len(data)-len(quote) {
			t.Errorf("%d bytes of quote and %d labels in %d bytes", len(quote), len(labels), len(data))
		}
		if string(quote) != string(data[:len(quote)]) {
			t.Error("the quote is not the front")
		}
	})
}

// What a kernel's SYN looks like when it is quoted: any options, cut anywhere.
func FuzzMatchConnect(f *testing.F) {
	for _, e := range exchanges(f) {
		if e.flow.Proto == TCP {
			f.Add(e.pkt[e.flow.ipLen():])
		}
	}
	f.Fuzz(func(t *testing.T, quote []byte) {
		for _, v6 := range []bool{false, true} {
			q, err := MatchConnect(quote, testFlow(TCP, v6))
			if err != nil {
				if !known(err) {
					t.Errorf("unknown error %v", err)
				}
				continue
			}
			if q.MSS > 0xffff || q.Len != len(quote) || q.TTL != -1 || q.TOS != -1 {
				t.Errorf("quote %+v of %d bytes", q, len(quote))
			}
		}
	})
}

func FuzzReassembler(f *testing.F) {
	for _, e := range exchanges(f) {
		f.Add(e.pkt, e.raw)
	}
	f.Fuzz(func(t *testing.T, a, b []byte) {
		var r Reassembler
		for range 2 {
			for _, pkt := range [][]byte{a, b} {
				got := r.Add(pkt)
				if p, err := ParsePacket(got); err == nil && p.Fragment() {
					t.Error("put together to a fragment")
				}
			}
		}
	})
}
