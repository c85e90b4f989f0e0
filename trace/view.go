package trace

import (
	"net/netip"
	"time"

	"github.com/whyslow/whyslow/internal/wire"
)

const (
	// keptRounds is how many of the latest rounds a view holds probe by probe.
	// A change of the route that turns out to be none within them leaves no
	// trace (epoch.go).
	keptRounds = 8
	// forget is when a probe that nobody answered is given up for good.
	forget = 10 * time.Second
	// maxProbes bounds the probes held, whatever the pace: fewer than there
	// are sequence numbers, so that a number means one of them.
	maxProbes = 1 << 14
	// maxTTL is the largest that fits into a packet.
	maxTTL = 255
)

// view is what one method has seen of the path so far. Its size does not
// depend on how long it has been looking: probes of the latest rounds are
// held one by one, older ones as sums.
type view struct {
	begin    Event
	probes   []probe // in order of sending
	first    int     // how many were sent before probes[0]
	index    map[uint16]int
	maxRTT   time.Duration
	round    int
	now      time.Time // of the latest probe or answer
	settled  []tally   // by TTL: the current epoch's probes before probes[0]
	counts   [maxTTL + 1]answers
	farthest int // the largest TTL probed
	route    route
	// gone says that a router looked for its neighbour, the destination, and
	// found nobody. That takes it seconds; a filter that says the same does so
	// at once.
	gone bool
	// routers are those that said so themselves: a probe ran out at them.
	routers map[netip.Addr]bool
}

// maxRouters bounds the addresses held: 64 hops have no more.
const maxRouters = 1024

// answers counts the answered probes of one TTL by role, in this epoch.
type answers struct{ router, destination, refusal int }

func (a answers) sum() int { return a.router + a.destination + a.refusal }

// probe is one probe and its first answer.
type probe struct {
	seq      uint16
	ttl      int // that it counts for; 0 is none
	left     int // the TTL it left with
	round    int
	epoch    int
	shared   bool // asked and answered in another trace
	at       time.Time
	answered bool
	from     netip.Addr
	rtt      time.Duration
	replyTTL int
	role     Role
	answer   string
	icmp     [2]*int // type and code
	quote    *Quote
	labels   []wire.Label
}

func (v *view) sent(ev Event) {
	if ev.TTL < 1 || ev.TTL > maxTTL {
		return
	}
	if v.index == nil {
		v.index = make(map[uint16]int)
	}
	v.now = later(v.now, ev.At)
	v.round = max(v.round, ev.Round)
	v.farthest = max(v.farthest, ev.TTL)
	v.index[ev.Seq] = v.first + len(v.probes)
	v.probes = append(v.probes, probe{seq: ev.Seq, ttl: ev.TTL, left: ev.TTL, round: ev.Round, epoch: v.route.epoch, at: ev.At})
	v.settle()
}

// settle turns old probes into sums.
func (v *view) settle() {
	for len(v.probes) > 0 {
		p := &v.probes[0]
		old := v.round-p.round >= keptRounds && (p.answered || v.now.Sub(p.at) >= max(forget, v.patience()))
		if !old && len(v.probes) <= maxProbes {
			return
		}
		if t := v.sums(p.epoch); t != nil && p.ttl > 0 {
			for len(*t) <= p.ttl {
				*t = append(*t, tally{})
			}
			(*t)[p.ttl].add(*p)
		}
		if v.index[p.seq] == v.first {
			delete(v.index, p.seq)
		}
		v.probes[0] = probe{}
		v.probes = v.probes[1:]
		v.first++
	}
}

// probe is the probe of a sequence number, nil if there is none or it has been
// given up.
func (v *view) probe(seq uint16) *probe {
	i, ok := v.index[seq]
	if !ok {
		return nil
	}
	return &v.probes[i-v.first]
}

// counted makes a probe count for another TTL than it was sent with.
func (v *view) counted(ev Event) {
	p := v.probe(ev.Seq)
	if p == nil || ev.TTL < 0 || ev.TTL > maxTTL {
		return
	}
	p.ttl, p.round = ev.TTL, max(p.round, ev.Round)
	v.farthest = max(v.farthest, ev.TTL)
	if p.answered {
		v.recount()
	}
}

// shared enters the answer to another trace.
func (v *view) shared(ev Event) {
	v.sent(ev)
	if p := v.probe(ev.Seq); p != nil {
		p.shared = true
		v.replied(ev)
	}
}

// replied records the first answer to a probe and reports whether it was one.
func (v *view) replied(ev Event) bool {
	p := v.probe(ev.Seq)
	if p == nil || p.answered {
		return false
	}
	v.now = later(v.now, ev.At)
	p.answered, p.from, p.replyTTL, p.role, p.answer = true, ev.Addr, ev.ReplyTTL, ev.Role, ev.Answer
	p.icmp, p.quote, p.labels = [2]*int{ev.ICMPType, ev.ICMPCode}, ev.Quote, ev.Labels
	p.role = v.judged(ev)
	p.rtt = max(ev.RTT.Duration(), 0)
	v.gone = v.gone || p.role == RoleRefusal && sought(p.answer, p.rtt)
	if !sought(p.answer, p.rtt) {
		v.maxRTT = max(v.maxRTT, p.rtt)
	}
	if p.ttl > 0 && p.epoch >= v.route.from {
		v.counts[p.ttl].count(p.role, 1)
		v.follow(p, v.index[ev.Seq])
	}
	return true
}

// judged is the role of an answer by what is known of its sender. A port
// unreachable is the destination's, whatever its address (it may stand behind a
// NAT), unless it comes from a router at which other probes ran out: that one
// rejects them, as the firewalls of Linux do unless told otherwise.
func (v *view) judged(ev Event) Role {
	switch {
	case ev.Role == RoleRouter:
		if !v.routers[ev.Addr] && len(v.routers) < maxRouters {
			if v.routers == nil {
				v.routers = make(map[netip.Addr]bool)
			}
			v.routers[ev.Addr] = true
			v.reconsider(ev.Addr)
		}
	case v.rejects(ev.Role, ev.Answer, ev.Addr):
		return RoleRefusal
	}
	return ev.Role
}

// rejects reports whether an answer that looks like the destination's is a
// router's.
func (v *view) rejects(r Role, answer string, from netip.Addr) bool {
	return r == RoleDestination && answer == portUnreachable && v.routers[from] &&
		(v.begin.Target == nil || v.begin.Target.Addr != from)
}

// reconsider judges again what a router had answered before it was known as
// one.
func (v *view) reconsider(router netip.Addr) {
	again := false
	for i := range v.probes {
		if p := &v.probes[i]; p.answered && p.from == router && v.rejects(p.role, p.answer, router) {
			p.role, again = RoleRefusal, true
		}
	}
	if again {
		v.recount()
	}
}

func (a *answers) count(r Role, n int) {
	switch r {
	case RoleRouter:
		a.router += n
	case RoleDestination:
		a.destination += n
	case RoleRefusal:
		a.refusal += n
	}
}

// recount makes answers anew after the epoch has changed.
func (v *view) recount() {
	v.counts = [maxTTL + 1]answers{}
	for ttl := range v.settled {
		for i := range v.settled[ttl].from {
			r := &v.settled[ttl].from[i]
			v.counts[ttl].count(r.latest.role, r.times.sketch.Len())
		}
	}
	for i := range v.probes {
		if p := &v.probes[i]; p.answered && p.ttl > 0 && p.epoch >= v.route.from {
			v.counts[p.ttl].count(p.role, 1)
		}
	}
}

// tallies are the sums over all probes of the current epoch. Probes that may
// still be answered count only if all were waited for.
func (v *view) tallies(now time.Time, finished bool) []tally {
	sums := make([]tally, v.farthest+1)
	for ttl := range v.settled {
		sums[ttl] = v.settled[ttl].clone()
	}
	patience := v.patience()
	for i := range v.probes {
		p := &v.probes[i]
		if p.ttl == 0 || p.epoch < v.route.from || !p.answered && !finished && now.Sub(p.at) < patience {
			continue
		}
		sums[p.ttl].add(*p)
	}
	return sums
}

// destTTL is the least TTL at which the destination answered and behind which
// no router did, 0 if none: what went further had TTL to spare. If packets take
// ways of several lengths, the longest counts, or its hops would be cut off.
func (v *view) destTTL() int {
	if n := v.least(func(a answers) bool { return a.destination > 0 }, v.lastAnswered()); n > 0 {
		return n
	}
	return v.least(func(a answers) bool { return a.destination > 0 }, 0)
}

// endTTL is the least TTL at which somebody refused to go on, 0 if none.
func (v *view) endTTL() int {
	return v.least(func(a answers) bool { return a.refusal > 0 }, 0)
}

// least is the least TTL behind another for which something holds.
func (v *view) least(holds func(answers) bool, behind int) int {
	for ttl := behind + 1; ttl <= v.farthest; ttl++ {
		if holds(v.counts[ttl]) {
			return ttl
		}
	}
	return 0
}

// lastAnswered is the largest TTL that a router answered, 0 if none.
func (v *view) lastAnswered() int {
	for ttl := v.farthest; ttl > 0; ttl-- {
		if v.counts[ttl].router > 0 {
			return ttl
		}
	}
	return 0
}

// length is the number of hops there are to show: up to the destination, the
// refusal, or one hop past the last that answered.
func (v *view) length() int {
	if n := v.destTTL(); n > 0 {
		return n
	}
	if n := v.endTTL(); n > 0 {
		return n
	}
	return min(v.lastAnswered()+1, v.farthest)
}

// answered returns how many probes of a TTL were answered.
func (v *view) answered(ttl int) int { return v.counts[ttl].sum() }

// waiting reports whether a probe that counts, up to the end of the path, is
// unanswered.
func (v *view) waiting() bool {
	n := v.length()
	for i := range v.probes {
		if p := &v.probes[i]; !p.answered && p.ttl > 0 && p.ttl <= n {
			return true
		}
	}
	return false
}

// better reports whether v shows more of the path than w. Of equals the
// earlier method is kept.
func (v *view) better(w *view) bool {
	if a, b := v.destTTL() > 0, w.destTTL() > 0; a || b {
		return a && !b
	}
	if a, b := v.lastAnswered(), w.lastAnswered(); a != b {
		return a > b
	}
	return v.endTTL() > 0 && w.endTTL() == 0
}

// patience is how long an unanswered probe may still be under way.
func (v *view) patience() time.Duration {
	if v.maxRTT == 0 {
		return unknownPatience
	}
	return v.maxRTT*3/2 + settle
}
