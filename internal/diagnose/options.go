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
	bare := !strings.Contains(raw, "://")
	if bare {
		raw = "https://" + bracketed(raw)
	}
	u, err := url.Parse(raw)
	if err != nil {
		return target{}, fmt.Errorf("diagnose: target %q: %w", raw, err)
	}
	if u.Scheme != "http" && u.Scheme != "https" {
		return target{}, fmt.Errorf("diagnose: target %q: scheme %q is neither http nor https", raw, u.Scheme)
	}
	if u.Hostname() == "" {
		return target{}, fmt.Errorf("diagnose: target %q has no host", raw)
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return target{}, fmt.Errorf("diagnose: target %q: port %q is not between 1 and 65535", raw, port)
		}
	}
	if u.Path == "" {
		u.Path = "/"
	}
	return target{url: u, bare: bare}, nil
}

// bracketed puts a bare IPv6 address into the brackets a URL wants.
func bracketed(s string) string {
	if a, err := netip.ParseAddr(s); err == nil && a.Is6() {
		return "[" + s + "]"
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
	u.Fragment = ""
	if q := u.Query(); len(q) > 0 {
		for k := range q {
			q[k] = []string{"…"}
		}
		u.RawQuery = strings.ReplaceAll(q.Encode(), url.QueryEscape("…"), "…")
	}
	return reports.Target{URL: u.String(), Host: t.url.Hostname(), Port: t.port()}
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
