package trace

import (
	"math"
	"net/netip"
	"slices"
	"time"

	"github.com/whyslow/whyslow/internal/millis"
	"github.com/whyslow/whyslow/internal/stats"
)

const (
	// maxRepliers is how many addresses at one TTL are told apart. A hop that
	// answers from more is no router; its answers still count.
	maxRepliers = 64
	// keptRTTs is how many of the latest round trips a Replier lists.
	keptRTTs = 120
)

// tally sums up the probes of one TTL. It takes them in order of sending, and
// its size does not depend on their number.
type tally struct {
	sent, received int
	shared         int       // of received, asked in another trace
	from           []replies // in order of their first answer
	all            times     // whoever answered
	since          time.Time // when the first of them left
	pace           pace
}

// replies are the answers of one address at one TTL.
type replies struct {
	addr   netip.Addr
	latest probe
	quote  *Quote // the latest there was
	times  times
	recent []time.Duration // the last keptRTTs
}

// times sums up round trips: exactly, but for the quantiles of a large sample
// (stats.Sketch).
type times struct {
	least, most, last time.Duration
	mean, squares     float64 // ns; the sum of squared deviations (Welford 1962)
	changes           time.Duration
	sketch            stats.Sketch
}

// add takes a probe that was answered or has been waited for.
func (t *tally) add(p probe) {
	if t.sent == 0 {
		t.since = p.at
	}
	t.sent++
	t.pace.add(p)
	if !p.answered {
		return
	}
	t.received++
	if p.shared {
		t.shared++
	}
	t.all.add(p.rtt)
	i := slices.IndexFunc(t.from, func(r replies) bool { return r.addr == p.from })
	if i < 0 {
		if len(t.from) == maxRepliers {
			return
		}
		i = len(t.from)
		t.from = append(t.from, replies{addr: p.from})
	}
	r := &t.from[i]
	r.latest = p
	if p.quote != nil {
		r.quote = p.quote
	}
	r.times.add(p.rtt)
	if len(r.recent) == keptRTTs {
		r.recent = slices.Delete(r.recent, 0, 1)
	}
	r.recent = append(r.recent, p.rtt)
}

func (t *times) add(d time.Duration) {
	n := t.sketch.Len()
	if n == 0 {
		t.least, t.most = d, d
	} else {
		t.least, t.most = min(t.least, d), max(t.most, d)
		t.changes += (d - t.last).Abs()
	}
	t.last = d
	off := float64(d) - t.mean
	t.mean += off / float64(n+1)
	t.squares += off * (float64(d) - t.mean)
	t.sketch.Add(d)
}

func (t *tally) clone() tally {
	c := *t
	c.all.sketch = t.all.sketch.Clone()
	c.pace = t.pace.clone()
	c.from = slices.Clone(t.from)
	for i := range c.from {
		c.from[i].times.sketch = t.from[i].times.sketch.Clone()
		c.from[i].recent = slices.Clone(t.from[i].recent)
	}
	return c
}

// main is the address that answered most, the first of equals.
func (t *tally) main() netip.Addr {
	most, addr := 0, netip.Addr{}
	for i := range t.from {
		if n := t.from[i].times.sketch.Len(); n > most {
			most, addr = n, t.from[i].addr
		}
	}
	return addr
}

// summary are the numbers of a result.
func (t *times) summary() Times {
	n := t.sketch.Len()
	if n == 0 {
		return Times{}
	}
	s := Times{Min: millis.Of(t.least), Median: millis.Of(t.sketch.Quantile(0.5)), P95: millis.Of(t.sketch.Quantile(0.95)),
		Max: millis.Of(t.most), Last: millis.Of(t.last), Mean: millis.Of(time.Duration(t.mean))}
	if n > 1 {
		s.StdDev = millis.Of(time.Duration(math.Sqrt(t.squares / float64(n-1))))
		s.Jitter = millis.Of(t.changes / time.Duration(n-1))
	}
	return s
}

// hop is the tally as a result shows it; ok is false if no probe counts.
func (t *tally) hop(ttl int, names map[netip.Addr]string, origins map[netip.Addr]*AS) (h Hop, ok bool) {
	h = Hop{TTL: ttl, Sent: t.sent, Received: t.received, Silent: t.received == 0, Replies: []Replier{},
		Shared: t.received > 0 && t.shared == t.received}
	if t.sent == 0 {
		return h, false
	}
	h.Loss = 1 - float64(t.received)/float64(t.sent)
	h.Limit, h.Ebbed = t.pace.limit(), t.pace.ebbed()
	for i := range t.from {
		rep := t.from[i].replier(names, origins)
		if len(t.from) == 1 {
			rep.Sent = t.sent
		}
		h.Replies = append(h.Replies, rep)
	}
	if len(t.from) > 1 {
		all := t.all.summary()
		h.Overall = &all
	}
	return h, true
}

func (r *replies) replier(names map[netip.Addr]string, origins map[netip.Addr]*AS) Replier {
	s, p := r.times.summary(), &r.latest
	rep := Replier{Addr: r.addr, Name: names[r.addr], AS: origins[r.addr],
		Min: s.Min, Median: s.Median, P95: s.P95, Max: s.Max, Last: s.Last, Mean: s.Mean, StdDev: s.StdDev, Jitter: s.Jitter,
		ReplyTTL: p.replyTTL, ICMP: p.answer, ICMPType: p.icmp[0], ICMPCode: p.icmp[1], Labels: p.labels, Quote: r.quote}
	rep.Received = r.times.sketch.Len()
	rep.Sent = rep.Received
	if n := HopsBack(p.replyTTL); n > 0 {
		rep.HopsBack = &n
	}
	for _, d := range r.recent {
		rep.RTTs = append(rep.RTTs, millis.Of(d))
	}
	return rep
}
