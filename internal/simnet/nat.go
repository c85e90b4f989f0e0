package simnet

import (
	"net/netip"
	"slices"

	"github.com/whyslow/whyslow/internal/wire"
)

// NAT is a router's address translation, RFC 3022, as Linux does it: what
// leaves an inside prefix gets the outside address, and a port of its own
// where the old one is taken; answers and errors find back. It applies behind
// the check of the TTL on the way out, and before it on the way in: the errors
// of the router itself quote what its neighbour sent.
type NAT struct {
	// Inside prefixes are hidden from everything outside them.
	Inside []netip.Prefix
	// Outside4 and Outside6 are what they are hidden behind. The zero Addr
	// means the router's own.
	Outside4, Outside6 netip.Addr
	// PortBase is the first port to give out, in place of the old one. Zero
	// means that ports stay as they are where they are free.
	PortBase uint16
	// Forwards send what comes for an outside address to an inside host.
	Forwards []Forward
	// Quote says what becomes of the packet that an error quotes.
	Quote QuotePolicy
	// Leak leaves errors from behind a Forward their own source address,
	// where Linux puts the outside one.
	Leak bool
}

// Forward is a destination NAT.
type Forward struct {
	Proto wire.Protocol // zero means all
	Addr  netip.Addr    // outside
	Port  uint16        // outside; zero means all
	To    netip.Addr    // inside
	// ToPort is the inside port. Zero means the same.
	ToPort uint16
}

// QuotePolicy is how well a NAT translates what an ICMP error quotes.
type QuotePolicy uint8

// The policies.
const (
	// QuoteRepaired translates the quote back, and its checksum where the
	// checksum is quoted, RFC 5508 section 4.2.
	QuoteRepaired QuotePolicy = iota
	// QuoteStale translates it back but leaves the transport checksum.
	QuoteStale
	// QuoteForeign leaves the quote as it was outside.
	QuoteForeign
)

// session is a translated flow. dirs are its tuples as they arrive at the
// router: of what began it, and of the answers.
type session struct{ dirs [2]wire.Tuple }

// translated is what a packet that arrives in a direction leaves as.
func (s *session) translated(dir int) wire.Tuple { return s.dirs[1-dir].Reverse() }

// tracked is a packet's place in a session.
type tracked struct {
	*session
	dir   int
	quote bool // the packet is an error about one of the session's
}

// maxSessions bounds the memory of one NAT.
const maxSessions = 1 << 16

// natState is a NAT at work.
type natState struct {
	NAT
	sessions map[wire.Tuple]tracked
	port     uint16
}

// translate makes a router translate addresses.
func (n *Net) translate(nd *node, nat NAT) {
	if !nat.Outside4.IsValid() {
		nat.Outside4 = nd.Addr4
	}
	if !nat.Outside6.IsValid() {
		nat.Outside6 = nd.Addr6
	}
	nd.aware, nd.mangles = true, true
	nd.nat = &natState{NAT: nat, sessions: make(map[wire.Tuple]tracked), port: nat.PortBase}
	own := []netip.Addr{nat.Outside4, nat.Outside6}
	for _, f := range nat.Forwards {
		own = append(own, f.Addr)
	}
	for _, a := range own {
		if _, taken := n.owners[a]; a.IsValid() && !taken {
			n.own(nd, a)
		}
	}
}

// enter translates the destination of a packet that arrives, and gives it a
// session if it begins one.
func (s *natState) enter(nd *node, p *packet) {
	t, ok := s.find(&p.view)
	if !ok {
		if t, ok = s.begin(nd, p); !ok {
			return
		}
	}
	p.nat = t
	to := t.translated(t.dir)
	if t.quote {
		s.rewriteQuote(p, func(q *wire.Tuple) { q.Src, q.SrcPort = to.Dst, to.DstPort })
		to.SrcPort, to.DstPort = 0, 0
	}
	is := wire.Tuple{Src: p.view.Src, Dst: to.Dst, SrcPort: t.dirs[t.dir].SrcPort, DstPort: to.DstPort}
	wire.Rewrite(p.buf, is)
}

// leave translates the source of a packet that goes on.
func (s *natState) leave(p *packet) {
	t := p.nat
	if t.session == nil {
		return
	}
	p.nat = tracked{}
	to := t.translated(t.dir)
	if !t.quote {
		wire.Rewrite(p.buf, to)
		return
	}
	s.rewriteQuote(p, func(q *wire.Tuple) { q.Dst, q.DstPort = to.Src, to.SrcPort })
	src := p.view.Src
	if to.Src != t.dirs[t.dir].Src && !s.Leak {
		src = to.Src
	}
	wire.Rewrite(p.buf, wire.Tuple{Src: src, Dst: p.view.Dst})
}

// sent translates an error that the router itself sends about a packet whose
// destination it had translated already.
func (s *natState) sent(p *packet) {
	if t, ok := s.find(&p.view); ok && t.quote {
		p.nat = t
		s.leave(p)
	}
}

func (s *natState) rewriteQuote(p *packet, change func(*wire.Tuple)) {
	q, ok := p.view.QuotedTuple()
	if !ok || s.Quote == QuoteForeign {
		return
	}
	change(&q)
	wire.RewriteQuote(p.buf, q, s.Quote == QuoteStale)
}

// find returns a packet's session.
func (s *natState) find(v *wire.Packet) (tracked, bool) {
	if q, ok := v.QuotedTuple(); ok {
		// The error goes the way of the answers to what it quotes.
		t, ok := s.sessions[q.Reverse()]
		t.quote = true
		return t, ok
	}
	k, ok := v.Tuple()
	if !ok {
		return tracked{}, false
	}
	t, ok := s.sessions[k]
	return t, ok
}

// begin makes a session of a packet that needs one.
func (s *natState) begin(nd *node, p *packet) (tracked, bool) {
	was, ok := p.view.Tuple()
	if !ok || p.view.TTL == 0 || len(s.sessions) >= maxSessions {
		return tracked{}, false
	}
	is := was
	for _, f := range s.Forwards {
		if f.Addr == was.Dst && (f.Proto == 0 || f.Proto == was.Proto) && (f.Port == 0 || f.Port == was.DstPort) {
			is.Dst = f.To
			if f.ToPort != 0 {
				is.DstPort = f.ToPort
			}
			break
		}
	}
	inside := func(a netip.Addr) bool {
		return slices.ContainsFunc(s.Inside, func(x netip.Prefix) bool { return x.Contains(a) })
	}
	if inside(was.Src) && !inside(is.Dst) && (p.dst != nd.id || is.Dst != was.Dst) {
		if is, ok = s.hide(is); !ok {
			return tracked{}, false
		}
	}
	if is == was {
		return tracked{}, false
	}
	c := &session{dirs: [2]wire.Tuple{was, is.Reverse()}}
	s.sessions[c.dirs[0]] = tracked{session: c}
	s.sessions[c.dirs[1]] = tracked{session: c, dir: 1}
	return tracked{session: c}, true
}

// hide gives a tuple the outside address and a port at which its answers are
// told from all others.
func (s *natState) hide(t wire.Tuple) (wire.Tuple, bool) {
	old := t.SrcPort
	t.Src = s.Outside4
	if t.Dst.Is6() {
		t.Src = s.Outside6
	}
	if !t.Src.IsValid() {
		return t, false
	}
	if s.PortBase != 0 {
		t.SrcPort = max(s.port, s.PortBase)
	}
	for range 1 << 16 {
		if _, taken := s.sessions[t.Reverse()]; !taken && (t.SrcPort != 0 || old == 0) {
			s.port = t.SrcPort + 1
			return t, true
		}
		t.SrcPort++
	}
	return t, false
}
