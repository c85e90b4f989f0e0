package worlds

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// web is a server written for the worlds alone: nothing of it is shared with
// the demo's, so that the judge can't have been made for its quirks.
type web struct {
	tls       bool
	tlsMax    uint16
	h2        bool
	certNames int // more names make a larger certificate

	think      func() time.Duration // of the page
	thinkAll   bool                 // every path thinks
	coldFirst  time.Duration        // the very first request of all
	size       int
	status     int
	pace       func(w io.Writer, flush func(), body []byte)
	accept     time.Duration
	parallel   bool // late accepts do not wait for each other
	handshake  time.Duration
	noKeep     bool
	redirects  int
	slowHop    time.Duration // of each redirect
	hopStatus  int
	elsewhere  string        // the last redirect leads to this host
	perConn    time.Duration // once a connection, before the first answer
	secondConn time.Duration // once a connection, while the first request is logged

	first atomic.Bool
}

type connState struct {
	asked atomic.Int32
}

type connKey struct{}

func (s *web) serve(l net.Listener, cert *tls.Certificate) func() error {
	srv := &http.Server{Handler: s, ErrorLog: log.New(io.Discard, "", 0), Protocols: new(http.Protocols),
		ConnContext: func(ctx context.Context, _ net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, &connState{})
		}}
	srv.Protocols.SetHTTP1(true)
	srv.Protocols.SetHTTP2(s.h2)
	srv.SetKeepAlivesEnabled(!s.noKeep)
	var listen net.Listener = &late{Listener: l, delay: s.accept, parallel: s.parallel}
	if cert != nil {
		conf := &tls.Config{Certificates: []tls.Certificate{*cert}, MaxVersion: s.tlsMax, NextProtos: []string{"http/1.1"}}
		if s.h2 {
			conf.NextProtos = []string{"h2", "http/1.1"}
		}
		conf.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
			time.Sleep(s.handshake)
			return nil, nil
		}
		listen = tls.NewListener(listen, conf)
	}
	done := make(chan struct{})
	go func() { defer close(done); _ = srv.Serve(listen) }()
	return func() error { err := srv.Close(); <-done; return err }
}

type late struct {
	net.Listener
	delay    time.Duration
	parallel bool
}

func (l *late) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil || l.delay == 0 {
		return c, err
	}
	if !l.parallel {
		time.Sleep(l.delay)
		return c, nil
	}
	return &lateConn{Conn: c, ready: time.Now().Add(l.delay)}, nil
}

// lateConn is read late, as by a process that is busy with others.
type lateConn struct {
	net.Conn
	ready time.Time
}

func (c *lateConn) Read(b []byte) (int, error) {
	time.Sleep(time.Until(c.ready))
	return c.Conn.Read(b)
}

func (s *web) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	st := r.Context().Value(connKey{}).(*connState)
	n := st.asked.Add(1)
	if s.perConn > 0 && n == 1 {
		time.Sleep(s.perConn)
	}
	if s.secondConn > 0 && n == 2 {
		time.Sleep(s.secondConn)
	}
	if s.coldFirst > 0 && s.first.CompareAndSwap(false, true) {
		time.Sleep(s.coldFirst)
	}
	if s.thinkAll && s.think != nil {
		time.Sleep(s.think())
	}
	w.Header().Set("Server", "elsewhere")
	switch p := r.URL.Path; {
	case strings.HasPrefix(p, "/hop/"):
		s.hop(w, r, p)
	case p == "/shop":
		s.page(w, r)
	case p == "/favicon.ico", p == "/robots.txt":
		w.Header().Set("Content-Length", "5")
		_, _ = io.WriteString(w, "tiny\n")
	default:
		http.Error(w, "no such page", http.StatusNotFound)
	}
}

func (s *web) hop(w http.ResponseWriter, r *http.Request, path string) {
	time.Sleep(s.slowHop)
	n, _ := strconv.Atoi(strings.TrimPrefix(path, "/hop/"))
	to := "/shop"
	if n > 1 {
		to = fmt.Sprintf("/hop/%d", n-1)
	}
	if s.elsewhere != "" && n <= 1 {
		scheme := "http"
		if s.tls {
			scheme = "https"
		}
		to = scheme + "://" + s.elsewhere + to
	}
	status := http.StatusFound
	if s.hopStatus != 0 {
		status = s.hopStatus
	}
	http.Redirect(w, r, to, status)
}

func (s *web) page(w http.ResponseWriter, r *http.Request) {
	if !s.thinkAll && s.think != nil {
		time.Sleep(s.think())
	}
	body := make([]byte, s.size)
	for i := range body {
		body[i] = "lorem ipsum dolor sit amet\n"[i%27]
	}
	w.Header().Set("Content-Type", "text/html")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	if s.status != 0 {
		w.WriteHeader(s.status)
	}
	if s.pace == nil || r.Method == http.MethodHead {
		_, _ = w.Write(body)
		return
	}
	c := http.NewResponseController(w)
	s.pace(w, func() { _ = c.Flush() }, body)
}

// pieces writes a body in n pieces with a pause between.
func pieces(n int, every time.Duration) func(io.Writer, func(), []byte) {
	return func(w io.Writer, flush func(), body []byte) {
		size := len(body)/n + 1
		for at := 0; at < len(body); at += size {
			if at > 0 {
				time.Sleep(every)
			}
			_, _ = w.Write(body[at:min(at+size, len(body))])
			flush()
		}
	}
}

// constant writes at a rate in bytes a second.
func constant(rate int) func(io.Writer, func(), []byte) {
	return func(w io.Writer, flush func(), body []byte) {
		begin := time.Now()
		step := max(rate/100, 200)
		for at := 0; at < len(body); at += step {
			time.Sleep(time.Until(begin.Add(time.Duration(float64(at) / float64(rate) * float64(time.Second)))))
			_, _ = w.Write(body[at:min(at+step, len(body))])
			flush()
		}
	}
}

func issue(name string, ip net.IP, more int) (*tls.Certificate, *x509.CertPool, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	t := &x509.Certificate{SerialNumber: big.NewInt(7), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name, "img.other.example"}, IPAddresses: []net.IP{ip},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature}
	for i := range more {
		t.DNSNames = append(t.DNSNames, fmt.Sprintf("alias-%d.of.the.shop.example", i))
	}
	der, err := x509.CreateCertificate(rand.Reader, t, t, key.Public(), key)
	if err != nil {
		return nil, nil, err
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, nil, err
	}
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool, nil
}
