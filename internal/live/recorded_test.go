package live

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/whyslow/whyslow/internal/millis"
	"github.com/whyslow/whyslow/internal/wire"
	"github.com/whyslow/whyslow/trace"
)

// epoch is when recorded runs begin.
var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// recorded is a trace as its events tell it: made, not measured, and the same
// each time.
type recorded struct {
	routers  int
	rounds   int
	interval time.Duration
	seed     uint64
	hop      func(ttl, round int, p *answer) // changes what one probe meets
	name     func(ttl int) string
	started  time.Time
}

// answer is what one probe meets.
type answer struct {
	rtt  time.Duration
	lost bool
	addr netip.Addr
	with func(*trace.Event)
}

func routerAddr(ttl int) netip.Addr { return netip.AddrFrom4([4]byte{198, 51, 100, byte(ttl)}) }

var webAddr = netip.MustParseAddr("203.0.113.80")

// each calls f with the events in order, until it returns false.
func (r recorded) each(f func(trace.Event) bool) {
	rnd := rand.New(rand.NewPCG(r.seed, 1))
	if r.interval == 0 {
		r.interval = time.Second
	}
	if r.started.IsZero() {
		r.started = epoch
	}
	target := trace.Target{Name: "www.shop.example", Addr: webAddr}
	if !f(trace.Event{Kind: trace.Begin, At: r.started, Target: &target, Method: "icmp", Socket: "ping", FlowStable: true}) {
		return
	}
	seq := uint16(0)
	named := map[netip.Addr]bool{}
	for round := range r.rounds {
		at := r.started.Add(time.Duration(round) * r.interval)
		var replies []trace.Event
		for ttl := 1; ttl <= r.routers+1; ttl++ {
			seq++
			sent := at.Add(time.Duration(ttl) * 100 * time.Microsecond)
			if !f(trace.Event{Kind: trace.Sent, At: sent, Seq: seq, TTL: ttl, Round: round}) {
				return
			}
			a := answer{rtt: time.Duration(ttl)*1200*time.Microsecond + time.Duration(rnd.IntN(400))*time.Microsecond, addr: routerAddr(ttl)}
			ev := trace.Event{Kind: trace.Replied, Seq: seq, TTL: ttl, ReplyTTL: 65 - ttl, Role: trace.RoleRouter, Answer: "time exceeded"}
			if ttl == r.routers+1 {
				a.addr, ev.Role, ev.Answer = webAddr, trace.RoleDestination, "echo reply"
			}
			if r.hop != nil {
				r.hop(ttl, round, &a)
			}
			if a.lost {
				continue
			}
			ev.At, ev.Addr, ev.RTT = sent.Add(a.rtt), a.addr, millis.Of(a.rtt)
			if a.with != nil {
				a.with(&ev)
			}
			replies = append(replies, ev)
		}
		for _, ev := range replies {
			if !f(ev) {
				return
			}
			if named[ev.Addr] {
				continue
			}
			named[ev.Addr] = true
			name := fmt.Sprintf("r%d.transit.example", ev.TTL)
			if ev.Addr == webAddr {
				name = "www.shop.example"
			}
			if r.name != nil {
				name = r.name(ev.TTL)
			}
			if name != "" && !f(trace.Event{Kind: trace.Named, At: ev.At, Addr: ev.Addr, Text: name}) {
				return
			}
		}
	}
}

// end is when the last round is over.
func (r recorded) end() time.Time {
	interval := r.interval
	if interval == 0 {
		interval = time.Second
	}
	return epoch.Add(time.Duration(r.rounds) * interval)
}

// model folds the whole run.
func (r recorded) model(opt Options) *Model {
	m := NewModel(opt)
	r.each(func(ev trace.Event) bool { m.Add(ev); return true })
	return m
}

// slowLink is a path with a slow link behind hop 5, a router that only answers
// slowly at 4, one that rations its answers at 3, a silent one at 7 and some
// loss at the destination.
func slowLink(rounds int) recorded {
	return recorded{routers: 8, rounds: rounds, seed: 7, hop: func(ttl, round int, a *answer) {
		switch {
		case ttl == 3 && round%3 == 1, ttl == 7, ttl == 9 && round%17 == 11:
			a.lost = true
		case ttl == 4:
			a.rtt += 224 * time.Millisecond
		case ttl > 5:
			a.rtt += 114 * time.Millisecond
			if round%13 == 5 {
				a.rtt += 60 * time.Millisecond
			}
		}
		if ttl == 5 {
			a.with = func(ev *trace.Event) {
				one, mss, nat := 1, 1400, true
				ev.Labels = []wire.Label{{Value: 16004, TTL: 1}}
				ev.Quote = &trace.Quote{TTL: &one, MSS: &mss, Translated: &nat}
			}
		}
		if ttl == 6 && round%2 == 1 {
			a.addr = netip.AddrFrom4([4]byte{198, 51, 100, 106})
		}
	}}
}
