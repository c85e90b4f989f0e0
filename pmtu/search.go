package pmtu

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/whyslow/whyslow/internal/netprobe"
)

const (
	leastMTU4 = 68    // RFC 791 3.2
	leastMTU6 = 1280  // RFC 8200 5
	largest   = 65535 // an IPv4 packet; larger IPv6 packets need jumbograms
	confirms  = 3     // failures that make a limit, MAX_PROBES of RFC 8899 5.1.2
	maxRounds = 16
	ways      = 7 // sizes tried between the bounds each round
	again     = 3 // repetitions of the deciding size each round
	maxClaims = 3 // claims followed up each round
)

// wellKnown are the sizes of the first round: the plateaus of RFC 1191 7.1 and
// what tunnels leave of 1500 (PPPoE 1492, GRE 1476, 6in4 1480, VXLAN 1450,
// WireGuard 1420 …), IPv6's least and RFC 8899's base.
var wellKnown = [...]int{65535, 32000, 17914, 9000, 8166, 4352, 2002, 1500, 1492, 1480, 1476, 1472, 1450, 1440, 1420,
	1400, 1380, 1340, 1280, 1200, 1006, 576, 68}

// findings is what a search found out.
type findings struct {
	answered  bool // the destination answers this method at all
	passed    int  // the largest size that passed; 0 if none
	confirmed bool // nothing larger does
	top       int  // the largest size the first link carries
}

// search finds the largest size that passes, and meanwhile, if loc is not nil,
// where the path narrows: as soon as one byte more seems to fail.
//
// A round lasts a little more than one round trip. What is missing by then is
// asked for again, not given up: only probes that had longer to be answered
// count as failed in the end.
func (s *session) search(ctx context.Context, loc *locator) (findings, error) {
	f := findings{top: largest}
	if s.info.InterfaceMTU > 0 {
		f.top = min(f.top, s.info.InterfaceMTU)
	}
	if s.info.Largest > 0 {
		f.top = min(f.top, s.info.Largest)
	}
	if err := s.fireAll(s.firstSizes(f.top)); err != nil {
		return f, err
	}
	if err := s.await(ctx, &f, s.soon); err != nil || !f.answered {
		return f, err
	}
	for round := 0; round < maxRounds; round++ {
		if f.confirmed && (f.passed >= f.top || loc.done(s, f)) {
			break
		}
		wait := s.soon
		switch {
		case f.confirmed:
		case s.failures(f.passed+1, 0) < s.needed(f.passed):
			if err := s.refill(ctx); err != nil {
				return f, err
			}
			if err := s.fireAll(s.nextSizes(f)); err != nil {
				return f, err
			}
		case loc.done(s, f):
			wait = s.patience
		}
		if s.closed(f) && !loc.done(s, f) {
			if err := loc.wave(ctx, s, f); err != nil {
				return f, err
			}
		}
		if err := s.await(ctx, &f, wait); err != nil {
			return f, err
		}
	}
	return f, nil
}

// firstSizes are the well-known sizes up to the first link's own, the largest
// first. UDP's answers are limited to a handful: there the largest size must do
// and one that passes wherever the destination answers.
func (s *session) firstSizes(top int) []int {
	if s.method == netprobe.UDP {
		return slices.Compact([]int{top, min(top, leastMTU6), min(top, 576)})
	}
	sizes := []int{top}
	if s.method == netprobe.TCP { // each takes a connection of the server's
		for _, size := range [...]int{1492, 1450, 1400, leastMTU6, 576} {
			if size < top {
				sizes = append(sizes, size)
			}
		}
		return sizes
	}
	for _, size := range wellKnown {
		// Below 1280 IPv6 paths do not exist; one such size tells of those that do.
		if size < top && (size >= leastMTU6 || size == 576 || size == 68 || s.info.Source.Is4()) {
			sizes = append(sizes, size)
		}
	}
	return sizes
}

// nextSizes refines between the largest size that passed and the least above
// it that did not, and ends with a size known to pass: only if that is answered
// do the others count as failed.
func (s *session) nextSizes(f findings) []int {
	lo := f.passed
	hi := s.leastFailed(lo, f.top)
	udp := s.method == netprobe.UDP
	sizes := s.followed(lo, hi)
	// Somebody says that lo is it: then the next byte decides.
	if !s.claimed(lo) || s.failures(lo+1, 0) >= confirms {
		if !udp || len(sizes) == 0 {
			sizes = append(sizes, s.between(lo, hi)...)
		}
		if s.failures(f.top, 0) < 2 && s.method != netprobe.TCP {
			sizes = append(sizes, f.top) // the likeliest of all may have been lost
		}
	}
	decides := hi-lo <= ways+1 || s.claimed(lo)
	if !udp || decides || slices.Contains(wellKnown[:], lo) {
		sizes = append(sizes, lo+1)
	}
	slices.SortFunc(sizes, func(a, b int) int { return cmp.Compare(b, a) })
	sizes = slices.Compact(sizes)
	// The deciding size twice, unless that is more than enough. Echoes apart
	// from each other, as a burst of loss must not look like a limit; UDP in
	// falling order, as the one answer to be had should go to the largest size
	// that passes.
	if missing := s.needed(lo) - s.failures(lo+1, 0); decides && missing > 1 {
		if udp {
			sizes = append(sizes, lo+1)
		} else {
			sizes = append([]int{lo + 1}, sizes...)
		}
		if _, lost := s.luck(lo); lost > 0 && !udp {
			for range min(missing-2, again) {
				sizes = append([]int{lo + 1}, append(sizes, lo)...)
			}
		}
	}
	return append(sizes, lo)
}

// between are sizes that part the range from lo+1 to hi evenly, or the
// well-known ones where answers are few: they are the likely ones.
func (s *session) between(lo, hi int) []int {
	var sizes []int
	if s.method == netprobe.UDP && hi-lo > 60 {
		for _, size := range wellKnown {
			if size > lo+1 && size < hi {
				sizes = append(sizes, size)
			}
		}
		if len(sizes) > 2 {
			return sizes
		}
	}
	ways := ways
	if s.method == netprobe.TCP {
		ways = 3
	}
	for i := 1; i <= ways; i++ {
		if size := lo + 1 + (hi-lo-1)*i/(ways+1); size > lo+1 && size < hi {
			sizes = append(sizes, size)
		}
	}
	return sizes
}

// followed are the claims that could be true, and one byte more of each.
func (s *session) followed(lo, hi int) []int {
	var sizes []int
	for _, sh := range s.shots {
		if sh.tooBig && sh.claim > lo && sh.claim < hi && len(sizes) < 2*maxClaims && !slices.Contains(sizes, sh.claim) {
			sizes = append(sizes, sh.claim, sh.claim+1)
		}
	}
	return sizes
}

// claimed reports whether somebody named size as the MTU.
func (s *session) claimed(size int) bool {
	return slices.ContainsFunc(s.shots, func(sh *shot) bool { return sh.tooBig && sh.claim == size })
}

// closed reports whether no size is left between what passed and what failed.
func (s *session) closed(f findings) bool {
	return f.answered && f.passed < f.top && s.failures(f.passed+1, 0) > 0 || s.claimed(f.passed) && s.tooLarge(f.passed)
}

// tooLarge reports whether some size above was called too big.
func (s *session) tooLarge(size int) bool {
	return slices.ContainsFunc(s.shots, func(sh *shot) bool { return sh.tooBig && !sh.passed && sh.size > size })
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

// fireAll sends one probe of each size.
func (s *session) fireAll(sizes []int) error {
	for _, size := range sizes {
		if _, err := s.fire(size, 0); err != nil {
			return err
		}
	}
	return nil
}

// await takes answers until nothing more is wanted, or has had wait to come
// since the last probe.
func (s *session) await(ctx context.Context, f *findings, wait func() time.Duration) error {
	if s.local > 0 {
		f.top = min(f.top, s.local-1)
	}
	err := s.until(ctx, func() time.Time { return s.lastSend.Add(wait()) }, func() bool {
		s.update(f)
		return f.passed >= f.top
	})
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
	if s.kernel > 0 {
		f.top = min(f.top, max(s.kernel, f.passed))
	}
	f.confirmed = f.answered && (f.passed >= f.top || s.failures(f.passed+1, s.patience()) >= s.needed(f.passed))
}

// failures counts the probes of a size that had at least age to be answered
// and were not, while a smaller one sent within the same round trip was.
func (s *session) failures(size int, age time.Duration) int {
	n := 0
	for i, sh := range s.shots {
		if sh.size == size && sh.ttl == 0 && !sh.passed && time.Since(sh.at) >= age && s.controlled(i) {
			n++
		}
	}
	return n
}

// controlled reports whether a smaller probe sent soon after probe i was
// answered: then an answer was to be had.
func (s *session) controlled(i int) bool {
	soon := 100 * time.Millisecond
	if s.method == netprobe.TCP { // a probe waits for its connection
		soon = 2 * time.Second
	}
	for _, sh := range s.shots[i+1:] {
		if sh.at.Sub(s.shots[i].at) > soon {
			return false
		}
		if sh.ttl == 0 && sh.passed && sh.size < s.shots[i].size {
			return true
		}
	}
	return false
}

// refill waits until a destination that answers by ICMP errors may answer
// again: Linux sends each asker six errors, then one a second (one per 100 ms
// by IPv6); others send as many as they are asked for. It is tried once without
// waiting, as only silence tells. Echo replies are not limited.
func (s *session) refill(ctx context.Context) error {
	if s.method != netprobe.UDP {
		return nil
	}
	every := s.errorEvery()
	answers := 0
	for _, sh := range s.shots {
		if sh.ttl == 0 && sh.passed {
			answers++
		}
	}
	none := answers == s.answers
	s.answers = answers
	if !none {
		return nil
	}
	return s.pause(ctx, every+every/20-time.Since(s.lastSend))
}
