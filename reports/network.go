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
	links := time.Duration(seg.ToTTL - seg.FromTTL)
	if delay < plainLink*(links+1)/2 || delay < v.rtt/2 {
		return cause{}, false
	}
	p := 0.92
	if delay < fabledLink {
		p = 0.75 + 0.17*float64(delay-plainLink)/float64(fabledLink-plainLink)
	}
	p = max(p-0.06*float64(links-1), 0.55) // what lies behind silent hops may be distance
	place := segmentPlace(seg)
	c := cause{layer: Network, component: "latency", where: place, perRTT: delay, p: p,
		phrase: fmt.Sprintf("%s adds %s to every round trip", segmentPhrase(seg), ms(delay)),
		evidence: []Evidence{
			fact("suffix-minimum", "from one hop on, every later hop and the server answer later by the same amount",
				fmt.Sprintf("%s at %s, of %s in all", ms(delay), place, ms(v.rtt)), "counts from "+ms(plainLink)+" and half of the path"),
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
					"a hop behind it answers sooner"))
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

// queueing is delay that comes and goes on the path: the usual round trip is
// far above its least, for TCP connects to the server's port as for echoes. A
// run of echoes close to each other may see nothing but a full queue, so its
// own least is not the only yardstick: that of TCP is the other.
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
	threshold := max(25*time.Millisecond, v.rtt*3/10)
	echo, tcp := median-least, v.usualConnect()-v.rtt
	both := tcp >= threshold && median-v.rtt >= threshold // the page's own way shows it
	if echo < threshold && !both {
		return cause{}, false
	}
	extra := echo
	if both {
		extra = tcp
	}
	c := cause{layer: Network, component: "queueing", where: v.queuePlace(), perRTT: extra, p: 0.6,
		phrase: fmt.Sprintf("packets wait in a queue on the path, %s of each round trip", ms(extra)),
		evidence: []Evidence{fact("R6", "the destination's usual round trip is far above its least",
			fmt.Sprintf("median %s, least %s", ms(median), ms(min(least, v.rtt))), "counts from "+ms(threshold)+" above the least")}}
	e := fact("tcp-agrees", "TCP connects to the server's port show the same", ms(tcp)+" above the least", "at least "+ms(echo/3))
	e.Supports = both || tcp >= echo/3
	if e.Supports {
		c.p = 0.85
		c.extra = v.queueingChance(extra)
	}
	c.evidence = append(c.evidence, e)
	return c, true
}

// usualConnect is the median time to connect over the visits whose SYN was not
// lost; the least round trip if there is none.
func (v *view) usualConnect() time.Duration {
	var all series
	for _, one := range v.visits {
		if one.synLost == 0 && one.conns > 0 {
			all = append(all, one.connect/time.Duration(one.conns))
		}
	}
	if len(all) == 0 {
		return v.rtt
	}
	return all.typical()
}

// queueingChance is what a visit waits in queues beyond a wait for each of its
// round trips: the packets of one flight wait for themselves.
func (v *view) queueingChance(each time.Duration) time.Duration {
	receive := v.phase(func(one visit) time.Duration { return one.receive })
	more := receive.mean() - receive.structural() - time.Duration(receiveRounds(v.visits[0].bytes))*each
	return max(more, 0)
}

// usualRTT is the round trip that a visit must reckon with: the least, and the
// usual wait in queues.
func (v *view) usualRTT() time.Duration {
	if c, ok := v.queueing(); ok && c.p >= 0.8 {
		return v.rtt + c.perRTT
	}
	return v.rtt
}

// queuePlace is the segment where the wait begins that every hop behind it
// shows, if most of the wait begins at one.
func (v *view) queuePlace() string {
	var most trace.Segment
	var wait, sum time.Duration
	for _, s := range trace.Segments(v.r.Trace) {
		more := max(s.Typical-s.Delay, 0)
		sum += more
		if more > wait {
			most, wait = s, more
		}
	}
	if wait < 10*time.Millisecond || wait < sum*6/10 {
		return anywhere
	}
	return segmentPlace(most)
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
			fmt.Sprintf("%s fails, %s lost", where, ms(extra)), "no attempt fails")}}, true
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
