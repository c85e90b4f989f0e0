package pmtu

import (
	"context"
	"slices"
)

// Step is the path MTU from one hop on.
type Step struct {
	TTL int  `json:"ttl"` // the first hop it holds for
	MTU *int `json:"mtu"` // bytes; null if not measured
}

// hops is what is known of the path MTU up to each hop, in the order of TTLs.
type hops []Step

// set says that mtu holds from ttl on; 0 means unknown.
func (h *hops) set(ttl, mtu int) {
	s := Step{TTL: ttl}
	if mtu > 0 {
		s.MTU = &mtu
	}
	*h = append(*h, s)
	slices.SortStableFunc(*h, func(a, b Step) int { return a.TTL - b.TTL })
}

// HopMTU returns the path MTU from this host up to and including the hop at
// ttl, in bytes, and whether it is known. It is what belongs into a trace's
// hop.
func (r *Result) HopMTU(ttl int) (mtu int, known bool) {
	for _, s := range r.Steps {
		if s.TTL <= ttl {
			mtu, known = 0, s.MTU != nil
			if known {
				mtu = *s.MTU
			}
		}
	}
	return mtu, known
}

// prefix measures what the path carries up to the limiter, at the cost of few
// errors of the routers there: mostly it is the first link's own size, else
// what a router in between has claimed and two probes confirm.
func (m *measurement) prefix(ctx context.Context, s *session, f findings, l location) error {
	if l.ttl == 0 || f.passed+1 == f.top {
		if l.ttl > 0 {
			m.hop.set(1, f.top)
		}
		return nil
	}
	reached, err := s.reaches(ctx, f.top, l.ttl)
	if err != nil {
		return err
	}
	if reached == l.ttl {
		m.hop.set(1, f.top)
		return nil
	}
	m.hop.set(1, 0)
	// Another narrow place before: its claim, confirmed, is the size between.
	for _, sh := range s.shots {
		if !sh.tooBig || sh.claim <= f.passed || sh.claim >= f.top || sh.size <= sh.claim {
			continue
		}
		claim := sh.claim
		at := slices.Index(l.addrs, sh.who) + 1
		if at == 0 || at >= l.ttl {
			continue
		}
		fits, err := s.reaches(ctx, claim, l.ttl)
		if err != nil || fits < l.ttl {
			return err
		}
		over, err := s.reaches(ctx, claim+1, l.ttl)
		if err != nil || over == l.ttl {
			return err
		}
		whole, err := s.reaches(ctx, f.top, at)
		if err != nil {
			return err
		}
		m.hop.set(at+1, claim)
		if whole == at {
			m.hop.set(1, f.top)
		}
		return nil
	}
	return nil
}

// reaches sends a size to a TTL, up to twice, and returns ttl if it got there,
// else 0.
func (s *session) reaches(ctx context.Context, size, ttl int) (int, error) {
	for try := 0; try < 2; try++ {
		sh, err := s.fire(size, ttl)
		if err != nil || sh == nil {
			return 0, err
		}
		if err := s.settled(ctx, sh.arrived); err != nil {
			return 0, err
		}
		if sh.arrived() {
			return ttl, nil
		}
		if sh.tooBig {
			break
		}
	}
	return 0, nil
}
