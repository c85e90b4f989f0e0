package simnet

import (
	"time"

	"github.com/whyslow/whyslow/internal/wire"
)

// arrive brings a packet to a node.
func (n *Net) arrive(nd *node, at time.Duration, p *packet) {
	if nd.aware && !n.receive(nd, p) {
		n.release(p)
		return
	}
	switch {
	case p.dst == nd.id:
		n.stats.Delivered++
		n.local(nd, at, p)
	case nd.router:
		n.forward(nd, at, p)
	default:
		n.stats.Unroutable++ // hosts carry nothing for others
		n.release(p)
	}
}

// forward passes a packet on. The checks come in the order Linux has them: an
// unroutable packet is reported as that even if its TTL ran out, and a TTL
// runs out, or a size is refused, before the filter sees the packet. Errors
// quote the packet as it arrived.
func (n *Net) forward(nd *node, at time.Duration, p *packet) {
	l := n.route(nd, p)
	hidden := p.lsp != nil && p.lsp.Hide
	switch {
	case l == nil:
		n.stats.Unroutable++
		n.fail(nd, at, p, wire.Message{Kind: wire.Unreachable, Reason: wire.NoRoute})
	case p.view.TTL <= 1 && !hidden:
		n.stats.Expired++
		n.fail(nd, at, p, wire.Message{Kind: wire.TimeExceeded})
	case len(p.buf) > l.mtu && p.view.DF && (p.split == 0 || p.split > l.mtu):
		n.stats.TooBig++
		n.tooBig(nd, at, p, l.mtu)
	case n.filtered(nd, at, p):
		n.stats.Filtered++
	default:
		n.stats.Forwarded++
		if !hidden {
			p.view.TTL = wire.DecrementTTL(p.buf)
		}
		if nd.mangles {
			n.mangle(nd, at, p, l)
		}
		if mtu := p.limit(l.mtu); len(p.buf) > mtu {
			nd.fragID++
			n.fragment(l, mtu, at, p, nd.fragID)
			return
		}
		n.transmit(l, at, p)
	}
}

// limit is the size above which a packet is sent in pieces on a link.
func (p *packet) limit(mtu int) int {
	if p.split > 0 && len(p.buf) > p.split {
		return min(mtu, p.split)
	}
	return mtu
}

// filtered drops a packet that a filter keeps the router from forwarding, and
// reports whether one did.
func (n *Net) filtered(nd *node, at time.Duration, p *packet) bool {
	f := nd.filter(&p.view)
	switch {
	case f == nil, f.Share > 0 && n.rng.Float64() >= f.Share:
		return false
	case f.Reject:
		n.fail(nd, at, p, wire.Message{Kind: wire.Unreachable, Reason: wire.NoPort})
	default:
		n.release(p)
	}
	return true
}

// filter is the filter that keeps the router from forwarding a packet, nil if
// none does.
func (nd *node) filter(v *wire.Packet) *Filter {
	for i := range nd.Filters {
		f := &nd.Filters[i]
		if f.Proto != 0 && f.Proto != v.Proto {
			continue
		}
		if f.DstPort != 0 {
			if _, port := v.Ports(); port != f.DstPort || v.Proto == wire.ICMP {
				continue
			}
		}
		if f.Echo && !v.Echo() {
			continue
		}
		return f
	}
	return nil
}

// emit sends a packet that the node itself made.
func (n *Net) emit(nd *node, at time.Duration, p *packet) {
	if nd.nat != nil && p.view.ICMPError() {
		nd.nat.sent(p)
		n.view(p)
	}
	if p.dst == nd.id {
		n.arrive(nd, at, p)
		return
	}
	l := n.route(nd, p)
	if l == nil {
		n.stats.Unroutable++
		n.release(p)
		return
	}
	mtu := l.mtu
	if known, ok := nd.pathMTU[p.view.Dst]; ok && nd.deliver == nil {
		mtu = min(mtu, known)
	}
	switch {
	case len(p.buf) <= mtu:
		n.transmit(l, at, p)
	case nd.deliver == nil && p.view.Version == 6, !p.view.DF:
		nd.fragID++
		n.fragment(l, mtu, at, p, nd.fragID)
	default:
		n.stats.TooBig++
		n.release(p)
	}
}

// fragment sends a packet in pieces.
func (n *Net) fragment(l *link, mtu int, at time.Duration, p *packet, id uint32) {
	err := wire.Fragment(p.buf, mtu, id, func(piece []byte) {
		q := n.packet()
		q.buf = append(q.buf[:0], piece...)
		if q.lsp = p.lsp; n.view(q) {
			n.stats.Fragments++
			n.transmit(l, at, q)
		}
	})
	if err != nil {
		n.stats.TooBig++
	}
	n.release(p)
}

// tooBig drops a packet that exceeds the next link's MTU, and says so as the
// router's policy is.
func (n *Net) tooBig(nd *node, at time.Duration, p *packet, mtu int) {
	switch nd.TooBig {
	case Absent:
		n.release(p)
		return
	case Lying:
		mtu = nd.TooBigClaim
	}
	n.fail(nd, at, p, wire.Message{Kind: wire.TooBig, MTU: mtu})
}
