package pmtu

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"github.com/whyslow/whyslow/internal/netprobe"
)

const (
	leastMTU4 = 68    // RFC 791 3.2
	leastMTU6 = 1280  // RFC 8200 5
	largest   = 65535 // an IPv4 packet; larger IPv6 packets need jumbograms
	leastSize = 68    // smallest size probed, in both families
	confirms  = 3     // failures that make a limit, MAX_PROBES of RFC 8899 5.1.2
	maxRounds = 14
	ways      = 6 // sizes tried between the bounds each round
)

// wellKnown are the sizes of the first round: the plateaus of RFC 1191 7.1 and
// what tunnels leave of 1500 (PPPoE 1492, GRE 1476, 6in4 1480, VXLAN 1450,
// WireGuard 1420 …), IPv6's least and RFC 8899's base.
var wellKnown = [...]int{65535, 32000, 17914, 9000, 8166, 4352, 2002, 1500, 1492, 1480, 1476, 1472, 1460, 1450, 1440, 1420,
	1400, 1380, 1360, 1300, 1280, 1200, 1006, 576, 296, leastSize}

// findings is what a search found out.
type findings struct {
	answered  bool // the destination answers this method at all
	passed    int  // the largest size that passed; 0 if none
	confirmed bool // nothing larger does
	top       int  // the largest size the first link carries
}

// search finds the largest size that passes.
func (s *session) search(ctx context.Context) (findings, error) {
	f := findings{top: largest}
	if s.info.InterfaceMTU > 0 {
		f.top = min(f.top, s.info.InterfaceMTU)
	}
	if err := s.volley(ctx, &f, s.firstSizes(f.top)); err != nil || !f.answered {
		return f, err
	}
	for round := 0; round < maxRounds && !f.confirmed; round++ {
		if err := s.refill(ctx); err != nil {
			return f, err
		}
		if err := s.volley(ctx, &f, s.nextSizes(f)); err != nil {
			return f, err
		}
		f.confirmed = f.confirmed || s.fails(f.passed+1) >= s.needed(f.passed)
	}
	return f, nil
}

// firstSizes are the well-known sizes up to the first link's own, the largest
// first: if the destination limits its answers, the ones that matter come.
func (s *session) firstSizes(top int) []int {
	sizes := []int{top}
	for i, size := range wellKnown {
		// UDP answers are limited; half the small sizes will do.
		if size < top && (s.method != netprobe.UDP || size >= 1400 || i%2 == len(wellKnown)%2) {
			sizes = append(sizes, size)
		}
	}
	return sizes
}

// nextSizes refines between the largest size that passed and the least above
// it that did not, retries what may only have been lost, and ends with a size
// known to pass: only if that is answered do the others count as failed.
func (s *session) nextSizes(f findings) []int {
	lo := f.passed
	hi := s.leastFailed(lo, f.top)
	sizes := []int{lo + 1, hi}
	if s.fails(f.top) < confirms {
		sizes = append(sizes, f.top)
	}
	for i := 1; i <= ways; i++ {
		if size := lo + 1 + (hi-lo-1)*i/(ways+1); size > lo+1 && size < hi {
			sizes = append(sizes, size)
		}
	}
	for _, sh := range s.shots {
		if sh.tooBig && sh.claim > lo && sh.claim < hi {
			sizes = append(sizes, sh.claim, sh.claim+1)
		}
	}
	slices.SortFunc(sizes, func(a, b int) int { return cmp.Compare(b, a) })
	sizes = slices.Compact(sizes)
	// The deciding size three times. Echoes apart from each other, as a burst
	// of loss must not look like a limit; UDP in falling order, as the one
	// answer to be had should go to the largest size that passes.
	if s.method == netprobe.UDP {
		return append(sizes, lo+1, lo+1, lo)
	}
	sizes = slices.Insert(sizes, len(sizes)/2, lo+1)
	return append([]int{lo + 1}, append(sizes, lo)...)
}

// leastFailed is the least size above lo that was seen to fail.
func (s *session) leastFailed(lo, top int) int {
	least := top
	for i, sh := range s.shots {
		if sh.ttl == 0 && sh.size > lo && sh.size < least && (sh.tooBig || s.controlled(i)) {
			least = sh.size
		}
	}
	return least
}

// volley sends one probe of each size and waits for the answers.
func (s *session) volley(ctx context.Context, f *findings, sizes []int) error {
	for _, size := range sizes {
		if _, err := s.fire(size, 0); err != nil {
			return err
		}
	}
	if s.local > 0 {
		f.top = min(f.top, s.local-1)
	}
	atTop := func() bool { s.update(f); return f.passed >= f.top }
	err := s.settled(ctx, atTop)
	s.update(f)
	return err
}

func (s *session) update(f *findings) {
	for _, sh := range s.shots {
		if sh.ttl == 0 && sh.passed {
			f.answered = true
			f.passed = max(f.passed, sh.size)
		}
	}
	f.confirmed = f.answered && f.passed >= f.top
}

// fails counts the probes of a size that failed for sure: had time to be
// answered, were not, and a smaller one sent within the same round trip was.
func (s *session) fails(size int) int {
	n := 0
	for i, sh := range s.shots {
		if sh.size == size && sh.ttl == 0 && !sh.passed && time.Since(sh.at) >= s.patience() && s.controlled(i) {
			n++
		}
	}
	return n
}

// controlled reports whether a smaller probe sent soon after probe i was
// answered: then an answer was to be had.
func (s *session) controlled(i int) bool {
	for _, sh := range s.shots[i+1:] {
		if sh.at.Sub(s.shots[i].at) > 100*time.Millisecond {
			return false
		}
		if sh.ttl == 0 && sh.passed && sh.size < s.shots[i].size {
			return true
		}
	}
	return false
}

// needed is how many failures make a limit on a path that also loses packets
// of sizes that pass: enough that chance is below 1 in 10000.
func (s *session) needed(passed int) int {
	if s.method == netprobe.UDP {
		return confirms // its silences are limits more often than loss
	}
	sent, lost := 0, 0
	for _, sh := range s.shots {
		if sh.ttl == 0 && sh.size <= passed {
			sent++
			if !sh.passed {
				lost++
			}
		}
	}
	if lost == 0 {
		return confirms
	}
	rate := float64(lost) / float64(sent+1)
	return min(max(confirms, int(math.Ceil(math.Log(0.0001)/math.Log(rate)))), 3*confirms)
}

// refill waits until a destination that answers by ICMP errors may answer
// again: Linux sends each asker six errors, then one a second (one per 100 ms
// by IPv6). Echo replies are not limited.
func (s *session) refill(ctx context.Context) error {
	if s.method != netprobe.UDP {
		return nil
	}
	every := 1050 * time.Millisecond
	if s.info.Source.Is6() {
		every = 110 * time.Millisecond
	}
	return s.pause(ctx, every-time.Since(s.lastSend))
}
