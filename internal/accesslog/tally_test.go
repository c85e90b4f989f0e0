package accesslog

import (
	"encoding/binary"
	"math"
	"net/netip"
	"runtime"
	"testing"
)

// nth is a bijection from numbers to addresses, every other one of IPv6, in
// few networks, as the clients of a site are.
func nth(i uint32) netip.Addr {
	if i%2 == 0 {
		var a [4]byte
		binary.BigEndian.PutUint32(a[:], 0x0a000000+i/2)
		return netip.AddrFrom4(a)
	}
	a := [16]byte{0x20, 0x01, 0x0d, 0xb8}
	binary.BigEndian.PutUint32(a[6:], i%64)
	binary.BigEndian.PutUint32(a[12:], i)
	return netip.AddrFrom16(a)
}

// counts is what a caller may keep of an address.
type counts struct{ Requests, Connections, Slow uint64 }

// A tenth of a million here, the whole in BenchmarkTally: what an address
// costs does not depend on how many there are.
func TestTallyIsExactInLittleMemory(t *testing.T) {
	const distinct, lines = 100_000, 1_000_000
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	tally := NewTally[counts](0)
	x := uint32(1)
	for i := range uint32(lines) {
		x = x*1664525 + 1013904223
		n := x % distinct
		if i < distinct {
			n = i
		}
		tally.At(nth(n)).Requests++
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if !tally.Exact() || tally.Len() != distinct || tally.Total() != lines || tally.Fraction() != 1 || tally.Distinct() != distinct {
		t.Errorf("exact %v, %d addresses, %d lines, fraction %v", tally.Exact(), tally.Len(), tally.Total(), tally.Fraction())
	}
	// The same numbers again, counted apart.
	want := make([]uint64, distinct)
	x = 1
	for i := range uint32(lines) {
		x = x*1664525 + 1013904223
		n := x % distinct
		if i < distinct {
			n = i
		}
		want[n]++
	}
	i := uint32(0)
	for a, v := range tally.All() {
		if a != nth(i) || v.Requests != want[i] {
			t.Fatalf("address %d: %v with %d, want %v with %d", i, a, v.Requests, nth(i), want[i])
		}
		i++
	}
	if per := float64(after.HeapAlloc-before.HeapAlloc) / distinct; per > 80 {
		t.Errorf("%.0f bytes an address", per)
	}
	runtime.KeepAlive(tally)
}

// Beyond its bound a tally keeps whole addresses, chosen alike in every run,
// and its estimates are right.
func TestTallySamplesBeyondItsBound(t *testing.T) {
	const distinct, per, limit = 60_000, 3, 5_000
	a, b := NewTally[counts](limit), NewTally[counts](limit)
	for round := range per {
		for i := range uint32(distinct) {
			if v := a.At(nth(i)); v != nil {
				v.Requests++
			}
			if v := b.At(nth((i*7 + uint32(round)) % distinct)); v != nil { // another order
				v.Requests++
			}
		}
	}
	if a.Exact() || a.Len() > limit || a.Len() < limit/4 {
		t.Fatalf("exact %v with %d addresses", a.Exact(), a.Len())
	}
	sum := uint64(0)
	kept := map[netip.Addr]bool{}
	for addr, v := range a.All() {
		if v.Requests != per {
			t.Fatalf("%v was seen %d times, want all %d: it was dropped amid", addr, v.Requests, per)
		}
		kept[addr] = true
		sum += v.Requests
	}
	n := 0
	for addr := range b.All() {
		n++
		if a.Fraction() == b.Fraction() && !kept[addr] {
			t.Fatalf("%v is in one sample only", addr)
		}
	}
	if a.Fraction() != b.Fraction() || n != len(kept) {
		t.Errorf("two samples of the same addresses: %d at %v, %d at %v", len(kept), a.Fraction(), n, b.Fraction())
	}
	if a.Total() != distinct*per {
		t.Errorf("total %d", a.Total())
	}
	// Four standard errors of a binomial sample.
	tolerance := 4 * math.Sqrt((1-a.Fraction())/(distinct*a.Fraction()))
	if off := math.Abs(a.Distinct()/distinct - 1); off > tolerance {
		t.Errorf("%v distinct addresses estimated, want %d within %.1f %%", a.Distinct(), distinct, 100*tolerance)
	}
	if off := math.Abs(float64(sum)/a.Fraction()/(distinct*per) - 1); off > tolerance {
		t.Errorf("%v requests estimated", float64(sum)/a.Fraction())
	}
}

func TestTallyOfNoAddress(t *testing.T) {
	tally := NewTally[int](1)
	if tally.At(netip.Addr{}) != nil || tally.Len() != 0 || tally.Total() != 0 {
		t.Error("an invalid address was counted")
	}
	for i := range uint32(1000) { // a bound of one, and it ends
		tally.At(nth(i))
	}
	if tally.Len() > 1 {
		t.Errorf("%d kept", tally.Len())
	}
}
