package reports

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/whyslow/whyslow/dnscheck"
	"github.com/whyslow/whyslow/httpcheck"
	"github.com/whyslow/whyslow/internal/millis"
)

// Worlds that once got a wrong verdict, each named for its symptom.
func TestJudgeSymptoms(t *testing.T) {
	tests := []struct {
		name      string
		report    func() *Report
		layer     Layer
		component string
		sure      bool // at least 0.8
	}{
		{"jitter that echoes see only the top of", jittery, Network, "queueing", true},
		{"a redirect that thinks, the page does not", func() *Report { return redirected(400*msec, true) }, Server, "think-time", true},
		{"a redirect first on each connection, reverse lookups", func() *Report { return redirected(400*msec, false) }, Server, "hostname-lookups", false},
		{"a redirect to a host that is slow to look up", func() *Report {
			r := redirected(0, true)
			e := &r.HTTP.Samples[0].Exchanges[1]
			e.URL, e.Phases.Resolve = "https://img.example.net/", millis.Of(1800*msec)
			return r
		}, DNS, "authority-slow", true},
		{"an authority as far as the server", func() *Report {
			return world{rtt: 180 * msec, dns: 187 * msec, find: finding("authority-slow", 183*msec)}.report()
		}, None, "distance", true},
		{"a slow authority of a near server", func() *Report {
			return world{rtt: 20 * msec, dns: 187 * msec, find: finding("authority-slow", 183*msec)}.report()
		}, DNS, "authority-slow", true},
		{"a host that limits echoes, and TCP that loses nothing", func() *Report { return world{rtt: 20 * msec, lost: 40}.report() }, None, "healthy", true},
		{"a lossy path that spared the loads", func() *Report { return world{rtt: 30 * msec, lost: 12, resent: 1}.report() }, Network, "loss", true},
		{"two requests of fifteen wait for seconds", odd, Server, "intermittent", false},
		{"think time, connections closed, everything slow", func() *Report { return closing(900*msec, 900*msec) }, Server, "think-time", false},
		{"think time, connections closed, a small file quick", func() *Report { return closing(900*msec, 0) }, Server, "think-time", true},
		{"late accept, connections closed", func() *Report {
			r := closing(900*msec, 900*msec)
			r.HTTP.Controls = append(r.HTTP.Controls, idle(msec, 0)...)
			return r
		}, Server, "accept", true},
		{"a black hole that stalls the first load only", func() *Report {
			r := world{rtt: 40 * msec, control: clamp(45 * msec)}.report()
			r.HTTP.Samples = r.HTTP.Samples[:2]
			stall := &r.HTTP.Samples[0]
			stall.Failure = &httpcheck.Failure{Phase: "wait", Kind: "timeout", After: millis.Of(8 * time.Second)}
			stall.Exchanges[0].Failure = stall.Failure
			stall.Exchanges[0].TCP.AdvMSS, stall.Exchanges[0].TCP.OutOfOrder = 1448, 1
			r.HTTP.Samples[1].Cold = true
			r.HTTP.Samples[1].Exchanges[0].TCP.AdvMSS = 1394 // learned meanwhile
			return r
		}, Network, "mtu-blackhole", true},
		{"a first load of seconds that large segments bring, and a quick one", func() *Report {
			r := world{rtt: 40 * msec, control: clamp(45 * msec)}.report()
			r.HTTP.Samples = r.HTTP.Samples[:2]
			r.HTTP.Samples[1].Cold = true
			for i := range r.HTTP.Samples {
				r.HTTP.Samples[i].Exchanges[0].TCP.AdvMSS = 1448
			}
			r.HTTP.Samples[0].Exchanges[0].Phases.Total = millis.Of(4 * time.Second)
			return r
		}, Inconclusive, "", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v := Judge(tt.report())
			got := ""
			if v.Component != nil {
				got = *v.Component
			}
			if v.Layer != tt.layer || got != tt.component {
				t.Errorf("verdict %s/%s (%.2f), want %s/%s\n%s\n%+v", v.Layer, got, v.Confidence, tt.layer, tt.component, v.Summary, v.Blame)
			}
			if sure := v.Confidence >= 0.8; sure != tt.sure {
				t.Errorf("confidence %.2f, want ≥ 0.8: %v\n%+v", v.Confidence, tt.sure, v.Evidence)
			}
			if v.Typical.Duration() < v.Healthy.Duration() || v.Slow && v.Typical.Duration() < 100*msec {
				t.Errorf("typical %s, healthy %s", v.Typical, v.Healthy)
			}
			checkShares(t, v)
		})
	}
}

// jittery is a path whose way back jitters: connects take anything from the
// least round trip on, late segments look lost, and the run of echoes, which
// queue behind each other, never sees the least.
func jittery() *Report {
	r := world{rtt: 25 * msec, resent: 1, bytes: 5000}.report()
	for i := range r.HTTP.Samples {
		if e := &r.HTTP.Samples[i].Exchanges[0]; e.Phases.Connect.Known() {
			late := time.Duration([]int{0, 130, 90, 110, 60}[i/3]) * msec
			e.Phases.Connect = millis.Of(25*msec + late)
			e.Phases.TLS = millis.Of(25*msec + 120*msec)
			e.Phases.Total = millis.Of(e.Phases.Total.Duration() + late + 120*msec)
		}
	}
	r.Trace.Destination.Min, r.Trace.Destination.Median = millis.Of(102*msec), millis.Of(146*msec)
	return r
}

// redirected is a page behind one redirect for which the server takes a time:
// every time, or only where it is first on its connection.
func redirected(think time.Duration, always bool) *Report {
	r := world{rtt: 20 * msec, redir: 1}.report()
	for i := range r.HTTP.Samples {
		s := &r.HTTP.Samples[i]
		if i == 1 { // the first warm sample follows the redirect again
			again := world{rtt: 20 * msec}.exchange(0, 2)
			s.Exchanges = append([]httpcheck.Exchange{again}, s.Exchanges...)
		}
		if len(s.Exchanges) < 2 {
			continue
		}
		hop := &s.Exchanges[0]
		hop.Status = 302
		if s.Cold || always {
			hop.Server = millis.Of(think + msec)
			hop.Phases.Wait = millis.Of(20*msec + think + msec)
			hop.Phases.Total = millis.Of(hop.Phases.Total.Duration() + think)
		}
	}
	return r
}

// odd is a server that takes seconds for two requests.
func odd() *Report {
	r := world{rtt: 20 * msec}.report()
	for _, i := range []int{3, 7} {
		e := &r.HTTP.Samples[i].Exchanges[0]
		e.Server = millis.Of(2 * time.Second)
		e.Phases.Wait = millis.Of(2*time.Second + 20*msec)
		e.Phases.Total = millis.Of(e.Phases.Total.Duration() + 2*time.Second)
	}
	return r
}

// closing is a server that closes each connection after one request.
func closing(think, static time.Duration) *Report {
	r := world{rtt: 20 * msec, think: think, static: static, plain: true}.report()
	r.HTTP.Samples = slices.DeleteFunc(r.HTTP.Samples, func(s httpcheck.Sample) bool { return !s.Cold })
	for i := range r.HTTP.Controls {
		r.HTTP.Controls[i].Exchange.Request = 1
	}
	return r
}

// Health may not be given with confidence where some requests took seconds.
func TestOddRequestDoubtsHealth(t *testing.T) {
	for n, want := range []bool{false, true} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			r := world{rtt: 20 * msec}.report()
			if n > 0 {
				r.HTTP.Samples[7].Exchanges[0].Server = millis.Of(2 * time.Second)
			}
			if v := Judge(r); (v.Confidence < 0.8) != want {
				t.Errorf("confidence %.2f with %d odd requests", v.Confidence, n)
			}
		})
	}
}

// A path whose hops are silent may be long; that no one link of it is shows
// nowhere.
func TestSilentHopsAreNotOneSlowLink(t *testing.T) {
	for _, silent := range []int{2, 5, 8} {
		r := world{rtt: 205 * msec, hops: []time.Duration{msec, 205 * msec}}.report()
		r.Trace.Hops[1].TTL = 1 + silent
		n := 1 + silent
		r.Trace.HopCount = &n
		v := Judge(r)
		if silent > 2 && v.Layer == Network || v.Confidence >= 0.9 {
			t.Errorf("%d links in one step: verdict %s (%.2f): %s", silent, v.Layer, v.Confidence, v.Summary)
		}
		if v.Layer == None && (v.Confidence > 0.7 || len(v.Next) == 0) {
			t.Errorf("%d links in one step: sure of health (%.2f), next %q", silent, v.Confidence, v.Next)
		}
	}
}

// A lookup that was spared by luck does not clear a resolver to which queries
// are lost.
func TestLuckyLookupDoesNotClearTheResolver(t *testing.T) {
	r := world{rtt: 10 * msec}.report()
	r.DNS.Config.Nameservers = []string{"192.0.2.53:53"}
	r.DNS.Config.Timeout = millis.Of(5 * time.Second)
	r.DNS.Servers = []dnscheck.Server{{Addr: "192.0.2.53:53", Transport: "udp", Type: "A", Sent: 13, Answered: 9}}
	r.DNS.Findings = []dnscheck.Finding{{Component: "resolver-loss", Where: "192.0.2.53", Text: "queries are lost", Confirmed: true}}
	v := Judge(r)
	if v.Layer != DNS || *v.Component != "resolver-loss" {
		t.Errorf("verdict %s (%.2f): %s", v.Layer, v.Confidence, v.Summary)
	}
	if slices.ContainsFunc(v.RuledOut, func(s string) bool { return strings.HasPrefix(s, "dns") }) {
		t.Errorf("ruled out: %q", v.RuledOut)
	}
	checkShares(t, v)
}

// A server that sleeps for some requests is not the doing of a path that loses
// little, as long as no packet was seen to be lost meanwhile.
func TestLittleLossDoesNotHideAnIntermittentServer(t *testing.T) {
	r := odd()
	r.Trace.Destination = echoes(6, 20*msec)
	v := Judge(r)
	server := 0.0
	for _, b := range v.Blame {
		if b.Layer == Server {
			server += b.Share
		}
	}
	if server < 0.5 || v.Layer == Network && v.Confidence >= 0.7 {
		t.Errorf("verdict %s (%.2f), server's share %.2f: %s\n%+v", v.Layer, v.Confidence, server, v.Summary, v.Blame)
	}
}

// One SYN that was sent again is no full accept queue.
func TestOneResentSYNIsNoVerdict(t *testing.T) {
	v := Judge(world{rtt: 15 * msec, synLost: map[int]int{2: 1}}.report())
	if v.Layer == Server && v.Confidence >= 0.7 {
		t.Errorf("verdict %s (%.2f): %s", v.Layer, v.Confidence, v.Summary)
	}
	for _, b := range v.Blame {
		if b.MS > v.Typical.Float() {
			t.Errorf("%.1f ms of a load of %s", b.MS, v.Typical)
		}
	}
}

// Health is not claimed of a load that was slow, or of an error page, without
// a word of it.
func TestHealthTellsWhatWasNot(t *testing.T) {
	r := world{rtt: 10 * msec}.report()
	e := &r.HTTP.Samples[0].Exchanges[0]
	e.Server, e.Phases.Wait = millis.Of(3*time.Second), millis.Of(3010*msec)
	e.Phases.Total = millis.Of(e.Phases.Total.Duration() + 3*time.Second)
	if v := Judge(r); v.Layer != None || v.Confidence > 0.75 || !strings.Contains(v.Summary, "first load") {
		t.Errorf("a first load of 3 s: verdict %s (%.2f): %s", v.Layer, v.Confidence, v.Summary)
	}
	r = world{rtt: 10 * msec}.report()
	for i := range r.HTTP.Samples {
		r.HTTP.Samples[i].Exchanges[0].Status = 503
	}
	if v := Judge(r); !strings.Contains(v.Summary, "503") || len(v.Warnings) == 0 {
		t.Errorf("an error page: %s, warnings %q", v.Summary, v.Warnings)
	}
}

// What is called healthy has no blame beside it.
func TestHealthyHasNoBlame(t *testing.T) {
	v := Judge(world{rtt: 10 * msec, lost: 3, stall: map[int]time.Duration{1: 120 * msec}}.report())
	if v.Layer != None || len(v.Blame) > 0 || v.Healthy != v.Typical {
		t.Errorf("%s\nhealthy %s, typical %s, blame %+v", v.Summary, v.Healthy, v.Typical, v.Blame)
	}
}

// A server that is slow for each request of a connection but the first was
// called healthy: nobody had charged the later ones.
func TestSlowLaterRequestsAreNotHealthy(t *testing.T) {
	r := slowAt(700*msec, func(_, place int) bool { return place > 1 })
	v := Judge(r)
	if v.Layer != Server || *v.Component != "think-time" || v.Confidence < 0.8 {
		t.Errorf("verdict %s (%.2f): %s", v.Layer, v.Confidence, v.Summary)
	}
	checkShares(t, v)
}

// One slow backend of three that take turns always met the third request of a
// connection, which counted for nothing.
func TestBackendsThatTakeTurnsAreNotHealthy(t *testing.T) {
	v := Judge(slowAt(800*msec, func(_, place int) bool { return place == 3 }))
	if v.Layer != Server || *v.Component != "intermittent" {
		t.Errorf("verdict %s (%.2f): %s", v.Layer, v.Confidence, v.Summary)
	}
	checkShares(t, v)
}

// slowAt is a server that takes longer for some requests.
func slowAt(d time.Duration, slow func(conn, place int) bool) *Report {
	r := world{rtt: 20 * msec}.report()
	for i := range r.HTTP.Samples {
		s := &r.HTTP.Samples[i]
		if e := &s.Exchanges[0]; slow(s.Connection, s.Request) {
			e.Server = millis.Of(e.Server.Duration() + d)
			e.Phases.Wait = millis.Of(e.Phases.Wait.Duration() + d)
			e.Phases.Total = millis.Of(e.Phases.Total.Duration() + d)
		}
	}
	return r
}

// A fetch that stalls, small segments or not, on a path that swallows large
// packets is not the server's thinking.
func TestBlackHoleOutranksAServersSilence(t *testing.T) {
	r := world{rtt: 20 * msec, fail: &httpcheck.Failure{Phase: "wait", Kind: "timeout", Text: "no answer", InPhase: millis.Of(30 * time.Second)}}.report()
	mtu := 1200
	r.PMTU.BlackHole, r.PMTU.MTU = true, &mtu
	v := Judge(r)
	if v.Layer != Network || *v.Component != "mtu-blackhole" || len(v.Next) == 0 {
		t.Errorf("verdict %s (%.2f): %s", v.Layer, v.Confidence, v.Summary)
	}
}

// What has no explanation has its row in the blame, so that no suspect bears
// all of it.
func TestUnexplainedTimeHasItsRow(t *testing.T) {
	d := decision{view: newView(&Report{}), excess: 300 * msec, unexplained: 600 * msec, typical: time.Second,
		suspects: []suspect{{cause: cause{layer: Server, component: "intermittent"}, part: 300 * msec}}}
	v := d.verdict()
	if v.Layer != Inconclusive || len(v.Blame) != 2 || v.Blame[0].Component != "unexplained" {
		t.Errorf("verdict %s, blame %+v", v.Layer, v.Blame)
	}
	checkShares(t, v)
	if got := v.Healthy.Duration(); got != 100*msec {
		t.Errorf("healthy %v", got)
	}
}
