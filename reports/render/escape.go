package render

import (
	"fmt"
	"iter"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/rivo/uniseg"
)

const (
	// maxText bounds every string of a report that is shown, in columns: room
	// for a long URL, none for a flood.
	maxText = 1024
	// maxMarks is how many combining marks one character may carry. Stacks of
	// them are drawn over the lines above.
	maxMarks = 3
	// maxCluster bounds what is taken as one character, in bytes.
	maxCluster = 32
	ellipsis   = "…"
)

// Terminal makes s safe to print on a terminal: one line of at most width
// columns (zero means 1024), in which whatever a terminal would obey or hide is
// visible: ESC as \x1b, a line break as \n, a C1 control or a bidirectional
// override as \u202e, a byte that is not UTF-8 as \xff. Text that is cut ends
// in an ellipsis. A backslash stays as it is.
func Terminal(s string, width int) string {
	if width <= 0 {
		width = maxText
	}
	if len(s) <= width && ascii(s) {
		return s
	}
	var b strings.Builder
	total, fits := 0, 0 // columns so far; bytes of b that leave room for the ellipsis
	for piece, w := range pieces(s) {
		if total+w > width {
			return b.String()[:fits] + ellipsis
		}
		b.WriteString(piece)
		if total += w; total < width {
			fits = b.Len()
		}
	}
	return b.String()
}

// visible is Terminal for a string that is laid out later.
func visible(s string) string { return Terminal(s, maxText) }

// cut shortens text that is already visible to width columns.
func cut(s string, width int) string {
	if width <= 0 {
		return ""
	}
	return Terminal(s, width)
}

// cutMiddle shortens visible text to width columns and keeps both its ends.
func cutMiddle(s string, width int) string {
	total := columns(s)
	if total <= width || width < 3 {
		return cut(s, width)
	}
	head, rest := split(s, width*2/3) // names differ at the front more often
	drop := columns(rest) - (width - columns(head) - columns(ellipsis))
	for piece, w := range pieces(rest) {
		if drop <= 0 {
			break
		}
		drop -= w
		rest = rest[len(piece):]
	}
	return head + ellipsis + rest
}

// columns returns how many columns visible text takes on a terminal.
func columns(s string) int {
	if ascii(s) {
		return len(s)
	}
	total := 0
	for _, w := range pieces(s) {
		total += w
	}
	return total
}

// ascii reports whether s is printable ASCII, one column a byte.
func ascii(s string) bool {
	for i := range len(s) {
		if s[i] < 0x20 || s[i] >= 0x7f {
			return false
		}
	}
	return true
}

// shown reports whether a terminal shows r as something of its own: not a
// control, not invisible, not a space that is no ordinary one.
func shown(r rune) bool {
	if r < 0x7f {
		return r >= 0x20
	}
	return unicode.IsPrint(r) && !unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// pieces splits s into parts that must not be cut, with their width in
// columns: characters with their combining marks, and escapes of what is not
// shown.
func pieces(s string) iter.Seq2[string, int] {
	return func(yield func(string, int) bool) {
		for len(s) > 0 {
			n := plainPrefix(s)
			for plain := s[:n]; len(plain) > 0; {
				cluster, width := firstCluster(plain)
				if !yield(cluster, max(width, 1)) {
					return
				}
				plain = plain[len(cluster):]
			}
			if s = s[n:]; len(s) == 0 {
				return
			}
			r, size := utf8.DecodeRuneInString(s)
			esc := escapeRune(r, s[:size])
			if !yield(esc, len(esc)) {
				return
			}
			s = s[size:]
		}
	}
}

// firstCluster returns the first character of s with what belongs to it, and
// its width. An endless one is taken apart, or it would pass any bound.
func firstCluster(s string) (cluster string, width int) {
	if s[0] < utf8.RuneSelf && (len(s) == 1 || s[1] < utf8.RuneSelf) {
		return s[:1], 1
	}
	// Looking no further keeps the work linear.
	cluster, _, width, _ = uniseg.FirstGraphemeClusterInString(s[:min(len(s), 2*maxCluster)], -1)
	if len(cluster) > maxCluster {
		_, size := utf8.DecodeRuneInString(s)
		cluster = s[:size]
		width = uniseg.StringWidth(cluster)
	}
	return cluster, width
}

// plainPrefix returns the length of the longest prefix of s that needs no
// escape.
func plainPrefix(s string) int {
	marks := maxMarks // a mark needs a character before it
	for i, r := range s {
		if r == utf8.RuneError {
			if _, size := utf8.DecodeRuneInString(s[i:]); size == 1 {
				return i
			}
		}
		if !shown(r) {
			return i
		}
		if !unicode.Is(unicode.M, r) {
			marks = 0
		} else if marks++; marks > maxMarks {
			return i
		}
	}
	return len(s)
}

// escapeRune writes a rune that is not shown, read from raw, in ASCII.
func escapeRune(r rune, raw string) string {
	switch {
	case r == utf8.RuneError && len(raw) == 1:
		return fmt.Sprintf(`\x%02x`, raw[0])
	case r == '\n':
		return `\n`
	case r == '\r':
		return `\r`
	case r == '\t':
		return `\t`
	case r < 0x80:
		return fmt.Sprintf(`\x%02x`, r)
	case r <= 0xffff:
		return fmt.Sprintf(`\u%04x`, r)
	}
	return fmt.Sprintf(`\U%08x`, r)
}
