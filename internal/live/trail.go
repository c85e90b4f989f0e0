package live

import (
	"time"

	"github.com/whyslow/whyslow/internal/stats"
	"github.com/whyslow/whyslow/trace"
)

// keep is how many of the latest probes of a hop are kept one by one: more than
// any screen is wide.
const keep = 512

// unknownPatience and settle are the waits for an answer that the trace itself
// has: before anybody has answered, and what is added to 1.5 round trips.
const (
	unknownPatience = 200 * time.Millisecond
	settle          = 30 * time.Millisecond
)

// trail is what a view keeps of the probes of one method beside their fold, for
// its charts.
type trail struct {
	method string
	hops   []*hopTrail // by TTL, from 1
	bySeq  map[uint16]place
	maxRTT time.Duration
	// The rounds counted, from 0: the first and the last.
	first, round int
}

// place is where a probe that may still be answered stands.
type place struct{ ttl, n int }

// hopTrail is one TTL of a trail.
type hopTrail struct {
	sent    int
	samples [keep]sample // the latest, a ring
	times   stats.Sketch
}

// sample is one probe.
type sample struct {
	at       time.Time
	rtt      time.Duration
	answered bool
	void     bool // it counts for nothing here: its silence proves nothing
}

// reset forgets what was counted.
func (t *trail) reset() {
	*t = trail{method: t.method, maxRTT: t.maxRTT, round: t.round, first: t.round + 1}
}

// rounds is how many were begun since.
func (t *trail) rounds() int {
	if len(t.hops) == 0 {
		return 0
	}
	return t.round - t.first + 1
}

// at is a hop's trail, an empty one if nothing was sent there.
func (t *trail) at(ttl int) *hopTrail {
	if t == nil || ttl < 1 || ttl > len(t.hops) {
		return &hopTrail{}
	}
	return t.hops[ttl-1]
}

// add takes an event of one probe.
func (t *trail) add(ev trace.Event) {
	switch ev.Kind {
	case trace.Sent:
		t.sent(ev)
	case trace.Replied:
		t.replied(ev)
	case trace.Counted:
		t.counted(ev)
	}
}

func (t *trail) sent(ev trace.Event) {
	if ev.TTL < 1 || ev.TTL > 255 {
		return
	}
	for len(t.hops) < ev.TTL {
		t.hops = append(t.hops, new(hopTrail))
	}
	if t.bySeq == nil {
		t.bySeq = make(map[uint16]place)
	}
	h := t.hops[ev.TTL-1]
	h.samples[h.sent%keep] = sample{at: ev.At}
	t.bySeq[ev.Seq] = place{ev.TTL, h.sent}
	h.sent++
	t.round = max(t.round, ev.Round)
}

// replied takes the first answer to a probe.
func (t *trail) replied(ev trace.Event) {
	h, s := t.find(ev.Seq)
	if s == nil || s.answered {
		return
	}
	rtt := max(ev.RTT.Duration(), 0)
	s.rtt, s.answered = rtt, true
	t.maxRTT = max(t.maxRTT, rtt)
	h.times.Add(rtt)
}

// find is the latest probe of a number, nil if it is kept no more.
func (t *trail) find(seq uint16) (*hopTrail, *sample) {
	p, ok := t.bySeq[seq]
	if !ok {
		return nil, nil
	}
	h := t.hops[p.ttl-1]
	if h.sent-p.n > keep {
		return nil, nil
	}
	return h, &h.samples[p.n%keep]
}

// counted moves a probe to another hop, or takes it out.
func (t *trail) counted(ev trace.Event) {
	_, s := t.find(ev.Seq)
	if s == nil {
		return
	}
	moved := *s
	s.void = true
	if ev.TTL < 1 || ev.TTL > len(t.hops) {
		return
	}
	moved.void = false
	h := t.hops[ev.TTL-1]
	h.samples[h.sent%keep] = moved
	t.bySeq[ev.Seq] = place{ev.TTL, h.sent}
	h.sent++
	if moved.answered {
		h.times.Add(moved.rtt)
	}
}

// recent are up to n probes of a hop, the oldest first, without those that may
// still be answered.
func (t *trail) recent(ttl, n int, now time.Time) []sample {
	patience := unknownPatience
	if t != nil && t.maxRTT > 0 {
		patience = t.maxRTT*3/2 + settle
	}
	h := t.at(ttl)
	n = min(n, h.sent, keep)
	out := make([]sample, 0, n)
	for i := h.sent - n; i < h.sent; i++ {
		if s := h.samples[i%keep]; !s.void && (s.answered || now.Sub(s.at) >= patience) {
			out = append(out, s)
		}
	}
	return out
}
