package trace

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/whyslow/whyslow/internal/millis"
)

// silent is R4: hops that nobody answered, and paths without an end.
func (r *reader) silent() []Sentence {
	var out []Sentence
	var ttls []int
	var waited millis.Value
	last := 0
	for _, h := range r.res.Hops {
		if !h.Silent {
			last = h.TTL
		}
	}
	for _, h := range r.res.Hops {
		if h.Silent && h.TTL < last {
			ttls = append(ttls, h.TTL)
			waited = lesser(waited, h.Waited)
		}
	}
	if len(ttls) > 0 {
		verb := "answers"
		noun := "hop"
		if len(ttls) > 1 {
			verb, noun = "answer", "hops"
		}
		what := "silent or slow to answer"
		if len(ttls) >= 3 {
			what = "silent, slow to answer, or without ICMP errors to send after a trace just before"
		}
		out = append(out, say("R4", "%s %s %s no probe %s, but what lies behind does: %s, not broken%s",
			noun, ttlList(ttls), verb, within(waited), what, longer(waited, slowestRouter)))
	}
	if r.res.Reached {
		return out
	}
	if end := r.refusal(); end != nil {
		return append(out, r.refused(end))
	}
	if h := r.res.Hops[len(r.res.Hops)-1]; !h.Silent {
		if len(r.loop()) > 0 {
			return out // R9 says why there is no end
		}
		return append(out, say("R4", "the destination was not reached within %d hops, and nothing behind %s was asked: a larger -m asks further",
			h.TTL, hopName(h.TTL, h.Replies[0].Addr)))
	}
	return append(out, r.noEnd(last))
}

// Waits that leave no doubt: routers answer within two seconds or never, and a
// router gives up on the next neighbour, who answers no ARP or neighbour
// solicitation, after three (RFC 4861, 10; Linux does the same for IPv4).
const (
	slowestRouter = 2 * time.Second
	goneNeighbour = 3500 * time.Millisecond
)

// within says how long answers were waited for.
func within(waited millis.Value) string {
	if !waited.Known() {
		return "in time"
	}
	return fmt.Sprintf("within %v", waited)
}

// longer names the flag that waits longer, where a longer wait could tell more.
func longer(waited millis.Value, enough time.Duration) string {
	if !waited.Known() || waited.Duration() >= enough {
		return ""
	}
	return fmt.Sprintf("; -w %.0f waits longer", math.Ceil(enough.Seconds()))
}

// refusal is the hop that ended the path by saying so, nil if none did.
func (r *reader) refusal() *Hop {
	h := &r.res.Hops[len(r.res.Hops)-1]
	if h.Silent || h.Replies[0].ICMP == "time exceeded" || strings.HasPrefix(h.Replies[0].ICMP, "icmp type") {
		return nil
	}
	return h
}

// refused says who ended the path, and how. It is no proof that the
// destination is there, whoever it was (mtr#434, trippy#1225).
func (r *reader) refused(end *Hop) Sentence {
	rep := &end.Replies[0]
	code := ""
	if rep.ICMPType != nil && rep.ICMPCode != nil {
		code = fmt.Sprintf(" (%sICMP type %d code %d)", refusalMark(rep.ICMP), *rep.ICMPType, *rep.ICMPCode)
	}
	who := "the path ends there"
	switch {
	case sought(rep.ICMP, rep.Min.Duration()):
		who = "it looked for the destination on its own network and found nobody: the host is down, or no host has this address"
	case rep.ICMP == hostUnreachable4 || rep.ICMP == hostUnreachable6:
		who = "it cannot reach the host, which may be down, or a filter says so"
	case rep.Addr == r.res.Target.Addr:
		who = "the destination refuses these probes, or a filter does in its name"
	}
	return say("R4", "%s says %q%s: %s", hopName(end.TTL, rep.Addr), rep.ICMP, code, who)
}

// refusalMark is how traceroute marks a refusal, "" if it has no letter.
func refusalMark(answer string) string {
	switch answer {
	case "network unreachable", "no route":
		return "!N, "
	case hostUnreachable4, hostUnreachable6:
		return "!H, "
	case "protocol unreachable":
		return "!P, "
	case "administratively prohibited", "network prohibited", "host prohibited":
		return "!X, "
	}
	return ""
}

// noEnd is the sentence about a destination that did not answer.
func (r *reader) noEnd(last int) Sentence {
	from := "nothing on the path answers"
	if last > 0 {
		from = fmt.Sprintf("nothing answers behind hop %d", last)
	}
	d := r.res.Destination
	switch {
	case r.res.Method == "tcp" && d != nil && d.Received > 0 && d.Method == "icmp":
		return say("R4", "%s to TCP%s, but the destination answers echoes: a filter on that port, or one of several parallel paths is dead (--paths tells)", from, r.toPort())
	case r.res.Method == "tcp" && d != nil && d.Received > 0:
		return say("R4", "%s to this flow, but %d of %d other TCP connects arrive: one of several parallel paths is dead (--paths tells), or a filter knows flows", from, d.Received, d.Sent)
	case d != nil && d.Received > 0 && d.Method == "tcp":
		return say("R4", "%s to path probes, but the destination accepts TCP: filtered, not broken", from)
	case d != nil && d.Received > 0:
		return say("R4", "%s to path probes, but the destination answers echoes: filtered, not broken", from)
	case d != nil && d.Method == "tcp", r.res.Method == "tcp":
		return say("R4", "%s, not even TCP: a filter or a fault there, or a destination that is down%s", from, r.gone())
	}
	return say("R4", "%s: test the destination by TCP on its real port before calling it blocked%s", from, r.gone())
}

// gone names the experiment that tells a host that is down from a filter: it
// takes a router seconds to find out that nobody is there.
func (r *reader) gone() string {
	waited := r.res.Hops[len(r.res.Hops)-1].Waited
	switch {
	case !waited.Known():
		return ""
	case r.res.Socket == "connect": // which hears nothing after a second
		return "; -I -w 4 gives the last router time to say \"host unreachable\", should the host be down"
	case waited.Duration() < goneNeighbour:
		return "; -w 4 gives the last router time to say \"host unreachable\", should the host be down"
	}
	// A router that has no errors left says nothing either.
	return fmt.Sprintf("; no router said \"host unreachable\" within %v, which speaks for a filter unless that router sends few errors, or none", waited)
}
