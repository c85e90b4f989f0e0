package render

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Markdown has no escape that GitHub, Slack and Jira all honour: a backslash
// is shown by one, a character entity by another, and mentions and links are
// found after both have been undone. What all of them leave alone is code. So
// prose keeps its plain words, and a word with anything special in it becomes
// a code span; tables are code blocks.

// markdownProse makes visible text safe inside a paragraph or list item.
func markdownProse(s string) string {
	words := strings.Fields(s) // spaces at the start would make it code
	for i, word := range words {
		words[i] = markdownWord(word, i == 0)
	}
	return strings.Join(words, " ")
}

// markdownWord writes a word without spaces; first says that a list or heading
// mark would be one here.
func markdownWord(word string, first bool) string {
	core := strings.TrimLeft(word, "(")
	lead := word[:len(word)-len(core)]
	core = strings.TrimRight(core, ".,;:)")
	trail := word[len(lead)+len(core):]
	if core == "" {
		if first && lead == "" && trail != "" {
			return markdownCode(trail)
		}
		return word
	}
	if !first && (word == "<" || word == ">" || word == "&") {
		return word // between spaces a comparison is only that
	}
	// Two colons are an emoji or an IPv6 address.
	if strings.Count(word, ":") < 2 && plainWord(core) && !(first && startsBlock(word)) {
		return word
	}
	return lead + markdownCode(core) + trail
}

// plainWord reports whether no dialect gives the word a meaning: letters and
// digits, with marks between them that are neither markup nor the dots of a
// host name.
func plainWord(s string) bool {
	if strings.HasPrefix(s, "GH-") {
		return false // an issue
	}
	prev := ' '
	for _, r := range s {
		switch {
		case r < utf8.RuneSelf && !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune(`.,;:()%+-/'"=?`, r):
			return false
		case prev == '.' && unicode.IsLetter(r):
			return false // host.example, www.
		case prev == '/' && r == '/':
			return false // https://
		}
		prev = r
	}
	return true
}

var blockStart = regexp.MustCompile(`^([-+=]+|[0-9]+[.)])$`)

// startsBlock reports whether the first word of a line would make the line a
// list item, a heading's underline or a rule.
func startsBlock(word string) bool { return blockStart.MatchString(word) }

// markdownCode writes visible text as a code span.
func markdownCode(s string) string {
	s = markdownBlock(s)
	if strings.TrimSpace(s) == "" {
		return "–"
	}
	return "`" + s + "`"
}

// markdownBlock makes visible text safe inside code. A backtick could end the
// code, and Slack and old converters look for tags and mentions even there, so
// look-alikes of the same width stand in for both.
func markdownBlock(s string) string {
	if !strings.ContainsAny(s, "`<") {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == '`':
			b.WriteByte('\'')
		case r == '<' && tagFollows(s[i+1:]):
			b.WriteRune('‹')
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// tagFollows reports whether a "<" before s could begin a tag, a comment or a
// mention.
func tagFollows(s string) bool {
	r, size := utf8.DecodeRuneInString(s)
	return size > 0 && (unicode.IsLetter(r) || strings.ContainsRune("/!?@#", r))
}
