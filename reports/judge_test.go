package reports

import (
	"math"
	"testing"
	"time"

	"github.com/whyslow/whyslow/dnscheck"
	"github.com/whyslow/whyslow/httpcheck"
	"github.com/whyslow/whyslow/internal/millis"
)

const msec = time.Millisecond

func finding(component string, cost time.Duration) []dnscheck.Finding {
	return []dnscheck.Finding{{Component: component, Where: "192.0.2.53", Text: "It is so.", Cost: millis.Of(cost), Confirmed: true}}
}

func idle(server, tls time.Duration) []httpcheck.Control {
	return []httpcheck.Control{{Name: "idle", Exchange: httpcheck.Exchange{Status: 200, Server: millis.Of(server),
		Phases: httpcheck.Phases{TLS: millis.Of(tls)}}}}
}

func clamp(total time.Duration) []httpcheck.Control {
	return []httpcheck.Control{{Name: "mss-clamp", Exchange: httpcheck.Exchange{Status: 200,
		Phases: httpcheck.Phases{Wait: millis.Of(total)}}}}
}

// slowAtFive is a path whose fifth link is slow behind a router that answers
// slowly itself.
var slowAtFive = []time.Duration{1 * msec, 4 * msec, 7 * msec, 330 * msec, 221 * msec, 224 * msec, 230 * msec}

func TestJudge(t *testing.T) {
	tests := []struct {
		name      string
		world     world
		layer     Layer
		component string
		sure      bool // at least 0.8
	}{
		{"nothing wrong", world{rtt: 20 * msec}, None, "healthy", true},
		{"nothing wrong on loopback", world{rtt: msec / 5}, None, "healthy", true},
		{"far but healthy", world{rtt: 180 * msec}, None, "distance", true},
		{"slow link behind an innocent slow router", world{rtt: 230 * msec, hops: slowAtFive}, Network, "latency", true},
		{"think time far away", world{rtt: 160 * msec, think: 900 * msec}, Server, "think-time", true},
		{"think time near", world{rtt: 2 * msec, think: 300 * msec}, Server, "think-time", true},
		{"whole server slow", world{rtt: 20 * msec, think: 700 * msec, static: 690 * msec}, Server, "think-time", true},
		{"slow handshake", world{rtt: 30 * msec, tls: 600 * msec}, Server, "tls", true},
		{"slow accept under TLS", world{rtt: 30 * msec, tls: 600 * msec, control: idle(msec, 34*msec)}, Server, "accept", true},
		{"slow handshake, idle agrees", world{rtt: 30 * msec, tls: 600 * msec, control: idle(msec, 634*msec)}, Server, "tls", true},
		{"dripping body", world{rtt: 20 * msec, body: 1200 * msec, bytes: 50000, class: "drip"}, Server, "body", true},
		{"thin link", world{rtt: 20 * msec, body: 2 * time.Second, bytes: 500000, class: "link-limited"}, Network, "bandwidth", true},
		{"dead first resolver", world{rtt: 20 * msec, dns: 5020 * msec, find: finding("resolver-down", 5*time.Second)}, DNS, "resolver-down", true},
		{"slow authority", world{rtt: 20 * msec, dns: 820 * msec, find: finding("authority-slow", 800*msec)}, DNS, "authority-slow", true},
		{"lookups before the response", world{rtt: 20 * msec, once: 2 * time.Second, ptr: 2 * time.Second}, Server, "hostname-lookups", true},
		{"lookups, PTR not seen, idle agrees", world{rtt: 20 * msec, once: 2 * time.Second, control: idle(2*time.Second, 25*msec)}, Server, "hostname-lookups", true},
		{"lookups while logging", world{rtt: 20 * msec, second: 2 * time.Second, ptr: 2 * time.Second}, Server, "hostname-lookups", true},
		{"late accept without TLS", world{rtt: 20 * msec, plain: true, once: 800 * msec, control: idle(msec, 0)}, Server, "accept", true},
		{"lossy link", world{rtt: 40 * msec, lost: 8, direct: map[int]int{4: 9, 5: 7, 6: 8}, synLost: map[int]int{1: 1}, stall: map[int]time.Duration{3: 300 * msec}, resent: 1}, Network, "loss", true},
		{"black hole towards the client", world{rtt: 40 * msec, fail: &httpcheck.Failure{Phase: "wait", Kind: "timeout"}, control: clamp(45 * msec), tls: 4 * time.Second}, Network, "mtu-blackhole", true},
		{"redirect chain", world{rtt: 80 * msec, redir: 4}, Server, "redirects", true},
		{"accept queue overflows, path clean", world{rtt: 20 * msec, synLost: map[int]int{0: 1, 1: 1, 2: 1, 4: 1}}, Server, "accept", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v := Judge(tt.world.report())
			got := ""
			if v.Component != nil {
				got = *v.Component
			}
			if v.Layer != tt.layer || got != tt.component {
				t.Errorf("verdict %s/%s (%.2f), want %s/%s\n%s\n%+v", v.Layer, got, v.Confidence, tt.layer, tt.component, v.Summary, v.Blame)
			}
			if sure := v.Confidence >= 0.8; sure != tt.sure {
				t.Errorf("confidence %.2f, want ≥ 0.8: %v", v.Confidence, tt.sure)
			}
			checkShares(t, v)
		})
	}
}

func checkShares(t *testing.T, v Verdict) {
	t.Helper()
	var sum float64
	for _, b := range v.Blame {
		if b.Share < 0 || b.MS < 0 {
			t.Errorf("negative blame %+v", b)
		}
		sum += b.Share
	}
	if len(v.Blame) > 0 && math.Abs(sum-1) > 1e-6 {
		t.Errorf("shares sum to %v, want 1", sum)
	}
	if v.Layer == Inconclusive && v.Component != nil {
		t.Errorf("inconclusive names a component: %s", *v.Component)
	}
	if v.Summary == "" {
		t.Error("no summary")
	}
}

func TestJudgeFailures(t *testing.T) {
	fail := func(phase, kind string) *httpcheck.Failure {
		return &httpcheck.Failure{Phase: phase, Kind: kind, Text: "as it came"}
	}
	tests := []struct {
		name      string
		failure   *httpcheck.Failure
		layer     Layer
		component string
	}{
		{"refused port", fail("connect", "refused"), Server, "refused"},
		{"expired certificate", fail("tls", "certificate"), Server, "certificate"},
		{"no route", fail("connect", "unreachable"), Network, "unreachable"},
		{"no such name", fail("resolve", "nxdomain"), DNS, "nxdomain"},
		{"redirect loop", fail("redirect", "redirect-loop"), Server, "redirects"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v := Judge(world{rtt: 20 * msec, fail: tt.failure}.report())
			if v.Layer != tt.layer || v.Component == nil || *v.Component != tt.component {
				t.Errorf("verdict %s/%v, want %s/%s", v.Layer, v.Component, tt.layer, tt.component)
			}
			if !v.Failed {
				t.Error("Failed is not set")
			}
		})
	}
}

func TestJudgeNameWithoutHTTP(t *testing.T) {
	r := &Report{Target: Target{Host: "nosuchhost.invalid"}, DNS: &dnscheck.Result{Stub: &dnscheck.Stub{Rcode: "NXDOMAIN"}}}
	v := Judge(r)
	if v.Layer != DNS || v.Component == nil || *v.Component != "nxdomain" || !v.Failed {
		t.Errorf("verdict %+v, want dns/nxdomain, failed", v)
	}
}

func TestJudgeKnowsNothing(t *testing.T) {
	v := Judge(&Report{})
	if v.Layer != Inconclusive || v.Component != nil || len(v.Next) == 0 {
		t.Errorf("verdict %+v, want inconclusive with a next experiment", v)
	}
}

// HostnameLookups must never be blamed where nothing waits once a connection,
// however slow the PTR record of this host is.
func TestSlowPTRAloneBlamesNobody(t *testing.T) {
	for _, think := range []time.Duration{0, 400 * msec} {
		v := Judge(world{rtt: 20 * msec, think: think, ptr: 2 * time.Second}.report())
		if v.Component != nil && *v.Component == "hostname-lookups" {
			t.Errorf("think %v: blamed %+v", think, v)
		}
	}
}

func TestMixedCausesAreBothNamed(t *testing.T) {
	v := Judge(world{rtt: 20 * msec, think: 900 * msec, dns: 1020 * msec, find: finding("authority-slow", time.Second)}.report())
	if !v.Mixed || len(v.Blame) < 2 {
		t.Errorf("mixed %v, blame %+v; want both causes", v.Mixed, v.Blame)
	}
	if v.Confidence > 0.9 {
		t.Errorf("confidence %.2f although two causes are nearly equal", v.Confidence)
	}
}

func TestTooFewSamplesLowerConfidence(t *testing.T) {
	r := world{rtt: 20 * msec, think: 900 * msec}.report()
	r.HTTP.Samples = r.HTTP.Samples[:2]
	if v := Judge(r); v.Confidence >= 0.85 {
		t.Errorf("confidence %.2f from one load", v.Confidence)
	}
}

func TestInterruptedSaysSo(t *testing.T) {
	r := world{rtt: 20 * msec, think: 900 * msec}.report()
	r.Interrupted = true
	v := Judge(r)
	if v.Confidence > 0.7 || len(v.Warnings) == 0 {
		t.Errorf("confidence %.2f, warnings %q", v.Confidence, v.Warnings)
	}
}

func TestBlameSumsToTheExcess(t *testing.T) {
	l := load{fixed: 10 * msec, rtt: 20 * msec, rounds: 4, redirectRounds: 6, causes: []cause{
		{component: "latency", perRTT: 150 * msec}, {component: redirects}, {component: "think-time", extra: 300 * msec}}}
	var sum time.Duration
	for _, p := range l.blame() {
		sum += p
	}
	want := l.predict(l.all()) - l.predict(0)
	if d := sum - want; d < -10 || d > 10 {
		t.Errorf("parts sum to %v, want %v", sum, want)
	}
	if got, want := l.predict(l.all()), 10*msec+300*msec+10*170*msec; got != want {
		t.Errorf("predict(all) = %v, want %v", got, want)
	}
}
