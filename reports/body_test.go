package reports

import (
	"strings"
	"testing"
	"time"

	"github.com/whyslow/whyslow/httpcheck"
	"github.com/whyslow/whyslow/internal/millis"
)

// canaryOf is a transfer beside which connects took so long.
func canaryOf(connects ...time.Duration) []httpcheck.Control {
	c := httpcheck.Control{Name: "canary"}
	for _, d := range connects {
		c.Runs = append(c.Runs, httpcheck.Exchange{Phases: httpcheck.Phases{Connect: millis.Of(d)}})
	}
	return []httpcheck.Control{c}
}

// dropping marks every body of a report as having lost segments.
func dropping(r *Report) *Report {
	for i := range r.HTTP.Samples {
		for j := range r.HTTP.Samples[i].Exchanges {
			r.HTTP.Samples[i].Exchanges[j].TCP.OutOfOrder = 9
		}
	}
	return r
}

// cutAt marks every body of a world's report as read in part.
func cutAt(w world, how string) *Report {
	r := w.report()
	for i := range r.HTTP.Samples {
		for j := range r.HTTP.Samples[i].Exchanges {
			r.HTTP.Samples[i].Exchanges[j].Truncated = how
		}
	}
	return r
}

// A page whose end nobody saw is not called healthy without a word of it.
func TestUnreadBodyIsNotCalledHealthy(t *testing.T) {
	v := Judge(cutAt(world{rtt: 20 * msec, body: 280 * msec, bytes: 32 << 20, class: "clean"}, "size"))
	if v.Layer != None || v.Confidence > 0.6 {
		t.Errorf("verdict %s with confidence %.2f", v.Layer, v.Confidence)
	}
	if !strings.Contains(v.Summary, "As far as the body was read") || len(v.Warnings) == 0 {
		t.Errorf("does not say what was not read: %q, warnings %q", v.Summary, v.Warnings)
	}
}

// One oddity does not silence another.
func TestUnreadErrorPageSaysBoth(t *testing.T) {
	r := cutAt(world{rtt: 20 * msec, body: 280 * msec, bytes: 32 << 20, class: "clean"}, "size")
	for i := range r.HTTP.Samples {
		r.HTTP.Samples[i].Exchanges[0].Status = 503
	}
	if v := Judge(r); !strings.Contains(v.Summary, "body was read") || !strings.Contains(v.Summary, "503") {
		t.Errorf("%q", v.Summary)
	}
}

func TestUnreadBodyIsSaidBesideABlame(t *testing.T) {
	v := Judge(cutAt(world{rtt: 20 * msec, body: 20 * time.Second, bytes: 50000, class: "drip"}, "time"))
	if v.Layer != Server || *v.Component != "body" || !strings.Contains(v.Summary, "was read") {
		t.Errorf("verdict %s: %q", v.Layer, v.Summary)
	}
}

// Server-sent events come for as long as one listens.
func TestStreamIsNoSlowBody(t *testing.T) {
	v := Judge(cutAt(world{rtt: 20 * msec, body: 20 * time.Second, bytes: 50000, class: "none"}, "stream"))
	if v.Layer != None || v.Typical.Duration() > time.Second {
		t.Errorf("verdict %s, typical %s: %q", v.Layer, v.Typical, v.Summary)
	}
}

// 32 MiB at 1 Gbit/s are as quick as anybody can wish.
func TestLargeBodyAtFullSpeedIsHealthy(t *testing.T) {
	v := Judge(world{rtt: 4 * msec, body: 330 * msec, bytes: 32 << 20, class: "undetermined"}.report())
	if v.Layer != None {
		t.Errorf("verdict %s: %q", v.Layer, v.Summary)
	}
}

// What holds a steady transfer back is told by what others meet beside it, or
// it is not told.
func TestSteadyTransferIsJudgedByItsCanary(t *testing.T) {
	tests := []struct {
		name     string
		rtt      time.Duration
		connects []time.Duration
		drops    bool
		layer    Layer
		sure     bool
	}{
		{"a full queue", 20 * msec, []time.Duration{90 * msec, 85 * msec, 95 * msec, 92 * msec}, false, Network, true},
		{"a queue that swings between full and empty", msec, []time.Duration{114 * msec, 2 * msec, 3 * msec, 110 * msec, 3 * msec, 2 * msec, 115 * msec, 4 * msec}, true, Network, true},
		{"a policer: it drops, and its queue is short", msec / 50, []time.Duration{34 * msec, 13 * msec, 14 * msec, 14 * msec, 13 * msec, 14 * msec}, true, Network, true},
		{"a slow sender", 20 * msec, []time.Duration{21 * msec, 20 * msec, 22 * msec}, false, Server, true},
		{"a slow sender, one connect late", 20 * msec, []time.Duration{21 * msec, 20 * msec, 22 * msec, 90 * msec, 21 * msec}, false, Server, true},
		{"a queue of its own for each flow: it drops, others pass", 20 * msec, []time.Duration{21 * msec, 20 * msec, 22 * msec}, true, Network, false},
		{"neither full nor calm", 40 * msec, []time.Duration{55 * msec, 55 * msec, 54 * msec}, false, Inconclusive, false},
		{"no canary", 20 * msec, nil, false, Inconclusive, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := world{rtt: tt.rtt, body: 3 * time.Second, bytes: 3 << 20, class: "undetermined", control: canaryOf(tt.connects...)}.report()
			if tt.drops {
				dropping(r)
			}
			v := Judge(r)
			if v.Layer != tt.layer || (v.Confidence >= 0.8) != tt.sure {
				t.Errorf("verdict %s (%.2f), want %s, sure %v: %q", v.Layer, v.Confidence, tt.layer, tt.sure, v.Summary)
			}
			if !tt.sure && len(v.Next) == 0 {
				t.Error("no experiment is named that would tell")
			}
			checkShares(t, v)
		})
	}
}
