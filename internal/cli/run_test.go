package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/whyslow/whyslow/httpcheck"
	"github.com/whyslow/whyslow/internal/millis"
	"github.com/whyslow/whyslow/internal/netprobe"
	"github.com/whyslow/whyslow/reports"
	"github.com/whyslow/whyslow/reports/render"
	"github.com/whyslow/whyslow/trace"
)

// hostile is what a stranger puts into a name, a header or a file name: a
// terminal's title, colours, a right-to-left override, HTML and Markdown.
const hostile = "\x1b]0;owned\x07\x1b[31m\u202egnp.exe<script>alert(1)</script>[x](javascript:1)|`\r\n# h"

func component(s string) *string { return &s }

// saved is a report such as a file may hold, with hostile text wherever a
// stranger decides what stands there.
func saved() *reports.Report {
	one := 1
	return &reports.Report{
		Schema:  reports.Schema,
		Tool:    reports.Tool{Name: "whyslow", Version: "v1", Argv: []string{"whyslow", "report", hostile}},
		Target:  reports.Target{URL: "https://www.example.com/" + hostile, Host: "www.example.com", Port: 443},
		Started: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Verdict: reports.Verdict{
			Layer: reports.Network, Component: component("latency"), Where: hostile, Confidence: 0.9, Slow: true,
			Summary: "slow " + hostile,
			Blame:   []reports.Blame{{Layer: reports.Network, Component: "latency", Where: hostile, MS: 300, Share: 1, SavesMS: 300}},
		},
		HTTP: &httpcheck.Result{Schema: httpcheck.Schema, URL: "https://www.example.com/", Samples: []httpcheck.Sample{{
			Cold: true, Connection: 1, Request: 1,
			Exchanges: []httpcheck.Exchange{{Status: 302, ServerHeader: hostile, Location: hostile, ContentType: hostile}},
		}}},
		Trace: &trace.Result{Schema: trace.Schema, Method: "icmp", Reached: true, HopCount: &one,
			Hops: []trace.Hop{{TTL: 1, Replies: []trace.Replier{{Name: hostile, Sent: 3, Received: 3, Min: millis.Of(time.Millisecond)}}}}},
	}
}

func writeTemp(t *testing.T, name string, write func(*bytes.Buffer) error) string {
	t.Helper()
	var buf bytes.Buffer
	if err := write(&buf); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, buf.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func savedFile(t *testing.T) string {
	t.Helper()
	return writeTemp(t, "incident.json", func(b *bytes.Buffer) error { return render.JSON(b, saved(), render.Options{}) })
}

func TestShowIsHarmless(t *testing.T) {
	path := savedFile(t)
	for _, format := range []string{"text", "json", "markdown", "html"} {
		t.Run(format, func(t *testing.T) {
			got := run(t, "show", path, "--format", format, "-v")
			if got.status != statusOK || got.err != "" {
				t.Fatalf("status %d, stderr %q", got.status, got.err)
			}
			for _, bad := range []string{"\x1b", "\x07", "\r", "\u202e"} {
				if strings.Contains(got.out, bad) {
					t.Errorf("%q came through", bad)
				}
			}
			if format == "html" && strings.Contains(got.out, "<script") {
				t.Error("a script came through")
			}
			if !strings.Contains(got.out, "owned") {
				t.Error("the hostile text is gone instead of harmless")
			}
		})
	}
}

func TestShowKeepsTheReport(t *testing.T) {
	path := savedFile(t)
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	got := run(t, "show", path, "--json")
	if got.out != string(before) {
		t.Errorf("show --json changed the report:\n%s\nwas\n%s", got.out, before)
	}
	piped := runEnv(t, context.Background(), Env{In: bytes.NewReader(before)}, "show", "-", "--json")
	if piped.out != string(before) {
		t.Error("reading standard input gives something else")
	}
}

func TestShowRefuses(t *testing.T) {
	deep := strings.Repeat(`{"trace":`, 20000) + "1" + strings.Repeat("}", 20000)
	tests := []struct{ name, content, want string }{
		{"not JSON", "hello", "not JSON"},
		{"empty", "", "not JSON"},
		{"no schema", `{"a":1}`, "is no saved report"},
		{"a later schema", `{"schema":"whyslow/report/99"}`, "use a newer one"},
		{"hostile schema", `{"schema":"\u001b[31m"}`, `\x1b`},
		{"a string for a number", `{"schema":"whyslow/pmtu/1","target":{},"mtu":"many"}`, "mtu: \"many\" is not a whole number"},
		{"an array", `[]`, "is no saved report: a JSON object with a \"schema\" is wanted"},
		{"deep nesting", deep, "not JSON"},
		{"a number for a schema", `{"schema":1}`, "is no saved report: a JSON object with a \"schema\" is wanted"},
		{"a trace of nothing", `{"schema":"whyslow/trace/1"}`, "target: missing"},
		{"a path MTU of nothing", `{"schema":"whyslow/pmtu/1"}`, "target: missing"},
		{"a lookup of nothing", `{"schema":"whyslow/dns/1"}`, "name: missing"},
		{"an exchange with nothing", `{"schema":"whyslow/http/1"}`, "url: missing"},
		{"a loss of 1e300", `{"schema":"whyslow/trace/1","target":{},"hops":[{"ttl":1,"loss":1e300}]}`, "hops[0].loss: 1e+300, want 0 to 1"},
		{"a hop 0", `{"schema":"whyslow/trace/1","target":{},"hops":[{"ttl":1},{"ttl":0}]}`, "hops[1].ttl: 0, want 1 to 255"},
		{"what doctor wrote", `{"schema":"whyslow/doctor/1"}`, "is what doctor --json wrote, which show does not render"},
		{"what demo wrote", `{"scenario":"x","report":{"schema":"whyslow/report/1"}}`, "is what demo --json wrote"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := writeTemp(t, "x.json", func(b *bytes.Buffer) error { b.WriteString(tt.content); return nil })
			got := run(t, "show", path)
			if got.status != statusUsage || !strings.Contains(got.err, tt.want) || strings.Contains(got.err, "\x1b") || strings.Contains(got.err, "Go value") {
				t.Errorf("status %d, stderr %q, want %q in it", got.status, got.err, tt.want)
			}
		})
	}
}

func TestShowSingleInstruments(t *testing.T) {
	for _, content := range []string{
		`{"schema":"whyslow/trace/1","target":{"name":"h","addr":"192.0.2.1"},"method":"udp","hops":[{"ttl":1,"silent":true,"loss":1}]}`,
		`{"schema":"whyslow/pmtu/1","target":{"name":"h","addr":"192.0.2.1"},"mtu":1400}`,
		`{"schema":"whyslow/dns/1","name":"h","stub":{"model":"glibc","rcode":"NXDOMAIN"}}`,
		`{"schema":"whyslow/http/1","url":"http://h/","samples":[{"exchanges":[]}]}`,
	} {
		for _, format := range []string{"text", "json", "markdown", "html"} {
			path := writeTemp(t, "x.json", func(b *bytes.Buffer) error { b.WriteString(content); return nil })
			if got := run(t, "show", path, "--format", format); got.status != statusOK || got.out == "" {
				t.Errorf("%s as %s: %+v", content, format, got)
			}
		}
	}
}

func TestOutputFiles(t *testing.T) {
	path := savedFile(t)
	dir := t.TempDir()
	files := map[string]string{"a.html": "<!DOCTYPE html>", "b.md": "www.example.com", "c.json": `"schema"`, "d.txt": "NETWORK"}
	args := []string{"show", path, "--quiet"}
	for name := range files {
		args = append(args, "-o", filepath.Join(dir, name))
	}
	// An older file that everybody may read is replaced by one that only its
	// owner may.
	if err := os.WriteFile(filepath.Join(dir, "a.html"), []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	got := run(t, args...)
	if got != (ran{}) {
		t.Errorf("--quiet with -o printed: %+v", got)
	}
	for name, want := range files {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(strings.ToLower(string(b)), strings.ToLower(want)) {
			t.Errorf("%s does not hold %q", name, want)
		}
		st, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if runtime.GOOS != "windows" && st.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", name, st.Mode())
		}
	}
	left, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(left) != len(files) {
		t.Errorf("temporary files stay behind: %v", left)
	}
}

func TestSeverityAndFailOn(t *testing.T) {
	blame := func(ms float64) []reports.Blame { return []reports.Blame{{MS: ms}} }
	fine := reports.Verdict{Layer: reports.None, Component: component("healthy")}
	warning := reports.Verdict{Layer: reports.Server, Component: component("tls"), Slow: true, Blame: blame(400)}
	grave := reports.Verdict{Layer: reports.DNS, Component: component("resolver-down"), Slow: true, Blame: blame(5000)}
	open := reports.Verdict{Layer: reports.Inconclusive, Slow: true}
	tests := []struct {
		failOn                     string
		fine, warning, grave, open int
	}{
		{"", 0, 0, 0, 0},
		{"warning", 0, 1, 2, 3},
		{"critical", 0, 0, 2, 3},
		{"inconclusive", 0, 0, 0, 3},
	}
	for _, tt := range tests {
		t.Run("fail-on "+tt.failOn, func(t *testing.T) {
			o := reportOptions{failOn: tt.failOn}
			got := [4]int{o.failStatus(&fine), o.failStatus(&warning), o.failStatus(&grave), o.failStatus(&open)}
			if want := [4]int{tt.fine, tt.warning, tt.grave, tt.open}; got != want {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
}

func TestProgressOnlyOnATerminal(t *testing.T) {
	tests := []struct {
		name     string
		terminal bool
		quiet    bool
		want     bool
	}{{"terminal", true, false, true}, {"pipe", false, false, false}, {"quiet", true, true, false}}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var buf bytes.Buffer
			p := newProgress(&Env{Err: &buf, ErrTerminal: tt.terminal, Width: 40}, &common{quiet: tt.quiet})
			p.set("dns: %s", hostile)
			p.done()
			p.set("too late")
			got := buf.String()
			if (got != "") != tt.want {
				t.Errorf("wrote %q", got)
			}
			if tt.want && (!strings.HasSuffix(got, "\r\x1b[K") || strings.Contains(got, "\x07") || strings.Contains(got, "late")) {
				t.Errorf("wrote %q", got)
			}
		})
	}
}

func TestAwait(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	v, ok := await(ctx, func(context.Context) int { return 7 })
	if v != 7 || !ok {
		t.Errorf("got %d, %v", v, ok)
	}
	cancel()
	// One that obeys still hands over what it has, one that does not is left.
	v, ok = await(ctx, func(ctx context.Context) int { <-ctx.Done(); return 8 })
	if v != 8 || !ok {
		t.Errorf("obedient: got %d, %v", v, ok)
	}
	block := make(chan struct{})
	defer close(block)
	if _, ok = await(ctx, func(context.Context) int { <-block; return 9 }); ok {
		t.Error("a function that never returns was waited for")
	}
}

func TestHTTPOnLoopback(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s %s %s", r.Method, r.Header.Get("X-Test"), r.UserAgent())
	}))
	defer srv.Close()
	dir := t.TempDir()
	got := run(t, "http", srv.URL+"/", "-H", "X-Test: 1", "-A", "probe", "--samples", "2", "--per-connection", "2",
		"--no-controls", "--json", "-o", filepath.Join(dir, "x.html"))
	if got.status != statusOK {
		t.Fatalf("%+v", got)
	}
	var res httpcheck.Result
	if err := json.Unmarshal([]byte(got.out), &res); err != nil {
		t.Fatalf("stdout is not JSON: %v", err)
	}
	if res.Schema != httpcheck.Schema || res.Summary.Cold != 2 || len(res.Samples) < 2 {
		t.Errorf("schema %q, %d cold, %d samples", res.Schema, res.Summary.Cold, len(res.Samples))
	}
	if !strings.Contains(got.err, "x.html") {
		t.Errorf("stderr %q does not name the file written", got.err)
	}
}

// What cannot be measured still gives a result, and status 4.
func TestUnmeasurable(t *testing.T) {
	srv := httptest.NewServer(http.NotFoundHandler())
	closed := srv.URL
	srv.Close()
	got := run(t, "http", closed+"/", "--json")
	if got.status != statusUnmeasured {
		t.Errorf("refused port: status %d", got.status)
	}
	var res httpcheck.Result
	if err := json.Unmarshal([]byte(got.out), &res); err != nil || res.Failure == nil || res.Failure.Kind != "refused" {
		t.Errorf("result %+v, %v", res.Failure, err)
	}
	if !strings.Contains(got.err, "nothing listens there") {
		t.Errorf("no remedy in %q", got.err)
	}

	// An untrusted certificate is measured on demand only.
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = log.New(io.Discard, "", 0) // it will complain of us
	secure.StartTLS()
	defer secure.Close()
	if got := run(t, "http", secure.URL+"/", "--samples", "1", "--no-controls"); got.status != statusUnmeasured || !strings.Contains(got.err, "--insecure") {
		t.Errorf("untrusted certificate: %+v", got)
	}
	if got := run(t, "http", "-k", secure.URL+"/", "--samples", "1", "--no-controls"); got.status != statusOK {
		t.Errorf("-k: %+v", got)
	}
}

func TestInterrupted(t *testing.T) {
	release := make(chan struct{})
	began := make(chan struct{}, 100)
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		began <- struct{}{}
		<-release
	}))
	defer srv.Close()
	defer close(release)
	ctx, cancel := context.WithCancel(context.Background())
	var at time.Time
	go func() {
		<-began
		at = time.Now()
		cancel()
	}()
	got := runEnv(t, ctx, Env{}, "http", srv.URL+"/", "--json")
	took := time.Since(at)
	if got.status != statusInterrupted {
		t.Errorf("status %d, stderr %q", got.status, got.err)
	}
	if !json.Valid([]byte(got.out)) {
		t.Errorf("what was known is not JSON: %q", got.out)
	}
	if took > 2*time.Second { // 200 ms on an idle machine
		t.Errorf("took %v to end", took)
	}
}

func TestMaxTime(t *testing.T) {
	release := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer srv.Close()
	defer close(release)
	start := time.Now()
	got := run(t, "http", srv.URL+"/", "--max-time", "200ms")
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("took %v", took)
	}
	if got.status != statusUnmeasured {
		t.Errorf("%+v", got)
	}
}

func TestDoctorAdvisesOnEveryRemedy(t *testing.T) {
	for _, id := range []netprobe.RemedyID{netprobe.RemedyNetRaw, netprobe.RemedyPingGroupRange, netprobe.RemedyIPv6,
		netprobe.RemedyTUNModule, netprobe.RemedyTUNPermission, netprobe.RemedyUserNS, netprobe.RemedyLoopbackUp,
		netprobe.RemedyFirewall, netprobe.RemedyPlatform} {
		if s := advice(id); s == "" || strings.Contains(s, "\n") {
			t.Errorf("%s: advice %q", id, s)
		}
	}
	if advice("") != "" {
		t.Error("advice without a remedy")
	}
}

func TestDoctor(t *testing.T) {
	caps := []netprobe.Capability{
		{ID: netprobe.CapPing4, State: netprobe.Denied, Errno: "EACCES", Detail: hostile, Remedy: netprobe.RemedyPingGroupRange},
		{ID: netprobe.CapUDPErrors4, State: netprobe.Available},
	}
	c := examine(caps, resolver{File: "/etc/resolv.conf", Nameservers: []string{"192.0.2.53"}, Warnings: []string{hostile}})
	var buf bytes.Buffer
	if err := c.write(&buf); err != nil {
		t.Fatal(err)
	}
	got := buf.String()
	for _, want := range []string{"no   trace by ICMP, IPv4", "yes  trace by UDP, IPv4", "yes  pmtu, IPv4", "denied (EACCES)",
		"remedy: sudo sysctl net.ipv4.ping_group_range", "192.0.2.53"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if strings.ContainsAny(got, "\x1b\x07\r") {
		t.Errorf("control characters in %q", got)
	}
	real := run(t, "doctor", "--json")
	var back checkup
	if err := json.Unmarshal([]byte(real.out), &back); err != nil || back.Schema != doctorSchema || len(back.Capabilities) == 0 {
		t.Errorf("doctor --json: %v, %+v", err, back)
	}
}
