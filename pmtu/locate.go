package pmtu

import (
	"context"
	"net/netip"
	"time"

	"github.com/whyslow/whyslow/internal/netprobe"
)

// location is where a path narrows: the last hop that a packet one byte larger
// than the MTU reaches.
type location struct {
	ttl   int        // 0 is this host
	addr  netip.Addr // of the hop at ttl; the zero Addr if silent
	exact bool       // the next hop is known not to be reached
	atEnd bool       // the narrow place is the last link, or the way back
}

// locator finds the location in waves of probes whose TTL runs out on the way.
//
// The first wave sends the larger size to every hop, and the last that answers
// is the place. The next ones ask behind it only: there the larger is repeated,
// as loss and limits make a hop look not reached (never reached), and the
// smaller shows that the hops there do answer. A router that said "too big"
// and is seen at the place needs no proof.
type locator struct {
	opt    *Options
	passed int // the size that the waves were sent for
	waves  int
	place  int // the TTL found before the last wave
	steady bool
}

// Waves at most: one for all hops, and at least two behind the last one.
const (
	leastWaves = 3
	mostWaves  = 6
)

// done reports whether further waves would tell nothing new. A nil locator has
// nothing to tell.
func (l *locator) done(s *session, f findings) bool {
	switch {
	case l == nil:
		return true
	case l.passed != f.passed || l.waves == 0:
		return false
	case l.waves >= mostWaves:
		return true
	}
	at := s.place(f)
	if at.ttl != l.place {
		return false
	}
	return l.waves >= 2 && s.named(at, f) || l.waves >= leastWaves && (at.exact || l.steady)
}

// wave sends the next probes.
func (l *locator) wave(ctx context.Context, s *session, f findings) error {
	if l.passed != f.passed {
		*l = locator{opt: l.opt, passed: f.passed}
	}
	l.waves++
	if l.waves == 1 {
		n := s.hopCount(l.opt)
		for ttl := 1; ttl < n; ttl++ {
			if err := s.fireAt(ctx, l.opt, f.passed+1, ttl); err != nil {
				return err
			}
		}
		// Routers answer from a slow control plane. What they need counts in
		// what is waited for, once the first has answered.
		return s.until(ctx, func() time.Time { return s.lastSend.Add(slowRouter) }, func() bool {
			return n < 2 || s.anyHop()
		})
	}
	at := s.place(f)
	l.place = at.ttl
	if !s.named(at, f) {
		if err := l.behind(ctx, s, f, at); err != nil {
			return err
		}
	}
	return s.askPrefix(ctx, l.opt, f, at)
}

// behind sends both sizes to the hops behind a place, and if these are silent
// the smaller to all that follow.
func (l *locator) behind(ctx context.Context, s *session, f findings, at location) error {
	const near = 3
	last := min(at.ttl+near, l.opt.MaxHops)
	if l.waves > 2 && !s.anyBehind(at.ttl) {
		last = min(s.hopCount(l.opt), l.opt.MaxHops)
		l.steady = true
	}
	for ttl := at.ttl + 1; ttl <= last; ttl++ {
		// The larger goes first: where the smaller draws an answer, the router
		// was free to answer the larger too, whatever its limit on errors.
		if again := ttl - at.ttl; again == 1 || again == 2 && l.waves == 2 {
			if err := s.fireAt(ctx, l.opt, f.passed+1, ttl); err != nil {
				return err
			}
		}
		if s.hopAt(ttl).IsValid() {
			continue
		}
		if err := s.fireAt(ctx, l.opt, f.passed, ttl); err != nil {
			return err
		}
	}
	if s.anyBehind(at.ttl) {
		l.steady = true
	}
	return nil
}

// fireAt sends a probe to a hop when the router there can be expected to
// answer: it may have spent its errors on another instrument of this run.
func (s *session) fireAt(ctx context.Context, o *Options, size, ttl int) error {
	if b, ok := o.Network.(interface{ Budget() *netprobe.Budget }); ok {
		wait := b.Budget().Take(o.Dst, ttl, time.Now())
		if err := s.pause(ctx, min(wait, time.Second)); err != nil {
			return err
		}
	}
	_, err := s.fire(size, ttl)
	return err
}

// hopCount is the number of TTLs to try: what a trace found, or else what the
// answers' own TTL tells.
func (s *session) hopCount(o *Options) int {
	if o.HopCount > 0 {
		return min(o.HopCount, o.MaxHops)
	}
	for _, sh := range s.shots {
		for _, initial := range [...]int{64, 128, 255} {
			if sh.passed && sh.backTTL > 0 && sh.backTTL <= initial {
				return min(initial-sh.backTTL+1, o.MaxHops)
			}
		}
	}
	return o.MaxHops
}

// hopAt is who answered at a TTL to anything.
func (s *session) hopAt(ttl int) netip.Addr {
	for _, sh := range s.shots {
		if ttl > 0 && sh.ttl == ttl && sh.arrived() {
			return sh.from
		}
	}
	return netip.Addr{}
}

// anyHop reports whether any router has answered.
func (s *session) anyHop() bool { return s.anyBehind(0) }

// anyBehind reports whether any hop behind a TTL has answered.
func (s *session) anyBehind(ttl int) bool {
	for _, sh := range s.shots {
		if sh.ttl > ttl && sh.arrived() {
			return true
		}
	}
	return false
}

// end is the least TTL at which the destination answered, a large number if
// none did.
func (s *session) end() int {
	end := 1 << 10
	for _, sh := range s.shots {
		if sh.ttl > 0 && sh.passed {
			end = min(end, sh.ttl)
		}
	}
	return end
}

// place reads the answers so far.
func (s *session) place(f findings) location {
	var l location
	end := s.end()
	for _, sh := range s.shots {
		if sh.ttl > l.ttl && sh.size > f.passed && sh.expired && sh.ttl < end {
			l.ttl = sh.ttl
		}
	}
	// Who said "too big" is the last hop reached, if his place is known.
	if who := s.speaker(f); who.IsValid() {
		for ttl := l.ttl + 1; ttl < min(end, largestTTL); ttl++ {
			if s.hopAt(ttl) == who {
				l.ttl = ttl
			}
		}
	}
	l.addr = s.hopAt(l.ttl)
	l.exact = s.hopAt(l.ttl + 1).IsValid()
	l.atEnd = l.ttl+1 >= end
	return l
}

const largestTTL = 256

// speaker is who called the size just above the MTU too big.
func (s *session) speaker(f findings) netip.Addr {
	for _, sh := range s.shots {
		if sh.tooBig && sh.size == f.passed+1 {
			return sh.who
		}
	}
	return netip.Addr{}
}

// named reports whether the hop found is the one that said "too big".
func (s *session) named(l location, f findings) bool {
	who := s.speaker(f)
	return who.IsValid() && who == l.addr
}

// limiter records where the path narrows.
func (m *measurement) limiter(s *session, f findings, l location) {
	m.res.Limiter = &Limiter{TTL: l.ttl, Addr: l.addr}
	if !l.exact && !l.atEnd && !s.named(l, f) && l.ttl+1 != s.hopCount(&m.opt) {
		m.warn("the hop behind hop %d is silent: the narrow place may lie further on", l.ttl)
	}
}

// locating counts the probes that were sent to find a place.
func (s *session) locating() int {
	n := 0
	for _, sh := range s.shots {
		if sh.ttl > 0 {
			n++
		}
	}
	return n
}
