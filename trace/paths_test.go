package trace

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/whyslow/whyslow/internal/netprobe"
)

// links counts the edges of a fan of routers and of what was found of it.
func linksOf(next map[string][]string) int {
	n := 0
	for _, to := range next {
		n += len(to)
	}
	return n
}

// TestMissedBranchesAreWithinTheStatedProbability runs many networks whose
// flows are spread by chance and counts those of which a link was missed.
func TestMissedBranchesAreWithinTheStatedProbability(t *testing.T) {
	runs := 100
	if testing.Short() {
		runs = 30
	}
	for _, tt := range []struct {
		widths    []int
		balancers int
		failure   float64
	}{
		{[]int{1, 2, 1}, 1, 0.05},
		{[]int{1, 4, 1}, 1, 0.05},
		{[]int{1, 16, 1}, 1, 0.05},
		{[]int{1, 2, 1, 3, 1}, 2, 0.05},
		{[]int{1, 2, 2, 1}, 3, 0.05},
		{[]int{1, 3, 1}, 1, 0.3},
	} {
		t.Run(fmt.Sprint(tt.widths, tt.failure), func(t *testing.T) {
			next, runs := fan(tt.widths...), runs
			if tt.widths[1] > 4 {
				runs /= 4
			}
			missed, stated, unconfirmed := 0, 0.0, 0
			for seed := range runs {
				n := &fakeNet{next: next, seed: uint64(seed + 1)}
				p := discover(t, n, Options{Method: netprobe.TCP}, PathOptions{Failure: tt.failure, Flows: 512, Samples: -1, Hops: len(tt.widths) + 1})
				if len(p.Links) != linksOf(next) {
					missed++
				}
				if len(p.Links) > linksOf(next) {
					t.Errorf("seed %d: %d links of %d", seed, len(p.Links), linksOf(next))
				}
				if !p.Confirmed {
					unconfirmed++
				}
				stated += p.Failure / float64(runs)
			}
			rate := float64(missed) / float64(runs)
			t.Logf("missed in %.1f %% of %d runs; bound at each router %v; stated over the graph %.1f %%", 100*rate, runs, tt.failure, 100*stated)
			// Only a router with branches can hide one: the bound of each, with
			// three standard deviations for chance.
			bound := 1.0
			for range tt.balancers {
				bound *= 1 - tt.failure
			}
			bound = 1 - bound
			if slack := 3 * math.Sqrt(bound*(1-bound)/float64(runs)); rate > bound+slack {
				t.Errorf("missed in %v of the runs, the bound is %v", rate, bound)
			}
			if rate > stated+3*math.Sqrt(stated/float64(runs)) {
				t.Errorf("missed in %v of the runs, stated %v", rate, stated)
			}
			if unconfirmed > 0 {
				t.Errorf("%d runs not confirmed", unconfirmed)
			}
		})
	}
}

func TestLinuxLimitsDoNotHideBranches(t *testing.T) {
	n := &fakeNet{next: fan(1, 4, 1, 1), seed: 5, limit: true}
	p := discover(t, n, Options{Method: netprobe.TCP}, PathOptions{Samples: -1, Budget: 2 * time.Minute})
	if len(p.Links) != linksOf(n.next) || !p.Confirmed {
		t.Errorf("%d links of %d, confirmed %v\n%s", len(p.Links), linksOf(n.next), p.Confirmed, texts(p))
	}
	for _, node := range p.Nodes {
		if node.Silent {
			t.Errorf("hop %d looks silent", node.TTL)
		}
	}
	// The router where four ways meet is asked 24 times and answers 6 at once.
	if got := p.Elapsed.Duration(); got > 30*time.Second {
		t.Errorf("took %v", got)
	}
	t.Logf("%d flows, %d probes in %v", p.FlowCount, p.Probes, p.Elapsed)
}

func TestAnUnfinishedSearchNamesTheHopsThatMayHaveMore(t *testing.T) {
	n := &fakeNet{next: fan(1, 16, 1, 1), seed: 5, limit: true}
	p := discover(t, n, Options{Method: netprobe.TCP}, PathOptions{Samples: -1, Budget: 8 * time.Second})
	if p.Confirmed || p.Elapsed.Duration() > 9*time.Second {
		t.Fatalf("confirmed %v in %v", p.Confirmed, p.Elapsed)
	}
	said := false
	for _, w := range p.Warnings {
		said = said || strings.Contains(w, "more branches may begin at hop 1 (") && strings.Contains(w, "8s")
	}
	if !said {
		t.Errorf("not said: %v", p.Warnings)
	}
	if p.Failure <= 0.05 {
		t.Errorf("failure %v", p.Failure)
	}
}

func TestTooFewFlowsAreNotCalledEnough(t *testing.T) {
	n := &fakeNet{next: fan(1, 16, 1), seed: 5}
	p := discover(t, n, Options{Method: netprobe.TCP}, PathOptions{Samples: -1, Flows: 32})
	if p.Confirmed || len(p.Warnings) == 0 || !strings.Contains(p.Warnings[0], "32 flows are not enough") || p.FlowCount != 32 {
		t.Errorf("confirmed %v: %v", p.Confirmed, p.Warnings)
	}
}

func TestLossIsNotABranch(t *testing.T) {
	for seed := range uint64(20) {
		n := &fakeNet{next: fan(1, 3, 1, 1), seed: seed, rate: 0.05}
		p := discover(t, n, Options{Method: netprobe.TCP}, PathOptions{Samples: -1, Failure: 0.001})
		if len(p.Links) != linksOf(n.next) || !p.Confirmed {
			t.Errorf("seed %d: %d links of %d\n%s", seed, len(p.Links), linksOf(n.next), texts(p))
		}
	}
}

func TestSilentRouters(t *testing.T) {
	n := &fakeNet{next: fan(1, 1, 3, 1, 1), seed: 4, silent: map[string]bool{"b00": true}}
	p := discover(t, n, Options{Method: netprobe.TCP}, PathOptions{Failure: 0.01})
	if nodesAt(p, 2) != 0 || nodesAt(p, 3) != 3 || !p.Confirmed {
		t.Errorf("hops 2 and 3 have %d and %d routers\n%s", nodesAt(p, 2), nodesAt(p, 3), texts(p))
	}
	if len(p.Links) != linksOf(n.next) {
		t.Errorf("%d links of %d", len(p.Links), linksOf(n.next))
	}
	if got := p.Elapsed.Duration(); got > 6*time.Second {
		t.Errorf("took %v", got)
	}
}

func TestSilentMember(t *testing.T) {
	n := &fakeNet{next: fan(1, 3, 1), seed: 4, silent: map[string]bool{"b01": true}}
	p := discover(t, n, Options{Method: netprobe.TCP}, PathOptions{Failure: 0.01})
	if len(p.Links) != linksOf(n.next) || nodesAt(p, 2) != 2 {
		t.Errorf("%d links of %d\n%s", len(p.Links), linksOf(n.next), texts(p))
	}
}

func TestSilentDestinationEndsTheSearch(t *testing.T) {
	n := &fakeNet{next: fan(1, 2, 1), seed: 4, silent: map[string]bool{"dst": true}}
	p := discover(t, n, Options{}, PathOptions{Failure: 0.01})
	if nodesAt(p, 2) != 2 || nodesAt(p, 3) != 1 || nodesAt(p, 4) != 0 {
		t.Errorf("nodes %+v", p.Nodes)
	}
	for _, f := range p.Flows {
		if f.Reached || f.Sample != nil {
			t.Errorf("flow %d: %+v", f.Flow, f)
		}
	}
	if got := p.Elapsed.Duration(); got > 10*time.Second {
		t.Errorf("took %v", got)
	}
}

// trippy#269: the destination's TTL shrinks and grows from flow to flow.
func TestDestinationTTLDiffersByFlow(t *testing.T) {
	next := map[string][]string{"": {"a"}, "a": {"b", "x"}, "b": {"c"}, "c": {"dst"}, "x": {"y"}, "y": {"z"}, "z": {"c"}}
	n := &fakeNet{next: next, seed: 2}
	p := discover(t, n, Options{}, PathOptions{Failure: 0.01})
	hops := map[int]int{}
	for _, f := range p.Flows {
		if !f.Reached || len(f.Hops) != *f.HopCount {
			t.Fatalf("flow %d: %+v", f.Flow, f)
		}
		hops[*f.HopCount]++
		if f.Hops[*f.HopCount-1].Replies[0].Addr != pathDst {
			t.Errorf("flow %d does not end at the destination", f.Flow)
		}
	}
	if hops[4] == 0 || hops[6] == 0 || len(hops) != 2 {
		t.Errorf("hops %v, want 4 and 6", hops)
	}
	if !strings.Contains(texts(p), "differ in length: the destination is 4 hops away for") {
		t.Errorf("not said:\n%s", texts(p))
	}
	if !p.Confirmed {
		t.Errorf("not confirmed: %v", p.Warnings)
	}
}

func TestPacketsSpreadInsteadOfFlows(t *testing.T) {
	n := &fakeNet{next: fan(1, 2, 1), seed: 6, packet: map[string]bool{"a00": true}}
	p := discover(t, n, Options{}, PathOptions{Samples: -1})
	if !p.Nodes[0].PerPacket || !p.Nodes[1].Unsure || !strings.Contains(texts(p), "packets spread one by one") {
		t.Errorf("%+v\n%s", p.Nodes, texts(p))
	}
	n = &fakeNet{next: fan(1, 2, 2, 1), seed: 7, packet: map[string]bool{"a00": true}}
	if p = discover(t, n, Options{}, PathOptions{Samples: -1}); !strings.Contains(texts(p), "spreads packets, not flows") {
		t.Errorf("%+v\n%s", p.Nodes, texts(p))
	}
	n = &fakeNet{next: fan(1, 2, 1), seed: 6}
	for _, node := range discover(t, n, Options{}, PathOptions{Samples: -1}).Nodes {
		if node.PerPacket || node.Unsure {
			t.Errorf("%v is said to spread packets", node.Addr)
		}
	}
}

// A router that answers now from one, now from another of its addresses was
// said to be two, over which the one before spreads flows.
func TestARouterOfTwoAddressesIsNoBranch(t *testing.T) {
	for _, at := range []string{"a00", "b00"} {
		n := &fakeNet{next: fan(1, 1, 1, 2, 1), seed: 6, alias: map[string]bool{at: true}}
		// It may answer one flow alike by chance: that is left to one run in 100,000.
		p := discover(t, n, Options{}, PathOptions{Failure: 1e-5, Samples: -1})
		said := texts(p)
		if strings.Count(said, "spreads flows over") != 1 || !strings.Contains(said, "one router that answers from each") {
			t.Errorf("%s answers from two addresses:\n%s", at, said)
		}
		for _, node := range p.Nodes {
			if node.TTL > 3 && node.Unsure {
				t.Errorf("%s answers from two addresses: hop %d behind it is unsure", at, node.TTL)
			}
		}
	}
}

// Where ways differ in length, "100 %" stood at the destination of the longer.
func TestSharesOfADestinationAtSeveralTTLs(t *testing.T) {
	n := &fakeNet{next: map[string][]string{"": {"a"}, "a": {"b", "c"}, "b": {"dst"}, "c": {"d"}, "d": {"dst"}}, seed: 3}
	p := discover(t, n, Options{}, PathOptions{Samples: -1})
	sum := 0.0
	for _, node := range p.Nodes {
		if node.Role == RoleDestination {
			sum += node.Share
		}
	}
	if sum < 0.85 || sum > 1.15 {
		t.Errorf("%.0f %% of the flows end at the destination", 100*sum)
	}
}

// mtr#233, mtr#312: one bad member of a bundle disappears in the average.
func TestOneBadMemberIsNamed(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(n *fakeNet)
		says   []string
	}{
		{"loss", func(n *fakeNet) { n.loss = map[string]float64{"c02": 0.15} }, []string{"lose", "that member"}},
		{"little loss", func(n *fakeNet) { n.loss = map[string]float64{"c02": 0.04} }, []string{"lose", "that member"}},
		{"all lost", func(n *fakeNet) { n.loss = map[string]float64{"c02": 1} }, []string{"lose", "all others 0 of"}},
		{"delay", func(n *fakeNet) { n.slow = map[string]time.Duration{"c02": 8 * time.Millisecond} }, []string{"slower than all others", "8"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := &fakeNet{next: fan(1, 1, 4, 1, 1), seed: 8}
			tt.change(n)
			p := discover(t, n, Options{}, PathOptions{Samples: 60})
			bad := n.addrOf("c02", pathDst)
			found := ""
			for _, s := range p.Reading {
				if strings.Contains(s.Text, tt.says[0]) {
					found = s.Text
				}
			}
			for _, part := range append(tt.says, bad.String()) {
				if !strings.Contains(found, part) {
					t.Errorf("%q does not say %q; all says:\n%s", found, part, texts(p))
				}
			}
			suspects := map[netip.Addr]bool{}
			for _, l := range p.Links {
				if l.Suspect {
					suspects[l.To.Addr] = true
				}
			}
			if !suspects[bad] {
				t.Errorf("suspects %v, want %v", suspects, bad)
			}
			t.Log(found)
		})
	}
}

func TestLossOfAllFlowsBlamesNoMember(t *testing.T) {
	wrong := 0
	for seed := range uint64(40) {
		n := &fakeNet{next: fan(1, 4, 1), seed: seed, loss: map[string]float64{"a00": 0.1}}
		p := discover(t, n, Options{}, PathOptions{})
		for _, l := range p.Links {
			if l.Suspect {
				wrong++
				t.Logf("seed %d:\n%s", seed, texts(p))
				break
			}
		}
	}
	if wrong > 2 {
		t.Errorf("a member is blamed in %d of 40 runs", wrong)
	}
}

func TestUDPDestinationWithALimitIsNotCalledLossy(t *testing.T) {
	n := &fakeNet{next: fan(1, 2, 1), seed: 1, limit: true}
	p := discover(t, n, Options{Method: netprobe.UDP}, PathOptions{})
	for _, f := range p.Flows {
		if f.Sample != nil && f.Sample.Loss > 0 {
			t.Errorf("flow %d: %+v", f.Flow, *f.Sample)
		}
	}
	if !strings.Contains(texts(p), "limits its answers") {
		t.Errorf("not said:\n%s", texts(p))
	}
}

func TestInterruptedDiscoveryKeepsWhatItKnows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &fakeNet{next: fan(1, 4, 1, 1), seed: 5, limit: true}
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		p, err := Discover(ctx, Options{Network: n, Dst: pathDst}, PathOptions{})
		if !errors.Is(err, context.DeadlineExceeded) || p == nil || nodesAt(p, 2) < 2 || p.Confirmed {
			t.Errorf("%v, %+v", err, p)
		}
	})
}

// What a run reads of a network does not depend on how it is asked for.
func TestEachProtocolFindsTheSamePaths(t *testing.T) {
	want := map[Place]bool{}
	for _, m := range everyMethod {
		n := &fakeNet{next: fan(1, 2, 1, 3, 1), seed: 5}
		p := discover(t, n, Options{Method: m}, PathOptions{Failure: 0.001, Samples: -1})
		got := map[Place]bool{}
		for _, node := range p.Nodes {
			got[node.Place()] = true
		}
		if len(want) == 0 {
			want = got
		}
		if !maps.Equal(want, got) {
			t.Errorf("%v: %v, want %v", m, got, want)
		}
	}
}

// A bundle of links is one hop to IP, and its bad member a few flows' alone.
func TestFlowsThatLoseWithoutALinkOfTheirOwn(t *testing.T) {
	n := &fakeNet{next: fan(1, 1, 1), seed: 8, bundle: map[uint16]float64{40003: 0.3}}
	p := discover(t, n, Options{}, PathOptions{})
	if !strings.Contains(texts(p), "(port 40003)") || !strings.Contains(texts(p), "a link of a bundle") {
		t.Errorf("not said:\n%s", texts(p))
	}
	for _, l := range p.Links {
		if l.Suspect {
			t.Errorf("%+v is blamed", l)
		}
	}
}

// A heading stood there with nothing below it.
func TestNobodyAnswersAnyFlow(t *testing.T) {
	n := &fakeNet{next: fan(1, 1), seed: 1, silent: map[string]bool{"a00": true, "b00": true, "dst": true}}
	if p := discover(t, n, Options{}, PathOptions{Samples: -1}); p.Confirmed || !strings.Contains(texts(p), "nobody answered any of") {
		t.Errorf("confirmed %v:\n%s", p.Confirmed, texts(p))
	}
}
