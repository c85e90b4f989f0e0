package trace

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whyslow/whyslow/internal/millis"
	"github.com/whyslow/whyslow/internal/wire"
)

func TestRead(t *testing.T) {
	slow := func(s *Sampled, median, p95 float64) *Sampled {
		s.Median, s.P95 = millis.Of(ms(median)), millis.Of(ms(p95))
		return s
	}
	for _, tt := range []struct {
		name string
		res  func() *Result
		want []string // rule: words
	}{
		{"nothing", func() *Result { return &Result{} }, nil},
		{"dull", func() *Result { return path(0.5, 1, 1.5) }, nil},
		{"one step", func() *Result { return path(1, 2, 30, 31) },
			[]string{"R1: largest step is 28.0 ms on the way from hop 2 to hop 3"}},
		{"first link", func() *Result { return path(30, 31) },
			[]string{"R1: 30.0 ms on the way from this host to hop 1"}},
		{"slow answer", func() *Result { return path(1, 90, 3) },
			[]string{"R1: hop 2 (192.0.2.2) answers after 90.0 ms, but hops behind it answer after 3.00 ms"}},
		{"loss", func() *Result { return sampledAs(path(1, 2, 3), 0, 9, 10) },
			[]string{"R2: packets are lost on the way from hop 1 to hop 2"}},
		{"limited echoes", func() *Result { return sampledAs(path(1, 2, 3), 0, 50, 0) },
			[]string{"R2: hop 2 (192.0.2.2) leaves 50 % of the probes unanswered, but the destination answered all of 100",
				"R10: the destination answered all of 100 probes"}},
		{"limited errors", func() *Result {
			res := sampledAs(path(1, 2, 3), 0, 0, 0)
			res.Hops[1].Received, res.Hops[1].Loss = 1, 2.0/3
			return res
		}, []string{"R3: hop 2 (192.0.2.2) sent errors for 1 of 3 expired probes but answered 100 of 100 echoes", "R10: "}},
		{"silent hop", func() *Result { return path(1, 0, 2) }, []string{"R4: hop 2 answers no probe"}},
		{"silent hops", func() *Result { return path(1, 0, 0, 2) }, []string{"R4: hops 2 and 3 answer no probe"}},
		{"no end", func() *Result { return unreached(path(1, 2, 0)) },
			[]string{"R4: nothing answers behind hop 2: test the destination by TCP"}},
		{"no end to path probes", func() *Result {
			res := unreached(path(1, 2, 0))
			res.Destination = sampledOf(20, 0)
			res.Destination.Method = "tcp"
			return res
		}, []string{"R4: nothing answers behind hop 2 to path probes, but the destination accepts TCP"}},
		{"no end at all", func() *Result {
			res := unreached(path(1, 2, 0))
			res.Destination = &Sampled{Sent: 20, Loss: 1, Method: "tcp"}
			return res
		}, []string{"R4: nothing answers behind hop 2, not even TCP"}},
		{"refused", func() *Result {
			res := unreached(path(1, 2, 3))
			res.Hops[2].Replies[0].ICMP = "administratively prohibited"
			return res
		}, []string{`R4: hop 3 (192.0.2.3) says "administratively prohibited"`}},
		// mtr#434, trippy#1225: who prohibits is not the host that was asked for,
		// and does not prove that it is up.
		{"prohibited by a router", func() *Result {
			res := unreached(path(1, 2, 3))
			r := &res.Hops[2].Replies[0]
			r.ICMP, r.ICMPType, r.ICMPCode, res.Target.Addr = "administratively prohibited", ptr(3), ptr(13), theEnd
			return res
		}, []string{`R4: hop 3 (192.0.2.3) says "administratively prohibited" (!X, ICMP type 3 code 13): the path ends there`}},
		{"prohibited in the destination's name", func() *Result {
			res := unreached(path(1, 2, 3))
			r := &res.Hops[2].Replies[0]
			r.ICMP, r.ICMPType, r.ICMPCode = "host prohibited", ptr(3), ptr(10)
			return res
		}, []string{`R4: hop 3 (192.0.2.3) says "host prohibited" (!X, ICMP type 3 code 10): the destination refuses these probes, or a filter`}},
		{"several addresses in a long run of one flow", func() *Result {
			res := twoAt(path(1, 2, 3), 2)
			res.Hops[1].Sent, res.Hops[1].Received = 100, 100
			return res
		}, []string{"R7: 2 addresses answer at hop 2: packets of one flow take several paths"}},
		// Times of several flows are not compared: what answers sooner may lie
		// on another path.
		{"several flows are not compared", func() *Result {
			res := twoAt(path(1, 90, 3), 2)
			res.FlowStable = false
			return res
		}, []string{"R7: 2 addresses answer at hop 2: the probes were several flows"}},
		{"labels with steps between", func() *Result {
			res := path(1, 2, 12, 30, 31)
			for i := 1; i < 4; i++ {
				res.Hops[i].Replies[0].Labels = []wire.Label{{Value: 16001, Bottom: true, TTL: 1}}
			}
			return res
		}, []string{"R1: ", "R8: hops 2 to 4 are one MPLS path and do not answer all from its end"}},
		{"labels around a silent hop", func() *Result {
			res := path(1, 8, 0, 8, 9)
			for _, i := range []int{1, 3} {
				res.Hops[i].Replies[0].Labels = []wire.Label{{Value: 16001, Bottom: true, TTL: 1}}
			}
			return res
		}, []string{"R1: ", "R4: hop 3", "R8: hops 2 to 4 are one MPLS path and answer after nearly the same time"}},
		{"limit by its pace", func() *Result {
			res := path(1, 2, 3)
			res.Hops[1].Loss, res.Hops[1].Limit = 0.8, &Limit{Burst: 6, Every: millis.Of(ms(1000))}
			return res
		}, []string{"R3: hop 2 (192.0.2.2) answered 6 probes in a row and then one each 1000 ms at most"}},
		{"way back of another length", func() *Result {
			res := path(1, 2, 40, 41)
			res.Hops[2].Replies[0].ReplyTTL -= 3
			res.Hops[3].Replies[0].ReplyTTL -= 3
			return res
		}, []string{"R1: ", "R5: another length than the way there (6 hops instead of 3): the 38.0 ms may lie on the way back"}},
		{"queue", func() *Result {
			res := sampledAs(path(1, 2, 5), 0, 0, 0)
			res.Destination = slow(res.Destination, 60, 90)
			return res
		}, []string{"R6: typically answers 55.0 ms above its least", "R6: begins on the way from hop 2 to hop 3"}},
		{"several routers in one flow", func() *Result { return twoAt(path(1, 2, 3), 2) },
			[]string{"R7: 2 addresses answer at hop 2: the path changed"}},
		{"several flows", func() *Result {
			res := twoAt(path(1, 2, 3), 2)
			res.FlowStable = false
			return res
		}, []string{"R7: 2 addresses answer at hop 2: the probes were several flows"}},
		{"labels", func() *Result {
			res := path(1, 2, 2, 2, 3)
			for i := 1; i < 4; i++ {
				res.Hops[i].Replies[0].Labels = []wire.Label{{Value: uint32(16000 + i), Bottom: true, TTL: 1}}
			}
			return res
		}, []string{"R8: hops 2 to 4 are one MPLS path"}},
		{"loop", func() *Result {
			res := unreached(path(1, 2, 3, 2, 3, 2))
			for i := 1; i < 6; i++ {
				res.Hops[i].Replies[0].Addr = hopAddr(2 + i%2)
			}
			return res
		}, []string{"R9: a routing loop of 2 routers: from hop 2 on"}},
		{"a loop of routers that have no errors left", func() *Result {
			res := unreached(path(1, 2, 3, 0, 3, 0))
			for i := range res.Hops {
				for j := range res.Hops[i].Replies {
					res.Hops[i].Replies[j].ICMP = "time exceeded"
				}
			}
			res.Hops[4].Replies[0].Addr = hopAddr(3)
			return res
		}, []string{"R4: hop 4 answers no probe", "R4: nothing answers behind hop 5", "R9: hop 5 is the router of hop 3 again"}},
		{"one repeat is no loop", func() *Result {
			res := unreached(path(1, 1, 1, 1))
			for i := range 4 {
				res.Hops[i].Replies[0].Addr = hopAddr(1 + i/2)
			}
			return res
		}, []string{"R4: the destination was not reached within 4 hops, and nothing behind hop 4"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			res := tt.res()
			before := asJSON(t, res)
			got := Read(res)
			if got == nil {
				t.Error("nil, want an empty list: it is an array in JSON")
			}
			if diff := cmp.Diff(before, asJSON(t, res)); diff != "" {
				t.Errorf("Read changed the result:\n%s", diff)
			}
			if len(got) != len(tt.want) {
				t.Fatalf("%d sentences, want %d: %q", len(got), len(tt.want), got)
			}
			for i, want := range tt.want {
				rule, words, _ := strings.Cut(want, ": ")
				if got[i].Rule != rule || !strings.Contains(got[i].Text, words) {
					t.Errorf("sentence %d is %q, want %q", i, got[i], want)
				}
			}
		})
	}
}

func unreached(res *Result) *Result {
	res.Reached, res.HopCount = false, nil
	for i := range res.Hops {
		if !res.Hops[i].Silent {
			res.Hops[i].Replies[0].ICMP = "time exceeded"
		}
	}
	return res
}

func twoAt(res *Result, ttl int) *Result {
	h := &res.Hops[ttl-1]
	other := h.Replies[0]
	other.Addr = hopAddr(99)
	h.Replies = append(h.Replies, other)
	return res
}
