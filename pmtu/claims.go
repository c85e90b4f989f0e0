package pmtu

import (
	"context"
	"net/netip"
	"time"

	"github.com/whyslow/whyslow/internal/netprobe"
)

// signalled reports whether anybody called a probe of the size too big.
func (s *session) signalled(size int) bool {
	for _, sh := range s.shots {
		if sh.size == size && sh.tooBig {
			return true
		}
	}
	return false
}

// askTop sends the first link's own size again where somebody speaks of smaller
// ones alone: it is what hosts send first, and the answer may have been lost.
func (s *session) askTop(ctx context.Context, f findings) error {
	if !s.silentAbove(f) {
		return nil
	}
	for n := s.sends(f.top); n < confirms; n++ {
		if _, err := s.fire(f.top, 0); err != nil {
			return err
		}
	}
	return s.until(ctx, func() time.Time { return s.lastSend.Add(s.patience()) }, func() bool { return s.signalled(f.top) })
}

// silentAbove reports whether somebody speaks of the size that is one byte too
// large, and nobody of the first link's own. By TCP that one cannot be sent.
func (s *session) silentAbove(f findings) bool {
	return s.method != netprobe.TCP && f.top > f.passed+1 && s.signalled(f.passed+1) && !s.signalled(f.top)
}

// sends is how often a size was sent the whole way.
func (s *session) sends(size int) int {
	n := 0
	for _, sh := range s.shots {
		if sh.size == size && sh.ttl == 0 {
			n++
		}
	}
	return n
}

// firstSent is when the first probe of a size left; the zero Time if none did.
func (s *session) firstSent(size int) time.Time {
	for _, sh := range s.shots {
		if sh.size == size {
			return sh.at
		}
	}
	return time.Time{}
}

// signal records what was said where the path narrows: about the size that is
// one byte too large. A router further up may have spoken for larger sizes;
// that does not help a sender of this one.
func (m *measurement) signal(s *session, f findings) {
	m.res.Signalled = m.res.Signalled || s.signalled(f.passed+1)
	m.res.BlackHole = !m.res.Signalled
	if s.silentAbove(f) && s.sends(f.top) >= confirms {
		m.res.BlackHole = true
		m.warn("packets of %d bytes, which hosts send first, vanish and nobody says so; only about smaller ones does a router speak", f.top)
	}
	best := 0 // the size nearest above the MTU that somebody spoke of
	for _, sh := range s.shots {
		if sh.tooBig && sh.size > f.passed && (best == 0 || sh.size < best) {
			best = sh.size
			claim := sh.claim
			m.res.ClaimedMTU = &claim
		}
	}
}

// judgeClaims names the claims that measurement refutes. What is left unnamed
// is true, or the true limit of an earlier, wider place.
func (m *measurement) judgeClaims(s *session, f findings) {
	least := leastMTU4
	if m.opt.Dst.Is6() {
		least = leastMTU6
	}
	type claim struct {
		who netip.Addr
		mtu int
	}
	named := make(map[claim]bool)
	for _, sh := range s.shots {
		c := claim{sh.who, sh.claim}
		if !sh.tooBig || named[c] || len(named) >= 8 {
			continue
		}
		switch {
		case sh.claim == 0:
			m.warn("%v says \"too big\" without saying what fits; rejected, the size was measured", sh.who)
		case sh.claim < least:
			m.warn("%v claims an MTU of %d, less than any link may have; rejected", sh.who, sh.claim)
		case sh.claim >= sh.size:
			m.warn("%v claims an MTU of %d but refuses %d bytes; rejected, and hosts that ignore such a claim are in a black hole", sh.who, sh.claim, sh.size)
		case sh.passed:
			m.warn("%v called a packet of %d bytes too big that arrived: forged, or two paths", sh.who, sh.size)
		case sh.claim < f.passed:
			m.warn("%v claims an MTU of %d, but %d bytes pass; rejected", sh.who, sh.claim, f.passed)
		case sh.claim > f.passed && s.refuses(sh.who, sh.claim):
			m.warn("%v claims an MTU of %d, but refuses that itself; rejected", sh.who, sh.claim)
		default:
			continue
		}
		named[c] = true
	}
}

// refuses reports whether who called a probe of at most size too big.
func (s *session) refuses(who netip.Addr, size int) bool {
	for _, sh := range s.shots {
		if sh.tooBig && sh.who == who && sh.size <= size {
			return true
		}
	}
	return false
}
