package trace

import (
	"fmt"
	"math"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/whyslow/whyslow/internal/millis"
)

func ms(v float64) time.Duration { return time.Duration(math.Round(v * float64(time.Millisecond))) }

func hopAddr(ttl int) netip.Addr { return netip.AddrFrom4([4]byte{192, 0, 2, byte(ttl)}) }

// path builds a result of hops with these least round trips, one steady reply
// each; 0 is a silent hop. The last is the destination.
func path(rtts ...float64) *Result {
	n := len(rtts)
	res := &Result{Schema: Schema, Method: "icmp", FlowStable: true, Reached: true, HopCount: &n,
		Target: Target{Addr: hopAddr(n)}}
	for i, v := range rtts {
		ttl := i + 1
		h := Hop{TTL: ttl, Sent: 3, Silent: v == 0, Replies: []Replier{}}
		if v == 0 {
			h.Loss = 1
		} else {
			h.Received = 3
			d := millis.Of(ms(v))
			h.Replies = append(h.Replies, Replier{Addr: hopAddr(ttl), Sent: 3, Received: 3, Min: d, Median: d, P95: d, Max: d,
				ReplyTTL: 65 - ttl, ICMP: "time exceeded"})
		}
		res.Hops = append(res.Hops, h)
	}
	if last := &res.Hops[n-1]; !last.Silent {
		last.Replies[0].ICMP = "echo reply"
	}
	return res
}

// listing2004 is the traceroute of Linux Magazine's "Apache Tuning" (2004),
// Listing 1: hop 4 answers after 222 ms and delays nothing.
var listing2004 = []float64{2.625, 5.109, 13.403, 222.119, 12.839, 24.964, 24.872, 26.466, 40.772, 31.012, 32.433, 38.802}

func TestBlameListing2004(t *testing.T) {
	var rtts []millis.Value
	for _, v := range listing2004 {
		rtts = append(rtts, millis.Of(ms(v)))
	}
	var got []string
	sum := time.Duration(0)
	for _, d := range Blame(rtts) {
		got = append(got, fmt.Sprintf("%.3f", millis.Of(d).Float()))
		sum += d
	}
	want := []string{"2.625", "2.484", "7.730", "0.000", "0.000", "12.033", "0.000", "1.594", "4.546", "0.000", "1.421", "6.369"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("blame (-want +got):\n%s", diff)
	}
	if sum != ms(38.802) {
		t.Errorf("the blame sums to %v, want the round trip to the last hop, 38.802 ms", sum)
	}
}

func TestSegmentsListing2004(t *testing.T) {
	res := path(listing2004...)
	for _, s := range Segments(res) {
		if s.ToTTL == 4 && (s.Delay != 0 || s.Real) {
			t.Errorf("hop 4 is charged %v, want nothing", s.Delay)
		}
		if s.ToTTL == 6 && !s.Real {
			t.Error("the step to hop 6 is not counted as real")
		}
	}
	got := rules(Read(res))
	if got["R1"] != 3 {
		t.Errorf("reading names R1 %d times, want the largest step and the slow answers of hops 4 and 9: %q", got["R1"], Read(res))
	}
}

func TestBlame(t *testing.T) {
	none := millis.Value{}
	val := func(v float64) millis.Value { return millis.Of(ms(v)) }
	for _, tt := range []struct {
		name string
		rtts []millis.Value
		want []time.Duration
	}{
		{"nothing", nil, []time.Duration{}},
		{"one hop", []millis.Value{val(5)}, []time.Duration{ms(5)}},
		{"rising", []millis.Value{val(1), val(3), val(7)}, []time.Duration{ms(1), ms(2), ms(4)}},
		{"slow first hop", []millis.Value{val(50), val(3), val(7)}, []time.Duration{ms(3), 0, ms(4)}},
		{"silent hop is skipped", []millis.Value{val(1), none, val(7)}, []time.Duration{ms(1), 0, ms(6)}},
		{"silent end", []millis.Value{val(1), val(2), none}, []time.Duration{ms(1), ms(1), 0}},
		{"all silent", []millis.Value{none, none}, []time.Duration{0, 0}},
		{"measured zero", []millis.Value{millis.Of(0), val(2)}, []time.Duration{0, ms(2)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, Blame(tt.rtts)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestSegments(t *testing.T) {
	t.Run("silent hops belong to the segment around them", func(t *testing.T) {
		segs := Segments(path(1, 0, 0, 31, 32))
		want := []Segment{
			{ToTTL: 1, To: hopAddr(1), Delay: ms(1), Typical: ms(1)},
			{FromTTL: 1, From: hopAddr(1), ToTTL: 4, To: hopAddr(4), Delay: ms(30), Typical: ms(30), Real: true},
			{FromTTL: 4, From: hopAddr(4), ToTTL: 5, To: hopAddr(5), Delay: ms(1), Typical: ms(1)},
		}
		if diff := cmp.Diff(want, segs, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
	t.Run("direct samples lower the least", func(t *testing.T) {
		res := path(1, 80, 90)
		res.Hops[1].Direct = &Sampled{Sent: 100, Received: 100, Min: millis.Of(ms(2)), Median: millis.Of(ms(3))}
		if got := Segments(res)[1].Delay; got != ms(1) {
			t.Errorf("hop 2 is charged %v, want 1 ms by its direct sample", got)
		}
	})
	t.Run("nobody answered", func(t *testing.T) {
		if segs := Segments(path(0, 0)); segs != nil {
			t.Errorf("got %v, want none", segs)
		}
	})
	t.Run("the way back changes for good", func(t *testing.T) {
		res := path(1, 2, 40, 41)
		res.Hops[2].Replies[0].ReplyTTL -= 3
		res.Hops[3].Replies[0].ReplyTTL -= 3
		var got []bool
		for _, s := range Segments(res) {
			got = append(got, s.ReturnSuspect)
		}
		if diff := cmp.Diff([]bool{false, false, true, false}, got); diff != "" {
			t.Errorf("ReturnSuspect (-want +got):\n%s", diff)
		}
		if rules(Read(res))["R5"] != 1 {
			t.Errorf("R5 is not read: %q", Read(res))
		}
	})
	t.Run("one router that starts elsewhere is no change", func(t *testing.T) {
		res := path(1, 2, 40, 41)
		res.Hops[2].Replies[0].ReplyTTL -= 3
		for _, s := range Segments(res) {
			if s.ReturnSuspect {
				t.Errorf("segment to hop %d is suspected", s.ToTTL)
			}
		}
	})
}

// rules counts the sentences by rule.
func rules(ss []Sentence) map[string]int {
	n := make(map[string]int)
	for _, s := range ss {
		n[s.Rule]++
	}
	return n
}
