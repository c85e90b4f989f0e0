package bulk

import (
	"math/rand/v2"
	"time"
)

const (
	maxAttempts = 4
	maxWindow   = 8192 // identifiers are 16 bits, and each attempt holds one
)

// slot is a query under way.
type slot struct {
	query    int32
	attempts int
	first    time.Time
	earlier  int    // attempts at servers before this one
	silent   uint64 // of these servers
	sent     [maxAttempts]time.Time
	ids      [maxAttempts]uint16
	msg      []byte // as sent, but for the identifier
	zone     uint32
}

// table holds the queries under way and finds them by the identifier of any of
// their attempts.
type table struct {
	slots []slot
	free  []int32
	byID  []int32 // index of the slot plus one; 0 is none
	rng   *rand.Rand
	// queue has the attempts in the order they were sent, which is the order
	// in which they time out.
	queue []attempt
	head  int
}

// attempt is one datagram of a slot; it has been overtaken if the slot is used
// otherwise by now.
type attempt struct {
	slot  int32
	query int32
	n     int
	at    time.Time
}

func newTable(window int, seed uint64) *table {
	t := &table{slots: make([]slot, window), free: make([]int32, 0, window), byID: make([]int32, 1<<16),
		rng: rand.New(rand.NewPCG(seed, 53))}
	for i := window - 1; i >= 0; i-- {
		t.free = append(t.free, int32(i))
		t.slots[i].query = -1
	}
	return t
}

func (t *table) busy() int { return len(t.slots) - len(t.free) }

// take begins a query.
func (t *table) take(query int32) int32 {
	i := t.free[len(t.free)-1]
	t.free = t.free[:len(t.free)-1]
	s := &t.slots[i]
	*s = slot{query: query, msg: s.msg[:0]}
	return i
}

// id draws an unused identifier for a slot.
func (t *table) id(slot int32) uint16 {
	for {
		id := uint16(t.rng.Uint32())
		if t.byID[id] == 0 {
			t.byID[id] = slot + 1
			return id
		}
	}
}

// find is the slot whose query, in any of its attempts, bore an identifier.
func (t *table) find(id uint16) (int32, bool) {
	i := t.byID[id]
	return i - 1, i > 0
}

// push notes an attempt that was just sent.
func (t *table) push(slot int32, at time.Time) {
	s := &t.slots[slot]
	t.queue = append(t.queue, attempt{slot, s.query, s.attempts, at})
}

// oldest is the attempt that times out next. Those that are over are dropped.
func (t *table) oldest() (attempt, bool) {
	for t.head < len(t.queue) {
		a := t.queue[t.head]
		if s := &t.slots[a.slot]; s.query == a.query && s.attempts == a.n {
			return a, true
		}
		t.head++
	}
	t.queue, t.head = t.queue[:0], 0
	return attempt{}, false
}

// pop drops the oldest attempt.
func (t *table) pop() {
	t.head++
	if t.head > 4096 && t.head > len(t.queue)/2 {
		t.queue = t.queue[:copy(t.queue, t.queue[t.head:])]
		t.head = 0
	}
}

// done ends a query.
func (t *table) done(i int32) {
	s := &t.slots[i]
	for _, id := range s.ids[:s.attempts] {
		t.byID[id] = 0
	}
	s.query = -1
	t.free = append(t.free, i)
}
