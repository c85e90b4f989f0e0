package trace

import (
	"net/netip"
	"time"

	"github.com/whyslow/whyslow/internal/millis"
)

// leastStep is the smallest step of the round trip that is worth a word (R1).
const leastStep = 2 * time.Millisecond

// Segment is the part of a path between two neighbouring hops that answered,
// and what it adds to the way. Silent hops between the two belong to it.
type Segment struct {
	FromTTL int // 0 is this host
	ToTTL   int
	From    netip.Addr // the zero Addr for this host
	To      netip.Addr
	// Delay is what the segment adds to the least round trip to everything
	// behind it. Never negative; the sum over all segments is the least round
	// trip to the last hop.
	Delay time.Duration
	// Typical is the same over medians: Typical − Delay is queueing that
	// shows at every hop behind the segment (R6).
	Typical time.Duration
	// Real says that Delay exceeds both 2 ms and the spread of the round trips
	// to the end of the path (R1): a smaller step is noise.
	Real bool
	// ReturnSuspect says that from here on the way back is longer or shorter
	// than the way there explains, so the delay may lie on the way back (R5).
	ReturnSuspect bool
}

// Blame applies the suffix-minimum rule to round trips in the order of hops.
// E(h) is the least round trip at hop h or anywhere behind it, and hop h is
// charged E(h) − E(h−1), where E(−1) is 0. A hop that answers later than one
// behind it does not delay what it forwards and gets 0 for the excess; the sum
// is the least round trip of the last hop. Unmeasured hops get 0.
func Blame(rtts []millis.Value) []time.Duration {
	blame := make([]time.Duration, len(rtts))
	least := suffixMin(rtts)
	before := time.Duration(0)
	for i, v := range rtts {
		if v.Known() {
			blame[i] = least[i] - before
			before = least[i]
		}
	}
	return blame
}

// suffixMin returns for each hop the least round trip at it or behind it, 0
// behind the last measured one.
func suffixMin(rtts []millis.Value) []time.Duration {
	suffix := make([]time.Duration, len(rtts))
	least, known := time.Duration(0), false
	for i := len(rtts) - 1; i >= 0; i-- {
		if d, ok := rtts[i].Get(); ok && (!known || d < least) {
			least, known = d, true
		}
		suffix[i] = least
	}
	return suffix
}

// point is a hop that answered.
type point struct {
	hop         *Hop
	addr        netip.Addr
	min, median millis.Value
}

// points are the hops that answered. A hop's least round trip is over its
// expiring probes and its direct sample; the destination's over its own sample
// too.
func points(res *Result) []point {
	var pts []point
	for i := range res.Hops {
		h := &res.Hops[i]
		if len(h.Replies) == 0 {
			continue
		}
		p := point{hop: h, addr: h.Replies[0].Addr}
		for _, r := range h.Replies {
			if sought(r.ICMP, r.Min.Duration()) {
				continue
			}
			p.min, p.median = lesser(p.min, r.Min), lesser(p.median, r.Median)
		}
		p.sampled(h.Direct)
		if res.HopCount != nil && h.TTL == *res.HopCount {
			p.sampled(res.Destination)
		}
		if p.min.Known() {
			pts = append(pts, p)
		}
	}
	return pts
}

// sampled takes a larger sample into account: its median is the better one.
func (p *point) sampled(s *Sampled) {
	if s == nil || s.Received == 0 {
		return
	}
	p.min = lesser(p.min, s.Min)
	if s.Median.Known() {
		p.median = s.Median
	}
}

func lesser(a, b millis.Value) millis.Value {
	if !a.Known() || b.Known() && b.Duration() < a.Duration() {
		return b
	}
	return a
}

// Segments splits a path at its answering hops and says what each part adds
// (R1, R5, R6). It is empty if nobody answered.
func Segments(res *Result) []Segment {
	pts := points(res)
	if len(pts) == 0 {
		return nil
	}
	mins, medians := make([]millis.Value, len(pts)), make([]millis.Value, len(pts))
	for i, p := range pts {
		mins[i], medians[i] = p.min, p.median
	}
	delay, typical := Blame(mins), Blame(medians)
	last := pts[len(pts)-1]
	noise := max(leastStep, last.median.Duration()-last.min.Duration())
	segs := make([]Segment, len(pts))
	for i, p := range pts {
		s := Segment{ToTTL: p.hop.TTL, To: p.addr, Delay: delay[i], Typical: typical[i], Real: delay[i] > noise}
		if i > 0 {
			s.FromTTL, s.From = pts[i-1].hop.TTL, pts[i-1].addr
			s.ReturnSuspect = returnChanges(pts, i)
		}
		segs[i] = s
	}
	return segs
}

// returnChanges reports whether the way back from point i and from all behind
// it is longer or shorter, against the way there, than from any point before.
// One router that counts otherwise than its neighbours is no change.
func returnChanges(pts []point, i int) bool {
	if _, ok := detour(pts[i]); !ok {
		return false
	}
	known := false
	for _, p := range pts[:i] {
		before, ok := detour(p)
		if !ok {
			continue
		}
		known = true
		for _, q := range pts[i:] {
			if d, ok := detour(q); ok && d == before {
				return false
			}
		}
	}
	return known
}

// detour is how many hops longer the way back from a hop is than the way
// there.
func detour(p point) (hops int, known bool) {
	n := HopsBack(p.hop.Replies[0].ReplyTTL)
	return n - p.hop.TTL, n > 0
}
