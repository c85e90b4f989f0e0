package live

import (
	"strings"
	"unicode/utf8"

	"github.com/rivo/uniseg"

	"github.com/whyslow/whyslow/reports/render"
)

// Style is how a piece of text looks. Without colours only bold, dim and
// reverse are left of it.
type Style uint8

// The styles.
const (
	Plain Style = iota
	Bold
	Dim
	Good
	Warn
	Bad
	Accent
	Chosen // the selected hop
	Notice // a state that must not be overlooked
)

// Span is visible text in one style.
type Span struct {
	Text  string
	Style Style
}

// Line is one line of the screen.
type Line []Span

// String is the line without its styles.
func (l Line) String() string {
	var b strings.Builder
	for _, s := range l {
		b.WriteString(s.Text)
	}
	return b.String()
}

// Text is a screen without its styles, lines without trailing spaces.
func Text(lines []Line) string {
	var b strings.Builder
	for _, l := range lines {
		b.WriteString(strings.TrimRight(l.String(), " "))
		b.WriteByte('\n')
	}
	return b.String()
}

// safe makes what comes from outside harmless, and bounds it.
func safe(s string) string { return render.Terminal(s, 0) }

// characters splits visible text into characters with their widths in columns.
func characters(s string, yield func(char string, width int) bool) {
	for s != "" {
		char, width := s[:1], 1 // what most are: nothing joins two ASCII characters of visible text
		if s[0] >= utf8.RuneSelf || len(s) > 1 && s[1] >= utf8.RuneSelf {
			char, _, width, _ = uniseg.FirstGraphemeClusterInString(s, -1)
		}
		s = s[len(char):]
		if !yield(char, max(width, 1)) {
			return
		}
	}
}

// columns is the width of visible text.
func columns(s string) int {
	n := 0
	characters(s, func(_ string, w int) bool { n += w; return true })
	return n
}

// cut shortens visible text to a width.
func cut(s string, width int) string {
	if width <= 0 {
		return ""
	}
	if len(s) <= width || columns(s) <= width {
		return s
	}
	used, fits := 0, 0
	characters(s, func(c string, w int) bool {
		if used+w > width-1 {
			return false
		}
		used += w
		fits += len(c)
		return true
	})
	return s[:fits] + "…"
}

// pad cuts or fills visible text to exactly a width.
func pad(s string, width int, right bool) string {
	s = cut(s, width)
	fill := strings.Repeat(" ", max(width-columns(s), 0))
	if right {
		return fill + s
	}
	return s + fill
}

// fit cuts a line to a width.
func (l Line) fit(width int) Line {
	var out Line
	for _, s := range l {
		if width <= 0 {
			break
		}
		if s.Text = cut(s.Text, width); s.Text != "" {
			width -= columns(s.Text)
			out = append(out, s)
		}
	}
	return out
}

// wrap breaks words to a width; the first line begins with lead, the others
// are indented as far.
func wrap(lead Span, text string, style Style, width int) []Line {
	indent := columns(lead.Text)
	if width-indent < 12 { // too narrow for an indent
		lead.Text, indent = strings.TrimLeft(lead.Text, " "), 0
	}
	var lines []Line
	line, used := Line{lead}, columns(lead.Text)
	var words strings.Builder
	flush := func() {
		line = append(line, Span{words.String(), style})
		lines = append(lines, line.fit(width))
		line, used = Line{{Text: strings.Repeat(" ", indent)}}, indent
		words.Reset()
	}
	for _, word := range strings.Fields(text) {
		w := columns(word)
		if words.Len() > 0 && used+1+w > width {
			flush()
		} else if words.Len() > 0 {
			words.WriteByte(' ')
			used++
		}
		words.WriteString(word)
		used += w
	}
	if words.Len() > 0 || len(lines) == 0 {
		flush()
	}
	return lines
}
