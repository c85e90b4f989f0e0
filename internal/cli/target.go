package cli

import (
	"context"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/whyslow/whyslow/internal/diagnose"
)

// target is what the user wants to know about: a host, or a web address.
type target struct {
	given string // as typed, without its secrets
	host  string // without brackets
	port  uint16 // that of the service; 443 for a bare host
	url   string // with a scheme
	// bare says that the user gave no scheme, so that http may be tried where
	// https is not spoken; portGiven, that he named a port, which is then the
	// only one.
	bare, portGiven bool
}

// maxURL bounds a URL, in bytes; httpcheck asks for none longer.
const maxURL = 8 << 10

// parseTarget reads "www.example.com", "www.example.com:8443/path",
// "[2001:db8::1]:443", "2001:db8::1" or an http(s) URL.
func parseTarget(arg string) (target, error) {
	t := target{given: diagnose.Redacted(arg)}
	if len(arg) > maxURL {
		return t, usagef("%s is %d bytes long; no URL above %d can be asked for", quoted(arg), len(arg), maxURL)
	}
	s, bare, err := withScheme(arg)
	if err != nil {
		return t, err
	}
	t.bare = bare
	u, err := url.Parse(s)
	if err != nil { // whose text might quote a password
		return t, usagef("%s is neither a host nor a URL%s", quoted(arg), whyNoURL(arg))
	}
	t.host = u.Hostname()
	if err := checkHost(t.host); err != nil {
		return t, usagef("%s %w", quoted(arg), err)
	}
	t.port = 443
	if u.Scheme == "http" {
		t.port = 80
	}
	if p := u.Port(); p != "" {
		n, err := strconv.ParseUint(p, 10, 16)
		if err != nil || n == 0 {
			return t, usagef("%s: the port %s is not between 1 and 65535", quoted(arg), clip(p, 12))
		}
		t.port, t.portGiven = uint16(n), true
		if t.bare && n == 80 {
			u.Scheme, t.bare = "http", false
		}
	}
	u.Host = strings.TrimSuffix(u.Host, ":") // an empty port is the default one
	t.url = u.String()
	return t, nil
}

// target reads an argument and refuses one that these flags do not let this
// host reach.
func (c *common) target(ctx context.Context, arg string) (target, error) {
	t, err := parseTarget(arg)
	if err != nil {
		return t, err
	}
	if a, err := netip.ParseAddr(t.host); err == nil {
		return t, c.reaches(a.Unmap())
	}
	return t, c.checkNameservers(ctx, t.host)
}

// traceable is target for an instrument that sends probes: the address that
// stands for "this host" in a program's own connects is none on the wire.
func (c *common) traceable(ctx context.Context, arg string) (target, error) {
	t, err := c.target(ctx, arg)
	if a, perr := netip.ParseAddr(t.host); err == nil && perr == nil && a.IsUnspecified() {
		return t, usagef("%s: no packet can be sent to this address; this host itself is 127.0.0.1 or ::1", quoted(arg))
	}
	return t, err
}

// withScheme completes a bare host to a URL and refuses what has, or seems to
// have, another scheme than http and https.
func withScheme(arg string) (s string, bare bool, err error) {
	if scheme, _, ok := strings.Cut(arg, "://"); ok && !strings.ContainsAny(scheme, "/?#@:[") {
		if s := strings.ToLower(scheme); s != "http" && s != "https" {
			return "", false, usagef("%s: the scheme must be http or https", quoted(arg))
		}
		return arg, false, nil
	}
	if a, err := netip.ParseAddr(arg); err == nil && a.Is6() {
		// The sign before a zone is written %25 in a URL (RFC 6874).
		return "https://[" + strings.Replace(arg, "%", "%25", 1) + "]", true, nil
	}
	authority, _, _ := cutAny(arg, "/?#")
	after := strings.TrimPrefix(authority[strings.LastIndex(authority, "]")+1:], "]")
	_, port, ok := strings.Cut(after, ":")
	if digits := strings.Trim(port, "0123456789") == ""; ok && (port == "" || !digits) {
		// "mailto:x@y" reads as a user x at the host y only where a scheme
		// stands before it.
		return "", false, usagef("%s is neither a host, nor host:port, nor a URL that begins with http:// or https://", quoted(arg))
	}
	return "https://" + arg, true, nil
}

// cutAny cuts s at the first of some characters.
func cutAny(s, chars string) (before, after string, found bool) {
	if i := strings.IndexAny(s, chars); i >= 0 {
		return s[:i], s[i:], true
	}
	return s, "", false
}

// whyNoURL says what keeps net/url from reading arg, as far as that can be
// told without quoting it; else "".
func whyNoURL(arg string) string {
	_, rest, ok := strings.Cut(arg, "://")
	if !ok {
		rest = arg
	}
	authority, _, _ := cutAny(rest, "/?#")
	switch {
	case strings.ContainsFunc(arg, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return ": it holds a control character"
	case strings.Contains(authority, " "):
		return ": a space stands in the host"
	case strings.Contains(authority, "%"):
		return ": an escape (%…) stands in the host"
	}
	return ""
}

// quoted is an argument as an error repeats it: escaped, not endless, and
// without what may be secret in it.
func quoted(arg string) string {
	scheme, rest, ok := strings.Cut(arg, "://")
	if ok {
		scheme += "://"
	} else {
		scheme, rest = "", arg
	}
	// What is wrong may be the password itself, with a "/" in it: nothing
	// before any @ is told.
	if at := strings.LastIndex(rest, "@"); at > 0 {
		rest = masked + rest[at:]
	}
	return strconv.Quote(clip(diagnose.Redacted(scheme+rest), 100))
}

// clip cuts a text to at most n bytes and says so.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}

// plainHTTP returns the same address over http, for a bare host that speaks no
// TLS.
func (t target) plainHTTP() target {
	t.url = "http://" + strings.TrimPrefix(t.url, "https://")
	t.bare = false
	if !t.portGiven {
		t.port = 80
	}
	return t
}

// forDiagnosis is the target as diagnose takes it: without the scheme where
// that is only a guess.
func (t target) forDiagnosis() string {
	if t.bare {
		return strings.TrimPrefix(t.url, "https://")
	}
	return t.url
}
