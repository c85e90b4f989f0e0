package render_test

import (
	"bytes"
	"fmt"
	"math"
	"net/netip"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/net/html"

	"github.com/whyslow/whyslow/dnscheck"
	"github.com/whyslow/whyslow/httpcheck"
	"github.com/whyslow/whyslow/internal/millis"
	"github.com/whyslow/whyslow/pmtu"
	"github.com/whyslow/whyslow/reports"
	"github.com/whyslow/whyslow/reports/render"
	"github.com/whyslow/whyslow/trace"
)

// compare are the options under which a report equals itself after reading.
func compare() []cmp.Option {
	return []cmp.Option{
		cmpopts.EquateEmpty(), cmpopts.EquateComparable(netip.Addr{}),
		cmp.Comparer(func(a, b millis.Value) bool { return a.Equal(b) }),
	}
}

// checkMarkdown fails if anything outside code could be more than words.
func checkMarkdown(out string) error {
	span := regexp.MustCompile("`[^`\n]+`")
	fenced := false
	for i, line := range strings.Split(out, "\n") {
		if line == "```text" || line == "```" {
			if fenced = !fenced; fenced != (line == "```text") {
				return fmt.Errorf("line %d: stray fence", i+1)
			}
			continue
		}
		if fenced {
			if strings.Contains(line, "`") || regexp.MustCompile(`<[A-Za-z/!?@#]`).MatchString(line) {
				return fmt.Errorf("line %d: %q in a code block", i+1, line)
			}
			continue
		}
		line = span.ReplaceAllString(line, "")
		line = strings.TrimPrefix(strings.TrimPrefix(line, "### "), "**")
		line = strings.Replace(line, ".**", "", 1) // the badge
		if strings.ContainsAny(line, "`*_[]{}|~#@!\\$") || strings.Contains(line, "://") || regexp.MustCompile(`<[^ ]`).MatchString(line) {
			return fmt.Errorf("line %d: markup in %q", i+1, line)
		}
	}
	if fenced {
		return fmt.Errorf("a code block is left open")
	}
	return nil
}

// checkHTML fails if the page has an element, attribute or address that its
// own templates do not have.
func checkHTML(out string) error {
	const elements = " html head meta title style body main header p span h1 h2 h3 h4 section div dl dt dd nav a svg g circle rect line text tspan desc figure figcaption i b table caption thead tbody tr th td details summary ul ol li article code pre footer "
	z := html.NewTokenizer(strings.NewReader(out))
	for {
		switch z.Next() {
		case html.ErrorToken:
			return nil
		case html.CommentToken:
			return fmt.Errorf("a comment: %s", z.Token())
		case html.StartTagToken, html.SelfClosingTagToken:
			tok := z.Token()
			if !strings.Contains(elements, " "+tok.Data+" ") {
				return fmt.Errorf("element %s", tok)
			}
			for _, a := range tok.Attr {
				if strings.HasPrefix(a.Key, "on") || a.Key == "style" || a.Key == "src" || a.Key == "href" && !strings.HasPrefix(a.Val, "#") {
					return fmt.Errorf("attribute %s in %s", a.Key, tok)
				}
			}
		}
	}
}

// poison sets every string of v, however deep, to text, and gives every empty
// list one element so that there are strings to set.
func poison(v reflect.Value, text string) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Pointer:
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		poison(v.Elem(), text)
	case reflect.Slice:
		if v.Len() == 0 {
			v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		}
		for i := range v.Len() {
			poison(v.Index(i), text)
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[netip.Addr]() {
			v.Set(reflect.ValueOf(netip.MustParseAddr("fe80::1").WithZone(text)))
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				poison(v.Field(i), text)
			}
		}
	}
}

// Every string a report can hold, in every form, full of what a peer may send.
func TestHostileTextIsHarmless(t *testing.T) {
	for i, text := range []string{
		"\x1b]0;owned\x07\x1b[2J\u009b31m\xff\u202e\u2066\u200b\ufeff",
		"<script>alert(1)</script><img src=x onerror=alert(1)>\"'>",
		"</style></title></svg><!-- x",
		"```\n# h\n- x\n| a | b |\n![x](http://evil.example/p.png) [l](javascript:x) @everyone <!channel> www.evil.example {{.}} `",
		strings.Repeat("日本語", 400),
		strings.Repeat("`", 1200),
	} {
		r := new(reports.Report)
		poison(reflect.ValueOf(r).Elem(), text)
		for _, form := range render.Names() {
			for _, opt := range []render.Options{{}, {Width: 40, Verbose: true}, {Width: 200}} {
				if err := write(t, form, r, opt); err != nil {
					t.Errorf("text %d, %s, %+v: %v", i, form, opt, err)
				}
			}
		}
		check := func(instrument, form, out string) {
			if err := checkOutput(form, out); err != nil {
				t.Errorf("text %d, %s %s: %v", i, instrument, form, err)
			}
		}
		eachSingle(t, r, check)
		for _, form := range render.TraceForms().More {
			check("trace", form.Name, single(t, render.TraceForms(), form.Name, r.Trace))
		}
	}
}

// eachSingle writes each instrument's result on its own in each form.
func eachSingle(t *testing.T, r *reports.Report, check func(instrument, form, out string)) {
	t.Helper()
	for _, form := range render.Names() {
		check("trace", form, single(t, render.TraceForms(), form, r.Trace))
		check("pmtu", form, single(t, render.PMTUForms(), form, r.PMTU))
		check("dns", form, single(t, render.DNSForms(), form, r.DNS))
		check("http", form, single(t, render.HTTPForms(), form, r.HTTP))
	}
}

func single[T any](t *testing.T, forms render.Forms[T], form string, v *T) string {
	t.Helper()
	fn, err := forms.ByName(form)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := fn(&b, v, render.Options{}); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// Results with nothing in them are what an interrupt leaves.
func TestEmptyResults(t *testing.T) {
	empty := &reports.Report{HTTP: &httpcheck.Result{}, DNS: &dnscheck.Result{}, Trace: &trace.Result{}, PMTU: &pmtu.Result{}}
	hollow := &reports.Report{
		HTTP:    &httpcheck.Result{Samples: []httpcheck.Sample{{}, {Exchanges: []httpcheck.Exchange{{}, {}}}}, Controls: []httpcheck.Control{{}}, Failure: &httpcheck.Failure{}},
		DNS:     &dnscheck.Result{Stub: &dnscheck.Stub{Steps: make([]dnscheck.Step, 2)}, Servers: make([]dnscheck.Server, 1), Reverse: make([]dnscheck.Reverse, 1), Findings: make([]dnscheck.Finding, 1)},
		Trace:   &trace.Result{Hops: []trace.Hop{{}, {Replies: []trace.Replier{{}, {}}}, {Silent: true}}, Destination: &trace.Sampled{}},
		PMTU:    &pmtu.Result{Limiter: &pmtu.Limiter{}},
		Verdict: reports.Verdict{Confidence: 0, Blame: make([]reports.Blame, 2), Evidence: make([]reports.Evidence, 1), Next: []string{""}},
	}
	for name, r := range map[string]*reports.Report{"zero": {}, "interrupted": {Interrupted: true, Started: time.Unix(0, 0)}, "empty": empty, "hollow": hollow} {
		for _, form := range render.Names() {
			if err := write(t, form, r, render.Options{Verbose: true}); err != nil {
				t.Errorf("%s, %s: %v", name, form, err)
			}
		}
	}
	var b bytes.Buffer
	if err := render.Text(&b, &reports.Report{Interrupted: true}, render.Options{}); err != nil || !strings.HasPrefix(b.String(), "NO VERDICT: Interrupted before there was a verdict.\n") {
		t.Errorf("interrupted: %v, %q", err, b.String())
	}
}

// Lists are never null in JSON, and what was not measured is never 0.
func TestNullMeansUnmeasured(t *testing.T) {
	r := &reports.Report{HTTP: &httpcheck.Result{}, Trace: &trace.Result{Hops: []trace.Hop{{TTL: 1}}}}
	out := string(mustJSON(t, r))
	for _, want := range []string{
		`"blame": []`, `"evidence": []`, `"ruled_out": []`, `"next": []`, `"warnings": []`, `"samples": []`, `"replies": []`, `"reading": []`, `"argv": []`,
		`"dns": null`, `"pmtu": null`, `"component": null`, `"elapsed_ms": null`, `"typical_ms": null`, `"wait_ms": null`, `"mtu": null`, `"schema": "whyslow/report/1"`,
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %s in\n%s", want, out)
		}
	}
	if r.Trace.Hops[0].Replies != nil {
		t.Error("the report was changed")
	}
	hops := single(t, render.TraceForms(), "json", &trace.Result{})
	if !strings.Contains(hops, `"hops": []`) {
		t.Errorf("hops of a trace on its own:\n%s", hops)
	}
}

func TestJSONTimesAreUTC(t *testing.T) {
	at := time.Date(2026, 7, 1, 12, 0, 0, 5e6, time.FixedZone("CEST", 7200))
	out := string(mustJSON(t, &reports.Report{Started: at, DNS: &dnscheck.Result{Started: at}}))
	if n := strings.Count(out, `"started": "2026-07-01T10:00:00.005Z"`); n != 2 {
		t.Errorf("%d times in UTC, want 2:\n%s", n, out)
	}
}

// A flood of everything stays within what a ticket takes, and says so.
func TestOutputIsBounded(t *testing.T) {
	r := readSample(t, "testdata/network-loss")
	long := strings.Repeat("long & <winding> `road` ", 60)
	for range 300 {
		r.Verdict.Blame = append(r.Verdict.Blame, reports.Blame{Layer: reports.Server, Component: long, Where: long, MS: 1, Share: math.NaN()})
		r.Verdict.Evidence = append(r.Verdict.Evidence, reports.Evidence{Claim: long, Observed: long, Threshold: long, Rule: long, Supports: true})
		r.Verdict.Next = append(r.Verdict.Next, long)
		r.Trace.Hops = append(r.Trace.Hops, r.Trace.Hops[5])
		r.HTTP.Samples = append(r.HTTP.Samples, r.HTTP.Samples[0])
		r.HTTP.Controls = append(r.HTTP.Controls, httpcheck.Control{Name: long, Why: long})
		r.DNS.Findings = append(r.DNS.Findings, dnscheck.Finding{Text: long})
	}
	r.Verdict.Summary = long
	var b bytes.Buffer
	if err := render.Markdown(&b, r, render.Options{Verbose: true}); err != nil {
		t.Fatal(err)
	}
	if err := checkOutput("markdown", b.String()); err != nil {
		t.Error(err)
	}
	if !strings.Contains(b.String(), "left out to stay below 65,536 characters") {
		t.Error("Markdown does not say what it left out")
	}
	b.Reset()
	if err := render.HTML(&b, r, render.Options{Verbose: true}); err != nil {
		t.Fatal(err)
	}
	if err := checkOutput("html", b.String()); err != nil {
		t.Error(err)
	}
	if !strings.Contains(b.String(), "left out to keep this file small") {
		t.Error("HTML does not say what it left out")
	}
}

func TestMarkdownSummaryIsShort(t *testing.T) {
	flood := readSample(t, "testdata/network-loss")
	flood.Verdict.Summary = strings.Repeat("word ", 900)
	flood.Verdict.Where = strings.Repeat("日本語", 900)
	flood.Target.URL = strings.Repeat("x", 5000)
	for range 20 {
		flood.Verdict.Blame = append(flood.Verdict.Blame, reports.Blame{Layer: "network", Component: strings.Repeat("c", 3000), Where: strings.Repeat("w ", 3000)})
	}
	for i := range flood.Verdict.Evidence {
		flood.Verdict.Evidence[i].Claim = strings.Repeat("@x ", 900)
	}
	all := []*reports.Report{flood}
	for _, name := range samples(t) {
		all = append(all, readSample(t, name))
	}
	for _, r := range all {
		var b bytes.Buffer
		if err := render.Markdown(&b, r, render.Options{}); err != nil {
			t.Fatal(err)
		}
		summary, _, found := strings.Cut(b.String(), "\n---\n")
		if n := utf8.RuneCountInString(summary); !found || n > 2500 {
			t.Errorf("%s: a summary of %d characters", r.Target.Host, n)
		}
	}
}
