package trace

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/whyslow/whyslow/internal/wire"
)

// take records an answer.
func (d *discovery) take(ctx context.Context, a flowArrival) error {
	if a.flow.gone {
		return nil
	}
	if a.err != nil {
		return fmt.Errorf("trace: flow %d: %w", a.flow.index, a.err)
	}
	f := a.flow
	s := f.shots[a.reply.Seq]
	if s == nil || s.answered || a.reply.Unnumbered {
		return nil
	}
	role, words := meaning(a.reply, d.cfg.Method, d.opt.Dst.Is6())
	if role == "" {
		return nil
	}
	s.answered = true
	if f.out == s {
		f.out = nil
	}
	at := s.at
	if !a.reply.Sent.IsZero() {
		at = a.reply.Sent
	}
	rtt := max(a.reply.Received.Sub(at), 0)
	d.maxRTT = max(d.maxRTT, rtt)
	if s.kind == through {
		d.settle(s, a.reply, d.dest)
		d.reached = d.reached || role == RoleDestination
		if s.pending {
			s.pending = false
			f.pending--
			if role == RoleDestination {
				f.rtts = append(f.rtts, rtt)
			}
		}
		return nil
	}
	n := d.node(s.ttl, a.reply.From.Unmap())
	if role == RoleDestination && words == portUnreachable && n.Addr != d.opt.Dst && d.runsOutAt(n.Addr) {
		role = RoleRefusal // see view.judged
	}
	if role != RoleRouter {
		n.role = role
		if f.end == 0 || s.ttl < f.end {
			f.end = s.ttl
		}
		if role == RoleDestination {
			d.reached = true
			d.dest = cmp.Or(d.dest, n)
		}
	}
	d.settle(s, a.reply, n)
	d.names.ask(ctx, n.Addr)
	d.saw(f, s, n, rtt)
	typ, code := typeCode(a.reply)
	f.sights[s.ttl].latest = probe{replyTTL: a.reply.TTL, role: role, answer: words, icmp: [2]*int{typ, code},
		labels: a.reply.Labels, quote: quoteOf(a.reply, d.cfg.Method)}
	return nil
}

// runsOutAt reports whether a probe ran out at an address: a router's.
func (d *discovery) runsOutAt(addr netip.Addr) bool {
	for _, hop := range d.hops {
		for _, n := range hop {
			if n.Addr == addr && n.role == RoleRouter && len(n.flows) > 0 {
				return true
			}
		}
	}
	return false
}

// saw enters what a flow saw. The first answer counts as the flow's way;
// another address later is the mark of a router that does not keep to flows.
func (d *discovery) saw(f *flow, s *shot, n *node, rtt time.Duration) {
	see := &f.sights[s.ttl]
	if see.waiting == s {
		see.waiting = nil
	}
	if see.node == nil || see.node.silent {
		see.node = n
	}
	if see.node == n {
		see.rtts = append(see.rtts, rtt)
		return
	}
	if before := f.at(s.ttl - 1); before != nil {
		before.perPacket = true
	}
}

// settle charges an answer to who sent it.
func (d *discovery) settle(s *shot, r wire.Reply, n *node) {
	limited := r.Kind != wire.EchoReply && !(r.Kind == wire.PortReply && r.Type == 0)
	if limited && n != nil {
		n.earns(time.Now(), d.errorPace())
	}
	if s.trial != nil {
		// The account was wrong, or a refill came just then: it has sent one.
		if limited && n != nil && !n.free {
			d.budget.Take(n.Addr, 0, time.Now())
		}
		return
	}
	d.exempt = d.exempt || !limited
	if s.charged.dst.IsValid() && (!limited || n != nil && s.charged != d.account(n, s.ttl)) {
		d.budget.Return(s.charged.dst, s.charged.ttl)
		if limited && !n.free {
			d.budget.Take(n.Addr, 0, time.Now())
		}
	}
}

// expire gives up probes that were waited for long enough.
func (d *discovery) expire(now time.Time) {
	left := d.waiting[:0]
	for _, s := range d.waiting {
		if s.flow.out == s && now.Sub(s.at) >= d.patience() {
			s.flow.out = nil
		}
		switch {
		case s.answered:
		case now.Sub(s.at) < d.patience():
			left = append(left, s)
		case s.kind == through:
			if s.pending {
				s.pending = false
				s.flow.pending--
			}
		default:
			see := &s.flow.sights[s.ttl]
			if see.waiting == s {
				see.waiting = nil
				if s.trial == nil {
					see.tries++
				}
				if s.trial == nil && s.alone {
					see.alone++
				}
			}
		}
	}
	clear(d.waiting[len(left):])
	d.waiting = left
}

// patience is how long a probe may be under way. Connections of one port
// follow each other, and each may last a second if nobody answers.
func (d *discovery) patience() time.Duration {
	if d.serial {
		return time.Second
	}
	if d.maxRTT == 0 {
		return 2 * unknownPatience
	}
	return max(unknownPatience, d.maxRTT*3/2+settle) + d.idle.late
}
