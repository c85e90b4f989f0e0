package trace

import (
	"math"
	"net/netip"
	"slices"
	"time"
)

// A route that changes is no loss and no jitter: the hops of the old one are
// not those of the new (mtr#361). So what is known of a path is split where it
// changes, into epochs.
//
// A change is another address at a TTL in two rounds on end, or at several
// TTLs in one round. Routers that spread the packets of a flow make addresses
// take turns: if one that was there before answers again at once, it was no
// change but several paths, and the epochs become one again. Probes of several
// flows change addresses together and by chance, so it takes more of them.

const (
	maxEpochs   = 64 // listed; the oldest are left out
	maxAddrs    = 16 // remembered at one TTL
	agreeStable = 2  // rounds that tell a change, within one flow
	agreeMixed  = 4  // and with probes of several flows
	transition  = 2  // rounds that a change may take to be seen at all TTLs
)

// route follows the addresses of a path. Epochs have numbers; a rejoined epoch
// is a range of them.
type route struct {
	epoch int // of the probes sent now
	from  int // the least that belongs to the current epoch
	span
	past []Epoch
	kept []former
}

// span is what is known of an epoch but its sums.
type span struct {
	hops  []passed // by TTL
	began time.Time
	round int // its first
}

// former is an epoch that may yet turn out to be one with the current.
type former struct {
	from int
	span
	settled []tally
}

// passed are the addresses at one TTL in an epoch.
type passed struct {
	addrs []passer
	next  netip.Addr // one that may be the sign of a change
	since int        // which probe it answered first
	round int        // and in which round
	agree int        // rounds in which it answered
	last  int        // the latest of them
}

type passer struct {
	addr netip.Addr
	n    int // answers
	seen int // round
}

// fresh reports whether an address belongs to the TTL, and notes that it was
// seen.
func (h *passed) fresh(addr netip.Addr, round int) bool {
	latest, total := 0, 0
	for _, p := range h.addrs {
		latest, total = max(latest, p.seen), total+p.n
	}
	for i := range h.addrs {
		if p := &h.addrs[i]; p.addr == addr {
			ok := !p.left(latest, total)
			if ok {
				p.seen, p.n = max(p.seen, round), p.n+1
			}
			return ok
		}
	}
	return false
}

// left reports whether others have replaced an address that gave n of total
// answers: for longer than chance allows where packets are spread.
func (p passer) left(latest, total int) bool {
	absent := latest - p.seen
	if absent <= keptRounds {
		return false
	}
	share := float64(p.n) / float64(total)
	return share < 0.05 || math.Pow(1-share, float64(absent)) < 1e-5
}

func (h *passed) add(addr netip.Addr, round int) {
	n := 1
	h.addrs = slices.DeleteFunc(h.addrs, func(p passer) bool {
		if p.addr == addr {
			n += p.n
		}
		return p.addr == addr
	})
	if len(h.addrs) == maxAddrs {
		h.addrs = slices.Delete(h.addrs, 0, 1)
	}
	h.addrs = append(h.addrs, passer{addr, n, round})
}

// takeNext makes the sign of a change an address of the TTL like the others.
func (h *passed) takeNext() {
	if h.next.IsValid() {
		h.add(h.next, h.last)
	}
	h.next = netip.Addr{}
}

func (r *route) at(ttl int) *passed {
	for len(r.hops) <= ttl {
		r.hops = append(r.hops, passed{})
	}
	return &r.hops[ttl]
}

// sums is where a probe too old to be held belongs, nil if nowhere. That it is
// so old says that its epoch has lasted: those before are over for good.
func (v *view) sums(epoch int) *[]tally {
	r := &v.route
	for len(r.kept) > 0 && r.ends(0) <= epoch {
		r.kept = r.kept[1:]
	}
	switch {
	case epoch >= r.from:
		return &v.settled
	case len(r.kept) > 0 && epoch >= r.kept[0].from:
		return &r.kept[0].settled
	}
	return nil
}

// ends is the first number behind a kept epoch.
func (r *route) ends(k int) int {
	if k+1 < len(r.kept) {
		return r.kept[k+1].from
	}
	return r.from
}

// follow takes note of who answered a probe, the index-th sent.
func (v *view) follow(p *probe, index int) {
	if p.role == RoleRefusal {
		return // it answers for every TTL behind it, and is no path
	}
	r := &v.route
	if r.began.IsZero() {
		r.began, r.round = v.probes[0].at, v.probes[0].round
	}
	h := r.at(p.ttl)
	switch {
	case len(h.addrs) == 0:
		h.add(p.from, p.round)
	case h.fresh(p.from, p.round):
		if h.next.IsValid() && index > h.since {
			h.takeNext() // the two take turns
		}
	case h.next == p.from:
		if p.round > h.last {
			h.agree, h.last = h.agree+1, p.round
		}
		v.judge(h)
	case h.next.IsValid():
		h.takeNext() // a third one: packets are spread
		h.add(p.from, p.round)
	default:
		if k := r.returned(p.ttl, p.from); k >= 0 {
			v.rejoin(k)
			return
		}
		h.next, h.since, h.round, h.agree, h.last = p.from, index, p.round, 1, p.round
		v.judge(h)
	}
}

// judge splits where there is evidence enough.
func (v *view) judge(h *passed) {
	r := &v.route
	together, start := 0, h.round
	for i := range r.hops {
		if o := &r.hops[i]; o.next.IsValid() && h.last-o.last <= 1 {
			together++
			start = max(start, o.round)
		}
	}
	if v.begin.FlowStable && (h.agree >= agreeStable || together > 1) || h.agree >= agreeMixed {
		v.split(start)
	}
}

// split begins a new epoch with a round.
func (v *view) split(start int) {
	r := &v.route
	if start <= r.round {
		return
	}
	if len(r.kept) > 0 && start-r.round <= transition {
		// The same change, at a TTL that shows it later.
		v.relabel(r.from-1, func(p *probe) bool { return p.epoch >= r.from && p.round < start })
		last := &r.past[len(r.past)-1]
		last.Rounds += start - r.round
	} else {
		old := *r
		r.epoch++
		v.relabel(r.epoch, func(p *probe) bool { return p.epoch >= old.from && p.round >= start })
		r.past = append(r.past, Epoch{Started: r.began.UTC(), Rounds: start - r.round, Hops: v.addresses(old.from, r.epoch)})
		if len(r.past) > maxEpochs {
			r.past = slices.Delete(r.past, 0, 1)
		}
		r.kept = append(r.kept, former{from: old.from, span: old.span, settled: v.settled})
		v.settled, r.from = nil, r.epoch
	}
	r.span = span{round: start}
	for i := range v.probes {
		p := &v.probes[i]
		if p.epoch < r.from {
			continue
		}
		if r.began.IsZero() {
			r.began = p.at
		}
		if p.answered && p.ttl > 0 && p.role != RoleRefusal {
			r.at(p.ttl).add(p.from, p.round)
		}
	}
	v.recount()
}

func (v *view) relabel(epoch int, which func(*probe) bool) {
	for i := range v.probes {
		if p := &v.probes[i]; which(p) {
			p.epoch = epoch
		}
	}
}

// returned is the kept epoch that an address comes back from too soon for a
// change of route, −1 if none: an epoch that was short, or in which the
// address took turns already.
func (r *route) returned(ttl int, addr netip.Addr) int {
	for k := len(r.kept) - 1; k >= 0; k-- {
		f := &r.kept[k]
		if ttl >= len(f.hops) || !slices.ContainsFunc(f.hops[ttl].addrs, func(p passer) bool { return p.addr == addr }) {
			continue
		}
		if len(f.hops[ttl].addrs) > 1 || r.round-f.round < keptRounds {
			return k
		}
		return -1
	}
	return -1
}

// rejoin makes one epoch again of a kept one and all since.
func (v *view) rejoin(k int) {
	r := &v.route
	f := r.kept[k]
	joined := f.span
	r.past = r.past[:max(0, len(r.past)-(len(r.kept)-k))]
	r.kept = r.kept[:k]
	v.settled, r.from, r.span = f.settled, f.from, joined
	for i := range v.probes {
		if p := &v.probes[i]; p.epoch >= r.from && p.answered && p.ttl > 0 && p.role != RoleRefusal {
			h := r.at(p.ttl)
			h.next = netip.Addr{}
			h.add(p.from, p.round)
		}
	}
	v.recount()
}

// addresses are those that answered most in the epochs from one number up to
// another, by TTL from 1 to the destination or the last that answered.
func (v *view) addresses(from, to int) []netip.Addr {
	sums := make([]tally, v.farthest+1)
	for ttl := range v.settled {
		sums[ttl] = v.settled[ttl].clone()
	}
	for i := range v.probes {
		if p := &v.probes[i]; p.answered && p.ttl > 0 && p.epoch >= from && p.epoch < to {
			sums[p.ttl].add(*p)
		}
	}
	var addrs []netip.Addr
	answered := 0
	for ttl := 1; ttl < len(sums); ttl++ {
		addrs = append(addrs, sums[ttl].main())
		if sums[ttl].received > 0 {
			answered = ttl
		}
		if slices.ContainsFunc(sums[ttl].from, func(r replies) bool { return r.latest.role == RoleDestination }) {
			break
		}
	}
	return addrs[:answered]
}

// epochs are the routes seen so far, none if it never changed.
func (v *view) epochs() []Epoch {
	r := &v.route
	if len(r.past) == 0 {
		return nil
	}
	now := Epoch{Started: r.began.UTC(), Rounds: v.round - r.round + 1, Hops: v.addresses(r.from, r.epoch+1)}
	return append(slices.Clone(r.past), now)
}
