package reports

import (
	"strings"
	"testing"
	"time"

	"github.com/whyslow/whyslow/httpcheck"
	"github.com/whyslow/whyslow/internal/millis"
)

// calmCanary is a transfer beside which connects took so long.
func calmCanary(each time.Duration) []httpcheck.Control {
	run := httpcheck.Exchange{Phases: httpcheck.Phases{Connect: millis.Of(each)}}
	return []httpcheck.Control{{Name: "canary", Runs: []httpcheck.Exchange{run, run, run}}}
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
	if !strings.Contains(v.Summary, "as far as the body was read") || len(v.Warnings) == 0 {
		t.Errorf("does not say what was not read: %q, warnings %q", v.Summary, v.Warnings)
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

// A link with a queue for each flow spares the canary, but it drops: a steady
// transfer that loses segments is not surely the server's doing.
func TestFairQueueIsNotSurelyTheServer(t *testing.T) {
	w := world{rtt: 20 * msec, body: 3 * time.Second, bytes: 3 << 20, class: "undetermined", control: calmCanary(21 * msec)}
	if v := Judge(w.report()); v.Layer != Server || v.Confidence < 0.8 {
		t.Errorf("without losses: verdict %s (%.2f)", v.Layer, v.Confidence)
	}
	r := w.report()
	for i := range r.HTTP.Samples {
		for j := range r.HTTP.Samples[i].Exchanges {
			if tcp := r.HTTP.Samples[i].Exchanges[j].TCP; tcp != nil {
				tcp.OutOfOrder = 9
			}
		}
	}
	v := Judge(r)
	if v.Confidence >= 0.7 {
		t.Errorf("with losses: verdict %s (%.2f): %q", v.Layer, v.Confidence, v.Summary)
	}
	if len(v.Next) == 0 {
		t.Error("with losses: no experiment is named")
	}
}
