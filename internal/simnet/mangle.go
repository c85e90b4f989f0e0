package simnet

import (
	"net/netip"
	"time"

	"github.com/whyslow/whyslow/internal/wire"
)

// Remark rewrites the DSCP or ECN of what a router forwards: the octet's bits
// under Mask become those of Value. The zero Remark changes nothing.
type Remark struct{ Mask, Value uint8 }

// Forgery is a false "packet too big" about what a router forwards, sent to
// whoever sent it. Such messages need no place on the path: ErrorFrom and Blind
// make them what an attacker elsewhere sends, who has guessed the ports.
type Forgery struct {
	MTU int // what it claims, in bytes
	// Min is the size of the packets it is about. Zero means all.
	Min int
	// From4 and From6 are the source of the message. The zero Addr means the
	// router's own.
	From4, From6 netip.Addr
	// Blind quotes right addresses, protocol and ports, and zeros for the rest.
	Blind bool
}

// mangle does to a packet what routers do that meddle, behind all checks.
func (n *Net) mangle(nd *node, at time.Duration, p *packet, l *link) {
	if f := nd.Forge; f != nil && len(p.buf) >= f.Min && !p.view.ICMPError() && p.view.FragOffset == 0 {
		n.forge(nd, at, p, f)
	}
	if nd.ClampMSS > 0 && p.view.Proto == wire.TCP {
		wire.ClampMSS(p.buf, nd.ClampMSS)
	}
	if r := nd.Remark; r.Mask != 0 {
		p.view.TOS = p.view.TOS&^r.Mask | r.Value&r.Mask
		wire.SetTOS(p.buf, p.view.TOS)
	}
	if nd.nat != nil && p.nat.session != nil {
		nd.nat.leave(p)
		n.view(p)
	}
	nd.push(l, p)
}

func (n *Net) forge(nd *node, at time.Duration, p *packet, f *Forgery) {
	m := wire.Message{Kind: wire.TooBig, MTU: f.MTU, Quote: 8, From: f.From4}
	own := nd.Addr4
	if p.view.Version == 6 {
		m.From, own = f.From6, nd.Addr6
	}
	if !m.From.IsValid() {
		m.From = own
	}
	pkt := append([]byte(nil), p.buf...)
	if f.Blind {
		if p.view.Version == 4 {
			pkt[4], pkt[5] = 0, 0 // the identification
		}
		clear(pkt[min(p.view.HeaderLen+4, len(pkt)):])
	}
	q := n.packet()
	var err error
	if q.buf, err = wire.ErrorFor(q.buf[:0], pkt, m); err != nil || !n.view(q) {
		n.release(q)
		return
	}
	n.stats.Forged++
	n.emit(nd, at, q)
}

// receive does what comes before routing at a node that does more than
// forward. It reports false if the packet goes no further yet.
func (n *Net) receive(nd *node, p *packet) bool {
	if p.lsp != nil && p.lsp.behind(nd.id) == Nowhere {
		p.lsp = nil // the end of the label-switched path
	}
	if nd.nat == nil {
		return true
	}
	if p.view.Fragment() {
		// Ports are in the first fragment only: as Linux does, all are put
		// together, and taken apart again behind the translation.
		whole := nd.together.Add(p.buf)
		if whole == nil {
			return false
		}
		p.buf = append(p.buf[:0], whole...)
		p.split = p.view.Len
		if !n.view(p) {
			return false
		}
	}
	nd.nat.enter(nd, p)
	if p.nat.session != nil {
		n.view(p)
	}
	return true
}
