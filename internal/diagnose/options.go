package diagnose

import (
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/whyslow/whyslow/internal/netprobe"
	"github.com/whyslow/whyslow/reports"
)

// Budget is how much a diagnosis may ask of the target.
type Budget uint8

// The budgets. The zero Budget is Normal.
const (
	Normal Budget = iota // about 10 s and at most 60 requests, where they can change the verdict
	Quick                // about 4 s and at most 25 requests
	Deep                 // about 60 s and at most 300 requests
)

// limits are what a budget allows.
type limits struct {
	requests int
	cold     int           // connections of the first round
	more     int           // connections added where the first round does not decide
	samples  time.Duration // soft bound of the first round
	again    time.Duration // soft bound of the second
	echoes   int
	probes   int // DNS questions a server and type
}

func (b Budget) limits() limits {
	switch b {
	case Quick:
		return limits{requests: 25, cold: 5, samples: 2500 * time.Millisecond, echoes: 100, probes: 5}
	case Deep:
		return limits{requests: 300, cold: 20, more: 20, samples: 25 * time.Second, again: 20 * time.Second, echoes: 500, probes: 20}
	}
	return limits{requests: 60, cold: 5, more: 6, samples: 3 * time.Second, again: 4 * time.Second, echoes: 100, probes: 5}
}

// Options say what to diagnose. Only URL is required.
type Options struct {
	// URL is http or https. A bare host means https, then http if port 443
	// refuses.
	URL    string
	Budget Budget
	Family int // 4, 6, or 0 for both
	// ResolvConf is the resolver configuration. Empty means /etc/resolv.conf.
	ResolvConf string
	// DNSPort is where its nameservers listen. Zero means 53.
	DNSPort   uint16
	Method    string // empty means GET
	Header    http.Header
	RootCAs   *x509.CertPool // nil means the host's
	Insecure  bool
	Source    netip.Addr
	Interface string
	// MaxTime ends the diagnosis with what is known. Zero means no bound but
	// those of the instruments.
	MaxTime time.Duration
	// Network sends the path probes. Nil means the host's.
	Network netprobe.Network
	// Progress is told what the diagnosis is doing, by several goroutines but
	// one at a time. Nil means nobody.
	Progress func(Event)
	// Tool identifies the caller in the report.
	Tool reports.Tool
}

// Event is a step of a diagnosis, for people who wait for it.
type Event struct {
	Instrument string // "dns", "http", "trace", "pmtu", "judge"
	Text       string // what it begins, or what it found
}

// target is a parsed Options.URL.
type target struct {
	url  *url.URL
	bare bool // no scheme was given
}

func parseTarget(raw string) (target, error) {
	t := target{bare: !hasScheme(raw)}
	given := Redacted(raw) // for errors
	if t.bare {
		raw = "https://" + bracketed(raw)
	}
	u, err := url.Parse(raw)
	if err != nil { // whose text would repeat the URL, and perhaps a password
		return target{}, fmt.Errorf("diagnose: target %q is no URL", given)
	}
	if u.Scheme != "http" && u.Scheme != "https" {
		return target{}, fmt.Errorf("diagnose: target %q: scheme %q is neither http nor https", given, u.Scheme)
	}
	if u.Hostname() == "" {
		return target{}, fmt.Errorf("diagnose: target %q has no host", given)
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return target{}, fmt.Errorf("diagnose: target %q: port %q is not between 1 and 65535", given, port)
		}
	}
	if u.Path == "" {
		u.Path = "/"
	}
	t.url = u
	return t, nil
}

// hasScheme reports whether s begins with a scheme and "://". That may also
// stand in the query of a bare host.
func hasScheme(s string) bool {
	scheme, _, ok := strings.Cut(s, "://")
	return ok && !strings.ContainsAny(scheme, "/?#@:[")
}

// bracketed puts a bare IPv6 address into the brackets a URL wants, where the
// sign before a zone is written %25 (RFC 6874).
func bracketed(s string) string {
	if a, err := netip.ParseAddr(s); err == nil && a.Is6() {
		return "[" + strings.Replace(s, "%", "%25", 1) + "]"
	}
	return s
}

// overHTTP is the same target without TLS.
func (t target) overHTTP() target {
	u := *t.url
	u.Scheme = "http"
	return target{url: &u}
}

func (t target) port() uint16 {
	if n, err := strconv.ParseUint(t.url.Port(), 10, 16); err == nil {
		return uint16(n)
	}
	if t.url.Scheme == "https" {
		return 443
	}
	return 80
}

// view is the target as a report shows it: no credentials, no query values.
func (t target) view() reports.Target {
	u := *t.url
	u.User = nil
	return reports.Target{URL: Redacted(u.String()), Host: t.url.Hostname(), Port: t.port()}
}

// mask stands for what a report must not tell.
const mask = "…"

// Redacted is a URL, or a text that may be one, as it may stand in a ticket:
// user information and the values of the query are masked, the fragment, which
// no server gets, is gone. Every place that shows a URL shows this form, so
// that the command line, the target and the exchanges of a report agree.
func Redacted(s string) string {
	scheme := ""
	if hasScheme(s) {
		i := strings.Index(s, "://") + len("://")
		scheme, s = s[:i], s[i:]
	}
	s, _, _ = strings.Cut(s, "#")
	rest, query, asks := strings.Cut(s, "?")
	authority, _, _ := strings.Cut(rest, "/")
	// Everything before the last @ of the authority is user information.
	if at := strings.LastIndex(authority, "@"); at > 0 {
		rest = mask + rest[at:]
	}
	if !asks {
		return scheme + rest
	}
	pairs := strings.Split(query, "&")
	for i, pair := range pairs {
		pairs[i] = maskPair(pair)
	}
	return scheme + rest + "?" + strings.Join(pairs, "&")
}

// maskPair masks the value of one pair of a query. A pair without a value may
// be a token by itself, also one that ends in the padding of base64.
func maskPair(pair string) string {
	key, value, _ := strings.Cut(pair, "=")
	switch {
	case pair == "":
		return ""
	case strings.Trim(value, "=") == "":
		return mask
	}
	return key + "=" + mask
}

// localAddr is the address this host would use towards addr; the zero Addr if
// there is no route. Nothing is sent.
func localAddr(addr netip.Addr) netip.Addr {
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(addr, 9)))
	if err != nil {
		return netip.Addr{}
	}
	defer func() { _ = c.Close() }()
	return c.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap()
}
