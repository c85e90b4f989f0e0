package render_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/whyslow/whyslow/dnscheck"
	"github.com/whyslow/whyslow/httpcheck"
	"github.com/whyslow/whyslow/pmtu"
	"github.com/whyslow/whyslow/reports"
	"github.com/whyslow/whyslow/reports/render"
	"github.com/whyslow/whyslow/trace"
)

// report returns a small valid report with one part of it replaced.
func report(old, with string) string {
	const base = `{"schema":"whyslow/report/1","tool":{},"started":"2026-01-02T03:04:05Z","elapsed_ms":1,
"verdict":{"layer":"server","component":"body","confidence":0.5,"blame":[{"layer":"server","share":1}]},
"trace":{"hops":[{"ttl":1,"loss":0,"replies":[{"addr":"192.0.2.1","median_ms":1.5}]}]},
"pmtu":{"limiter":{"ttl":3,"addr":""}}}`
	if !strings.Contains(base, old) {
		panic("no " + old)
	}
	return strings.Replace(base, old, with, 1)
}

func TestReadReportErrors(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"empty", "", "line 1, column 1: unexpected end"},
		{"not JSON", "{\n  \"schema\": nope}", "line 2, column 14"},
		{"cut short", report("", "")[:100], "unexpected end of JSON input"},
		{"two reports", report("", "") + "{}", "after top-level value"},
		{"a list", "[]", "[] is not an object"},
		{"no schema", `{"verdict":{}}`, `schema: missing, want "whyslow/report/1"`},
		{"another schema", `{"schema":"whyslow/trace/1"}`, `schema: "whyslow/trace/1", want "whyslow/report/1"`},
		{"hostile schema", `{"schema":"\u001b[2J"}`, `\\x1b[2J`},
		{"schema of another type", `{"schema":1}`, "schema: 1 is not a string"},
		{"no start", report(`"2026-01-02T03:04:05Z"`, `"0001-01-01T00:00:00Z"`), "started: missing"},
		{"bad time", report(`"2026-01-02T03:04:05Z"`, `"yesterday"`), "started: "},
		{"unknown layer", report(`"layer":"server"`, `"layer":"cat"`), `verdict.layer: "cat"`},
		{"no layer", report(`"layer":"server",`, ``), `verdict.layer: ""`},
		{"confidence", report("0.5", "1.5"), "verdict.confidence: 1.5, want 0 to 1"},
		{"share", report(`"share":1`, `"share":-1`), "verdict.blame[0].share: -1"},
		{"layer of blame", report(`[{"layer":"server"`, `[{"layer":"x"`), `verdict.blame[0].layer: "x"`},
		{"TTL", report(`{"ttl":1`, `{"ttl":0`), "trace.hops[0].ttl: 0, want 1 to 255"},
		{"loss", report(`"loss":0`, `"loss":2`), "trace.hops[0].loss: 2"},
		{"loss of 1e300", report(`"loss":0`, `"loss":1e300`), "trace.hops[0].loss: 1e+300, want 0 to 1"},
		{"milliseconds of 1e300", report(`"share":1`, `"share":1,"ms":1e300`), "verdict.blame[0].ms: 1e+300 is out of range"},
		{"saving of -1e300", report(`"share":1`, `"saves_ms":-1e300`), "verdict.blame[0].saves_ms: -1e+300 is out of range"},
		{"loss at the destination", report(`"trace":{`, `"trace":{"destination":{"loss":-1},`), "trace.destination.loss: -1, want 0 to 1"},
		{"bound of a loss", report(`"loss":0`, `"loss":0,"direct":{"loss_high":7}`), "trace.hops[0].direct.loss_high: 7, want 0 to 1"},
		{"type deep inside", report("1.5", `"x"`), "trace.hops[0].replies[0].median_ms: "},
		{"range deep inside", report("1.5", `1e300`), "trace.hops[0].replies[0].median_ms: millis: 1e+300 ms is out of range"},
		{"address", report(`"addr":""`, `"addr":"300.1.1.1"`), "pmtu.limiter.addr: "},
		{"whole number", report(`"ttl":3`, `"ttl":3.5`), "pmtu.limiter.ttl: 3.5 is not a whole number"},
		{"list for an object", report(`"tool":{}`, `"tool":[]`), "tool: [] is not an object"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := render.ReadReport(strings.NewReader(tt.in))
			if err == nil {
				t.Fatal("no error")
			}
			if !strings.HasPrefix(err.Error(), "render: reading report: ") || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %q, want %q in it", err, tt.want)
			}
		})
	}
}

// A result of nothing but its schema was shown as an empty page.
func TestReadResultMissesNothing(t *testing.T) {
	read := map[string]func(string) error{
		trace.Schema: func(s string) error {
			_, err := render.ReadResult[trace.Result](strings.NewReader(s), trace.Schema)
			return err
		},
		pmtu.Schema: func(s string) error {
			_, err := render.ReadResult[pmtu.Result](strings.NewReader(s), pmtu.Schema)
			return err
		},
		dnscheck.Schema: func(s string) error {
			_, err := render.ReadResult[dnscheck.Result](strings.NewReader(s), dnscheck.Schema)
			return err
		},
		httpcheck.Schema: func(s string) error {
			_, err := render.ReadResult[httpcheck.Result](strings.NewReader(s), httpcheck.Schema)
			return err
		},
	}
	tests := []struct{ schema, rest, want string }{
		{trace.Schema, ``, "target: missing"},
		{trace.Schema, `,"target":{}`, "hops: missing"},
		{trace.Schema, `,"target":{},"hops":[]`, ""},
		{trace.Schema, `,"target":{},"hops":{}`, "hops: {} is not a list"},
		{pmtu.Schema, `,"target":{}`, "mtu: missing"},
		{pmtu.Schema, `,"target":{},"mtu":null`, ""},
		{dnscheck.Schema, `,"name":"h"`, "stub: missing"},
		{dnscheck.Schema, `,"name":"h","stub":null`, ""},
		{httpcheck.Schema, `,"url":"http://h/"`, "samples: missing"},
		{httpcheck.Schema, `,"url":"http://h/","samples":[]`, ""},
	}
	for _, tt := range tests {
		err := read[tt.schema](`{"schema":"` + tt.schema + `"` + tt.rest + `}`)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s%s: error %v, want %q", tt.schema, tt.rest, err, tt.want)
		}
	}
}

func TestReadReportBounds(t *testing.T) {
	if _, err := render.ReadReport(strings.NewReader(strings.Repeat(" ", 17<<20))); err == nil || !strings.Contains(err.Error(), "longer than 16 MiB") {
		t.Errorf("17 MiB: %v", err)
	}
	many := `{"schema":"whyslow/report/1","http":{"samples":[` + strings.Repeat("{},", 200_000) + `{}]}}`
	if _, err := render.ReadReport(strings.NewReader(many)); err == nil || !strings.Contains(err.Error(), "more than 131072 values") {
		t.Errorf("200,001 samples: %v", err)
	}
	// What looks like structure inside a string is none.
	text := report(`"tool":{}`, `"tool":{"name":"`+strings.Repeat(`,[{\"`, 100_000)+`"}`)
	if _, err := render.ReadReport(strings.NewReader(text)); err != nil {
		t.Errorf("a long string: %v", err)
	}
	broken := errors.New("broken pipe")
	if _, err := render.ReadReport(iotest.ErrReader(broken)); !errors.Is(err, broken) {
		t.Errorf("a failing reader: %v", err)
	}
}

func TestReadReportAccepts(t *testing.T) {
	for name, in := range map[string]string{
		"small":                       report("", ""),
		"keys of a later version":     report(`"tool":{}`, `"tool":{"colour":"red"},"weather":[1,2]`),
		"interrupted before verdict":  report(`"layer":"server","component":"body"`, `"layer":""`)[:0] + report(`"verdict":{"layer":"server","component":"body","confidence":0.5,"blame":[{"layer":"server","share":1}]},`, `"interrupted":true,`),
		"shares that sum by rounding": report(`"share":1`, `"share":1.0000000001`),
	} {
		if _, err := render.ReadReport(strings.NewReader(in)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A report survives writing and reading, whatever its strings hold.
func TestRoundTrip(t *testing.T) {
	for _, name := range samples(t) {
		want := readSample(t, name)
		want.Environment.Notes = append(want.Environment.Notes, "\x1b[31m \u009b \u202e \U000e0041 <b> & \\u001b \ufffd")
		var b bytes.Buffer
		if err := render.JSON(&b, want, render.Options{}); err != nil {
			t.Fatal(err)
		}
		if i := bytes.IndexFunc(b.Bytes(), func(r rune) bool { return r == 0x9b || r == 0x202e || r == 0xe0041 || r == '<' }); i >= 0 {
			t.Errorf("%s: %q in JSON", name, b.Bytes()[i:i+4])
		}
		got, err := render.ReadReport(&b)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, compare()...); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func FuzzReadReport(f *testing.F) {
	// Small seeds: the fuzzer minimises what it finds, which takes a minute for
	// a whole report.
	seed, err := os.ReadFile("testdata/failed-nxdomain.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Add([]byte(report("", "")))
	f.Add([]byte(report("192.0.2.1", `fe80::1%\u001b[2J<b>`)))
	f.Fuzz(func(t *testing.T, in []byte) {
		r, err := render.ReadReport(bytes.NewReader(in))
		if err != nil {
			return
		}
		for _, name := range render.Names() {
			if err := write(t, name, r, render.Options{Width: len(in) % 200, Verbose: true}); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		first := mustJSON(t, r)
		again, err := render.ReadReport(bytes.NewReader(first))
		if err != nil {
			t.Fatalf("reading what was written: %v\n%s", err, first)
		}
		if second := mustJSON(t, again); !bytes.Equal(first, second) {
			t.Errorf("not stable:\n%s", cmp.Diff(string(first), string(second)))
		}
	})
}

func mustJSON(t testing.TB, r *reports.Report) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := render.JSON(&b, r, render.Options{}); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// write writes r in the named form and checks what holds for every output.
func write(t testing.TB, form string, r *reports.Report, opt render.Options) error {
	t.Helper()
	fn, err := render.ByName(form)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := fn(&b, r, opt); err != nil {
		return err
	}
	return checkOutput(form, b.String())
}

func checkOutput(form, out string) error {
	for _, r := range out {
		if r != '\n' && (r < 0x20 || r >= 0x7f && r < 0xa0 || r == 0x202e || r == 0x200b || r == 0xfeff) {
			return fmt.Errorf("%U in the output", r)
		}
	}
	switch {
	case form == "markdown" && len(out) >= 65536:
		return fmt.Errorf("%d bytes of Markdown", len(out))
	case form == "html" && len(out) >= 1_000_000:
		return fmt.Errorf("%d bytes of HTML", len(out))
	case form == "markdown":
		return checkMarkdown(out)
	case form == "html":
		return checkHTML(out)
	}
	return nil
}
