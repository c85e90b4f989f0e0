package cli

import (
	"net/url"
	"strings"

	"github.com/whyslow/whyslow/httpcheck"
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

// redactHTTP masks the query values of every URL in a result. User information
// and headers never get into one.
func redactHTTP(r *httpcheck.Result) {
	if r == nil {
		return
	}
	var pairs []string // old, new: for texts that quote a URL
	mask := func(u *string) {
		masked := redactURL(*u)
		if masked != *u {
			pairs = append(pairs, *u, masked)
			*u = masked
		}
	}
	var failures []*httpcheck.Failure
	exchange := func(e *httpcheck.Exchange) {
		mask(&e.URL)
		mask(&e.Location)
		failures = append(failures, e.Failure)
	}
	mask(&r.URL)
	for i := range r.Samples {
		for j := range r.Samples[i].Exchanges {
			exchange(&r.Samples[i].Exchanges[j])
		}
		failures = append(failures, r.Samples[i].Failure)
	}
	for i := range r.Controls {
		exchange(&r.Controls[i].Exchange)
		for j := range r.Controls[i].Runs {
			exchange(&r.Controls[i].Runs[j])
		}
	}
	for i := range r.Summary.Steps {
		mask(&r.Summary.Steps[i].URL)
	}
	for i := range r.Summary.ByRequest {
		mask(&r.Summary.ByRequest[i].URL)
	}
	quoted := strings.NewReplacer(pairs...)
	for _, f := range append(failures, r.Failure) {
		if f != nil {
			f.Text = quoted.Replace(f.Text)
		}
	}
	for i, w := range r.Warnings {
		r.Warnings[i] = quoted.Replace(w)
	}
}
