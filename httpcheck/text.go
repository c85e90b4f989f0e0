package httpcheck

import "strings"

// bounded cuts hostile text to at most n bytes of valid UTF-8. Escaping is the
// renderer's.
func bounded(s string, n int) string {
	if len(s) > n {
		s = s[:n]
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}
