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

// maxPrefix bounds the earlier narrow places that are looked at.
const maxPrefix = 2

// askPrefix asks what the path carries up to a place, at the cost of few
// errors of the routers there: mostly it is the first link's own size, else
// what a router in between has claimed. What is known is not asked again.
func (s *session) askPrefix(ctx context.Context, o *Options, f findings, at location) error {
	if at.ttl == 0 || f.passed+1 == f.top {
		return nil
	}
	ask := func(size, ttl, most int) error {
		if s.sent(size, ttl) >= most || s.reached(size, ttl) {
			return nil
		}
		return s.fireAt(ctx, o, size, ttl)
	}
	if err := ask(f.top, at.ttl, 2); err != nil {
		return err
	}
	for _, c := range s.earlier(f, at) {
		if err := ask(c.mtu+1, at.ttl, 1); err != nil {
			return err
		}
		if err := ask(c.mtu, at.ttl, 2); err != nil {
			return err
		}
		if err := ask(f.top, c.ttl, 2); err != nil {
			return err
		}
	}
	return nil
}

// earlierClaim is a narrow place before the limiter, as a router claims it.
type earlierClaim struct{ ttl, mtu int }

// earlier are the claims about wider places than the limiter, of routers seen
// before it.
func (s *session) earlier(f findings, at location) []earlierClaim {
	var out []earlierClaim
	for _, sh := range s.shots {
		if !sh.tooBig || sh.claim <= f.passed || sh.claim >= f.top || sh.size <= sh.claim {
			continue
		}
		for ttl := 1; ttl < at.ttl; ttl++ {
			c := earlierClaim{ttl, sh.claim}
			if s.hopAt(ttl) == sh.who && !slices.Contains(out, c) && len(out) < maxPrefix {
				out = append(out, c)
			}
		}
	}
	return out
}

// readPrefix sets what the answers to askPrefix say.
func (m *measurement) readPrefix(s *session, f findings, at location) {
	switch {
	case at.ttl == 0:
		return
	case f.passed+1 == f.top || s.reached(f.top, at.ttl):
		m.hop.set(1, f.top)
		return
	}
	m.hop.set(1, 0)
	for _, c := range s.earlier(f, at) {
		if !s.reached(c.mtu, at.ttl) || s.reached(c.mtu+1, at.ttl) {
			continue
		}
		m.hop.set(c.ttl+1, c.mtu)
		if s.reached(f.top, c.ttl) {
			m.hop.set(1, f.top)
		}
	}
}

// sent counts the probes of a size to a TTL.
func (s *session) sent(size, ttl int) int {
	n := 0
	for _, sh := range s.shots {
		if sh.size == size && sh.ttl == ttl {
			n++
		}
	}
	return n
}

// reached reports whether a probe of a size, or a larger one, got to a TTL.
func (s *session) reached(size, ttl int) bool {
	return slices.ContainsFunc(s.shots, func(sh *shot) bool { return sh.size >= size && sh.ttl == ttl && sh.arrived() })
}
