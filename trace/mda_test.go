package trace

import (
	"context"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/whyslow/whyslow/internal/netprobe"
)

// TestStoppingPoints holds the points against the table of the literature.
func TestStoppingPoints(t *testing.T) {
	r := newStopRule(0.05)
	r.need(mostBranches)
	want := []int{6, 11, 16, 21, 27, 33}
	if diff := cmp.Diff(want, r.points[2:8]); diff != "" {
		t.Errorf("points at 5 %% (-want +got):\n%s", diff)
	}
	for _, failure := range []float64{0.1, 0.05, 0.01, 0.001} {
		r := newStopRule(failure)
		for k := 2; k <= mostBranches; k++ {
			r.need(k)
			if got := stopsEarly(k, r.points); got > failure {
				t.Errorf("failure %v: %d branches are missed with %v", failure, k, got)
			}
			if got := unseen(k, r.points[k]); got > failure {
				t.Errorf("failure %v: %d flows leave one of %d branches out with %v", failure, r.points[k], k, got)
			}
		}
	}
}

// TestUnseen compares inclusion and exclusion with counting.
func TestUnseen(t *testing.T) {
	for k := 1; k <= 4; k++ {
		for n := range 8 {
			all, missing := 0, 0
			for code := range int(math.Pow(float64(k), float64(n))) {
				var seen [4]bool
				for i, c := 0, code; i < n; i, c = i+1, c/k {
					seen[c%k] = true
				}
				all++
				if slices.Contains(seen[:k], false) {
					missing++
				}
			}
			if want, got := float64(missing)/float64(all), unseen(k, n); math.Abs(want-got) > 1e-9 {
				t.Errorf("unseen(%d, %d) = %v, want %v", k, n, got, want)
			}
		}
	}
}

var pathDst = netip.MustParseAddr("198.51.100.9")

// discover runs a discovery over a fake network in virtual time.
func discover(t *testing.T, n *fakeNet, opt Options, po PathOptions) (p *Paths) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		opt.Network, opt.Dst = n, pathDst
		var err error
		if p, err = Discover(context.Background(), opt, po); err != nil {
			t.Fatal(err)
		}
	})
	return p
}

func nodesAt(p *Paths, ttl int) int {
	n := 0
	for _, node := range p.Nodes {
		if node.TTL == ttl && !node.Silent {
			n++
		}
	}
	return n
}

func texts(p *Paths) string {
	var b strings.Builder
	for _, s := range p.Reading {
		fmt.Fprintf(&b, "%s %s\n", s.Rule, s.Text)
	}
	return b.String() + strings.Join(p.Warnings, "\n")
}

func TestParallelPathsAreFound(t *testing.T) {
	tests := []struct {
		name   string
		widths []int
		method netprobe.Method
	}{
		{"one path", []int{1, 1, 1, 1}, netprobe.Auto},
		{"two", []int{1, 1, 2, 1}, netprobe.Auto},
		{"four", []int{1, 1, 4, 1, 1}, netprobe.UDP},
		{"sixteen", []int{1, 1, 16, 1}, netprobe.ICMP},
		{"at once", []int{2, 1}, netprobe.TCP},
		{"two after the other", []int{1, 2, 1, 3, 1}, netprobe.Auto},
		{"nested", []int{1, 2, 4, 1}, netprobe.Auto},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n := &fakeNet{next: fan(tt.widths...), seed: 3}
			p := discover(t, n, Options{Method: tt.method}, PathOptions{Failure: 0.001, Flows: 512})
			var got []int
			for ttl := range tt.widths {
				got = append(got, nodesAt(p, ttl+1))
			}
			if diff := cmp.Diff(tt.widths, got); diff != "" {
				t.Errorf("routers by hop (-want +got):\n%s", diff)
			}
			if !p.Confirmed || len(p.Warnings) > 0 {
				t.Errorf("not confirmed: %v", p.Warnings)
			}
			if p.Probes != n.sent {
				t.Errorf("%d probes are told, %d were sent", p.Probes, n.sent)
			}
			for _, f := range p.Flows {
				if !f.Reached || *f.HopCount != len(tt.widths)+1 {
					t.Errorf("flow %d: %+v", f.Flow, f)
				}
			}
			t.Logf("%d flows, %d probes, %v, failure %.3f\n%s", p.FlowCount, p.Probes, p.Elapsed, p.Failure, texts(p))
		})
	}
}

func TestOnePathTakesOneBurst(t *testing.T) {
	n := &fakeNet{next: fan(1, 1, 1, 1, 1, 1), seed: 1, limit: true}
	p := discover(t, n, Options{}, PathOptions{Samples: -1})
	if !p.Confirmed || p.Elapsed.Duration() > time.Second {
		t.Errorf("confirmed %v in %v, want so within a second\n%s", p.Confirmed, p.Elapsed, texts(p))
	}
}
