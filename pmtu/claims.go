package pmtu

import (
	"net/netip"
	"time"
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
