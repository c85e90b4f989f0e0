package cli

import (
	"strings"

	"github.com/whyslow/whyslow/httpcheck"
	"github.com/whyslow/whyslow/internal/diagnose"
)

// masked stands for what a report must not tell.
const masked = "…"

// redactArgv returns a command line that may stand in a ticket: no password of
// a URL, no query value, no header value.
func redactArgv(argv []string) []string {
	out := make([]string, len(argv))
	headerNext := false
	for i, a := range argv {
		flag, value, short := shortHeader(a)
		switch {
		case headerNext:
			out[i] = redactHeader(a)
		case strings.HasPrefix(a, "--header="):
			out[i] = "--header=" + redactHeader(strings.TrimPrefix(a, "--header="))
		case short && value != "":
			out[i] = flag + redactHeader(value)
		default:
			out[i] = diagnose.Redacted(a)
		}
		headerNext = !headerNext && (a == "--header" || short && value == "")
	}
	return out
}

// shortHeader parts an argument that holds -H, alone or behind switches that
// take no value, from the header that may follow at once: "-kHCookie: a=b".
func shortHeader(a string) (flag, value string, ok bool) {
	if !strings.HasPrefix(a, "-") {
		return "", "", false
	}
	value, ok = strings.CutPrefix(strings.TrimLeft(a[1:], switches), "H")
	return strings.TrimSuffix(a, value), value, ok
}

// switches are the letters of the flags without a value.
const switches = "46kvI"

func redactHeader(h string) string {
	name, _, ok := strings.Cut(h, ":")
	if !ok {
		return masked
	}
	return name + ": " + masked
}

// redactHTTP masks the query values of every URL in a result. User information
// and headers never get into one.
func redactHTTP(r *httpcheck.Result) {
	if r == nil {
		return
	}
	var pairs []string // old, new: for texts that quote a URL
	mask := func(u *string) {
		masked := diagnose.Redacted(*u)
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
