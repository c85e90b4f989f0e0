package cli

import (
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"golang.org/x/net/idna"
)

// target is what the user wants to know about: a host, or a web address.
type target struct {
	given string
	host  string // without brackets
	port  uint16 // that of the service; 443 for a bare host
	url   string // with a scheme
	// bare says that the user gave neither scheme nor port, so that http may
	// be tried where https is refused.
	bare bool
}

// parseTarget reads "www.example.com", "www.example.com:8443/path",
// "[2001:db8::1]:443", "2001:db8::1" or an http(s) URL.
func parseTarget(arg string) (target, error) {
	t := target{given: arg}
	s := arg
	if !strings.Contains(s, "://") {
		if a, err := netip.ParseAddr(s); err == nil && a.Is6() {
			s = "[" + s + "]"
		}
		s = "https://" + s
		t.bare = true
	}
	u, err := url.Parse(s)
	if err != nil {
		return t, usagef("%q is neither a host nor a URL", arg)
	}
	if u.Scheme != "http" && u.Scheme != "https" {
		return t, usagef("%q: the scheme must be http or https", arg)
	}
	t.host = u.Hostname()
	if !plausibleHost(t.host) {
		return t, usagef("%q holds no valid host name or address", arg)
	}
	t.port = 443
	if u.Scheme == "http" {
		t.port = 80
	}
	if p := u.Port(); p != "" {
		n, err := strconv.ParseUint(p, 10, 16)
		if err != nil || n == 0 {
			return t, usagef("%q: %q is no port", arg, p)
		}
		t.port = uint16(n)
		if t.bare && n == 80 {
			u.Scheme = "http"
		}
		t.bare = false
	}
	t.url = u.String()
	return t, nil
}

// plainHTTP returns the same address over http, for a bare host whose port 443
// refuses.
func (t target) plainHTTP() target {
	t.url = "http://" + strings.TrimPrefix(t.url, "https://")
	t.port, t.bare = 80, false
	return t
}

// plausibleHost refuses what no resolver should be asked for.
func plausibleHost(h string) bool {
	if _, err := netip.ParseAddr(h); err == nil {
		return true
	}
	if h == "" || len(h) > 253 || strings.ContainsAny(h, " \t\r\n/\\:@%") {
		return false
	}
	if strings.HasPrefix(h, "-") {
		return false // a flag in the wrong place
	}
	for _, r := range h {
		if r < 0x20 || r == 0x7f {
			return false
		}
		if r > 0x7f {
			_, err := idna.Lookup.ToASCII(h)
			return err == nil
		}
	}
	return true
}
