package pmtu

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/whyslow/whyslow/internal/millis"
)

// Fetch asks the destination's web server for a page over a fresh connection
// whose segments have at most mss bytes (TCP_MAXSEG; zero means the kernel's
// choice), and gives up when nothing came for patience. It reads no more than
// MaxFetch.
type Fetch func(ctx context.Context, mss int, patience time.Duration) Fetched

// MaxFetch is how much of a page a Fetch reads. Bytes: some forty segments.
const MaxFetch = 64 << 10

// Fetched is what came of one Fetch.
type Fetched struct {
	MSS     int          `json:"mss"`   // that was set; 0 is the kernel's choice
	Bytes   int64        `json:"bytes"` // that came over the connection, TLS and headers included
	Elapsed millis.Value `json:"elapsed_ms"`
	// Stalled says that the connection stood and then nothing more came for
	// the patience given.
	Stalled bool `json:"stalled"`
	// Failure is why no page came, if not by stalling; empty otherwise.
	Failure string `json:"failure,omitempty"`
	// OurMSS, PeerMSS and LargestMSS are as in Backward; 0 means unknown.
	OurMSS     int `json:"our_mss"`
	PeerMSS    int `json:"peer_mss"`
	LargestMSS int `json:"largest_mss"`
}

const (
	// stalls is the silence that counts as a stall the first time: Linux
	// repeats a lost segment after 0.2 s, 0.6 s and 1.4 s.
	stalls = 3 * time.Second
	// leastStall is the least that counts when it is known how quickly the
	// page comes where it comes.
	leastStall = 1200 * time.Millisecond
	// doubt is the silence after which the control with small segments begins
	// beside it.
	doubt = time.Second
	// maxLoads bounds how often the page is asked for: enough for the sizes that
	// tunnels leave, while odd ones are told to within some bytes.
	maxLoads = 16
	atOnce   = 3 // sizes tried side by side in the later rounds
	// tells is how many full segments a page needs to tell anything.
	tells = 3
)

// headerBytes is what IP and TCP headers without options take: the difference
// of MTU and MSS.
func headerBytes(dst netip.Addr) int {
	if dst.Is6() {
		return 60
	}
	return 40
}

// backward is the experiment.
type backward struct {
	fetch  Fetch
	header int
	least  int // the MSS that passes everywhere
	mu     sync.Mutex
	res    Backward
}

// runBackward finds out what comes through from the server. Only where the
// page stalls with the kernel's segments and comes with small ones, twice, is
// it a black hole.
func runBackward(ctx context.Context, dst netip.Addr, fetch Fetch) Backward {
	b := &backward{fetch: fetch, header: headerBytes(dst), least: 536} // RFC 9293 3.7.1
	if dst.Is6() {
		b.least = leastMTU6 - b.header
	}
	plain, small := b.control(ctx)
	b.learn(plain)
	switch {
	case ctx.Err() != nil:
		b.res.Note = "stopped before it could tell"
	case plain.Failure != "":
		b.res.Note = plain.Failure
	case !plain.Stalled:
		b.passes(plain)
	default:
		b.stalled(ctx, plain, small)
	}
	return b.res
}

// control fetches with the kernel's segments and, once these have been silent
// for long, with small ones beside it: what comes to neither is no matter of
// size, and is waited for once.
func (b *backward) control(ctx context.Context) (plain, small Fetched) {
	done := make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		defer close(done)
		plain = b.one(ctx, 0, stalls)
	})
	all.Go(func() {
		late := time.NewTimer(doubt)
		defer late.Stop()
		select {
		case <-done:
		case <-ctx.Done():
		case <-late.C:
			small = b.one(ctx, b.least, stalls-doubt)
		}
	})
	all.Wait()
	return plain, small
}

// one fetches and keeps the record.
func (b *backward) one(ctx context.Context, mss int, patience time.Duration) Fetched {
	f := b.fetch(ctx, mss, patience)
	f.MSS = mss
	b.mu.Lock()
	defer b.mu.Unlock()
	if ctx.Err() == nil { // else it was cut short and tells nothing
		b.res.Fetches = append(b.res.Fetches, f)
	}
	return f
}

// learn takes over what the first connection knew.
func (b *backward) learn(f Fetched) {
	for _, v := range []struct {
		to   **int
		from int
	}{{&b.res.OurMSS, f.OurMSS}, {&b.res.PeerMSS, f.PeerMSS}, {&b.res.LargestMSS, f.LargestMSS}} {
		if v.from > 0 {
			n := v.from
			*v.to = &n
		}
	}
}

// passes reads a fetch that did not stall.
func (b *backward) passes(f Fetched) {
	no := false
	switch {
	case f.OurMSS > 0 && f.LargestMSS >= f.OurMSS:
		mtu := f.OurMSS + b.header
		b.res.BlackHole, b.res.MTU = &no, &mtu
	case f.LargestMSS > b.least && f.Bytes >= int64(tells*f.LargestMSS):
		// Whole segments came, smaller ones than we would take: the server's
		// own limit, or a clamp on the way.
		mtu := f.LargestMSS + b.header
		b.res.BlackHole, b.res.MTU = &no, &mtu
	default:
		b.res.Note = fmt.Sprintf("the server's answer of %d bytes is too small to fill a packet; name a larger page", f.Bytes)
	}
}

// stalled asks whether it is the size that stalls, and which.
func (b *backward) stalled(ctx context.Context, plain, small Fetched) {
	switch {
	case small.Stalled || small.Failure != "":
		b.res.Note = fmt.Sprintf("the server's answer stalls with segments of %d bytes too: not a matter of size", b.least)
		return
	}
	top := plain.OurMSS
	if top <= b.least {
		top = 1500 - b.header
	}
	// Silence that is long for a page which comes that quickly.
	patience := min(max(4*small.Elapsed.Duration(), leastStall), stalls)
	lo, hi := b.least, top
	for round := 0; hi-lo > 1; round++ {
		sizes := b.sizes(round, lo, hi)
		if sizes = sizes[:min(len(sizes), maxLoads-len(b.res.Fetches))]; len(sizes) == 0 {
			break
		}
		got := b.beside(ctx, sizes, patience)
		if ctx.Err() != nil {
			b.res.Note = "stopped before it could tell"
			return
		}
		if round == 0 && !b.again(got) {
			return
		}
		for i, f := range got {
			if size := cmp.Or(sizes[i], top); !f.Stalled && f.Failure == "" {
				lo = max(lo, size)
			}
		}
		for i, f := range got {
			if size := cmp.Or(sizes[i], top); f.Stalled && size > lo {
				hi = min(hi, size)
			}
		}
	}
	if hi-lo > 1 {
		b.res.Note = fmt.Sprintf("the largest packet that comes through has between %d and %d bytes", lo+b.header, hi+b.header-1)
		return
	}
	mtu := lo + b.header
	b.res.MTU = &mtu
}

// sizes are the segment sizes of a round: first what made the case, again, and
// what tunnels leave; then the next one up, which mostly settles it, and closer
// ones.
func (b *backward) sizes(round, lo, hi int) []int {
	if round == 0 {
		out := []int{0}
		for _, mtu := range [...]int{1500, 1492, 1480, 1420, 1400, leastMTU6} {
			if mss := mtu - b.header; mss > lo && mss < hi {
				out = append(out, mss)
			}
		}
		return append(out, b.least)
	}
	var out []int
	ways := atOnce + 1
	if round == 1 { // mostly it is a size that a tunnel leaves
		out, ways = append(out, lo+1), atOnce
	}
	for i := 1; i < ways; i++ {
		if size := lo + (hi-lo)*i/ways; size > lo && size < hi && !slices.Contains(out, size) {
			out = append(out, size)
		}
	}
	return out
}

// beside fetches with several sizes at once: each stall is waited for once.
func (b *backward) beside(ctx context.Context, sizes []int, patience time.Duration) []Fetched {
	out := make([]Fetched, len(sizes))
	var all sync.WaitGroup
	for i, mss := range sizes {
		all.Go(func() { out[i] = b.one(ctx, mss, patience) })
	}
	all.Wait()
	return out
}

// again reads the repetition: that what stalled stalls once more, while
// something smaller comes, makes the case.
func (b *backward) again(got []Fetched) bool {
	comes := slices.ContainsFunc(got[1:], func(f Fetched) bool { return !f.Stalled && f.Failure == "" })
	switch {
	case got[0].Stalled && comes:
		yes := true
		b.res.BlackHole = &yes
		return true
	case got[0].Stalled:
		b.res.Note = "the server's answer came once, with small segments, and then with none: rather loss, or a server that pauses"
	default:
		b.res.Note = "the server's answer stalled once and came when it was asked for again: rather loss, or a server that pauses"
	}
	return false
}
