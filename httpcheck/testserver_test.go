package httpcheck

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/whyslow/whyslow/internal/millis"
)

// serveFunc plays the server's side of one connection, number conn from 1.
type serveFunc func(conn int, c net.Conn)

// server is a raw TCP server on loopback.
type server struct {
	t     *testing.T
	ln    net.Listener
	done  chan struct{} // closed when the test ends, for servers that wait
	mu    sync.Mutex
	conns []net.Conn
	wg    sync.WaitGroup
}

// serve starts a server; it ends with the test.
func serve(t *testing.T, f serveFunc) *server {
	t.Helper()
	s := newServer(t)
	s.start(f)
	return s
}

// newServer makes a server that start will start, for those whose function
// refers to it.
func newServer(t *testing.T) *server {
	t.Helper()
	return newServerOn(t, "127.0.0.1:0")
}

func newServerOn(t *testing.T, addr string) *server {
	t.Helper()
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	return &server{t: t, ln: ln, done: make(chan struct{})}
}

func (s *server) start(f serveFunc) {
	s.wg.Add(1)
	go func() {
		defer s.wg.Done()
		for n := 1; ; n++ {
			c, err := s.ln.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.conns = append(s.conns, c)
			s.wg.Add(1)
			s.mu.Unlock()
			go func() {
				defer s.wg.Done()
				defer c.Close()
				f(n, c)
			}()
		}
	}()
	s.t.Cleanup(func() {
		close(s.done)
		s.ln.Close()
		s.mu.Lock()
		for _, c := range s.conns {
			c.Close()
		}
		s.mu.Unlock()
		s.wg.Wait()
	})
}

// pause sleeps as a slow server does, or until the test ends.
func (s *server) pause(d time.Duration) {
	select {
	case <-s.done:
	case <-time.After(d):
	}
}

func (s *server) port() int { return s.ln.Addr().(*net.TCPAddr).Port }

// url is the server's URL under a name that only Options.Addrs resolves.
func (s *server) url(scheme, path string) string {
	return fmt.Sprintf("%s://www.example.com:%d%s", scheme, s.port(), path)
}

// answer reads requests and answers each with what f returns, until it returns
// nothing.
func answer(f func(conn, request int, r *http.Request) string) serveFunc {
	return func(conn int, c net.Conn) {
		br := bufio.NewReader(c)
		for n := 1; ; n++ {
			r, err := http.ReadRequest(br)
			if err != nil {
				return
			}
			io.Copy(io.Discard, r.Body)
			reply := f(conn, n, r)
			if reply == "" {
				return
			}
			if _, err := io.WriteString(c, reply); err != nil {
				return
			}
		}
	}
}

// ok is a response with a body.
func ok(body string, headers ...string) string {
	return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n%s\r\n%s", len(body), strings.Join(headers, ""), body)
}

func redirectTo(location string) string {
	return "HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: " + location + "\r\n\r\n"
}

var loopback = []netip.Addr{netip.MustParseAddr("127.0.0.1")}

// options fetch once, from a loopback server.
func options(url string) Options {
	return Options{
		URL: url, Addrs: loopback, ResolveTime: millis.Of(7 * time.Millisecond),
		Cold: 1, PerConnection: 1, NoControls: true,
	}
}

// run runs and wants no error.
func run(t *testing.T, o Options) *Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	r, err := Run(ctx, o)
	if err != nil {
		t.Fatalf("Run: %v", err)
	}
	return r
}

// onlyExchange returns the exchange of a run of one request.
func onlyExchange(t *testing.T, r *Result) *Exchange {
	t.Helper()
	if len(r.Samples) != 1 || len(r.Samples[0].Exchanges) != 1 {
		t.Fatalf("got %d samples, want 1 of 1 exchange: %+v", len(r.Samples), r.Samples)
	}
	return &r.Samples[0].Exchanges[0]
}

// within checks that a phase took at least least and not absurdly more; the
// upper bound is wide since test machines are busy.
func within(t *testing.T, name string, v millis.Value, least time.Duration) {
	t.Helper()
	d, known := v.Get()
	if !known {
		t.Errorf("%s: unmeasured, want %v or more", name, least)
		return
	}
	if d < least || d > least+5*time.Second {
		t.Errorf("%s: got %v, want %v or a little more", name, d, least)
	}
}

// certificate makes a self-signed certificate for names, valid between two times.
func certificate(t *testing.T, from, until time.Time, names ...string) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: names[0]},
		DNSNames: names, NotBefore: from, NotAfter: until,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, BasicConstraintsValid: true, IsCA: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

func goodCertificate(t *testing.T) (tls.Certificate, *x509.CertPool) {
	return certificate(t, time.Now().Add(-time.Hour), time.Now().Add(time.Hour), "www.example.com")
}

// overTLS wraps a server in TLS.
func overTLS(cert tls.Certificate, protos []string, version uint16, f serveFunc) serveFunc {
	return func(n int, c net.Conn) {
		tc := tls.Server(c, &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: protos, MaxVersion: version, DynamicRecordSizingDisabled: true})
		defer tc.Close()
		if tc.Handshake() != nil {
			return
		}
		f(n, tc)
	}
}

// overH2 serves HTTP/2 with a handler.
func overH2(cert tls.Certificate, h http.Handler) serveFunc {
	return func(_ int, c net.Conn) {
		l := &oneConn{conn: make(chan net.Conn, 1), closed: make(chan struct{})}
		l.conn <- &closeNotifier{Conn: c, l: l}
		srv := &http.Server{Handler: h, DisableGeneralOptionsHandler: true, TLSConfig: &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2"}}}
		_ = srv.ServeTLS(l, "", "") // until the connection is closed
	}
}

// oneConn is a listener that accepts one connection and ends with it.
type oneConn struct {
	conn   chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *oneConn) Accept() (net.Conn, error) {
	select {
	case c := <-l.conn:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *oneConn) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *oneConn) Addr() net.Addr { return &net.TCPAddr{} }

type closeNotifier struct {
	net.Conn
	l *oneConn
}

func (c *closeNotifier) Close() error {
	_ = c.l.Close()
	return c.Conn.Close()
}

func okAlways(_, _ int, _ *http.Request) string { return ok("x") }

// noRequest fails the test if a request comes.
func noRequest(t *testing.T) func(_, _ int, _ *http.Request) string {
	return func(_, _ int, r *http.Request) string {
		t.Errorf("request for %s", r.RequestURI)
		return ""
	}
}
