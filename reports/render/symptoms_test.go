package render

import (
	"bytes"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/whyslow/whyslow/httpcheck"
	"github.com/whyslow/whyslow/internal/millis"
	"github.com/whyslow/whyslow/reports"
)

// What readers of reports stumbled over, one test a symptom.

func sample(t *testing.T, name string) *reports.Report {
	t.Helper()
	f, err := os.Open("testdata/" + name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := ReadReport(f)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func text(t *testing.T, r *reports.Report, width int) string {
	t.Helper()
	var b bytes.Buffer
	if err := Text(&b, r, Options{Width: width}); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// unwrapped is text without the spaces and breaks that a narrow page puts in.
func unwrapped(s string) string { return strings.Join(strings.Fields(s), "") }

// At 40 columns it said "cold load  64.1 ms, without the fault…", and what a
// control is to decide was cut at 80.
func TestNothingThatMattersIsCut(t *testing.T) {
	for _, name := range []string{"network-loss", "dns-resolver-down", "server-hostname-lookups", "failed-nxdomain"} {
		r := sample(t, name)
		v := &r.Verdict
		want := append(append(append([]string{v.Summary, v.Where}, v.RuledOut...), v.Next...), v.Warnings...)
		for _, f := range append(verdictFacts(r), reproduceFacts(r)...) {
			want = append(want, f.value)
		}
		for _, e := range v.Evidence {
			want = append(want, e.Claim, e.Rule, e.Observed, e.Threshold)
		}
		for _, b := range v.Blame {
			want = append(want, b.Component, b.Where)
		}
		if r.HTTP != nil {
			for _, c := range r.HTTP.Controls {
				want = append(want, c.Name, c.Why)
			}
			for _, f := range httpFacts(r.HTTP) {
				want = append(want, f.value)
			}
		}
		for width := 40; width <= 132; width++ {
			got := unwrapped(text(t, r, width))
			for _, w := range want {
				if !strings.Contains(got, unwrapped(w)) {
					t.Fatalf("%s at %d columns lacks %q", name, width, w)
				}
			}
		}
	}
}

// A name that is looked up was cut at 80 columns: "*.www.shop.examp…".
func TestNameThatIsLookedUpIsNotCut(t *testing.T) {
	r := sample(t, "dns-resolver-down")
	for _, width := range []int{40, 80} {
		got := unwrapped(text(t, r, width))
		for _, name := range []string{bareName(r.DNS.Servers[0].Name), bareName(r.DNS.Cold[0].Name)} {
			if !strings.Contains(got, name) {
				t.Errorf("at %d columns there is no %q", width, name)
			}
		}
	}
}

// Cut at their ends, the URLs of a chain of redirects all looked alike.
func TestNamesAreShortenedInTheMiddle(t *testing.T) {
	for _, tt := range []struct {
		in    string
		width int
		want  string
	}{
		{"www.shop.example", 16, "www.shop.example"},
		{"www.shop.example", 12, "www.shop…ple"},
		{"https://www.shop.example/old/7", 13, "https://…ld/7"},
		{"日本語日本語.example", 12, "日本語日…ple"},
		{"日本語日本語", 7, "日本…語"},
		{"abc", 2, "a…"},
		{"abc", 0, ""},
	} {
		if got := cutMiddle(tt.in, tt.width); got != tt.want || columns(got) > tt.width {
			t.Errorf("cutMiddle(%q, %d) = %q, want %q", tt.in, tt.width, got, tt.want)
		}
	}
}

// "observed 2 × 0.01 ms · threshold of 1.53 ms": not all that an observation is
// held against is a threshold, and it ran into the observation.
func TestObservationAndWhatItIsHeldAgainstAreApart(t *testing.T) {
	r := sample(t, "network-loss")
	r.Verdict.Evidence = []reports.Evidence{{Rule: "x", Claim: "a claim", Observed: "7 redirects", Threshold: "≤ 1", Supports: true}}
	if got, want := text(t, r, 80), "    observed: 7 redirects\n    held against: ≤ 1\n"; !strings.Contains(got, want) {
		t.Errorf("no %q in\n%s", want, got)
	}
	var md, html bytes.Buffer
	if err := Markdown(&md, r, Options{}); err != nil {
		t.Fatal(err)
	}
	if err := HTML(&html, r, Options{}); err != nil {
		t.Fatal(err)
	}
	if want := "(observed: 7 redirects; held against: ≤ 1)"; !strings.Contains(md.String(), want) {
		t.Errorf("no %q in\n%s", want, md.String())
	}
	if want := "<dt>held against</dt><dd>≤ 1</dd>"; !strings.Contains(html.String(), want) {
		t.Errorf("no %q in the page", want)
	}
}

// "cold load 1738 ms" stood above "total 1735.1" without a word.
func TestColdLoadThatIsNotTheTotalIsExplained(t *testing.T) {
	h := &httpcheck.Result{Summary: httpcheck.Summary{Cold: 3, ColdPhases: httpcheck.Phases{Total: millis.Of(1735100 * time.Microsecond)}}}
	stream := *h
	stream.Samples = []httpcheck.Sample{{Cold: true, Exchanges: []httpcheck.Exchange{{Truncated: "stream"}}}}
	for _, tt := range []struct {
		name   string
		load   millis.Value
		second bool
		h      *httpcheck.Result
		want   string
	}{
		{"the same", millis.Of(1735 * time.Millisecond), false, h, ""},
		{"not judged", millis.Value{}, false, h, ""},
		{"not measured", millis.Of(time.Second), false, &httpcheck.Result{}, ""},
		{"chance", millis.Of(1738 * time.Millisecond), false, h, "1738 ms at the top is not this total: it counts what strikes only some loads"},
		{"second request", millis.Of(3 * time.Second), true, h, "3000 ms at the top is not this total: a second request"},
		{"stream", millis.Of(time.Second), false, &stream, "how long a stream was listened to"},
	} {
		got := loadNote(tt.load, tt.second, tt.h)
		if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// "to 203.0.113.80:443 · 203.0.113.80".
func TestAddressIsNotItsOwnName(t *testing.T) {
	for _, tt := range []struct {
		target     reports.Target
		to, header string
	}{
		{reports.Target{URL: "https://203.0.113.80/", Host: "203.0.113.80", Port: 443, Addr: "203.0.113.80"}, "203.0.113.80:443", "https://203.0.113.80/"},
		{reports.Target{URL: "https://[2001:db8::1]/", Host: "2001:db8::1", Port: 443, Addr: "2001:db8::1"}, "[2001:db8::1]:443", "https://[2001:db8::1]/"},
		{reports.Target{URL: "https://www.example.com/", Host: "www.example.com", Port: 443, Addr: "203.0.113.80"},
			"203.0.113.80:443 · www.example.com", "https://www.example.com/ (203.0.113.80)"},
		{reports.Target{URL: "https://203.0.113.8.example/", Host: "203.0.113.8.example", Addr: "203.0.113.8"},
			"203.0.113.8 · 203.0.113.8.example", "https://203.0.113.8.example/ (203.0.113.8)"},
		{reports.Target{URL: "https://nosuchhost.invalid/", Host: "nosuchhost.invalid"}, "nosuchhost.invalid", "https://nosuchhost.invalid/"},
	} {
		r := &reports.Report{Target: tt.target}
		if got := destination(r); got != tt.to {
			t.Errorf("to %q, want %q", got, tt.to)
		}
		if got := targetText(r); got != tt.header {
			t.Errorf("target %q, want %q", got, tt.header)
		}
	}
}

// A chain of seven redirects gave the table of requests nineteen rows, most of
// them about the redirects.
func TestRequestsAreThoseForThePage(t *testing.T) {
	page := httpcheck.Exchange{URL: "https://www.example.com/page", Status: 200}
	h := &httpcheck.Result{Samples: []httpcheck.Sample{{Cold: true, Exchanges: []httpcheck.Exchange{{URL: "https://www.example.com/"}, page}}}}
	for _, url := range []string{"https://www.example.com/", page.URL} {
		for n := 1; n <= 2; n++ {
			h.Summary.ByRequest = append(h.Summary.ByRequest, httpcheck.RequestStat{URL: url, Request: n, Count: 1, Server: millis.Of(time.Millisecond)})
		}
	}
	if got := len(byRequestTable(h, false).rows); got != 2 {
		t.Errorf("%d rows, want 2", got)
	}
	if got := len(byRequestTable(h, true).rows); got != 4 {
		t.Errorf("%d rows where everything is wanted, want 4", got)
	}
}

// "medians of 6 cold and 0 warm loads", "medians of 1 cold load"; and where half
// of the loads had stalled, the table did not say so.
func TestLoadsAreCounted(t *testing.T) {
	for want, s := range map[string]httpcheck.Summary{
		"medians of 6 cold loads": {Cold: 6}, "medians of 2 warm loads": {Warm: 2}, "of the only load that succeeded": {Cold: 1},
		"medians of 1 cold and 1 warm load": {Cold: 1, Warm: 1}, "medians of 5 cold and 10 warm loads": {Cold: 5, Warm: 10},
	} {
		h := &httpcheck.Result{Summary: s}
		if got := loadsText(h); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		h.Samples = []httpcheck.Sample{{Failure: &httpcheck.Failure{}}, {}}
		if got := loadsText(h); got != want+" (1 more failed)" {
			t.Errorf("%q, want %q and the one that failed", got, want)
		}
	}
}

// "cold load 147 ms, without the faults 147 ms" where there was no fault.
func TestHealthyLoadIsSaidOnce(t *testing.T) {
	r := &reports.Report{Verdict: reports.Verdict{Layer: reports.None, Typical: millis.Of(147 * time.Millisecond), Healthy: millis.Of(147 * time.Millisecond)}}
	if got := text(t, r, 80); strings.Contains(got, "without the faults") {
		t.Errorf("got\n%s", got)
	}
}

// In a column of lookups nobody had measured, every row had a dash.
func TestColumnOfDashesIsLeftOut(t *testing.T) {
	tab := &table{cols: []column{{head: "server"}, {head: "first", right: true}, {head: "median", right: true}}}
	tab.add("192.0.2.53", "–", "2.1")
	tab.add("192.0.2.54", "–", "–")
	s := newSheet(Options{})
	tab.write(s)
	if want := "server      median\n192.0.2.53     2.1\n192.0.2.54       –\n"; s.b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", s.b.String(), want)
	}
}

// On a telephone the caption of a table was cut: "Requests: the server's time,
// by the place of a rec". It stood in the part of the page that scrolls.
func TestCaptionDoesNotScrollWithItsTable(t *testing.T) {
	var b bytes.Buffer
	if err := HTML(&b, sample(t, "network-loss"), Options{}); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	if strings.Contains(page, "<caption>") || !strings.Contains(page, "<figcaption>Redirects: "+redirectsNote+"</figcaption>") {
		t.Error("a table has its caption within")
	}
	for part := range strings.SplitSeq(page, `<div class="scroll"`) {
		if before, _, ok := strings.Cut(part, "</table>"); ok && strings.Contains(before, "<figcaption>") {
			t.Errorf("a caption scrolls: %.200s", before)
		}
	}
	if strings.Contains(pageCSS, "figcaption { white-space: nowrap") {
		t.Error("captions do not wrap")
	}
}

// The waterfall of the page had no total, the table of the text had.
func TestWaterfallHasATotal(t *testing.T) {
	r := sample(t, "network-loss")
	v := newWaterfall(&r.HTTP.Summary.ColdPhases, &r.HTTP.Summary.WarmPhases)
	if v.Total.Value != "1000 ms" || v.Total.Warm != "warm 306 ms" {
		t.Errorf("total %q, %q", v.Total.Value, v.Total.Warm)
	}
}

// It wrote "confidence": 0.6539948181818181.
func TestSharesHaveFourDecimals(t *testing.T) {
	r := &reports.Report{Verdict: reports.Verdict{Confidence: 0.6539948181818181, Blame: []reports.Blame{{MS: 589.1234, Share: 2.0 / 3}}}}
	var b bytes.Buffer
	if err := JSON(&b, r, Options{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"confidence": 0.654,`, `"share": 0.6667,`, `"ms": 589.1234,`} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %s in\n%s", want, b.String())
		}
	}
	for _, x := range []float64{math.Inf(1), math.MaxFloat64, -math.MaxFloat64, 0} {
		if got := rounded(x); got != x {
			t.Errorf("rounded(%v) = %v", x, got)
		}
	}
}

// A refused connection had a table of dashes, or a heading over nothing.
func TestRefusedLoadHasNoPhases(t *testing.T) {
	x := httpcheck.Exchange{Failure: &httpcheck.Failure{Phase: "connect", Kind: "refused", Text: "connection refused"}}
	h := &httpcheck.Result{Samples: []httpcheck.Sample{{Cold: true, Exchanges: []httpcheck.Exchange{x}, Failure: x.Failure}}, Failure: x.Failure}
	var b bytes.Buffer
	if err := HTTPForms().Text(&b, h, Options{}); err != nil {
		t.Fatal(err)
	}
	if got := b.String(); strings.Contains(got, "last attempt") || strings.Contains(got, "resolve") {
		t.Errorf("got\n%s", got)
	}
}
