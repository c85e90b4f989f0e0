package pmtu

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"github.com/whyslow/whyslow/internal/millis"
	"github.com/whyslow/whyslow/internal/netprobe"
)

// slowRouter is how long a "too big" is waited for before the path counts as a
// black hole: routers answer from a slow control plane.
const slowRouter = 300 * time.Millisecond

// measurement is one run.
type measurement struct {
	opt  Options
	res  *Result
	hop  hops
	left int // probes that may still be sent
	// unechoed says why echoes told nothing; empty if they did.
	unechoed string
}

// Run measures the path MTU. When ctx ends it returns what is known so far
// together with ctx's error. The Result is never nil; a path MTU that could not
// be measured is null in it, with a warning that says why.
func Run(ctx context.Context, opt Options) (*Result, error) {
	m := measurement{opt: opt, res: &Result{Schema: Schema, Started: time.Now().UTC()}}
	m.res.Target = Target{Name: opt.Name, Addr: opt.Dst.Unmap()}
	if err := m.opt.normalise(); err != nil {
		return m.res, err
	}
	m.left = m.opt.MaxPackets
	start := time.Now()
	var back Backward
	var beside sync.WaitGroup
	if m.opt.Fetch != nil {
		beside.Go(func() { back = runBackward(ctx, m.opt.Dst, m.opt.Fetch) })
	}
	bounded, cancel := context.WithTimeout(ctx, m.opt.Budget)
	defer cancel()
	err := m.run(bounded)
	beside.Wait()
	if m.opt.Fetch != nil {
		back.EchoLimit = m.res.Backward.EchoLimit
		m.res.Backward = back
		if hole := back.BlackHole; hole != nil && *hole && back.MTU != nil && len(m.res.Tunnel) == 0 {
			m.res.Tunnel = Suggests(*back.MTU)
		}
	}
	m.res.Elapsed = millis.Of(time.Since(start))
	m.res.Packets = m.opt.MaxPackets - m.left
	m.res.Steps = m.hop
	switch {
	case ctx.Err() != nil:
		return m.res, ctx.Err()
	case errors.Is(err, context.DeadlineExceeded):
		m.warn("the measurement was stopped after %v, unfinished", m.opt.Budget)
		return m.res, nil
	case errors.Is(err, errSpent):
		m.warn("the measurement was stopped after %d packets, unfinished", m.opt.MaxPackets)
		return m.res, nil
	}
	return m.res, err
}

func (m *measurement) warn(format string, args ...any) {
	m.res.Warnings = append(m.res.Warnings, fmt.Sprintf(format, args...))
}

// run tries one method after the other until the destination answers.
func (m *measurement) run(ctx context.Context) error {
	var failed error
	silent := ""
	for _, method := range m.opt.methods() {
		s, err := open(ctx, &m.opt, method, &m.left)
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, netprobe.ErrUnreachable) {
				return err
			}
			failed = err
			if m.opt.Method == netprobe.Auto && method == netprobe.ICMP {
				m.unechoed = "echoes cannot be sent from this host"
			}
			continue
		}
		answered, err := m.measure(ctx, s)
		s.close()
		m.res.Locating += s.locating()
		if errors.Is(err, errors.ErrUnsupported) && m.opt.Method == netprobe.Auto {
			failed = err // sizes by this method are beyond this host
			continue
		}
		if answered || err != nil {
			return err
		}
		if silent != "" {
			silent += " nor "
		}
		silent += method.String()
		m.unechoed = "the destination answers no echo"
	}
	if silent == "" {
		return failed
	}
	if failed != nil {
		m.warn("%s", unsendable(failed))
	}
	m.warn("the path MTU was not measured: the destination does not answer %s probes of any size", silent)
	return nil
}

// unsendable says in a line why a method was left out.
func unsendable(err error) string {
	var timeout interface{ Timeout() bool }
	switch {
	case errors.Is(err, netprobe.ErrNotPermitted):
		return "not every kind of probe is permitted to this user here"
	case errors.As(err, &timeout) && timeout.Timeout():
		return "TCP connects get no answer either"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "TCP connects are refused"
	}
	return fmt.Sprintf("not every probe could be sent from this host: %v", err)
}

// measure is the whole measurement by one method. It reports whether the
// destination answers it.
func (m *measurement) measure(ctx context.Context, s *session) (answered bool, err error) {
	m.res.Method = s.method.String()
	m.interfaceInfo(s)
	if s.method == netprobe.TCP {
		return m.measureTCP(ctx, s)
	}
	f, err := s.search(ctx, &locator{opt: &m.opt})
	m.interfaceInfo(s)
	if !f.answered {
		if who := s.refusedBy(); who != "" {
			m.warn("%s says that the destination is unreachable by %v", who, s.method)
		}
		return false, err
	}
	m.conclude(s, f)
	if err != nil || !f.confirmed {
		m.undecided(s, f, err)
		return true, err
	}
	if f.passed < f.top {
		if err := m.narrow(ctx, s, f); err != nil {
			return true, err
		}
	} else {
		m.hop.set(1, f.passed)
	}
	m.finish(s, f)
	return true, nil
}

// narrow finds out about a path that carries less than the first link: who
// says so, where it is, and whether it is the way there at all.
func (m *measurement) narrow(ctx context.Context, s *session, f findings) error {
	if l := s.place(f); l.atEnd && !s.signalled(f.passed+1) && s.method == netprobe.ICMP {
		forward, err := m.wayThere(ctx, s, f)
		if forward || err != nil {
			return err
		}
	}
	if err := s.lateRouters(ctx, f); err != nil {
		return err
	}
	if err := s.askTop(ctx, f); err != nil {
		return err
	}
	l := s.place(f)
	m.signal(s, f)
	m.limiter(s, f, l)
	m.hop.set(l.ttl+1, f.passed)
	m.readPrefix(s, f, l)
	return nil
}

// lateRouters waits for what a slow control plane may still say: that a packet
// is too big, and that it is the hop which looks silent.
func (s *session) lateRouters(ctx context.Context, f findings) error {
	told := func() bool {
		l := s.place(f)
		return s.signalled(f.passed+1) && (l.exact || l.atEnd || s.named(l, f))
	}
	end := s.firstSent(f.passed + 1)
	if l := s.place(f); !l.exact && !l.atEnd {
		end = s.lastSend
	}
	return s.until(ctx, func() time.Time { return end.Add(s.maxRTT + slowRouter) }, told)
}

// wayThere asks by UDP, whose answers are small, whether only the way back is
// narrow. If so it takes over what UDP measured.
func (m *measurement) wayThere(ctx context.Context, s *session, f findings) (forward bool, err error) {
	if m.opt.Method == netprobe.ICMP {
		m.warn("whether the way there or the way back carries only %d bytes echoes alone cannot tell", f.passed)
		return false, nil
	}
	u, err := open(ctx, &m.opt, netprobe.UDP, &m.left)
	if err != nil {
		if ctx.Err() != nil {
			return false, err
		}
		m.warn("whether the way there or the way back carries only %d bytes could not be told: %v", f.passed, err)
		return false, nil
	}
	defer u.close()
	u.maxRTT = s.maxRTT
	g := findings{top: f.top}
	if err := u.fireAll([]int{f.top, f.passed + 1, f.passed + 1, f.passed}); err != nil {
		return false, err
	}
	if err := u.await(ctx, &g, u.patience); err != nil {
		return false, err
	}
	if g.answered && g.passed > f.passed {
		if g, err = u.search(ctx, &locator{opt: &m.opt}); err != nil {
			return false, err
		}
	}
	switch {
	case !g.answered:
		m.warn("whether the way there or the way back carries only %d bytes could not be told: the destination answers no UDP", f.passed)
		return false, nil
	case g.passed <= f.passed:
		return false, nil
	}
	back := f.passed
	m.res.Backward.EchoLimit = &back
	m.res.Method = netprobe.UDP.String()
	m.conclude(u, g)
	m.res.Signalled, m.res.BlackHole, m.res.ClaimedMTU = false, false, nil
	m.warn("echoes above %d bytes get no answer, but UDP packets of %d bytes arrive: the way back is narrow, or the destination drops large echoes", back, g.passed)
	switch {
	case g.confirmed && g.passed < g.top: // narrow both ways, and not alike
		return true, m.narrow(ctx, u, g)
	case g.confirmed:
		m.hop.set(1, g.passed)
	}
	return true, nil
}

// interfaceInfo takes over what the host knows.
func (m *measurement) interfaceInfo(s *session) {
	mtu := s.info.InterfaceMTU
	if s.localMTU > 0 && (mtu == 0 || s.localMTU < mtu) {
		mtu = s.localMTU
	}
	if mtu > 0 {
		m.res.InterfaceMTU = &mtu
	}
	if cached := s.info.CachedMTU; cached > 0 && cached != mtu {
		m.res.CachedMTU = &cached
	}
}

// conclude takes over the measured size; only a confirmed one is the MTU.
func (m *measurement) conclude(s *session, f findings) {
	passed := f.passed
	m.res.AtLeast = &passed
	m.res.MTU = nil
	if f.confirmed {
		m.res.MTU = &passed
	}
	if s.method == netprobe.UDP && m.unechoed != "" {
		m.warn("%s; measured by UDP, which tests the way there only", m.unechoed)
	}
}

// undecided says why no size was confirmed.
func (m *measurement) undecided(s *session, f findings, err error) {
	answered, lost := s.luck(f.passed)
	if lost > 0 && (err == nil || errors.Is(err, errSpent) || errors.Is(err, context.DeadlineExceeded)) {
		m.warn("the path loses packets of any size (%d of %d that could pass): whether more than %d bytes pass cannot be told from loss", lost, lost+answered, f.passed)
	}
}

// finish adds the warnings that need the whole picture.
func (m *measurement) finish(s *session, f findings) {
	mtu := *m.res.MTU
	m.judgeClaims(s, f)
	m.res.Tunnel = Suggests(mtu)
	if c := m.res.CachedMTU; c != nil && *c < mtu {
		m.warn("the kernel remembers %d bytes for this path, but %d pass: it will send smaller packets than it could until it forgets", *c, mtu)
	}
	if m.opt.Dst.Is6() && mtu < leastMTU6 {
		m.warn("the path carries only %d bytes; IPv6 asks every link for %d", mtu, leastMTU6)
	}
}

// refusedBy names somebody who called the destination unreachable, "" if
// nobody did.
func (s *session) refusedBy() string {
	for _, sh := range s.shots {
		if sh.refused != "" {
			return sh.refused
		}
	}
	return ""
}
