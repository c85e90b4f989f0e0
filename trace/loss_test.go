package trace

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whyslow/whyslow/internal/millis"
	"github.com/whyslow/whyslow/internal/stats"
)

// sampledAs fills direct samples of 100 with these losses; −1 is no sample.
// The last is the destination's.
func sampledAs(res *Result, lost ...int) *Result {
	for i, n := range lost {
		if n < 0 {
			continue
		}
		s := sampledOf(100, n)
		if i == len(lost)-1 {
			res.Destination = s
		} else {
			res.Hops[i].Direct = s
		}
	}
	return res
}

func sampledOf(sent, lost int) *Sampled {
	s := &Sampled{Sent: sent, Received: sent - lost, Loss: float64(lost) / float64(sent), Method: "icmp"}
	s.LossLow, s.LossHigh = stats.Wilson(lost, sent, stats.Z95)
	s.Min, s.Median, s.P95, s.Max = millis.Of(ms(5)), millis.Of(ms(5)), millis.Of(ms(5)), millis.Of(ms(5))
	return s
}

func TestLossAt(t *testing.T) {
	for _, tt := range []struct {
		name     string
		lost     []int
		found    bool
		from, to int
		least    float64 // of the confidence
		limited  []int
	}{
		{name: "sound", lost: []int{0, 0, 0, 0, 0}},
		{name: "one in a hundred is chance", lost: []int{0, 0, 1, 0, 1}},
		{name: "lossy third link", lost: []int{0, 0, 9, 7, 8}, found: true, from: 2, to: 3, least: 0.9},
		{name: "lossy first link", lost: []int{5, 6, 4, 5, 5}, found: true, from: 0, to: 1, least: 0.9},
		{name: "lossy last link", lost: []int{0, 0, 0, 0, 5}, found: true, from: 4, to: 5, least: 0.8},
		{name: "a router that limits echoes", lost: []int{0, 60, 0, 0, 0}, limited: []int{2}},
		{name: "a limiting router before a lossy link", lost: []int{0, 60, 0, 9, 8}, found: true, from: 3, to: 4, least: 0.9, limited: []int{2}},
		{name: "a limiting router behind a lossy link", lost: []int{0, 8, 9, 60, 8}, found: true, from: 1, to: 2, least: 0.9, limited: []int{4}},
		{name: "unsampled hops widen the segment", lost: []int{0, -1, -1, 9, 8}, found: true, from: 1, to: 4, least: 0.9},
		{name: "no sample of the destination", lost: []int{0, 9, 9, 9, -1}},
		{name: "all lost at one router means nothing", lost: []int{0, 100, 0, 0, 0}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := LossAt(sampledAs(path(1, 2, 3, 4, 5), tt.lost...))
			if l.Found != tt.found {
				t.Fatalf("Found = %v, want %v: %+v", l.Found, tt.found, l)
			}
			if tt.found && (l.FromTTL != tt.from || l.ToTTL != tt.to || l.Confidence < tt.least) {
				t.Errorf("loss between %d and %d at %.2f, want %d and %d at %.2f or more", l.FromTTL, l.ToTTL, l.Confidence, tt.from, tt.to, tt.least)
			}
			if diff := cmp.Diff(tt.limited, l.Limited); diff != "" {
				t.Errorf("limited (-want +got):\n%s", diff)
			}
		})
	}
}

// TestLossAtCalibrated draws paths with one lossy link and holds LossAt's
// confidence against how often it is right.
func TestLossAtCalibrated(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	draw := func(p float64) int {
		n := 0
		for range 100 {
			if rng.Float64() < p {
				n++
			}
		}
		return n
	}
	found, right, claimed := 0, 0, 0.0
	for range 2000 {
		at, rate := rng.IntN(8), 0.01+0.14*rng.Float64()
		lost := make([]int, 8)
		for i := range lost {
			if i >= at {
				lost[i] = draw(rate)
			}
		}
		l := LossAt(sampledAs(path(1, 2, 3, 4, 5, 6, 7, 8), lost...))
		if !l.Found {
			continue
		}
		found++
		claimed += l.Confidence
		if l.ToTTL == at+1 {
			right++
		}
	}
	share, mean := float64(right)/float64(found), claimed/float64(found)
	if found < 1500 || share < mean-0.05 || share < 0.8 {
		t.Errorf("found %d of 2000, right %.3f, claimed %.3f", found, share, mean)
	}
	t.Logf("found %d of 2000, right %.3f, claimed %.3f", found, share, mean)
}

// TestTwoLossyLinks draws paths with two lossy links: one of them is named
// rightly, and the second no more often than there is a sign of it.
func TestTwoLossyLinks(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	draw := func(p float64) int {
		n := 0
		for range 100 {
			if rng.Float64() < p {
				n++
			}
		}
		return n
	}
	var found, right, also, alsoRight int
	claimed := 0.0
	for range 400 {
		first := rng.IntN(7)
		second := first + 1 + rng.IntN(7-first)
		a, b := 0.02+0.1*rng.Float64(), 0.02+0.3*rng.Float64()
		lost := make([]int, 8)
		for i := range lost {
			switch {
			case i >= second:
				lost[i] = draw(1 - (1-a)*(1-b))
			case i >= first:
				lost[i] = draw(a)
			}
		}
		l := LossAt(sampledAs(path(1, 2, 3, 4, 5, 6, 7, 8), lost...))
		if !l.Found {
			continue
		}
		found++
		claimed += l.Confidence
		if l.ToTTL == first+1 || l.ToTTL == second+1 {
			right++
		}
		if l.Also != nil {
			also++
			if l.Also.ToTTL == first+1 || l.Also.ToTTL == second+1 {
				alsoRight++
			}
			if l.Also.ToTTL == l.ToTTL {
				t.Errorf("the same segment twice: %+v, %+v", l, *l.Also)
			}
		}
	}
	t.Logf("found %d of 400, right %d, claimed %.3f; a second in %d, right %d", found, right, claimed/float64(found), also, alsoRight)
	if share := float64(right) / float64(found); found < 380 || share < claimed/float64(found)-0.05 {
		t.Errorf("found %d of 400, right %.3f, claimed %.3f", found, share, claimed/float64(found))
	}
	if also < 90 || float64(alsoRight) < 0.8*float64(also) {
		t.Errorf("a second link in %d, right in %d", also, alsoRight)
	}
}

func TestTwoLossyLinksAreBothRead(t *testing.T) {
	res := sampledAs(path(1, 2, 3, 4, 5), 4, 5, 4, 30, 31)
	l := LossAt(res)
	if !l.Found || l.ToTTL != 4 || l.Also == nil || l.Also.ToTTL != 1 || l.Also.Rate < 0.02 || l.Also.Rate > 0.08 {
		t.Fatalf("loss %+v, also %+v", l, l.Also)
	}
	reads(t, res, "R2: lost on the way from hop 3 to hop 4 (192.0.2.4), and some on the way from this host to hop 1")
}

// Large samples, as a long run has, must not leave the range of a float.
func TestLossAtOfLargeSamples(t *testing.T) {
	res := path(1, 2, 3, 4)
	for i, lost := range []int{0, 1000, 1010, 12000} {
		s := sampledOf(100000, lost)
		if res.Hops[i].Direct = s; i == 3 {
			res.Destination = s
		}
	}
	if l := LossAt(res); !l.Found || l.ToTTL != 4 || l.Also == nil || l.Also.ToTTL != 2 || math.IsNaN(l.Confidence) || l.Confidence < 0.9 {
		t.Errorf("loss %+v, also %+v", l, l.Also)
	}
}

// trippy#1466: one more "lost" answer behind a hop, from a destination that
// limits its errors, made the hop's own limit look like loss on the way.
func TestLimitedDestinationIsNoForwardLoss(t *testing.T) {
	res := path(1, 2, 3)
	for i, received := range []int{100, 70, 90} {
		h := &res.Hops[i]
		h.Sent, h.Received, h.Loss = 100, received, 1-float64(received)/100
		h.Replies[0].Sent, h.Replies[0].Received = 100, received
	}
	res.Method, res.Hops[2].Replies[0].ICMP = "udp", "port unreachable"
	if l := LossAt(res); l.Found {
		t.Errorf("loss is found: %+v", l)
	}
	if got := rules(Read(res)); got["R2"] != 0 {
		t.Errorf("reading: %q", Read(res))
	}
}

func TestNoLossFoundOnSoundPaths(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		lost := make([]int, 8)
		for i := range lost {
			if rng.Float64() < 0.02 {
				lost[i] = 1
			}
		}
		if l := LossAt(sampledAs(path(1, 2, 3, 4, 5, 6, 7, 8), lost...)); l.Found {
			t.Fatalf("loss found for %v", lost)
		}
	}
}
