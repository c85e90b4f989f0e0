package render

import (
	"strings"
)

// style is how a terminal shows a piece of text. The zero style is plain.
type style uint8

const (
	plain style = iota
	bold
	dim
	good
	bad
	warn
	accent
	violet
)

// sgr are the parameters of SGR (ECMA-48 8.3.117). The eight basic colours
// follow the terminal's own theme and so are readable on light and dark.
func (s style) sgr() string {
	switch s {
	case bold:
		return "1"
	case dim:
		return "2"
	case good:
		return "32"
	case bad:
		return "1;31"
	case warn:
		return "33"
	case accent:
		return "36"
	case violet:
		return "35"
	}
	return ""
}

// cell is visible text in one style.
type cell struct {
	text  string
	style style
}

// sheet is a page of lines of visible text, none wider than width where it can
// be helped.
type sheet struct {
	b     strings.Builder
	width int
	color bool
	// untitled says that the title of the next heading stands elsewhere.
	untitled bool
	headed   bool // the last line was a heading
}

// newSheet returns an empty page for opt.
func newSheet(opt Options) *sheet {
	s := &sheet{width: opt.Width, color: opt.Color}
	if s.width <= 0 {
		s.width = 80
	}
	s.width = max(s.width, 40) // below that nothing is aligned anyway
	return s
}

// paint returns c as the terminal wants it.
func (s *sheet) paint(c cell) string {
	if !s.color || c.style == plain || c.text == "" {
		return c.text
	}
	return "\x1b[" + c.style.sgr() + "m" + c.text + "\x1b[0m"
}

// line writes cells one after the other, cut at the edge of the page.
func (s *sheet) line(cells ...cell) {
	s.headed = false
	room := s.width
	var out strings.Builder
	for i, c := range cells {
		if i == len(cells)-1 {
			c.text = strings.TrimRight(c.text, " ")
		}
		if w := columns(c.text); w > room {
			c.text, room = cut(c.text, room), 0
		} else {
			room -= w
		}
		out.WriteString(s.paint(c))
	}
	s.b.WriteString(strings.TrimRight(out.String(), " "))
	s.b.WriteByte('\n')
}

// gap writes an empty line unless the page is empty or ends in one or in a
// heading.
func (s *sheet) gap() {
	if s.headed {
		return
	}
	if t := s.b.String(); t != "" && !strings.HasSuffix(t, "\n\n") {
		s.b.WriteByte('\n')
	}
}

// heading begins a section, with a note on what it shows.
func (s *sheet) heading(title, note string) {
	s.headed = false
	s.gap()
	switch untitled := s.untitled; {
	case untitled && note == "":
	case untitled:
		s.para("", "", cell{note, dim})
	case note == "":
		s.line(cell{title, bold})
	case columns(title)+2+columns(note) <= s.width:
		s.line(cell{title, bold}, cell{"  " + note, dim})
	default:
		s.line(cell{title, bold})
		s.para("  ", "  ", cell{note, dim})
	}
	s.untitled, s.headed = false, true
}

// para writes words wrapped to the page; the first line begins with lead, the
// others with hang.
func (s *sheet) para(lead, hang string, cells ...cell) { s.hung(cell{text: lead}, hang, cells...) }

// hung is para with a lead in a style of its own.
func (s *sheet) hung(lead cell, hang string, cells ...cell) {
	s.headed = false
	line := []cell{lead}
	used, empty := columns(lead.text), true
	flush := func() {
		var out strings.Builder
		for _, c := range line {
			out.WriteString(s.paint(c))
		}
		s.b.WriteString(strings.TrimRight(out.String(), " "))
		s.b.WriteByte('\n')
		line, used, empty = []cell{{text: hang}}, columns(hang), true
	}
	put := func(word string, st style) {
		if !empty {
			word = " " + word
		}
		// Words in one style share one pair of escape sequences.
		if last := &line[len(line)-1]; last.style == st {
			last.text += word
		} else {
			line = append(line, cell{word, st})
		}
		used, empty = used+columns(word), false
	}
	for _, c := range cells {
		for _, word := range wordsOf(c.text) {
			if !empty && used+1+columns(word) > s.width {
				flush()
			}
			// A word longer than a line is broken, not cut: it may be the evidence.
			for used+columns(word) > s.width {
				head, tail := split(word, s.width-used)
				put(head, c.style)
				flush()
				word = tail
			}
			if word != "" {
				put(word, c.style)
			}
		}
	}
	if !empty {
		flush()
	}
}

// wordsOf splits a text where a line may break: not between a number and its
// unit.
func wordsOf(text string) []string {
	var words []string
	for _, w := range strings.Fields(text) {
		if last := len(words) - 1; last >= 0 && unit(w) && numeric(words[last]) {
			words[last] += " " + w
			continue
		}
		words = append(words, w)
	}
	return words
}

// unit reports whether a word is a unit, perhaps with punctuation behind it.
func unit(word string) bool {
	switch strings.TrimRight(word, ".,;:)") {
	case "%", "ms", "s", "min", "bytes":
		return true
	}
	return false
}

func numeric(word string) bool {
	last := word[len(word)-1]
	return last >= '0' && last <= '9'
}

// split breaks visible text after at most width columns, but after one
// character at least.
func split(s string, width int) (head, tail string) {
	used, n := 0, 0
	for piece, w := range pieces(s) {
		if n > 0 && used+w > width {
			break
		}
		used += w
		n += len(piece)
	}
	return s[:n], s[n:]
}

// pad fills visible text to width columns.
func pad(s string, width int, right bool) string {
	fill := strings.Repeat(" ", max(width-columns(s), 0))
	if right {
		return fill + s
	}
	return s + fill
}
