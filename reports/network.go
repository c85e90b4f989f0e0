package reports

import (
	"fmt"
	"time"

	"github.com/whyslow/whyslow/httpcheck"
	"github.com/whyslow/whyslow/internal/stats"
	"github.com/whyslow/whyslow/trace"
)

// networkCauses are the suspects between the two hosts.
func (v *view) networkCauses() []cause {
	var causes []cause
	add := func(c cause, ok bool) {
		if ok {
			causes = append(causes, c)
		}
	}
	add(v.stallCause())
	add(v.slowLink())
	add(v.queueing())
	add(v.lossCause())
	add(v.badFamily())
	return causes
}

// destinationSample is the run of probes to the destination, nil if none.
func (v *view) destinationSample() *trace.Sampled {
	if v.r.Trace == nil {
		return nil
	}
	return v.r.Trace.Destination
}

// A single link may be long: an ocean is 60 to 90 ms one way at the very most
// that cables have, so one link with more than fabledLink of round trip is a
// detour, a satellite or a fault; below plainLink nobody can tell it from
// distance.
const (
	plainLink  = 110 * time.Millisecond
	fabledLink = 170 * time.Millisecond
)

// slowLink is one link that holds most of the path's delay. Delay spread over
// many links is distance.
func (v *view) slowLink() (cause, bool) {
	seg, ok := v.longestSegment()
	if !ok || !v.rttKnown {
		return cause{}, false
	}
	delay := min(seg.Delay, v.rtt)
	if delay < plainLink || delay < v.rtt/2 {
		return cause{}, false
	}
	p := 0.62
	if delay >= fabledLink {
		p = 0.92
	} else {
		p += 0.25 * float64(delay-plainLink) / float64(fabledLink-plainLink)
	}
	place := segmentPlace(seg)
	c := cause{layer: Network, component: "latency", where: place, perRTT: delay, p: p,
		phrase: fmt.Sprintf("one link of the path, %s, adds %s to every round trip", place, ms(delay)),
		evidence: []Evidence{
			fact("suffix-minimum", "from one hop on, every later hop and the server answer later by the same amount",
				fmt.Sprintf("%s at %s, of %s in all", ms(delay), place, ms(v.rtt)), "≥ "+ms(plainLink)+" and half of the path"),
		}}
	c.evidence = append(c.evidence, v.clearedHops()...)
	return c, true
}

func (v *view) longestSegment() (longest trace.Segment, ok bool) {
	if v.r.Trace == nil || !v.r.Trace.Reached {
		return longest, false
	}
	for _, s := range trace.Segments(v.r.Trace) {
		if s.Delay > longest.Delay {
			longest, ok = s, true
		}
	}
	return longest, ok
}

// clearedHops are the routers that answer late but do not delay what passes:
// a later hop answers sooner.
func (v *view) clearedHops() []Evidence {
	var cleared []Evidence
	hops := v.r.Trace.Hops
	for i, h := range hops {
		own, ok := hopMin(h)
		if !ok {
			continue
		}
		for _, later := range hops[i+1:] {
			l, ok := hopMin(later)
			if ok && own-l > 20*time.Millisecond {
				cleared = append(cleared, fact("R1", "a hop that answers late but forwards in time is innocent",
					fmt.Sprintf("hop %d answers in %s, hop %d behind it in %s", h.TTL, ms(own), later.TTL, ms(l)),
					"later hops not slower"))
				break
			}
		}
	}
	return cleared
}

func hopMin(h trace.Hop) (time.Duration, bool) {
	var least time.Duration
	ok := false
	for _, r := range h.Replies {
		if d, known := r.Min.Get(); known && (!ok || d < least) {
			least, ok = d, true
		}
	}
	return least, ok
}

// queueing is delay that comes and goes on the path to the destination itself:
// its usual round trip is far above its least. The TCP connects must agree,
// since they take the way the page takes.
func (v *view) queueing() (cause, bool) {
	d := v.destinationSample()
	if d == nil || !v.rttKnown {
		return cause{}, false
	}
	median, ok1 := d.Median.Get()
	least, ok2 := d.Min.Get()
	if !ok1 || !ok2 || d.Received < 10 {
		return cause{}, false
	}
	extra := median - least
	if extra < max(25*time.Millisecond, v.rtt*3/10) {
		return cause{}, false
	}
	connects := v.phase(func(one visit) time.Duration { return one.connect / time.Duration(max(one.conns, 1)) })
	agree := len(connects) > 0 && connects.typical()-v.rtt >= extra/3
	c := cause{layer: Network, component: "queueing", where: v.queuePlace(extra), perRTT: extra, p: 0.6,
		phrase: fmt.Sprintf("packets wait in a queue on the path, %s of each round trip", ms(extra)),
		evidence: []Evidence{fact("R6", "the destination's usual round trip is far above its least",
			fmt.Sprintf("median %s, least %s", ms(median), ms(least)), "≤ "+ms(max(25*time.Millisecond, v.rtt*3/10)))}}
	e := fact("tcp-agrees", "TCP connects to the server's port show the same", ms(connects.typical()-v.rtt)+" above the least", "≥ "+ms(extra/3))
	e.Supports = agree
	if agree {
		c.p = 0.85
	}
	c.evidence = append(c.evidence, e)
	return c, true
}

// queuePlace is the first hop from which on the wait is seen.
func (v *view) queuePlace(extra time.Duration) string {
	from := 0
	for i := len(v.r.Trace.Hops) - 1; i >= 0; i-- {
		h := v.r.Trace.Hops[i]
		if h.Direct == nil || h.Direct.Received < 5 {
			continue
		}
		if h.Direct.Median.Duration()-h.Direct.Min.Duration() < extra/2 {
			break
		}
		from = h.TTL
	}
	if from == 0 {
		return "on the path"
	}
	return fmt.Sprintf("link %d-%d", from-1, from)
}

// badFamily is an address family (or one address) that does not work: clients
// try it first and lose the time until they try the next.
func (v *view) badFamily() (cause, bool) {
	var waits []time.Duration
	where := ""
	for _, one := range v.visits {
		for _, e := range one.sample.Exchanges {
			if lost, addr := headStart(e.Attempts); addr != "" {
				waits, where = append(waits, lost), addr
			}
		}
	}
	if len(waits) == 0 || len(waits) < len(v.visits) || stats.Median(waits) < minServerCost {
		return cause{}, false
	}
	extra := stats.Median(waits)
	return cause{layer: Network, component: "address-family", where: where, extra: extra, p: 0.88,
		phrase: fmt.Sprintf("an address of the server, %s, does not answer, and clients lose %s before they try the next", where, ms(extra)),
		evidence: []Evidence{fact("attempts", "an address that is tried first fails, a later one works",
			fmt.Sprintf("%s fails, %s lost", where, ms(extra)), "0")}}, true
}

// headStart is the time that attempts before the winner had in vain, and the
// address of the first of them; "" if the first attempt won.
func headStart(attempts []httpcheck.Attempt) (time.Duration, string) {
	for _, a := range attempts {
		if a.Won && a.At.Known() && len(attempts) > 1 && attempts[0].Addr != a.Addr {
			return a.At.Duration(), attempts[0].Addr
		}
	}
	return 0, ""
}
