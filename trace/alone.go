package trace

import (
	"context"
	"time"

	"github.com/whyslow/whyslow/internal/wire"
)

// lone is what a prober knows of replies that do not say which probe they
// answer: routers that quote no more than the 8 bytes of RFC 792 leave nothing
// but the 5-tuple to a socket without privilege, and that is the same for all.
type lone struct {
	unnumbered int    // replies that came and could not be told apart
	arrived    bool   // one of them was the destination's
	sole       uint16 // the only probe under way; 0 if there are more
}

// number gives an unnumbered reply to the only probe it can belong to. It
// reports false if there is none.
func (p *prober) number(r *wire.Reply) bool {
	if p.sole == 0 {
		p.unnumbered++
		p.arrived = p.arrived || r.Kind == wire.PortReply
		return false
	}
	r.Seq = p.sole
	return true
}

// maxAlone bounds how many hops are asked alone.
const maxAlone = 16

// askAlone asks the hops that stayed silent, although replies came that could
// not be told apart, one after the other.
func (e *engine) askAlone(ctx context.Context, p *prober) error {
	if p.unnumbered == 0 {
		return nil
	}
	defer func() { p.sole = 0 }()
	last := p.view.length()
	if p.view.destTTL() == 0 && p.arrived {
		last = e.opt.MaxHops
	}
	asked := 0
	for ttl := e.opt.FirstHop; ttl <= last && asked < maxAlone; ttl++ {
		if p.answers(ttl) > 0 || p.view.destTTL() > 0 && ttl >= p.view.destTTL() {
			continue
		}
		asked++
		p.send(ttl, max(p.round-1, 0))
		if p.dead != nil {
			return nil
		}
		p.sole = p.seq
		due := p.lastSend.Add(p.view.patience())
		answered := func() bool { q := p.view.probe(p.sole); return q == nil || q.answered }
		if err := e.collect(ctx, func() time.Time { return due }, answered); err != nil {
			return err
		}
	}
	return nil
}
