package pmtu

import (
	"cmp"
	"context"

	"github.com/whyslow/whyslow/internal/netprobe"
)

// leastCached is the least that Linux believes a router (min_pmtu); it takes
// absurd claims for that.
const leastCached = 552

// leastData is the size from which TCP tells something: firewalls that drop
// data in odd places let nothing larger than bare segments through, and that
// is no MTU. Every IPv4 host takes 576 bytes (RFC 791), every IPv6 link carries
// 1280 (RFC 8200 5).
func (m *measurement) leastData() int {
	if m.opt.Dst.Is6() {
		return leastMTU6
	}
	return 576
}

// measureTCP measures by segments of a port that answers: they pass where echo
// and UDP are filtered. The server takes segments of its MSS at most, so what
// it does not take is not tested.
func (m *measurement) measureTCP(ctx context.Context, s *session) (answered bool, err error) {
	f, err := s.search(ctx, nil)
	m.interfaceInfo(s)
	if !f.answered {
		if s.kernel > 0 {
			m.warn("the kernel goes by %d bytes for this path and sends no larger TCP segments: sizes cannot be told by TCP", s.kernel)
			return true, err
		}
		if who := s.refusedBy(); who != "" {
			m.warn("%s says that the destination is unreachable by %v", who, s.method)
		}
		return false, err
	}
	if f.passed < m.leastData() {
		m.warn("TCP with data gets no answer from port %d: sizes cannot be told by it", m.opt.TCPPort)
		return false, err
	}
	m.conclude(s, f)
	switch {
	case err != nil || !f.confirmed:
		return true, err
	case s.kernel > 0 && f.passed == s.kernel && s.kernel > leastCached:
		// A router has said so in the midst of it, and that size passes.
		m.res.Signalled, m.res.ClaimedMTU = true, &s.kernel
		f.top = max(f.top, s.info.InterfaceMTU)
		err = m.narrowTCP(ctx, s, f)
	case s.kernel > 0 || f.top == s.info.CachedMTU:
		m.res.MTU = nil
		m.warn("the kernel goes by %d bytes for this path and sends no larger TCP segments: whether larger ones pass was not tested", cmp.Or(s.kernel, s.info.CachedMTU))
	case f.passed < f.top:
		err = m.narrowTCP(ctx, s, f)
	case m.limited(s, f):
		m.res.MTU = nil
		m.warn("the server takes no TCP segment that makes a packet of more than %d bytes (its MSS): whether larger ones pass was not tested", f.top)
	default:
		m.hop.set(1, f.passed)
	}
	if m.res.MTU != nil {
		m.finish(s, f)
	}
	return true, err
}

// limited reports whether the destination's MSS, not the first link, was the
// bound of what could be sent.
func (m *measurement) limited(s *session, f findings) bool {
	return s.info.Largest > 0 && f.top >= s.info.Largest && (s.info.InterfaceMTU == 0 || f.top < s.info.InterfaceMTU)
}

// narrowTCP finds the place by other probes: the routers on the way answer them
// though the destination does not.
func (m *measurement) narrowTCP(ctx context.Context, s *session, f findings) error {
	m.signal(s, f)
	for _, method := range [...]netprobe.Method{netprobe.UDP, netprobe.ICMP} {
		u, err := open(ctx, &m.opt, method, &m.left)
		if err != nil {
			if ctx.Err() != nil {
				return err
			}
			continue
		}
		u.maxRTT = s.maxRTT
		l, err := m.locateBy(ctx, u, f)
		u.close()
		m.res.Locating += u.locating()
		if err != nil {
			return err
		}
		if l.ttl == 0 && !u.anyHop() {
			continue
		}
		m.signal(u, f)
		m.limiter(u, f, l)
		m.hop.set(l.ttl+1, f.passed)
		m.readPrefix(u, f, l)
		return nil
	}
	m.warn("no router on the way says where the path narrows")
	return nil
}

// locateBy finds the place where f was found by another session.
func (m *measurement) locateBy(ctx context.Context, u *session, f findings) (location, error) {
	loc := &locator{opt: &m.opt}
	for !loc.done(u, f) {
		if err := loc.wave(ctx, u, f); err != nil {
			return location{}, err
		}
		if err := u.await(ctx, &findings{top: largest}, u.soon); err != nil {
			return location{}, err
		}
	}
	if err := u.lateRouters(ctx, f); err != nil {
		return location{}, err
	}
	return u.place(f), nil
}
