package reports

import (
	"fmt"
	"math"
	"time"

	"github.com/whyslow/whyslow/internal/stats"
)

// initialWindow is what a server may send before the first acknowledgement:
// ten segments, RFC 6928.
const initialWindow = 10 * 1448

// receiveRounds is how many round trips the body needs after its first flight:
// slow start doubles each flight, RFC 5681. A path whose window is open needs
// fewer; this is the upper bound of healthy.
func receiveRounds(bytes int64) int {
	if bytes <= initialWindow {
		return 0
	}
	return int(math.Ceil(math.Log2(float64(bytes)/initialWindow+1))) - 1
}

// lineTime is what a body takes at 1 Gbit/s, which nobody calls slow.
func lineTime(bytes int64) time.Duration { return time.Duration(bytes) * 8 * time.Nanosecond }

// slowBody is a transfer that takes longer than slow start explains, on every
// visit. Who is to blame is told by how the bytes arrived.
func (v *view) slowBody() (cause, bool) {
	receive := v.phase(func(one visit) time.Duration { return one.receive })
	rounds := receiveRounds(v.visits[0].bytes)
	healthy := time.Duration(rounds)*v.usualRTT() + 10*time.Millisecond + lineTime(v.visits[0].bytes)
	extra := receive.structural() - healthy
	if v.pathLoses() {
		// A lossy path lengthens transfers at random; its own suspect is
		// charged for that. Only what the server's pauses show remains.
		extra = min(extra, v.pauses())
	}
	if extra < minServerCost || v.r.HTTP == nil || v.r.HTTP.Body.Class == "clean" {
		return cause{}, false // "clean": round trips explain how the bytes arrived
	}
	c := cause{layer: Server, component: "body", where: v.where(), extra: extra, p: 0.6}
	v.classifyBody(&c, receive.typical(), healthy)
	return c, true
}

// pauses is the least total of the pauses in the body over the visits.
func (v *view) pauses() time.Duration {
	return v.phase(func(one visit) time.Duration {
		n := len(one.sample.Exchanges)
		if n == 0 || one.sample.Exchanges[n-1].Gaps == nil {
			return 0
		}
		return one.sample.Exchanges[n-1].Gaps.PausedTotal.Duration()
	}).structural()
}

func (v *view) classifyBody(c *cause, took, healthy time.Duration) {
	body := v.r.HTTP.Body
	observed := fmt.Sprintf("%s for %d bytes, arrival %s", ms(took), v.visits[0].bytes, body.Class)
	c.evidence = []Evidence{fact("body-time", "the body takes longer than its round trips",
		observed, "counts from "+ms(healthy+minServerCost))}
	if body.Text != "" {
		c.evidence = append(c.evidence, fact("body-class", "how the body arrived: "+body.Class, body.Text, "clean"))
	}
	if v.weighCanary(c, took) {
		return
	}
	switch body.Class {
	case "drip":
		paused := v.pauses()
		c.p, c.phrase = 0.93, fmt.Sprintf("the server sends the body in pieces, %s of pauses between them", ms(paused))
		if paused < c.extra/3 { // on some loads only
			c.p, c.phrase = 0.6, "the body comes in pieces, with pauses between them on some loads"
		}
	case "link-limited":
		c.layer, c.component, c.p = Network, "bandwidth", 0.87
		c.where = v.narrowPlace()
		c.phrase = fmt.Sprintf("a link on the path carries no more than %s", v.rate(took))
	case "loss":
		c.layer, c.component, c.p = Network, "loss", 0.75
		c.where = v.lossPlace()
		c.phrase = "packets of the transfer are lost on the way"
	default:
		c.layer, c.p = Inconclusive, 0.5
		c.phrase = fmt.Sprintf("the body takes %s longer than it should, and how its bytes arrive does not say whether the server or the network holds it back", ms(c.extra))
		c.next = append(c.next, elsewhere)
	}
}

// unread says how far the bodies were read, if most were not read to their end;
// "" otherwise.
func (v *view) unread() string {
	size, span := 0, 0
	for _, one := range v.visits {
		switch one.truncated {
		case "size":
			size++
		case "time":
			span++
		}
	}
	switch n := len(v.visits); {
	case 2*size > n:
		return fmt.Sprintf("the first %.3g MB", float64(v.visits[0].bytes)/1e6)
	case 2*span > n:
		return "what came in " + ms(v.phase(func(one visit) time.Duration { return one.receive }).typical())
	case 2*(size+span) > n:
		return "a part"
	}
	return ""
}

func (v *view) rate(took time.Duration) string {
	if took <= 0 {
		return "unknown"
	}
	return fmt.Sprintf("%.1f Mbit/s", float64(v.visits[0].bytes)*8/took.Seconds()/1e6)
}

// stallCause is the black hole towards the client: full-size packets of the
// answer vanish, so the load stalls wherever the first of them belongs, and a
// connection with a clamped MSS does not.
func (v *view) stallCause() (cause, bool) {
	clamp := v.findControl("mss-clamp")
	if clamp == nil || clamp.Exchange.Failure != nil || clamp.Exchange.Status == 0 {
		return cause{}, false
	}
	clamped := phaseSum(clamp.Exchange.Phases)
	plain := v.plainTime()
	extra := plain - clamped
	if extra < 500*time.Millisecond || plain < 3*clamped {
		return cause{}, false
	}
	stalls, disordered, refuted := v.stallSigns(3 * clamped)
	if refuted {
		return cause{}, false
	}
	p := 0.96
	switch {
	case disordered:
	case stalls >= 2:
		p = 0.85 // every one, and yet a server may be slow now and then
	default:
		p = 0.55
	}
	c := cause{layer: Network, component: "mtu-blackhole", where: v.limiterPlace(), extra: extra, p: p,
		phrase: "full-size packets from the server vanish on the way, and nobody tells the server"}
	c.evidence = []Evidence{fact("mss-clamp",
		"the same request works at once when the server must send small segments",
		fmt.Sprintf("%s clamped, %s without", ms(clamped), ms(plain)), "at most a third of the time without")}
	tail := fact("stall-disorder", "while a load stalls, something behind the missing part has arrived: small packets pass", seenIn(stalls), "in one at least")
	tail.Supports = disordered
	c.evidence = append(c.evidence, tail)
	if p := v.r.PMTU; p != nil && p.BlackHole && p.MTU != nil {
		c.p = max(c.p, 0.97)
		c.evidence = append(c.evidence, fact("pmtu-blackhole", "the path towards the server has a black hole as well",
			fmt.Sprintf("%d bytes pass, more vanish unreported", *p.MTU), "a router says so (ICMP)"))
	}
	c.next = []string{healBlackHole}
	return c, true
}

// healBlackHole is what to do about one.
const healBlackHole = "on the server or its gateway: clamp the MSS (nft … tcp option maxseg size set rt mtu) or let ICMP type 3 code 4 pass; net.ipv4.tcp_mtu_probing=1 heals it in seconds"

// seenIn says what stall-disorder rests on.
func seenIn(stalls int) string {
	if stalls == 1 {
		return "1 stall was watched"
	}
	return fmt.Sprintf("%d stalls were watched", stalls)
}

// stallSigns tells a black hole from a server that is slow now and then. In a
// black hole each load with large segments stalls, and the last, small segment
// of what is missing arrives, out of order. A load that is quick although this
// host announced the same segment size refutes it; one that announced less
// does not, since this host may have learned the path's MTU meanwhile.
func (v *view) stallSigns(slow time.Duration) (stalls int, disordered, refuted bool) {
	all := append(append([]visit(nil), v.visits...), v.stalled...)
	size := 0
	for _, one := range all {
		if one.total >= slow {
			stalls++
			disordered = disordered || one.outOfOrder
			size = max(size, one.advMSS)
		}
	}
	for _, one := range all {
		refuted = refuted || one.total < slow && one.advMSS > 0 && one.advMSS >= size
	}
	return stalls, disordered, refuted && stalls > 0
}

// plainTime is how long visits without a clamp took, stalled ones at the time
// they were given up.
func (v *view) plainTime() time.Duration {
	var all []time.Duration
	for _, one := range append(append([]visit(nil), v.visits...), v.stalled...) {
		all = append(all, one.total)
	}
	if len(all) == 0 {
		return 0
	}
	return stats.Median(all)
}
