package accesslog

import (
	"hash/maphash"
	"iter"
	"math/bits"
	"net/netip"
)

// Tally counts something by address, in little memory: an entry is its 16
// bytes of address, the value, and about 16 bytes of index. It is exact up to a
// bound of distinct addresses. Beyond it, it keeps a sample of the addresses,
// chosen by a hash of the address alone, so that what is kept of an address is
// everything of it, and the same in every run and on every machine.
//
// The zero Tally is not ready: see [NewTally].
type Tally[V any] struct {
	seed maphash.Seed
	// index holds entry + 1 and above it half of the hash, which tells
	// nearly all others apart without a look at their entries: each would be
	// a cache miss. Linear probing, never more than 3/4 full.
	index []uint64
	// entries in blocks that never move: growing copies no entry, and a
	// pointer to a value stays good until the sample is thinned.
	blocks []*[tallyBlock]tallyEntry[V]
	n      int
	limit  int
	// shift: only addresses whose sampling hash begins with so many zero bits
	// are kept.
	shift int
	total uint64
}

type tallyEntry[V any] struct {
	addr  [16]byte
	value V
}

const tallyBlock = 1 << 12

// DefaultAddresses is how many distinct addresses a Tally holds if its caller
// does not say.
const DefaultAddresses = 2 << 20

// NewTally returns an empty tally that holds limit distinct addresses; 0 means
// DefaultAddresses.
func NewTally[V any](limit int) *Tally[V] {
	if limit <= 0 {
		limit = DefaultAddresses
	}
	return &Tally[V]{seed: maphash.MakeSeed(), limit: limit, index: make([]uint64, 1024)}
}

// At returns the value of an address, new and zero at its first call, to be
// changed in place before the next call of At; nil if the sample leaves the
// address out, or it is not valid. Each call counts as one observation.
func (t *Tally[V]) At(a netip.Addr) *V {
	if !a.IsValid() {
		return nil
	}
	t.total++
	key := a.As16()
	if t.shift > 0 && !sampled(&key, t.shift) {
		return nil
	}
	hash, mask := maphash.Bytes(t.seed, key[:]), uint64(len(t.index)-1)
	for at := hash & mask; t.index[at] != 0; at = (at + 1) & mask {
		if slot := t.index[at]; slot>>32 == hash>>32 {
			if e := t.entry(int(uint32(slot) - 1)); e.addr == key {
				return &e.value
			}
		}
	}
	if t.n == t.limit {
		t.thin()
		if !sampled(&key, t.shift) {
			return nil
		}
	}
	return t.insert(key)
}

// insert adds an address that is not there.
func (t *Tally[V]) insert(key [16]byte) *V {
	if (t.n+1)*4 > len(t.index)*3 {
		t.reindex(len(t.index) * 2)
	}
	if t.n == len(t.blocks)*tallyBlock {
		t.blocks = append(t.blocks, new([tallyBlock]tallyEntry[V]))
	}
	t.n++
	e := t.entry(t.n - 1)
	*e = tallyEntry[V]{addr: key}
	t.place(key, uint32(t.n))
	return &e.value
}

func (t *Tally[V]) entry(i int) *tallyEntry[V] {
	return &t.blocks[i/tallyBlock][i%tallyBlock]
}

func (t *Tally[V]) place(key [16]byte, number uint32) {
	hash, mask := maphash.Bytes(t.seed, key[:]), uint64(len(t.index)-1)
	at := hash & mask
	for t.index[at] != 0 {
		at = (at + 1) & mask
	}
	t.index[at] = hash>>32<<32 | uint64(number)
}

func (t *Tally[V]) reindex(size int) {
	t.index = make([]uint64, size)
	for i := range t.n {
		t.place(t.entry(i).addr, uint32(i+1))
	}
}

// thin halves the sample until half of the room is free, so that not each new
// address thins it again.
func (t *Tally[V]) thin() {
	for before := t.n; t.n > before/2+before/8; {
		t.shift++
		kept := 0
		for i := range t.n {
			e := t.entry(i)
			if sampled(&e.addr, t.shift) {
				*t.entry(kept) = *e
				kept++
			}
		}
		t.n = kept
		if t.shift == 64 {
			break
		}
	}
	t.reindex(len(t.index))
}

// sampled reports whether an address belongs to the sample of one in 2^shift.
func sampled(key *[16]byte, shift int) bool { return bits.LeadingZeros64(sampleHash(key)) >= shift }

// sampleHash mixes all bits of an address: neighbours in a network must not be
// kept or dropped together. It is fixed, so that samples of several runs and
// files are of the same addresses.
func sampleHash(key *[16]byte) uint64 {
	var hi, lo uint64
	for i := range 8 {
		hi, lo = hi<<8|uint64(key[i]), lo<<8|uint64(key[i+8])
	}
	h, l := bits.Mul64(hi^0x9e3779b97f4a7c15, lo^0xd1342543de82ef95)
	x := h ^ l ^ hi ^ bits.RotateLeft64(lo, 32)
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

// Len is how many addresses are kept.
func (t *Tally[V]) Len() int { return t.n }

// Exact reports whether every address is kept.
func (t *Tally[V]) Exact() bool { return t.shift == 0 }

// Fraction is the probability with which an address was kept: 1 while exact,
// else a power of one half. A total over all addresses is estimated by the one
// over those kept, divided by it.
func (t *Tally[V]) Fraction() float64 { return 1 / float64(uint64(1)<<min(t.shift, 63)) }

// Total is how many observations there were, kept or not.
func (t *Tally[V]) Total() uint64 { return t.total }

// Distinct is how many addresses there were: exact, or estimated from the
// sample.
func (t *Tally[V]) Distinct() float64 { return float64(t.n) / t.Fraction() }

// All yields the addresses kept, in the order of their first appearance as
// long as the tally is exact.
func (t *Tally[V]) All() iter.Seq2[netip.Addr, *V] {
	return func(yield func(netip.Addr, *V) bool) {
		for i := range t.n {
			e := t.entry(i)
			if !yield(netip.AddrFrom16(e.addr).Unmap(), &e.value) {
				return
			}
		}
	}
}
