package servers_test

import (
	"bufio"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/whyslow/whyslow/internal/netlab/servers"
)

var loopback = netip.MustParseAddrPort("127.0.0.1:0")

// startHTTP starts a server on loopback and returns its URL.
func startHTTP(t *testing.T, cfg servers.HTTPConfig) (*servers.HTTP, string) {
	t.Helper()
	scheme := "http"
	if cfg.Certificate != nil {
		scheme, cfg.TLSAddrs = "https", []netip.AddrPort{loopback}
	} else {
		cfg.Addrs = []netip.AddrPort{loopback}
	}
	s, err := servers.StartHTTP(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, fmt.Sprintf("%s://%s", scheme, append(s.Addrs(), s.TLSAddrs()...)[0])
}

// fetch gets a page whole.
func fetch(t *testing.T, c *http.Client, url string) (*http.Response, string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.Do(req)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	return resp, string(b), err
}

func newClient(t *testing.T, conf *tls.Config) *http.Client {
	t.Helper()
	tr := &http.Transport{TLSClientConfig: conf}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

// eventually runs f up to four times until it returns nil: for upper bounds of
// times, which a busy machine may exceed now and then.
func eventually(t *testing.T, f func() error) {
	t.Helper()
	var err error
	for range 4 {
		if err = f(); err == nil {
			return
		}
	}
	t.Error(err)
}

// inTurn makes one request after the other on one connection and checks how
// long the first byte of each takes: at least what is given, and where that
// is 0 less than the limit.
func inTurn(t *testing.T, url string, limit time.Duration, least ...time.Duration) error {
	t.Helper()
	c := newClient(t, nil)
	defer c.CloseIdleConnections()
	for i, l := range least {
		if took := get(t, c, url); took < l || l == 0 && took >= limit {
			return fmt.Errorf("request %d took %v, want at least %v", i+1, took, l)
		}
	}
	return nil
}

// get fetches a page and returns the time to its first byte.
func get(t *testing.T, c *http.Client, url string) time.Duration {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	took := time.Since(start)
	defer func() { _ = resp.Body.Close() }()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK {
		t.Errorf("%s: status %s", url, resp.Status)
	}
	return took
}

// client follows no redirects.
func client(t *testing.T, conf *tls.Config) *http.Client {
	c := newClient(t, conf)
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c
}

func TestRoutes(t *testing.T) {
	const wait = 150 * time.Millisecond
	_, url := startHTTP(t, servers.HTTPConfig{
		Banner: "<script>|evil",
		Routes: map[string]servers.Route{
			"/":       {Body: []byte("hello")},
			"/think":  {Think: wait, Size: 10},
			"/drip":   {Size: 40, Pace: servers.Pace{Chunk: 10, Every: wait / 3}},
			"/rate":   {Size: 30000, Pace: servers.Rate(200000)},
			"/moved":  {Redirect: "https://www.example.com/\"><script>"},
			"/teapot": {Status: 418},
			"/big":    {Size: 100000},
		},
	})
	for _, tt := range []struct {
		path   string
		status int
		size   int
		least  time.Duration
	}{
		{"/", 200, 5, 0},
		{"/think", 200, 10, wait},
		{"/drip", 200, 40, wait},
		{"/rate", 200, 30000, 140 * time.Millisecond},
		{"/moved", 302, 0, 0},
		{"/teapot", 418, 0, 0},
		{"/big", 200, 100000, 0},
		{"/favicon.ico", 200, 4, 0},
		{"/robots.txt", 200, 24, 0},
		{"/nothing", 404, 10, 0},
	} {
		t.Run(tt.path, func(t *testing.T) {
			start := time.Now()
			resp, body, err := fetch(t, client(t, nil), url+tt.path)
			took := time.Since(start)
			if err != nil {
				t.Fatal(err)
			}
			if resp.StatusCode != tt.status || len(body) != tt.size || took < tt.least {
				t.Errorf("status %d, %d bytes in %v; want %d, %d in at least %v", resp.StatusCode, len(body), took, tt.status, tt.size, tt.least)
			}
			if got := resp.Header.Get("Server"); got != "<script>|evil" {
				t.Errorf("Server %q", got)
			}
			if tt.path == "/moved" && resp.Header.Get("Location") != "https://www.example.com/\"><script>" {
				t.Errorf("Location %q", resp.Header.Get("Location"))
			}
		})
	}
}

func TestFaultsOfResponses(t *testing.T) {
	_, url := startHTTP(t, servers.HTTPConfig{Routes: map[string]servers.Route{
		"/endless": {Fault: servers.EndlessBody},
		"/bomb":    {Fault: servers.GzipBomb},
		"/early":   {Fault: servers.ResetEarly},
		"/middle":  {Fault: servers.ResetBody, Size: 100000},
		"/headers": {Fault: servers.EndlessHeaders},
		"/hang":    {Fault: servers.Hang},
	}})
	c := client(t, nil)
	c.Transport.(*http.Transport).DisableCompression = true
	if _, body, err := fetch(t, c, url+"/endless"); err != nil || len(body) != 1<<20 {
		t.Errorf("endless body: %d bytes, %v", len(body), err)
	}
	resp, body, err := fetch(t, c, url+"/bomb")
	if err != nil || resp.Header.Get("Content-Encoding") != "gzip" {
		t.Fatalf("gzip bomb: %v, %v", resp, err)
	}
	z, err := gzip.NewReader(strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if n, _ := io.Copy(io.Discard, io.LimitReader(z, 20<<20)); n < 20<<20 {
		t.Errorf("%d bytes of bomb unpack to %d only", len(body), n)
	}
	if _, _, err := fetch(t, c, url+"/early"); err == nil {
		t.Error("an early reset went unnoticed")
	}
	if resp, body, err := fetch(t, c, url+"/middle"); err == nil || resp == nil || len(body) > 50000 {
		t.Errorf("reset in the body: %v, %d bytes, %v", resp, len(body), err)
	}
	if _, _, err := fetch(t, c, url+"/headers"); err == nil {
		t.Error("endless headers ended")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/hang", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Do(req); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a hanging server: %v", err)
	}
}

func TestFaultsOfConnections(t *testing.T) {
	const wait = 200 * time.Millisecond
	t.Run("stalled accept", func(t *testing.T) {
		eventually(t, func() error {
			_, url := startHTTP(t, servers.HTTPConfig{AcceptDelay: wait})
			start := time.Now()
			conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
			if err != nil {
				return err
			}
			connected := time.Since(start)
			defer func() { _ = conn.Close() }()
			if _, err := io.WriteString(conn, "GET /robots.txt HTTP/1.0\r\n\r\n"); err != nil {
				return err
			}
			if _, err := bufio.NewReader(conn).ReadString('\n'); err != nil {
				return err
			}
			if took := time.Since(start); took < wait/2 || connected >= wait/2 {
				return fmt.Errorf("connected after %v, answered after %v; only the answer may take long", connected, took)
			}
			return nil
		})
	})
	t.Run("reset", func(t *testing.T) {
		_, url := startHTTP(t, servers.HTTPConfig{ResetOnAccept: true})
		if _, _, err := fetch(t, client(t, nil), url); err == nil {
			t.Error("no error")
		}
	})
	ca, err := servers.NewCA()
	if err != nil {
		t.Fatal(err)
	}
	good := servers.CertificateConfig{Names: []string{"www.example.com"}, Addrs: []netip.Addr{loopback.Addr()}}
	cert, err := ca.Issue(good)
	if err != nil {
		t.Fatal(err)
	}
	conf := &tls.Config{RootCAs: ca.Pool()}
	t.Run("slow TLS", func(t *testing.T) {
		_, url := startHTTP(t, servers.HTTPConfig{Certificate: cert, HandshakeDelay: wait})
		start := time.Now()
		conn, err := tls.Dial("tcp", strings.TrimPrefix(url, "https://"), conf)
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.Close()
		if took := time.Since(start); took < wait {
			t.Errorf("handshake took %v, want at least %v", took, wait)
		}
	})
	t.Run("HTTP/2", func(t *testing.T) {
		_, url := startHTTP(t, servers.HTTPConfig{Certificate: cert, HTTP2: true})
		c := client(t, conf)
		c.Transport.(*http.Transport).ForceAttemptHTTP2 = true
		resp, _, err := fetch(t, c, url+"/robots.txt")
		if err != nil || resp.ProtoMajor != 2 {
			t.Errorf("%v, %v", resp, err)
		}
	})
	t.Run("expired", func(t *testing.T) {
		old, err := ca.Issue(good.Expired())
		if err != nil {
			t.Fatal(err)
		}
		_, url := startHTTP(t, servers.HTTPConfig{Certificate: old})
		_, _, err = fetch(t, client(t, conf), url)
		var invalid x509.CertificateInvalidError
		if !errors.As(err, &invalid) || invalid.Reason != x509.Expired {
			t.Errorf("%v, want an expired certificate", err)
		}
	})
}

// TestLookups: the reverse zone is slow, so what waits for it shows.
func TestLookups(t *testing.T) {
	const wait = 200 * time.Millisecond
	auth, err := servers.StartAuthority(servers.AuthorityConfig{
		Addrs:  []netip.AddrPort{loopback},
		Zones:  []servers.Zone{{Origin: "127.in-addr.arpa", Records: []string{"* 0 IN PTR localhost.example.com."}}},
		Faults: []servers.DNSFault{{Suffix: "127.in-addr.arpa", Delay: wait}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = auth.Close() }()
	for _, tt := range []struct {
		name          string
		when          servers.LookupTime
		path          string
		first, second time.Duration
		queries       int64
	}{
		{"none", servers.NoLookup, "/", 0, 0, 0},
		{"before the response", servers.BeforeResponse, "/", wait, 0, 1},
		{"before the response, control", servers.BeforeResponse, "/robots.txt", 0, 0, 0},
		{"while logging", servers.WhileLogging, "/", 0, wait, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			eventually(t, func() error {
				before := auth.Queries()
				s, url := startHTTP(t, servers.HTTPConfig{
					Lookup: servers.Lookup{When: tt.when, Resolvers: auth.Addrs()},
					Routes: map[string]servers.Route{"/": {Size: 100, Lookup: true}},
				})
				if err := inTurn(t, url+tt.path, wait, tt.first, tt.second); err != nil {
					return err
				}
				if s.Connections() != 1 || s.Requests() != 2 {
					return fmt.Errorf("%d requests on %d connections", s.Requests(), s.Connections())
				}
				if got := auth.Queries() - before; got != tt.queries {
					return fmt.Errorf("%d queries, want %d: a lookup is once a connection", got, tt.queries)
				}
				return nil
			})
		})
	}
}

func TestLookupGivesUpOnDeadResolvers(t *testing.T) {
	auth, err := servers.StartAuthority(servers.AuthorityConfig{
		Addrs: []netip.AddrPort{loopback}, Faults: []servers.DNSFault{{Action: servers.Drop}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = auth.Close() }()
	_, url := startHTTP(t, servers.HTTPConfig{
		Lookup: servers.Lookup{When: servers.BeforeResponse, Resolvers: auth.Addrs(), Timeout: 100 * time.Millisecond, Attempts: 2},
		Routes: map[string]servers.Route{"/": {Size: 100, Lookup: true}},
	})
	start := time.Now()
	if _, _, err := fetch(t, client(t, nil), url); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took < 200*time.Millisecond {
		t.Errorf("took %v, want two timeouts of 100ms", took)
	}
	if n := auth.Queries(); n != 2 {
		t.Errorf("%d queries, want 2", n)
	}
}

func TestBadConfigIsRefused(t *testing.T) {
	for name, cfg := range map[string]servers.HTTPConfig{
		"TLS without certificate": {TLSAddrs: []netip.AddrPort{loopback}},
		"negative think time":     {Routes: map[string]servers.Route{"/": {Think: -1}}},
		"informational status":    {Routes: map[string]servers.Route{"/": {Status: 100}}},
		"foreign address":         {Addrs: []netip.AddrPort{loopback, netip.MustParseAddrPort("192.0.2.1:80")}},
	} {
		if s, err := servers.StartHTTP(cfg); err == nil {
			_ = s.Close()
			t.Errorf("%s: accepted", name)
		}
	}
}
