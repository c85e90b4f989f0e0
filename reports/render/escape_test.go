package render

import (
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestTerminal(t *testing.T) {
	tests := []struct {
		name  string
		in    string
		width int
		want  string
	}{
		{"plain", "nginx/1.26.2", 0, "nginx/1.26.2"},
		{"empty", "", 0, ""},
		{"escape sequence", "a\x1b[31mred", 0, `a\x1b[31mred`},
		{"clipboard write", "\x1b]52;c;Zm9v\a", 0, `\x1b]52;c;Zm9v\x07`},
		{"line break and return", "a\r\nb\tc", 0, `a\r\nb\tc`},
		{"delete", "a\x7f", 0, `a\x7f`},
		{"C1 control sequence introducer", "a\u009b31m", 0, `a\u009b31m`},
		{"raw C1 byte", "a\x9b31m", 0, `a\x9b31m`},
		{"right-to-left override", "gpj.\u202eexe", 0, `gpj.\u202eexe`},
		{"isolate", "\u2066x\u2069", 0, `\u2066x\u2069`},
		{"zero width", "goo\u200bgle\ufeff", 0, `goo\u200bgle\ufeff`},
		{"soft hyphen", "a\u00adb", 0, `a\u00adb`},
		{"no-break space", "a\u00a0b", 0, `a\u00a0b`},
		{"line separator", "a\u2028b", 0, `a\u2028b`},
		{"Hangul filler", "a\u3164b", 0, `a\u3164b`},
		{"tag characters", "a\U000e0041", 0, `a\U000e0041`},
		{"private use", "\ue000", 0, `\ue000`},
		{"replacement character itself", "\ufffd", 0, "\ufffd"},
		{"variation selector", "☎\ufe0f", 0, `☎\ufe0f`},
		{"letters with marks", "ẹ́ été", 0, "ẹ́ été"},
		{"a stack of marks", "a" + strings.Repeat("\u0301", 5), 0, "a\u0301\u0301\u0301" + `\u0301\u0301`},
		{"a mark with nothing under it", "\u0301a", 0, `\u0301a`},
		{"wide characters", "日本語", 5, "日本…"},
		{"wide characters that fit", "日本語", 6, "日本語"},
		{"wide at the edge", "日本語", 4, "日…"},
		{"cut", "abcdef", 4, "abc…"},
		{"fits exactly", "abcd", 4, "abcd"},
		{"an escape is not cut", "abc\x1bd", 6, "abc…"},
		{"one column", "abc", 1, "…"},
		{"backslash stays", `a\x1b`, 0, `a\x1b`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := Terminal(tt.in, tt.width); got != tt.want {
				t.Errorf("Terminal(%q, %d) = %q, want %q", tt.in, tt.width, got, tt.want)
			}
		})
	}
}

func TestTerminalIsBounded(t *testing.T) {
	for name, s := range map[string]string{
		"letters": strings.Repeat("a", 1<<20),
		"escapes": strings.Repeat("\x1b", 1<<20),
		"marks":   "a" + strings.Repeat("\u0301", 1<<20),
		"spacing": "क" + strings.Repeat("\u093e", 1<<20),
		"Hangul":  strings.Repeat("\u1100", 1<<20),
		"flags":   strings.Repeat("🇩", 1<<18),
	} {
		if got := Terminal(s, 0); columns(got) > maxText || len(got) > maxText*16 {
			t.Errorf("%s: %d columns in %d bytes", name, columns(got), len(got))
		}
	}
}

func TestMarkdownProse(t *testing.T) {
	tests := []struct{ in, want string }{
		{"The network loses 4 % of packets.", "The network loses 4 % of packets."},
		{"198.51.100.77 (hop 4), link 3-4", "198.51.100.77 (hop 4), link 3-4"},
		{"wait > 100 ms & more", "wait > 100 ms & more"},
		{"ask gw.isp.example, then stop.", "ask `gw.isp.example`, then stop."},
		{"(www.example.com)", "(`www.example.com`)"},
		{"at https://example.com/?a=b&c", "at `https://example.com/?a=b&c`"},
		{"ping @torvalds now", "ping `@torvalds` now"},
		{"mail a@b.example", "mail `a@b.example`"},
		{"see #12 and GH-12", "see `#12` and `GH-12`"},
		{"**bold** _it_ ~~gone~~", "`**bold**` `_it_` `~~gone~~`"},
		{"![x](http://evil.example/y.png)", "`![x](http://evil.example/y.png`)"},
		{"[a b](javascript:alert)", "`[a` `b](javascript:alert`)"},
		{"<script>alert(1)</script>", "`‹script>alert(1)‹/script>`"},
		{"<!channel> <@U1>", "`‹!channel>` `‹@U1>`"},
		{"a|b", "`a|b`"},
		{"tick ` tock ``", "tick `'` tock `''`"},
		{"&lt;b", "`&lt;b`"},
		{`back\slash`, "`back\\slash`"},
		{"2001:db8::1", "`2001:db8::1`"},
		{":smile:", "`:smile`:"},
		{"- item", "`-` item"},
		{"1. item", "`1`. item"},
		{"> quote", "`>` quote"},
		{"# head", "`#` head"},
		{"=== ===", "`===` ==="},
		{"{code} {noformat}", "`{code}` `{noformat}`"},
		{"", ""},
		{"a  b", "a b"},
	}
	for _, tt := range tests {
		if got := markdownProse(tt.in); got != tt.want {
			t.Errorf("markdownProse(%q)\n got %q\nwant %q", tt.in, got, tt.want)
		}
	}
}

func TestMarkdownBlock(t *testing.T) {
	tests := []struct{ in, want string }{
		{"```", "'''"},
		{"a < b, 1<2", "a < b, 1<2"},
		{"<img src=x>", "‹img src=x>"},
		{"</pre> <!-- <@U1 <#C1", "‹/pre> ‹!-- ‹@U1 ‹#C1"},
		{"end <", "end <"},
	}
	for _, tt := range tests {
		got := markdownBlock(tt.in)
		if got != tt.want {
			t.Errorf("markdownBlock(%q) = %q, want %q", tt.in, got, tt.want)
		}
		if columns(got) != columns(tt.in) {
			t.Errorf("markdownBlock(%q) changes the width", tt.in)
		}
	}
}

// hostile are texts that a peer may send, the seeds of the fuzz targets.
func hostile() []string {
	return []string{
		"\x1b]0;owned\x07\x1b[2J", "\u009b31m", "\u202e\u2066", "\xff\xfe", "a\u0301\u0301\u0301\u0301",
		"<script>alert(1)</script>", "\"><img src=x onerror=alert(1)>", "</style>", "]]>", "{{.}}",
		"```\n# x", "`` ` ``", "[x](http://evil.example)", "![x](y)", "@everyone", "<!channel>", "a|b", "  - x", "1) x", "\\`x`",
		"javascript:alert(1)", "日本語\u200d", strings.Repeat("🇩", 9),
	}
}

// checkVisible fails if s could do anything on a terminal but stand there.
func checkVisible(t *testing.T, s string) {
	t.Helper()
	if !utf8.ValidString(s) {
		t.Errorf("not UTF-8: %q", s)
	}
	for _, r := range s {
		if unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Co) || !shown(r) {
			t.Errorf("%U in %q", r, s)
		}
	}
}

func FuzzTerminal(f *testing.F) {
	for i, s := range hostile() {
		f.Add(s, i)
	}
	f.Fuzz(func(t *testing.T, s string, width int) {
		width %= 2000
		got := Terminal(s, width)
		checkVisible(t, got)
		bound := width
		if bound <= 0 {
			bound = maxText
		}
		if w := columns(got); w > bound {
			t.Errorf("%d columns, bound %d: %q", w, bound, got)
		}
		if again := Terminal(got, width); again != got {
			t.Errorf("not stable: %q, then %q", got, again)
		}
	})
}

var codeSpan = regexp.MustCompile("`[^`]+`")

func FuzzMarkdown(f *testing.F) {
	for _, s := range hostile() {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		s = visible(s)
		prose := markdownProse(s)
		checkVisible(t, prose)
		bare := codeSpan.ReplaceAllString(prose, "")
		if i := strings.IndexAny(bare, "`*_[]{}|~#@!\\$^"); i >= 0 {
			t.Errorf("%q outside code in %q", bare[i], prose)
		}
		if strings.Contains(bare, "://") || regexp.MustCompile(`<[^ ]|&[^ ]|\.[A-Za-z]`).MatchString(bare) {
			t.Errorf("tag, entity or link outside code in %q", prose)
		}
		if regexp.MustCompile(`^ {0,3}([-+>=]|\d+[.)])( |$)`).MatchString(prose) {
			t.Errorf("%q begins a block", prose)
		}
		for _, code := range []string{markdownBlock(s), markdownCode(s)} {
			inner := strings.Trim(code, "`")
			if strings.Contains(inner, "`") || regexp.MustCompile(`<[A-Za-z/!?@#]`).MatchString(inner) {
				t.Errorf("%q in code", inner)
			}
		}
	})
}
