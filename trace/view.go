package trace

import (
	"net/netip"
	"time"

	"github.com/whyslow/whyslow/internal/wire"
)

// view is what one method has seen of the path so far.
type view struct {
	begin  Event
	probes []probe // in order of sending
	bySeq  map[uint16]int
	maxRTT time.Duration
}

// probe is one probe and its first answer.
type probe struct {
	ttl      int
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
	if v.bySeq == nil {
		v.bySeq = make(map[uint16]int)
	}
	v.bySeq[ev.Seq] = len(v.probes)
	v.probes = append(v.probes, probe{ttl: ev.TTL, at: ev.At})
}

// replied records the first answer to a probe and reports whether it was one.
func (v *view) replied(ev Event) bool {
	i, ok := v.bySeq[ev.Seq]
	if !ok || v.probes[i].answered {
		return false
	}
	p := &v.probes[i]
	p.answered, p.from, p.replyTTL, p.role, p.answer = true, ev.Addr, ev.ReplyTTL, ev.Role, ev.Answer
	p.icmp, p.quote, p.labels = [2]*int{ev.ICMPType, ev.ICMPCode}, ev.Quote, ev.Labels
	p.rtt = max(ev.RTT.Duration(), 0)
	v.maxRTT = max(v.maxRTT, p.rtt)
	return true
}

// destTTL is the least TTL at which the destination answered, 0 if none: of
// several, the larger ones only passed through with TTL to spare.
func (v *view) destTTL() int { return v.leastTTL(RoleDestination) }

// endTTL is the least TTL at which somebody refused to go on, 0 if none.
func (v *view) endTTL() int { return v.leastTTL(RoleRefusal) }

func (v *view) leastTTL(r Role) int {
	least := 0
	for _, p := range v.probes {
		if p.answered && p.role == r && (least == 0 || p.ttl < least) {
			least = p.ttl
		}
	}
	return least
}

// lastAnswered is the largest TTL that a router answered, 0 if none.
func (v *view) lastAnswered() int {
	last := 0
	for _, p := range v.probes {
		if p.answered && p.role == RoleRouter {
			last = max(last, p.ttl)
		}
	}
	return last
}

// lastSent is the largest TTL probed.
func (v *view) lastSent() int {
	last := 0
	for _, p := range v.probes {
		last = max(last, p.ttl)
	}
	return last
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
	return min(v.lastAnswered()+1, v.lastSent())
}

// answers returns for each TTL up to length how many probes were answered.
func (v *view) answers() []int {
	n := make([]int, v.length()+1)
	for _, p := range v.probes {
		if p.answered && p.ttl < len(n) {
			n[p.ttl]++
		}
	}
	return n
}

// silent returns the TTLs below the end of the path that nobody answered.
func (v *view) silent() []int {
	var ttls []int
	for ttl, n := range v.answers() {
		if ttl > 0 && n == 0 {
			ttls = append(ttls, ttl)
		}
	}
	return ttls
}

// waiting reports whether a probe that counts, up to the end of the path, is
// unanswered.
func (v *view) waiting() bool {
	n := v.length()
	for _, p := range v.probes {
		if !p.answered && p.ttl <= n {
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
