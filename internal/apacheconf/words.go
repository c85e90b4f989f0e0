package apacheconf

import "strings"

// words splits the arguments of a directive as ap_getword_conf does: by white
// space, a word that begins with a quote ends at the next one; a backslash
// hides a quote of that kind or another backslash.
func words(s string) (args []string) {
	for {
		s = strings.TrimLeft(s, " \t")
		if s == "" {
			return args
		}
		w, rest := word(s)
		args, s = append(args, w), rest
	}
}

func word(s string) (w, rest string) {
	quote := byte(0)
	if s[0] == '"' || s[0] == '\'' {
		quote, s = s[0], s[1:]
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '\\' && i+1 < len(s) && (s[i+1] == '\\' || quote != 0 && s[i+1] == quote):
			i++
			b.WriteByte(s[i])
		case quote != 0 && c == quote, quote == 0 && (c == ' ' || c == '\t'):
			return b.String(), s[i+1:]
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), ""
}

// line is a logical line: continuations joined.
type line struct {
	text   string
	number int // of its first physical line
}

// logical joins continued lines, and leaves out blank ones and comments. A
// comment that ends in a backslash goes on, as in httpd.
func logical(text string) (lines []line) {
	var held strings.Builder
	start, n := 0, 0
	flush := func() {
		t := strings.TrimSpace(held.String())
		held.Reset()
		if t != "" && t[0] != '#' {
			lines = append(lines, line{t, start})
		}
		start = 0
	}
	for l := range strings.Lines(text) {
		n++
		if start == 0 {
			start = n
		}
		l = strings.TrimRight(l, "\r\n")
		if body, ok := strings.CutSuffix(l, `\`); ok {
			held.WriteString(body)
			continue
		}
		held.WriteString(l)
		flush()
	}
	flush()
	return lines
}
