package dnscheck

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/whyslow/whyslow/internal/millis"
)

// serverFacts is what the direct measurements say of one server.
type serverFacts struct {
	addr  string // host:port
	where string // as a Finding names it
	line  int    // in resolv.conf, 0 if unknown

	// Queries over UDP for the name itself, by type, and in all.
	sent, answered       map[string]int
	udpSent, udpAnswered int
	// control counts the questions that need no authority.
	controlSent, controlAnswered int
	coldSent, coldAnswered       int
	tcpAnswered                  int
	refused                      bool // ICMP or RST: nobody listens
	ednsSent, ednsAnswered       int
	plainAnswered                int // without EDNS, where the stub uses it
	failures                     int // answers to the name that were SERVFAIL
	ednsFormerr                  bool
	garbles                      bool // answers that cannot be read

	// way is the round trip to the server's kernel, from TCP handshakes.
	way millis.Value
	// base is the quickest answer of any kind.
	base millis.Value
	// cached is the median over answers that the cache holds, own over those
	// to control questions, coldMedian over random names.
	cached, own, coldMedian millis.Value
	firstMax                time.Duration // the slowest first answer
	// swings counts the rows whose answers were quick and very slow in turn,
	// of those that need nobody else; quickest and slowest are over them.
	// Wobbles are such rows of answers that others may be needed for.
	swings, wobbles   int
	quickest, slowest millis.Value

	rcode string // the commonest to the name
	ede   string
	cdOK  bool // with CD set it answered what it fails on
	lame  bool
	ttl   *int
	zones []Server // cold rows
}

// facts gathers the observations by server, in the order of the configuration.
func gather(r *Result) []*serverFacts {
	var all []*serverFacts
	get := func(addr string) *serverFacts {
		for _, f := range all {
			if f.addr == addr {
				return f
			}
		}
		f := &serverFacts{addr: addr, where: whereOf(addr), sent: map[string]int{}, answered: map[string]int{}}
		if i := slices.Index(r.Config.Nameservers, addr); i >= 0 && i < len(r.Config.NameserverLines) {
			f.line = r.Config.NameserverLines[i]
		}
		all = append(all, f)
		return f
	}
	for _, a := range r.Config.Nameservers {
		get(a)
	}
	for i := range r.Servers {
		get(r.Servers[i].Addr).addDirect(&r.Servers[i])
	}
	for i := range r.Controls {
		get(r.Controls[i].Addr).addControl(&r.Controls[i])
	}
	for i := range r.Cold {
		get(r.Cold[i].Addr).addCold(&r.Cold[i])
	}
	if r.Stub != nil {
		for i := range r.Stub.Steps {
			if st := &r.Stub.Steps[i]; st.answered() && st.Transport == "udp" {
				f := get(st.Server)
				f.base = least(f.base, st.Elapsed)
			}
		}
	}
	return all
}

// whereOf names a server as resolv.conf does: the port only if it is unusual.
func whereOf(addr string) string {
	if ap, err := netip.ParseAddrPort(addr); err == nil && ap.Port() == 53 {
		return ap.Addr().String()
	}
	return addr
}

func least(a, b millis.Value) millis.Value {
	switch {
	case !b.Known():
		return a
	case !a.Known() || b.Duration() < a.Duration():
		return b
	}
	return a
}

// count adds what every UDP row says about life and loss.
func (f *serverFacts) count(s *Server) {
	f.refused = f.refused || s.Rcodes[string(Refused)] > 0
	if s.Transport == "tcp" {
		f.tcpAnswered += s.Answered
		f.way = least(f.way, s.Connect)
		return
	}
	f.garbles = f.garbles || s.Rcodes[string(Malformed)] > 0
	f.udpSent += s.Sent
	f.udpAnswered += s.Answered
	f.base = least(f.base, least(s.Min, s.First))
	if s.EDE != "" && f.ede == "" {
		f.ede = s.EDE
	}
}

func (f *serverFacts) addDirect(s *Server) {
	f.count(s)
	f.lame = f.lame || s.Lame
	if s.Transport == "tcp" {
		return
	}
	f.sent[s.Type] += s.Sent
	f.answered[s.Type] += s.Answered
	f.failures += s.Rcodes["SERVFAIL"]
	if s.Answered > 0 && (f.rcode == "" || s.Rcode != "NOERROR") {
		f.rcode = s.Rcode
	}
	f.firstMax = max(f.firstMax, s.First.Duration())
	if s.TTL != nil && (f.ttl == nil || *s.TTL < *f.ttl) {
		f.ttl = s.TTL
	}
	// Only an answer with a lifetime is cached; errors and TTL 0 are asked for
	// anew each time and tell of the authority.
	if s.TTL != nil && *s.TTL > 0 {
		f.cached = least(f.cached, s.Median)
		f.swing(s)
	} else if uneven(s) {
		f.wobbles++
	}
}

// uneven reports whether a row of answers that should be alike are not.
func uneven(s *Server) bool {
	return s.Answered >= 3 && s.Max.Duration()-s.Min.Duration() >= slowUnseen && s.Max.Duration() >= 4*s.Min.Duration()
}

func (f *serverFacts) swing(s *Server) {
	if !uneven(s) {
		return
	}
	f.swings++
	f.quickest = least(f.quickest, s.Min)
	if s.Max.Duration() > f.slowest.Duration() {
		f.slowest = s.Max
	}
}

func (f *serverFacts) addControl(s *Server) {
	if s.Transport == "udp" && !strings.EqualFold(s.Name, controlName) {
		switch {
		case s.CD:
			f.cdOK = f.cdOK || s.Rcodes["NOERROR"] > 0
		case s.EDNS:
			f.ednsSent, f.ednsAnswered = f.ednsSent+s.Sent, f.ednsAnswered+s.Answered
			f.ednsFormerr = f.ednsFormerr || s.Rcodes["FORMERR"] > 0
		default:
			f.plainAnswered += s.Answered
		}
		if s.EDE != "" && f.ede == "" {
			f.ede = s.EDE
		}
		f.base = least(f.base, least(s.Min, s.First))
		return
	}
	f.count(s)
	if s.Transport == "udp" {
		f.controlSent += s.Sent
		f.controlAnswered += s.Answered
		f.own = least(f.own, s.Median)
		f.swing(s)
	}
}

func (f *serverFacts) addCold(s *Server) {
	if uneven(s) {
		f.wobbles++
	}
	f.coldSent += s.Sent
	f.coldAnswered += s.Answered
	f.base = least(f.base, s.Min)
	if m, ok := s.Median.Get(); ok && m >= f.coldMedian.Duration() {
		f.coldMedian = s.Median
	}
	f.zones = append(f.zones, *s)
}

// measured reports whether the server was asked directly over UDP at all.
func (f *serverFacts) measured() bool { return f.udpSent > 0 }

// dead reports whether nothing over UDP, of any kind, was ever answered.
func (f *serverFacts) dead() bool {
	return f.measured() && f.udpAnswered == 0 && f.coldAnswered == 0 && f.ednsAnswered == 0 && !f.base.Known()
}

// nameAnswered sums over the types.
func (f *serverFacts) nameSent() (sent, answered int) {
	for t, n := range f.sent {
		sent += n
		answered += f.answered[t]
	}
	return sent, answered
}

// lossy reports whether queries were lost on the way to a server that lives:
// some, and not simply all of one type or all that need the authority.
func (f *serverFacts) lossy() (lost, sent int, yes bool) {
	for t, n := range f.sent {
		// A resolver that fails late is not a lossy way to it.
		if a := f.answered[t]; a > 0 && f.failures == 0 {
			sent += n
			lost += n - a
		}
	}
	if f.controlAnswered > 0 {
		sent += f.controlSent
		lost += f.controlSent - f.controlAnswered
	}
	return lost, sent, lost > 0
}

// network is the round trip to the server without the server's own time: the
// TCP handshake where there was one, else the quickest answer. An answer that
// is never quicker than farAway, with no handshake to hold against it, is not
// taken for distance alone.
func (f *serverFacts) network() time.Duration {
	b := f.base.Duration()
	if w, ok := f.way.Get(); ok {
		if f.base.Known() {
			return min(w, b)
		}
		return w
	}
	if b > farAway {
		return usualWay
	}
	return b
}

const (
	farAway  = 150 * time.Millisecond
	usualWay = 50 * time.Millisecond
)

// warm is how long the server takes for what it knows, and whether that is
// known.
func (f *serverFacts) warm() (time.Duration, bool) {
	if f.swings > 0 { // a median of quick and slow ones is neither
		return f.quickest.Get()
	}
	if c, ok := f.cached.Get(); ok {
		return c, true
	}
	return f.own.Get()
}

// authorityTroubled reports whether names that must be fetched are answered
// late or not at all.
func (f *serverFacts) authorityTroubled() bool {
	warm, _ := f.warm()
	return f.coldSent > 0 && (f.coldAnswered == 0 || f.coldMedian.Duration() > warm+slowUnseen)
}
