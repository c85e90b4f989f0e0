package trace

import (
	"net/netip"
	"time"

	"github.com/whyslow/whyslow/internal/millis"
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
	case Sent, Replied, Counted, Shared:
		if ev.View < 0 || ev.View >= len(f.views) {
			return
		}
		switch v := f.views[ev.View]; ev.Kind {
		case Sent:
			v.sent(ev)
		case Replied:
			v.replied(ev)
		case Counted:
			v.counted(ev)
		case Shared:
			v.shared(ev)
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
	if ev.At.After(f.last) && (!f.finished || ev.Kind == End) {
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
	sums := v.tallies(f.last, f.finished)
	for ttl := 1; ttl <= v.length(); ttl++ {
		if h, ok := sums[ttl].hop(ttl, f.names, f.origins); ok {
			if h.Silent {
				h.Waited = millis.Of(min(f.last.Sub(sums[ttl].since), max(forget, v.patience())))
			}
			r.Hops = append(r.Hops, h)
		}
	}
	if n := v.destTTL(); n > 0 {
		r.Reached, r.HopCount = true, &n
		r.BackCount = backCount(&sums[n])
	}
	r.Epochs = v.epochs()
	r.NAT, r.MSSClamp, r.TOSChange = translation(r.Hops), clamp(r.Hops), tosChange(r.Hops)
	r.Reading = Read(r)
	return r
}

// backCount is the length of the way back by the TTL of the destination's
// replies, nil if unknown.
func backCount(t *tally) *int {
	for i := range t.from {
		if p := &t.from[i].latest; p.role == RoleDestination && HopsBack(p.replyTTL) > 0 {
			n := HopsBack(p.replyTTL)
			return &n
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
