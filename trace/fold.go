package trace

import (
	"math"
	"net/netip"
	"time"

	"github.com/whyslow/whyslow/internal/millis"
	"github.com/whyslow/whyslow/internal/stats"
)

// Fold makes a Result of events. The zero Fold is ready; Result may be called
// at any time, for a live view. Not safe for concurrent use.
type Fold struct {
	views    []*view
	names    map[netip.Addr]string
	origins  map[netip.Addr]*AS
	warnings []string
	target   Target
	started  time.Time
	last     time.Time // of the last probe or answer
	finished bool
}

// Add takes the next event.
func (f *Fold) Add(ev Event) {
	switch ev.Kind {
	case Begin:
		if len(f.views) == 0 {
			f.started = ev.At
			if ev.Target != nil {
				f.target = *ev.Target
			}
		}
		f.views = append(f.views, &view{begin: ev})
	case Sent, Replied:
		if ev.View < 0 || ev.View >= len(f.views) {
			return
		}
		if ev.Kind == Sent {
			f.views[ev.View].sent(ev)
		} else {
			f.views[ev.View].replied(ev)
		}
	case Named:
		if f.names == nil {
			f.names = make(map[netip.Addr]string)
		}
		f.names[ev.Addr] = ev.Text
		return // names come after the end and are no part of its time
	case Origin:
		if f.origins == nil {
			f.origins = make(map[netip.Addr]*AS)
		}
		f.origins[ev.Addr] = ev.AS
		return
	case Warned:
		f.warnings = append(f.warnings, ev.Text)
		return
	case End:
		f.finished = true
	}
	if ev.At.After(f.last) {
		f.last = ev.At
	}
}

// best is the view to show, nil if there is none.
func (f *Fold) best() *view {
	var best *view
	for _, v := range f.views {
		if best == nil || v.better(best) {
			best = v
		}
	}
	return best
}

// Result returns the trace so far, its reading included. Probes that may still
// be answered are not counted until the End event has been added.
func (f *Fold) Result() *Result {
	r := &Result{Schema: Schema, Target: f.target, Started: f.started.UTC(), Hops: []Hop{}, Reading: []Sentence{}}
	r.Warnings = append(r.Warnings, f.warnings...)
	v := f.best()
	if v == nil {
		return r
	}
	r.Elapsed = millis.Of(f.last.Sub(f.started))
	r.Method, r.Socket, r.FlowStable = v.begin.Method, v.begin.Socket, v.begin.FlowStable
	if v.begin.Target != nil {
		r.Target = *v.begin.Target
	}
	for ttl := 1; ttl <= v.length(); ttl++ {
		if h, ok := f.hop(v, ttl); ok {
			r.Hops = append(r.Hops, h)
		}
	}
	if n := v.destTTL(); n > 0 {
		r.Reached, r.HopCount = true, &n
		r.BackCount = backCount(v)
	}
	r.NAT, r.MSSClamp, r.TOSChange = translation(r.Hops), clamp(r.Hops), tosChange(r.Hops)
	r.Reading = Read(r)
	return r
}

// hop folds the probes of one TTL. It reports false if none counts.
func (f *Fold) hop(v *view, ttl int) (Hop, bool) {
	h := Hop{TTL: ttl, Replies: []Replier{}}
	rtts := make(map[netip.Addr][]time.Duration)
	for _, p := range v.probes {
		if p.ttl != ttl {
			continue
		}
		if !p.answered {
			if f.finished || f.last.Sub(p.at) >= v.patience() {
				h.Sent++
			}
			continue
		}
		h.Sent++
		h.Received++
		if _, ok := rtts[p.from]; !ok {
			h.Replies = append(h.Replies, Replier{Addr: p.from, Name: f.names[p.from], AS: f.origins[p.from]})
		}
		rtts[p.from] = append(rtts[p.from], p.rtt)
		rep := &h.Replies[indexOf(h.Replies, p.from)]
		rep.ReplyTTL, rep.ICMP, rep.ICMPType, rep.ICMPCode = p.replyTTL, p.answer, p.icmp[0], p.icmp[1]
		rep.Labels = p.labels
		if p.quote != nil {
			rep.Quote = p.quote
		}
	}
	if h.Sent == 0 {
		return h, false
	}
	h.Silent = h.Received == 0
	h.Loss = 1 - float64(h.Received)/float64(h.Sent)
	for i := range h.Replies {
		rep := &h.Replies[i]
		rep.Received = len(rtts[rep.Addr])
		rep.Sent = rep.Received
		if len(h.Replies) == 1 {
			rep.Sent = h.Sent
		}
		if n := HopsBack(rep.ReplyTTL); n > 0 {
			rep.HopsBack = &n
		}
		rep.summarise(rtts[rep.Addr])
	}
	return h, true
}

func indexOf(reps []Replier, a netip.Addr) int {
	for i := range reps {
		if reps[i].Addr == a {
			return i
		}
	}
	return -1
}

func (r *Replier) summarise(rtts []time.Duration) {
	q := stats.Quantiles(rtts, 0, 0.5, 0.95, 1)
	r.Min, r.Median, r.P95, r.Max = millis.Of(q[0]), millis.Of(q[1]), millis.Of(q[2]), millis.Of(q[3])
	mean, deviation := moments(rtts)
	r.Last, r.Mean = millis.Of(rtts[len(rtts)-1]), millis.Of(mean)
	if len(rtts) > 1 {
		r.StdDev = millis.Of(deviation)
	}
	var differences time.Duration
	for i, d := range rtts {
		r.RTTs = append(r.RTTs, millis.Of(d))
		if i > 0 {
			differences += (d - rtts[i-1]).Abs()
		}
	}
	if n := len(rtts) - 1; n > 0 {
		r.Jitter = millis.Of(differences / time.Duration(n))
	}
}

// moments are the mean and the standard deviation of a sample, which users of
// mtr look for. Nothing is judged by them: latencies are skewed.
func moments(rtts []time.Duration) (mean, deviation time.Duration) {
	var sum, squares float64
	for _, d := range rtts {
		sum += float64(d)
	}
	m := sum / float64(len(rtts))
	for _, d := range rtts {
		squares += (float64(d) - m) * (float64(d) - m)
	}
	return time.Duration(m), time.Duration(math.Sqrt(squares / float64(max(len(rtts)-1, 1))))
}

// backCount is the length of the way back by the TTL of the destination's
// replies, nil if unknown.
func backCount(v *view) *int {
	for _, p := range v.probes {
		if p.answered && p.role == RoleDestination {
			if n := HopsBack(p.replyTTL); n > 0 {
				return &n
			}
		}
	}
	return nil
}

// HopsBack estimates from the TTL of a reply how many hops away its sender is,
// counted as a trace counts: 1 is the neighbour. Senders start at 64, 128 or
// 255, so the estimate is the least that fits. 0 means unknown.
func HopsBack(replyTTL int) int {
	for _, initial := range [...]int{64, 128, 255} {
		if replyTTL > 0 && replyTTL <= initial {
			return initial - replyTTL + 1
		}
	}
	return 0
}
