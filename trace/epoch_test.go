package trace

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/whyslow/whyslow/internal/millis"
)

// answerOf says what a probe of a round meets at a TTL; the zero Addr is no
// answer. The destination is 192.0.2.200.
type answerOf func(round, ttl int) (from netip.Addr, rtt time.Duration)

var theEnd = hopAddr(200)

// rounds folds rounds of probes to TTLs 1 to hops, 100 ms apart.
func rounds(f *Fold, from, to, hops int, answer answerOf) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	if len(f.views) == 0 {
		f.Add(Event{Kind: Begin, At: start, Method: "icmp", FlowStable: true, Target: &Target{Addr: theEnd}})
	}
	for round := from; round < to; round++ {
		at := start.Add(time.Duration(round) * 100 * time.Millisecond)
		for ttl := 1; ttl <= hops; ttl++ {
			seq := uint16(round*hops + ttl)
			f.Add(Event{Kind: Sent, At: at, Seq: seq, TTL: ttl, Round: round})
		}
		for ttl := 1; ttl <= hops; ttl++ {
			a, rtt := answer(round, ttl)
			if !a.IsValid() {
				continue
			}
			role, words := RoleRouter, "time exceeded"
			if a == theEnd {
				role, words = RoleDestination, "echo reply"
			}
			f.Add(Event{Kind: Replied, At: at.Add(rtt), Seq: uint16(round*hops + ttl), TTL: ttl, Addr: a, RTT: millis.Of(rtt),
				ReplyTTL: 65 - ttl, Role: role, Answer: words})
		}
	}
}

// straight is a path whose TTLs answer from 192.0.2.(base + TTL), ending at n.
func straight(base, n int) answerOf {
	return func(_, ttl int) (netip.Addr, time.Duration) {
		if ttl >= n {
			return theEnd, time.Duration(n) * time.Millisecond
		}
		return hopAddr(base + ttl), time.Duration(ttl) * time.Millisecond
	}
}

// until is one path before a round and another from it on.
func until(round int, a, b answerOf) answerOf {
	return func(r, ttl int) (netip.Addr, time.Duration) {
		if r < round {
			return a(r, ttl)
		}
		return b(r, ttl)
	}
}

// detour changes the answers of one TTL.
func detourAt(at int, by answerOf, path answerOf) answerOf {
	return func(r, ttl int) (netip.Addr, time.Duration) {
		if ttl == at {
			return by(r, ttl)
		}
		return path(r, ttl)
	}
}

// shape is an epoch in short: its rounds and its addresses' last bytes.
func shape(res *Result) []string {
	var out []string
	for _, e := range res.Epochs {
		s := fmt.Sprintf("%d:", e.Rounds)
		for _, a := range e.Hops {
			s += " *"
			if a.IsValid() {
				s = s[:len(s)-1] + fmt.Sprint(a.As4()[3])
			}
		}
		out = append(out, s)
	}
	return out
}

func TestEpochs(t *testing.T) {
	none := func(int, int) (netip.Addr, time.Duration) { return netip.Addr{}, 0 }
	turns := func(addrs ...int) answerOf {
		return func(r, ttl int) (netip.Addr, time.Duration) {
			return hopAddr(addrs[r%len(addrs)]), time.Duration(ttl) * time.Millisecond
		}
	}
	for _, tt := range []struct {
		name   string
		rounds int
		path   answerOf
		want   []string
	}{
		{"steady", 40, straight(0, 5), nil},
		{"several hops change at once", 40, until(20, straight(0, 5), straight(50, 5)), []string{"20: 1 2 3 4 200", "20: 51 52 53 54 200"}},
		{"one hop changes", 40, detourAt(3, until(17, turns(3), turns(99)), straight(0, 5)), []string{"17: 1 2 3 4 200", "23: 1 2 99 4 200"}},
		{"the path grows longer", 40, until(20, straight(0, 4), straight(0, 6)), []string{"20: 1 2 3 200", "20: 1 2 3 4 5 200"}},
		{"the path grows shorter", 40, until(20, straight(0, 6), straight(0, 4)), []string{"20: 1 2 3 4 5 200", "20: 1 2 3 200"}},
		{"in a trace of three rounds", 3, until(1, straight(0, 4), straight(50, 4)), []string{"1: 1 2 3 200", "2: 51 52 53 200"}},
		{"there and back after long", 60, until(20, straight(0, 4), until(40, straight(50, 4), straight(0, 4))),
			[]string{"20: 1 2 3 200", "20: 51 52 53 200", "20: 1 2 3 200"}},
		{"A B A B at one TTL is several paths", 40, detourAt(3, turns(3, 99), straight(0, 5)), nil},
		{"A A B B too", 40, detourAt(3, turns(3, 3, 99, 99), straight(0, 5)), nil},
		{"and three of them", 40, detourAt(3, turns(3, 98, 99), straight(0, 5)), nil},
		{"one stray answer", 40, detourAt(3, turns(append(make([]int, 0), 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 99, 3, 3, 3, 3, 3, 3, 3, 3)...), straight(0, 5)), nil},
		{"a hop that falls silent", 40, detourAt(3, until(20, turns(3), none), straight(0, 5)), nil},
		{"a hop that answers rarely", 60, detourAt(3, func(r, ttl int) (netip.Addr, time.Duration) {
			if r%15 == 0 {
				return hopAddr(3), 3 * time.Millisecond
			}
			return netip.Addr{}, 0
		}, straight(0, 5)), nil},
		{"taking turns, then a change", 60, until(30, detourAt(3, turns(3, 99), straight(0, 5)), straight(50, 5)),
			[]string{"30: 1 2 3 4 200", "30: 51 52 53 54 200"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var f Fold
			rounds(&f, 0, tt.rounds, 7, tt.path)
			if diff := cmp.Diff(tt.want, shape(f.Result())); diff != "" {
				t.Errorf("epochs (-want +got):\n%s", diff)
			}
		})
	}
}

// mtr#361: when the route changes, the hops of the old one were shown with
// rising loss.
func TestPathChangeIsNotShownAsLoss(t *testing.T) {
	lost := func(int, int) (netip.Addr, time.Duration) { return netip.Addr{}, 0 }
	broken := func(r, ttl int) (netip.Addr, time.Duration) { // the routing protocols take three rounds
		if ttl >= 3 {
			return lost(r, ttl)
		}
		return straight(0, 6)(r, ttl)
	}
	var f Fold
	rounds(&f, 0, 60, 7, until(20, straight(0, 6), until(23, broken, straightFrom(3, 50, 6))))
	f.Add(Event{Kind: End, At: f.last})
	res := f.Result()
	if len(res.Epochs) != 2 {
		t.Fatalf("epochs: %q", shape(res))
	}
	for _, h := range res.Hops {
		if h.Loss != 0 || len(h.Replies) != 1 {
			t.Errorf("hop %d: loss %v, %d addresses", h.TTL, h.Loss, len(h.Replies))
		}
	}
	if got := rules(res.Reading); got["N1"] != 1 || got["R7"] != 0 {
		t.Errorf("reading: %q", res.Reading)
	}
}

// straightFrom is straight(0, n) up to a TTL and straight(base, n) from it on.
func straightFrom(ttl, base, n int) answerOf {
	return func(r, at int) (netip.Addr, time.Duration) {
		if at < ttl {
			return straight(0, n)(r, at)
		}
		return straight(base, n)(r, at)
	}
}

// Routers that spread the packets of one flow never make an epoch that lasts,
// and a change among such routers is found all the same.
func TestSpreadPacketsAreNoEpochs(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 1))
		spread := func(r, ttl int) (netip.Addr, time.Duration) {
			if ttl == 2 || ttl == 3 {
				return hopAddr(ttl + 20*rng.IntN(2)), time.Duration(ttl) * time.Millisecond
			}
			return straight(0, 5)(r, ttl)
		}
		var f Fold
		rounds(&f, 0, 300, 5, spread)
		if res := f.Result(); len(res.Epochs) > 0 || len(res.Hops[1].Replies) != 2 {
			t.Errorf("seed %d: epochs %q, %d addresses at hop 2", seed, shape(res), len(res.Hops[1].Replies))
		}
	}
}

// Late answers to probes of the old route belong to it.
func TestLateAnswersStayInTheirEpoch(t *testing.T) {
	slow := func(r, ttl int) (netip.Addr, time.Duration) {
		a, d := until(20, straight(0, 5), straight(50, 5))(r, ttl)
		return a, d + 80*time.Millisecond
	}
	var f Fold
	rounds(&f, 0, 40, 5, slow)
	if diff := cmp.Diff([]string{"20: 1 2 3 4 200", "20: 51 52 53 54 200"}, shape(f.Result())); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
