package trace

import (
	"fmt"
	"math"

	"github.com/whyslow/whyslow/internal/netprobe"
	"github.com/whyslow/whyslow/internal/stats"
)

// Echoes, the probes of a trace and the connects of clients are different
// protocols and different flows: a filter, a limit or one of several parallel
// paths may lose some of them alone. So what one of them shows is held against
// what the others do before it is called true of the path.

// arrivals counts what was sent the whole way by one protocol.
type arrivals struct{ sent, received int }

func (a arrivals) lost() int { return a.sent - a.received }

func (a arrivals) loss() float64 { return float64(a.lost()) / float64(max(a.sent, 1)) }

func (a arrivals) String() string { return fmt.Sprintf("%d of %d", a.lost(), a.sent) }

func (a *arrivals) add(s *Sampled) {
	if s != nil {
		a.sent, a.received = a.sent+s.Sent, a.received+s.Received
	}
}

// lossy reports whether a protocol loses more than chance does on a sound path.
func (a arrivals) lossy() bool {
	low, _ := stats.Wilson(a.lost(), a.sent, stats.Z95)
	return a.lost() >= 2 && low > 0.01
}

// clean reports whether a protocol lost nothing although a loss of rate would
// have shown.
func (a arrivals) clean(rate float64) bool {
	return a.sent > 0 && a.lost() == 0 && math.Pow(1-rate, float64(a.sent)) < 0.05
}

// echoes are those to the destination.
func echoes(res *Result) (a arrivals) {
	if d := res.Destination; d != nil && d.Method == netprobe.ICMP.String() {
		a.add(d)
	}
	if res.Method == netprobe.ICMP.String() {
		a.own(res)
	}
	return a
}

// connects are the TCP connects to the destination.
func connects(res *Result) (a arrivals) {
	a.add(res.Service)
	if d := res.Destination; d != nil && d.Method == netprobe.TCP.String() {
		a.add(d)
	}
	if res.Method == netprobe.TCP.String() {
		a.own(res)
	}
	return a
}

// own adds the trace's own probes that went the whole way.
func (a *arrivals) own(res *Result) {
	for i := range res.Hops {
		if h := &res.Hops[i]; res.HopCount != nil && h.TTL == *res.HopCount {
			a.sent, a.received = a.sent+h.Sent, a.received+h.Received
		}
	}
}

// echoesAlone reports whether echoes to the destination are lost and connects
// are not.
func echoesAlone(res *Result) bool {
	e := echoes(res)
	return e.lossy() && connects(res).clean(e.loss())
}

// connectsAlone reports whether connects to the destination are lost and
// echoes are not.
func connectsAlone(res *Result) bool {
	c := connects(res)
	return c.lossy() && echoes(res).clean(c.loss())
}

// byProtocol is R2 where the protocols disagree about the destination.
func (r *reader) byProtocol() []Sentence {
	e, c := echoes(r.res), connects(r.res)
	switch {
	case connectsAlone(r.res):
		return []Sentence{say("R2", "%v TCP connects to the destination%s are lost, but %v echoes: a filter or a limit on connections, or one of several parallel paths (--paths tells)",
			c, r.toPort(), e)}
	case echoesAlone(r.res):
		return []Sentence{say("R3", "%v echoes to the destination are lost, but %v TCP connects%s: it limits echoes, or they take another of several parallel paths; connections lose nothing",
			e, c, r.toPort())}
	}
	return nil
}

func (r *reader) toPort() string {
	if p := r.res.Target.Port; p > 0 && r.res.Method == netprobe.TCP.String() {
		return fmt.Sprintf(" (port %d)", p)
	}
	return ""
}
