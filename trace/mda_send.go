package trace

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/whyslow/whyslow/internal/wire"
)

// shotKind says what a probe is for.
type shotKind uint8

const (
	explore shotKind = iota // to see who is there
	again                   // to see whether it is still the same
	through                 // to the destination: a sample
)

// shot is one probe.
type shot struct {
	flow     *flow
	ttl      int
	kind     shotKind
	at       time.Time
	trial    *node // whose account of errors is spent, though it was sent; else nil
	charged  account
	answered bool
	pending  bool // a sample that still may count
	alone    bool // nobody had asked the TTL for long
}

// account is whose budget of errors pays for an answer: a place on the way, or
// a router (which is zero hops from itself).
type account struct {
	dst netip.Addr
	ttl int
}

// account is who pays for the next error at a node.
func (d *discovery) account(n *node, ttl int) account {
	if n == nil || n.silent {
		return account{d.opt.Dst, ttl}
	}
	return account{n.Addr, 0}
}

// shoot sends a probe of a flow if the router that will answer it can be
// expected to. If not it says when to ask again. n is that router, nil if
// unknown.
func (d *discovery) shoot(f *flow, ttl int, kind shotKind, n *node) (sent bool, wake time.Time, err error) {
	now := time.Now()
	if d.serial && f.out != nil {
		return false, f.out.at.Add(d.patience()), nil
	}
	s := &shot{flow: f, ttl: ttl, kind: kind, charged: d.account(n, ttl)}
	free := n != nil && d.unlimited(n)
	if !free {
		if wait := d.budget.Take(s.charged.dst, s.charged.ttl, now); wait > 0 {
			d.budget.Return(s.charged.dst, s.charged.ttl)
			if !n.tries(now) {
				return false, now.Add(wait), nil
			}
			s.trial = n
		}
	}
	if s.trial != nil || free {
		s.charged = account{}
	}
	if f.seq == 65000 {
		return false, now.Add(time.Hour), nil // no more numbers; nobody gets here
	}
	f.seq++
	probe := wire.Probe{Seq: f.seq, TTL: ttl}
	if s.at, err = f.conn.Send(probe); err != nil {
		return false, now, fmt.Errorf("trace: probing by %v: %w", d.cfg.Method, err)
	}
	d.probes++
	s.alone = s.at.Sub(d.asked[ttl]) >= aloneAfter
	d.asked[ttl] = s.at
	f.shots[f.seq], f.out = s, s
	d.waiting = append(d.waiting, s)
	if kind == through {
		if s.trial == nil {
			f.sent++
			f.pending++
			s.pending = true
		}
		return true, now, nil
	}
	see := &f.sights[ttl]
	see.sent++
	if kind == again {
		see.repeats++
		return true, now, nil
	}
	see.waiting, see.lastTry = s, s.at
	return true, now, nil
}

const (
	// trialShots is how many probes try whether a router answers more than
	// Linux would, trialBatches how often that is tried. A Linux router loses
	// them, and they are sent again when it is time.
	trialShots   = 3
	trialBatches = 4
	// trialMoment is a time in which no router of Linux regains two errors.
	trialMoment = 50 * time.Millisecond
)

// tries reports whether a probe may go to a router though its account is spent.
func (n *node) tries(now time.Time) bool {
	if n == nil || n.silent {
		return false
	}
	if now.Sub(n.trialAt) > limitedAfter && n.batches < trialBatches {
		n.trials, n.trialAt = 0, now
	}
	if n.trials >= trialShots || now.Sub(n.trialAt) > trialMoment {
		return false
	}
	if n.trials++; n.trials == trialShots {
		n.batches++ // one that was cut short, for want of flows, proves nothing
	}
	return true
}

// earns notes an error that a router sent.
func (n *node) earns(now time.Time, every time.Duration) {
	n.earned = later(n.earned, now).Add(every)
	// Two more than Linux' burst: answers that left one after the other may
	// arrive at once.
	n.free = n.free || n.earned.Sub(now) > 8*every
}

// errorPace is the time in which a Linux router regains an error.
func (d *discovery) errorPace() time.Duration {
	if d.opt.Dst.Is4() {
		return time.Second
	}
	return 100 * time.Millisecond
}
