package httpcheck

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/idna"

	"github.com/whyslow/whyslow/internal/millis"
)

// Family restricts the addresses that are dialled. The zero Family means both.
type Family uint8

// The families.
const (
	AnyFamily Family = 0
	IPv4      Family = 4
	IPv6      Family = 6
)

// Options says what to fetch and how often. Only URL is required.
type Options struct {
	// URL is absolute, http or https. User information in it is sent as Basic
	// authentication and appears in no result.
	URL string
	// Method is the request's method. Empty means GET.
	Method string
	// Header is sent with each request to the URL's own origin. After a
	// redirect to another host only headers without secrets (Accept*,
	// User-Agent, caching and range headers) are sent along. "Host" overrides
	// the host asked for. Accept-Encoding is "identity" unless set here;
	// bodies are never decoded.
	Header http.Header

	// Addrs are the addresses of the URL's host, best first. Empty means that
	// Resolver is asked, and timed.
	Addrs []netip.Addr
	// ResolveTime is what finding Addrs took. It counts in the first exchange
	// of the run and in no other.
	ResolveTime millis.Value
	// Resolver finds the addresses of a host: the URL's if Addrs is empty, and
	// those of other hosts redirected to. Each is asked for once in a run. Its
	// error may be a *net.DNSError, from which the failure's kind is taken.
	// Nil means the Go resolver.
	Resolver func(ctx context.Context, host string) ([]netip.Addr, error)

	Family    Family
	Source    netip.Addr // local address; the zero Addr means the kernel's choice
	Interface string     // bind to this interface; empty means none
	// MSS clamps the segment size of every connection (TCP_MAXSEG, set before
	// connect, so the server sends no larger segments either). Bytes. Zero
	// means the kernel's choice.
	MSS int

	RootCAs  *x509.CertPool // nil means the host's
	Insecure bool           // accept any certificate
	// HTTP1 offers no HTTP/2 in the handshake.
	HTTP1 bool

	// Cold is the number of fresh connections. Zero means 5.
	Cold int
	// PerConnection is the number of times the URL is fetched over each, on
	// average: from 3 on, some connections carry one more or less. Zero
	// means 3.
	PerConnection int
	// MaxRequests bounds the requests of the whole run, controls included.
	// Zero means 25.
	MaxRequests int
	// Reserve is how many of MaxRequests the samples leave to controls. Zero
	// means 5, negative none.
	Reserve int
	// Budget bounds the time for samples softly: once it is spent only what a
	// verdict cannot do without is measured. Zero means 3 s.
	Budget time.Duration
	// NoControls makes Run choose no control experiments. The Client's methods
	// still run them.
	NoControls bool

	// MaxRedirects bounds the redirects followed by one fetch. Zero means 10,
	// negative none: the redirect is the result.
	MaxRedirects int
	// MaxBody bounds the body bytes read from one response. Zero means 32 MiB.
	MaxBody int64
	// MaxHeader bounds the bytes of all headers of one response, interim
	// responses and trailers included. Zero means 64 KiB.
	MaxHeader int64

	ConnectTimeout time.Duration // all addresses of one connect; zero means 10 s
	TLSTimeout     time.Duration // zero means 10 s
	WaitTimeout    time.Duration // from the request to the end of the response header; zero means 30 s
	StallTimeout   time.Duration // longest pause within a body, also for sending; zero means 10 s
	BodyTime       time.Duration // whole body, a bound and no failure; zero means 20 s
}

// Errors of the client's methods.
var (
	// ErrRequests says that MaxRequests is spent.
	ErrRequests = errors.New("httpcheck: request limit reached")
	// ErrUnsupported says that the platform lacks what an experiment needs.
	ErrUnsupported = errors.New("httpcheck: not supported on this platform")
)

// defaults fills in the zero values and checks the rest.
func (o Options) defaults() (Options, error) {
	if o.Method == "" {
		o.Method = http.MethodGet
	}
	if !httpguts.ValidHeaderFieldName(o.Method) { // both are tokens, RFC 9110 §9.1
		return o, fmt.Errorf("httpcheck: checking options: invalid method %q", o.Method)
	}
	for name, values := range o.Header {
		if !httpguts.ValidHeaderFieldName(name) {
			return o, fmt.Errorf("httpcheck: checking options: invalid header name %q", name)
		}
		for _, v := range values {
			if !httpguts.ValidHeaderFieldValue(v) {
				return o, fmt.Errorf("httpcheck: checking options: invalid value of header %s", name)
			}
		}
	}
	switch o.Family {
	case AnyFamily, IPv4, IPv6:
	default:
		return o, fmt.Errorf("httpcheck: checking options: unknown address family %d", o.Family)
	}
	if o.MSS != 0 && (o.MSS < 88 || o.MSS > 65495) { // the kernel refuses others
		return o, fmt.Errorf("httpcheck: checking options: MSS %d is not within 88 and 65495", o.MSS)
	}
	if o.Resolver == nil {
		o.Resolver = lookup
	}
	orDefault(&o.Cold, 5)
	orDefault(&o.PerConnection, 3)
	orDefault(&o.MaxRequests, 25)
	orDefault(&o.Reserve, 5)
	orDefault(&o.Budget, 3*time.Second)
	orDefault(&o.MaxRedirects, 10)
	orDefault(&o.MaxBody, 32<<20)
	orDefault(&o.MaxHeader, 64<<10)
	orDefault(&o.ConnectTimeout, 10*time.Second)
	orDefault(&o.TLSTimeout, 10*time.Second)
	orDefault(&o.WaitTimeout, 30*time.Second)
	orDefault(&o.StallTimeout, 10*time.Second)
	orDefault(&o.BodyTime, 20*time.Second)
	return o, nil
}

// orDefault sets *v to d if it is zero, and to zero if it is negative.
func orDefault[T int | int64 | time.Duration](v *T, d T) {
	switch {
	case *v == 0:
		*v = d
	case *v < 0:
		*v = 0
	}
}

// lookup is the default Resolver.
func lookup(ctx context.Context, host string) ([]netip.Addr, error) {
	return new(net.Resolver).LookupNetIP(ctx, "ip", host)
}

// maxURL bounds the URLs that are followed and reported. Bytes; browsers
// accept more, servers seldom do.
const maxURL = 8 << 10

// parseURL returns an absolute http or https URL in the form in which it is
// asked for: host in ASCII, no fragment, an explicit path.
func parseURL(s string) (*url.URL, error) {
	if len(s) > maxURL {
		return nil, fmt.Errorf("URL of %d bytes is too long", len(s))
	}
	u, err := url.Parse(s)
	if err != nil {
		var ue *url.Error
		if errors.As(err, &ue) { // its text would repeat the URL
			err = ue.Err
		}
		if strings.ContainsRune(s, '@') { // and this one perhaps a password
			return nil, errors.New("invalid URL")
		}
		return nil, fmt.Errorf("invalid URL: %w", err)
	}
	return normalize(u)
}

func normalize(u *url.URL) (*url.URL, error) {
	v := *u
	if v.Scheme != "http" && v.Scheme != "https" {
		return nil, fmt.Errorf("URL scheme %q is neither http nor https", v.Scheme)
	}
	host := v.Hostname()
	if host == "" {
		return nil, errors.New("URL has no host")
	}
	if p := v.Port(); p != "" {
		if n, err := strconv.ParseUint(p, 10, 16); err != nil || n == 0 {
			return nil, fmt.Errorf("invalid port %q", p)
		}
	}
	if _, err := netip.ParseAddr(host); err != nil {
		ascii, err := idna.Lookup.ToASCII(host)
		if err != nil {
			// Underscores and other names that DNS allows and IDNA does not.
			if !isASCII(host) {
				return nil, fmt.Errorf("host name: %w", err)
			}
			ascii = host
		}
		v.Host = ascii
		if p := u.Port(); p != "" {
			v.Host = net.JoinHostPort(ascii, p)
		}
	}
	v.Fragment, v.RawFragment = "", ""
	if v.Path == "" {
		v.Path = "/"
	}
	return &v, nil
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}

// display is the URL as results show it: without user information.
func display(u *url.URL) string {
	v := *u
	v.User = nil
	return bounded(v.String(), maxURL)
}

// portOf returns the port of a URL.
func portOf(u *url.URL) uint16 {
	if p := u.Port(); p != "" {
		n, _ := strconv.ParseUint(p, 10, 16) // normalize checked it
		return uint16(n)
	}
	if u.Scheme == "https" {
		return 443
	}
	return 80
}
