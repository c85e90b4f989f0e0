package simnet

import (
	"encoding/binary"
	"net/netip"
	"time"

	"github.com/whyslow/whyslow/internal/wire"
)

// local handles a packet for the node itself.
func (n *Net) local(nd *node, at time.Duration, p *packet) {
	defer n.release(p)
	if nd.deliver != nil {
		nd.deliver(n.base.Add(at), p.buf)
		return
	}
	if nd.Silent {
		return
	}
	pkt, v := p.buf, p.view
	if v.Fragment() {
		if pkt = nd.together.Add(pkt); pkt == nil {
			return
		}
		var err error
		if v, err = wire.ParsePacket(pkt); err != nil {
			return
		}
	}
	switch v.Proto {
	case wire.ICMP:
		if v.EchoRequest() && nd.echoes {
			n.stats.EchoReplies++
			n.answer(nd, at, nil, func(dst []byte) ([]byte, error) { return wire.EchoReplyTo(dst, pkt) })
		}
		nd.learn(&v)
	case wire.UDP:
		n.report(nd, at, pkt, &v, wire.Message{From: v.Dst, Kind: wire.Unreachable, Reason: wire.NoPort}, nil)
	case wire.TCP:
		_, port := v.Ports()
		n.answer(nd, at, nil, func(dst []byte) ([]byte, error) { return wire.TCPReplyTo(dst, pkt, nd.open[port]) })
	}
}

// learn keeps the path MTU that a "too big" for IPv6 reports: the model host
// then fragments what it sends there, RFC 8201. IPv4 answers go without DF and
// need no such memory. Linux ignores claims below 1280 bytes.
func (nd *node) learn(v *wire.Packet) {
	const tooBig, header = 2, 8
	if v.Version != 6 || len(v.Payload) < header || v.Payload[0] != tooBig {
		return
	}
	mtu := binary.BigEndian.Uint32(v.Payload[4:])
	if mtu < 1280 || mtu > 0xffff || len(v.Payload) < header+40 {
		return
	}
	if nd.pathMTU == nil {
		nd.pathMTU = make(map[netip.Addr]int)
	}
	nd.pathMTU[netip.AddrFrom16([16]byte(v.Payload[header+24:]))] = int(mtu)
}

// answer sends what build makes after the node's control delay, by way of a
// label-switched path if there is one.
func (n *Net) answer(nd *node, at time.Duration, by *LSP, build func([]byte) ([]byte, error)) {
	q := n.packet()
	var err error
	if q.buf, err = build(q.buf[:0]); err != nil || !n.view(q) {
		n.release(q)
		return
	}
	q.lsp = by
	if nd.ReplyTTL > 0 {
		q.view.TTL = min(nd.ReplyTTL, 255)
		wire.SetTTL(q.buf, q.view.TTL)
	}
	delay := nd.ControlDelay + n.upTo(nd.ControlJitter)
	if delay <= 0 {
		n.emit(nd, at, q)
		return
	}
	n.schedule(at+delay, nd, q, true)
}

// fail ends a packet on its way with an error from a router.
func (n *Net) fail(nd *node, at time.Duration, p *packet, m wire.Message) {
	m.From = nd.errorSource(&p.view)
	if !nd.Silent {
		m.Labels, m.NoLength = nd.labels(p), nd.NoLength
		by := p.lsp
		if by != nil && by.Direct {
			by = nil
		}
		n.report(nd, at, p.buf, &p.view, m, by)
	}
	n.release(p)
}

// errorSource is the address that a router's errors come from.
func (nd *node) errorSource(v *wire.Packet) netip.Addr {
	own, other := nd.Addr4, nd.ErrorFrom4
	if v.Version == 6 {
		own, other = nd.Addr6, nd.ErrorFrom6
	}
	switch {
	case nd.ErrorAsDst:
		return v.Dst
	case other.IsValid():
		return other
	}
	return own
}

// report sends an ICMP error about a packet, unless the rules forbid it (RFC
// 1122 section 3.2.2: no errors about errors, or about later fragments) or the
// limit does.
func (n *Net) report(nd *node, at time.Duration, pkt []byte, v *wire.Packet, m wire.Message, by *LSP) {
	if !m.From.IsValid() || v.ICMPError() || v.FragOffset != 0 {
		return
	}
	if m.Kind != wire.TooBig && !nd.allow(at, v.Src) {
		n.stats.ErrorsLimit++
		return
	}
	n.stats.Errors++
	m.Quote = nd.Quote
	n.answer(nd, at, by, func(dst []byte) ([]byte, error) { return wire.ErrorFor(dst, pkt, m) })
}

// bucket is the error limit towards one address, as Linux keeps it: tokens
// grow with time up to the burst, and each error costs one interval.
type bucket struct {
	tokens, at time.Duration
}

const (
	defaultBurst  = 6 // XRLIM_BURST_FACTOR
	defaultEvery  = time.Second
	defaultEvery6 = 100 * time.Millisecond
)

// allow reports whether an error may be sent to an address, and counts it.
func (nd *node) allow(at time.Duration, to netip.Addr) bool {
	burst, every := nd.ErrorBurst, nd.ErrorEvery
	if burst < 0 {
		return true
	}
	if burst == 0 {
		burst = defaultBurst
	}
	if every <= 0 {
		every = defaultEvery
		if to.Is6() {
			every = defaultEvery6
		}
	}
	full := time.Duration(burst) * every
	b := nd.limits[to]
	if b == nil {
		if nd.limits == nil {
			nd.limits = make(map[netip.Addr]*bucket)
		}
		b = &bucket{tokens: full, at: at}
		nd.limits[to] = b
	}
	b.tokens = min(b.tokens+max(at-b.at, 0), full)
	b.at = at
	if b.tokens < every {
		return false
	}
	b.tokens -= every
	return true
}
