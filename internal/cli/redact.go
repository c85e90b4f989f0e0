package cli

import (
	"net/url"
	"strings"
)

// masked stands for what a report must not tell.
const masked = "…"

// redactArgv returns a command line that may stand in a ticket: no password of
// a URL, no query value, no header value.
func redactArgv(argv []string) []string {
	out := make([]string, len(argv))
	headerNext := false
	for i, a := range argv {
		switch {
		case headerNext:
			out[i] = redactHeader(a)
		case strings.HasPrefix(a, "--header="):
			out[i] = "--header=" + redactHeader(strings.TrimPrefix(a, "--header="))
		case strings.HasPrefix(a, "-H") && len(a) > 2:
			out[i] = "-H" + redactHeader(strings.TrimPrefix(a, "-H"))
		default:
			out[i] = redactURL(a)
		}
		headerNext = !headerNext && (a == "-H" || a == "--header")
	}
	return out
}

func redactHeader(h string) string {
	name, _, ok := strings.Cut(h, ":")
	if !ok {
		return masked
	}
	return name + ": " + masked
}

// redactURL masks what is secret in an argument that may be a URL.
func redactURL(arg string) string {
	rest, scheme := arg, ""
	if s, r, ok := strings.Cut(arg, "://"); ok {
		scheme, rest = s+"://", r
	}
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	// Everything before the last @ of the authority is user information.
	if at := strings.LastIndex(rest[:end], "@"); at > 0 {
		rest = masked + rest[at:]
	}
	path, query, ok := strings.Cut(rest, "?")
	if !ok {
		return scheme + rest
	}
	query, _, _ = strings.Cut(query, "#")
	var pairs []string
	for pair := range strings.SplitSeq(query, "&") {
		if k, _, ok := strings.Cut(pair, "="); ok {
			pair = k + "=" + masked
		} else if _, err := url.QueryUnescape(pair); err != nil || len(pair) > 32 {
			pair = masked
		}
		pairs = append(pairs, pair)
	}
	return scheme + path + "?" + strings.Join(pairs, "&")
}
