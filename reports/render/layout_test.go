package render

import (
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whyslow/whyslow/internal/millis"
)

func TestTableFitsThePage(t *testing.T) {
	newTable := func() *table {
		out := &table{cols: []column{
			{head: "n", right: true}, {head: "name", flex: true}, {head: "ms", right: true}, {chart: true, drop: 2}, {head: "why", flex: true, drop: 1}, {below: true},
		}, indent: 2, full: 100}
		out.addSpan(span{0, 50}, cell{text: "1"}, cell{text: "gateway.example"}, cell{text: "0.5"}, cell{style: accent}, cell{text: "because it is there"}, cell{})
		out.addSpan(span{50, 50}, cell{text: "12"}, cell{text: "日本語.example"}, cell{text: "123.0"}, cell{style: accent}, cell{text: ""},
			cell{text: "a note that needs more room than there is on a narrow page"})
		return out
	}
	tests := []struct {
		width int
		want  string
	}{
		{72, `
   n  name                ms                         why
   1  gateway.example    0.5  ██████████▌            because it is there
  12  日本語.example   123.0            ██████████▌
    a note that needs more room than there is on a narrow page
`},
		{40, `
   n  name             ms  why
   1  gateway.…ple    0.5  because …here
  12  日本語.e…ple  123.0
    a note that needs more room than
      there is on a narrow page
`},
	}
	for _, tt := range tests {
		s := newSheet(Options{Width: tt.width})
		newTable().write(s)
		got := "\n" + s.b.String()
		for line := range strings.Lines(got) {
			if w := columns(strings.TrimSuffix(line, "\n")); w > tt.width {
				t.Errorf("width %d: a line of %d columns: %q", tt.width, w, line)
			}
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("width %d (-want +got):\n%s", tt.width, diff)
		}
	}
}

func TestParaBreaksLongWords(t *testing.T) {
	s := newSheet(Options{Width: 40})
	s.para("> ", "  ", cell{text: "see"}, cell{text: strings.Repeat("0123456789", 9)})
	want := "> see\n  01234567890123456789012345678901234567\n  89012345678901234567890123456789012345\n  67890123456789\n"
	if diff := cmp.Diff(want, s.b.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestBars(t *testing.T) {
	tests := []struct {
		start, value, full float64
		width              int
		want               string
	}{
		{0, 100, 100, 4, "████"},
		{0, 50, 100, 4, "██"},
		{0, 1, 100, 4, "▏"},
		{0, 0, 100, 4, ""},
		{0, -1, 100, 4, ""},
		{0, 5, 0, 4, ""},
		{50, 50, 100, 4, "  ██"},
		{100, 1, 100, 4, "   ▏"},
		{0, 200, 100, 4, "████"},
		{0, millis.Value{}.Float(), 100, 4, ""},
		{millis.Value{}.Float(), 50, 100, 4, "██"},
	}
	for _, tt := range tests {
		if got := barAt(tt.start, tt.value, tt.full, tt.width); got != tt.want {
			t.Errorf("barAt(%v, %v, %v, %d) = %q, want %q", tt.start, tt.value, tt.full, tt.width, got, tt.want)
		}
	}
}

func TestWords(t *testing.T) {
	for p, want := range map[float64]string{
		1: "almost certain (confidence 1.00)", 0.95: "almost certain (confidence 0.95)", 0.9: "very likely (confidence 0.90)",
		0.8: "likely (confidence 0.80)", 0.5: "more likely than not (confidence 0.50)", 0.2: "a guess (confidence 0.20)",
	} {
		if got := confidence(p); got != want {
			t.Errorf("confidence(%v) = %q, want %q", p, got, want)
		}
	}
	for x, want := range map[float64]string{0: "0 %", 0.0004: "<0.1 %", 0.042: "4.2 %", 0.0999: "10 %", 0.333: "33 %", 1: "100 %"} {
		if got := percent(x); got != want {
			t.Errorf("percent(%v) = %q, want %q", x, got, want)
		}
	}
	argv := []string{"whyslow", "report", "https://h/?a=b&c", "it's", "", "--json"}
	if got, want := shellQuote(argv), `whyslow report 'https://h/?a=b&c' 'it'\''s' '' --json`; got != want {
		t.Errorf("shellQuote = %s, want %s", got, want)
	}
}

// The text colours of the page keep the contrast of WCAG 2.1 level AA on the
// cards, in both themes.
func TestPageContrast(t *testing.T) {
	light, dark, found := strings.Cut(pageCSS, "@media (prefers-color-scheme: dark)")
	if !found {
		t.Fatal("no dark theme")
	}
	for theme, css := range map[string]string{"light": light, "dark": dark} {
		colors := map[string]string{}
		for _, m := range regexp.MustCompile(`--([a-z-]+): (#[0-9a-f]{3,6})`).FindAllStringSubmatch(css, -1) {
			if _, ok := colors[m[1]]; !ok { // the print theme comes later
				colors[m[1]] = m[2]
			}
		}
		for _, pair := range [][2]string{
			{"ink", "card"}, {"soft", "card"}, {"soft", "bg"}, {"network", "card"}, {"dns", "card"}, {"server", "card"}, {"client", "card"},
			{"none", "card"}, {"inconclusive", "card"}, {"amber-ink", "amber"}, {"ink", "track"}, {"soft", "track"},
		} {
			if got := contrast(t, colors[pair[0]], colors[pair[1]]); got < 4.5 {
				t.Errorf("%s: %s on %s has contrast %.2f, want 4.5", theme, pair[0], pair[1], got)
			}
		}
	}
}
