package pmtu

import (
	"context"
	"net/netip"
	"time"

	"github.com/whyslow/whyslow/internal/netprobe"
)

// location is where a path narrows: the last hop that the larger of two sizes
// reaches.
type location struct {
	ttl   int        // 0 is this host
	addr  netip.Addr // of the hop at ttl; the zero Addr if silent
	exact bool       // the next hop is known not to be reached
	atEnd bool       // the narrow place is the last link, or the way back
	addrs []netip.Addr
}

// locate sends a size that passes and one more byte to every TTL at once. The
// larger goes first: where the smaller draws an answer, the router was free to
// answer the larger too, whatever its limit on errors.
func (s *session) locate(ctx context.Context, o *Options, f findings) (location, error) {
	n := s.hopCount(o)
	if err := s.afford(ctx, o, n); err != nil {
		return location{}, err
	}
	for ttl := 1; ttl <= n; ttl++ {
		if err := s.pair(f.passed, ttl); err != nil {
			return location{}, err
		}
	}
	err := s.settled(ctx, func() bool { return s.told(f, n) })
	l := s.place(f, n)
	// Loss and limits make a hop look not reached, never reached: ask again
	// behind the last one, unless the one who spoke up is known.
	for try := 1; try < confirms && err == nil && !s.named(l, f); try++ {
		if err = s.pause(ctx, 100*time.Millisecond); err != nil {
			break
		}
		for ttl := l.ttl + 1; ttl <= min(l.ttl+2, n); ttl++ {
			if err := s.pair(f.passed, ttl); err != nil {
				return l, err
			}
		}
		err = s.settled(ctx, func() bool { return false })
		l = s.place(f, n)
	}
	return l, err
}

func (s *session) pair(size, ttl int) error {
	if _, err := s.fire(size+1, ttl); err != nil {
		return err
	}
	_, err := s.fire(size, ttl)
	return err
}

// hopCount is the number of TTLs to try: what a trace found, or else what the
// answers' own TTL tells, with room for a longer way there.
func (s *session) hopCount(o *Options) int {
	if o.HopCount > 0 {
		return min(o.HopCount, o.MaxHops)
	}
	for _, sh := range s.shots {
		for _, initial := range [...]int{64, 128, 255} {
			if sh.passed && sh.backTTL > 0 && sh.backTTL <= initial {
				return min(initial-sh.backTTL+1+4, o.MaxHops)
			}
		}
	}
	return o.MaxHops
}

// afford waits until the routers on the way can be expected to answer: they
// may have spent their errors on another instrument of this run.
func (s *session) afford(ctx context.Context, o *Options, n int) error {
	b, ok := o.Network.(interface{ Budget() *netprobe.Budget })
	if !ok {
		return nil
	}
	wait := time.Duration(0)
	for ttl := 1; ttl <= n; ttl++ {
		b.Budget().Take(o.Dst, ttl, time.Now())
		wait = max(wait, b.Budget().Take(o.Dst, ttl, time.Now()))
	}
	return s.pause(ctx, min(wait, 2*time.Second))
}

// hopAt is who answered at a TTL to anything.
func (s *session) hopAt(ttl int) netip.Addr {
	for _, sh := range s.shots {
		if sh.ttl == ttl && sh.arrived() {
			return sh.from
		}
	}
	return netip.Addr{}
}

// end is the least TTL at which the destination answered, n+1 if none.
func (s *session) end(n int) int {
	end := n + 1
	for _, sh := range s.shots {
		if sh.ttl > 0 && sh.passed {
			end = min(end, sh.ttl)
		}
	}
	return end
}

// told reports whether everything that can be answered has been.
func (s *session) told(f findings, n int) bool {
	for _, sh := range s.shots {
		if sh.ttl > 0 && !sh.arrived() && !sh.tooBig {
			return false
		}
	}
	return true
}

// place reads the answers so far.
func (s *session) place(f findings, n int) location {
	var l location
	end := s.end(n)
	for _, sh := range s.shots {
		if sh.ttl > l.ttl && sh.size > f.passed && sh.expired && sh.ttl < end {
			l.ttl = sh.ttl
		}
	}
	// Who said "too big" is the last hop reached, if his place is known.
	if who := s.speaker(f); who.IsValid() {
		for ttl := l.ttl; ttl < end; ttl++ {
			if ttl > 0 && s.hopAt(ttl) == who {
				l.ttl = ttl
			}
		}
	}
	l.addr = s.hopAt(l.ttl)
	l.exact = s.hopAt(l.ttl + 1).IsValid()
	l.atEnd = l.ttl+1 >= end
	for ttl := 1; ttl <= min(n, end); ttl++ {
		l.addrs = append(l.addrs, s.hopAt(ttl))
	}
	return l
}

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
func (m *measurement) limiter(l location) {
	m.res.Limiter = &Limiter{TTL: l.ttl, Addr: l.addr}
	if !l.exact && !l.atEnd {
		m.warn("the hop behind hop %d is silent: the narrow place may lie further on", l.ttl)
	}
}
