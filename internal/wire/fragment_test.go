package wire

import (
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// pieces of a packet, each checked to be one.
func split(t *testing.T, pkt []byte, mtu int) [][]byte {
	t.Helper()
	var all [][]byte
	err := Fragment(pkt, mtu, 77, func(b []byte) {
		p, err := ParsePacket(b)
		if err != nil || len(b) > mtu || p.Len != len(b) {
			t.Errorf("fragment of %d bytes for MTU %d: %+v, %v", len(b), mtu, p, err)
		}
		if p.Version == 4 && Checksum(b[:p.HeaderLen]) != 0 {
			t.Error("fragment with a wrong header checksum")
		}
		all = append(all, append([]byte(nil), b...))
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestFragment(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		f := testFlow(ICMP, v6)
		pkt, err := EchoReplyTo(nil, build(t, f, Probe{Seq: 3, Size: 8999}))
		if err != nil {
			t.Fatal(err)
		}
		for _, mtu := range []int{9000, 8999, 8998, 1500, 1280, 576} {
			parts := split(t, pkt, mtu)
			if whole := len(parts) == 1; whole != (mtu >= len(pkt)) {
				t.Errorf("MTU %d: %d pieces", mtu, len(parts))
			}
			if !v6 && mtu == 1500 { // a second router narrows the path again
				var again [][]byte
				for _, b := range parts {
					again = append(again, split(t, b, 700)...)
				}
				parts = again
			}
			rng := rand.New(rand.NewPCG(1, 2))
			rng.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
			var r Reassembler
			var got []byte
			for i, b := range parts {
				got = r.Add(b)
				if (got != nil) != (i == len(parts)-1) {
					t.Fatalf("MTU %d: complete after %d of %d pieces", mtu, i+1, len(parts))
				}
			}
			if diff := cmp.Diff(pkt, got); diff != "" {
				t.Errorf("MTU %d (-want +got):\n%s", mtu, diff)
			}
			if len(r.pending) != 0 {
				t.Errorf("MTU %d: %d packets left pending", mtu, len(r.pending))
			}
		}
	}
}

func TestFragmentErrors(t *testing.T) {
	pkt := build(t, testFlow(UDP, false), Probe{Size: 100})
	for _, mtu := range []int{-1, 0, 20, 27} {
		if err := Fragment(pkt, mtu, 1, func([]byte) { t.Error("a fragment") }); err == nil {
			t.Errorf("MTU %d: no error", mtu)
		}
	}
}

// Fragments that never become a packet don't pile up.
func TestReassemblerBound(t *testing.T) {
	pkt, err := EchoReplyTo(nil, build(t, testFlow(ICMP, true), Probe{Size: 3000}))
	if err != nil {
		t.Fatal(err)
	}
	var r Reassembler
	for id := range uint32(1000) {
		first := true
		if err := Fragment(pkt, 1500, id, func(b []byte) {
			if first {
				r.Add(b)
			}
			first = false
		}); err != nil {
			t.Fatal(err)
		}
	}
	if len(r.pending) > maxPending {
		t.Errorf("%d packets pending", len(r.pending))
	}
}
