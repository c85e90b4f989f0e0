package reports

import (
	"fmt"
	"math"
	"time"

	"github.com/whyslow/whyslow/internal/stats"
	"github.com/whyslow/whyslow/trace"
)

// minLoss is the share of lost probes below which a path is called clean: TCP
// hides less than that without a pause that anyone would notice.
const minLoss = 0.01

// pathLoses reports whether probes to the destination are lost beyond chance.
func (v *view) pathLoses() bool {
	d := v.destinationSample()
	if d == nil || d.Received == 0 || d.Sent < 20 {
		return false
	}
	return d.Sent-d.Received >= 2 && d.Loss >= minLoss && v.lossUnnoticed(d) >= 0.05
}

// lossUnnoticed is the probability that the page's own connections notice
// nothing of a loss as echoes show it: 1 if they did notice, or can't tell. A
// host or a firewall before it may limit echoes and carry all else. Only
// packets that travel alone towards the server count, since those are missed
// whichever direction loses.
func (v *view) lossUnnoticed(d *trace.Sampled) float64 {
	if v.segmentsLost() {
		return 1
	}
	alone := 0
	for _, one := range append(append([]visit(nil), v.visits...), v.stalled...) {
		if one.synLost > 0 || !one.tcpInfo {
			return 1
		}
		alone += one.conns + one.tlsTrips + one.waits
	}
	lo, _ := stats.Wilson(d.Sent-d.Received, d.Sent, 1.96)
	return math.Pow(1-lo, float64(alone))
}

// segmentsLost reports whether the page's own connections lost segments after
// they were open, in either direction.
func (v *view) segmentsLost() bool {
	for _, one := range append(append([]visit(nil), v.visits...), v.stalled...) {
		if one.retransmits > one.synLost || one.outOfOrder {
			return true
		}
	}
	return false
}

// lossCause charges the time that comes and goes to lost packets, if packets
// are lost: what each phase takes on average beyond its least.
func (v *view) lossCause() (cause, bool) {
	path, tcp := v.pathLoses(), v.segmentsLost()
	if !path && (!tcp || v.spurious()) {
		return cause{}, false
	}
	c := cause{layer: Network, component: "loss", where: v.lossPlace(), extra: v.chance(), p: 0.55,
		phrase: "packets are lost on the way and have to be sent again"}
	if path {
		d := v.destinationSample()
		lo, hi := stats.Wilson(d.Sent-d.Received, d.Sent, 1.96)
		c.p = 0.85
		c.phrase = fmt.Sprintf("of %d probes to the server %d were lost on the way, and what is lost has to be sent again", d.Sent, d.Sent-d.Received)
		c.evidence = append(c.evidence, fact("R2", "probes to the destination itself go unanswered",
			fmt.Sprintf("%d of %d lost (95 %%: %.1f to %.1f %%)", d.Sent-d.Received, d.Sent, 100*lo, 100*hi), "counts from 1 %"))
		if d.Sent-d.Received >= 4 {
			c.p = 0.92
		}
	}
	e := fact("tcp-loss", "the page's own connections sent or received segments again", v.lossCount(), "no segment sent again")
	e.Supports = tcp
	c.evidence = append(c.evidence, e)
	switch {
	case path && tcp:
		c.p = min(c.p+0.04, 0.95)
	case path:
		// One host in ten or so limits echoes to itself.
		unnoticed := v.lossUnnoticed(v.destinationSample())
		c.p *= unnoticed / (unnoticed + 0.1)
	}
	if !path && v.destinationSample() != nil {
		c.p = 0.5
		c.next = append(c.next, "repeat with --budget deep: more probes show whether the path or only this port loses packets")
	}
	if c.where == anywhere {
		c.p = min(c.p, 0.88)
	}
	if server, ok := v.intermittent(); ok {
		c.extra = max(c.extra-server.extra, 0) // what it took while nothing was lost
	}
	c.extra = max(c.extra, v.expectedLoss()) + v.lostLookups()
	return c, c.extra > 0
}

// spurious reports that segments were sent again because they were late and
// not because they were lost: no probe was, and packets wait in queues.
func (v *view) spurious() bool {
	d := v.destinationSample()
	if d == nil || d.Sent < 50 || d.Received < d.Sent {
		return false
	}
	_, queues := v.queueing()
	return queues
}

// The waits of TCP for what was lost: the first for a SYN (RFC 6298), and the
// least of Linux for a segment that has nothing behind it.
const (
	synTimeout  = time.Second
	tailTimeout = 200 * time.Millisecond
)

// expectedLoss is what the path's loss costs a visit on average in packets
// that travel alone: connects, handshakes and requests. A handful of visits may
// be spared by luck, or none. It is 0 where the loss may be chance.
func (v *view) expectedLoss() time.Duration {
	d := v.destinationSample()
	if d == nil || len(v.visits) == 0 || d.Sent-d.Received < 4 || !v.pathLoses() {
		return 0
	}
	one := v.visits[0]
	alone := time.Duration(one.conns)*synTimeout + time.Duration(one.tlsTrips+one.waits)*(tailTimeout+v.rtt)
	return time.Duration(d.Loss * float64(alone))
}

// chance is what visits take on average beyond the least of each phase.
func (v *view) chance() time.Duration {
	var sum time.Duration
	for _, of := range []func(visit) time.Duration{
		func(one visit) time.Duration { return one.connect },
		func(one visit) time.Duration { return one.tls },
		func(one visit) time.Duration { return one.wait },
		func(one visit) time.Duration { return one.receive },
	} {
		s := v.phase(of)
		sum += s.mean() - s.structural()
	}
	return sum
}

// lostLookups is the time that lookups lost to a path that also loses the
// page's packets: one cause, not two.
func (v *view) lostLookups() time.Duration {
	if v.r.DNS == nil || !v.pathLoses() {
		return 0
	}
	var sum time.Duration
	for _, f := range v.r.DNS.Findings {
		if f.Component == "resolver-loss" {
			sum += f.Cost.Duration()
		}
	}
	return sum
}

func (v *view) lossCount() string {
	resent, disordered := 0, 0
	for _, one := range append(append([]visit(nil), v.visits...), v.stalled...) {
		resent += one.retransmits
		if one.outOfOrder {
			disordered++
		}
	}
	what := "segments"
	if resent == 1 {
		what = "segment"
	}
	return fmt.Sprintf("%d %s sent again, %d of %d loads received out of order",
		resent, what, disordered, len(v.visits)+len(v.stalled))
}

// lossPlace is the link that loses, if the samples of the hops tell.
func (v *view) lossPlace() string {
	if v.r.Trace == nil {
		return anywhere
	}
	if at := trace.LossAt(v.r.Trace); at.Found && at.Confidence >= 0.5 {
		return linkPlace(at.FromTTL, at.ToTTL, at.To)
	}
	return anywhere
}

// anywhere is where what could not be placed lies.
const anywhere = "on the path"
