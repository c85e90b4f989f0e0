package servers

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// HTTPConfig describes an HTTP server.
type HTTPConfig struct {
	// Place of its sockets. Nil means Host.
	Place Place
	// Addrs are served in the clear, TLSAddrs over TLS with Certificate.
	Addrs, TLSAddrs []netip.AddrPort
	Certificate     *Certificate
	HTTP2           bool // offered over TLS
	// Routes by path. Beside them the server has /favicon.ico and
	// /robots.txt, and answers 404 to the rest, all of it at once.
	Routes map[string]Route
	// Banner is the Server header, sent as it is. Empty means none.
	Banner string

	// AcceptDelay passes before each connection is accepted, one after the
	// other: the client is connected but nobody listens.
	AcceptDelay time.Duration
	// ResetOnAccept resets each connection once it was accepted.
	ResetOnAccept bool
	// HandshakeDelay passes between the client's TLS hello and the answer.
	HandshakeDelay time.Duration
	// Lookup makes the server look up its clients' names.
	Lookup Lookup
}

// HTTP is a running HTTP server.
type HTTP struct {
	cfg    HTTPConfig
	lookup *lookuper
	plain  []net.Listener
	secure []net.Listener
	server *http.Server
	ctx    context.Context // ends with Close; delays and lookups obey it
	cancel context.CancelFunc
	wg     sync.WaitGroup
	active sync.RWMutex // held for reading by each handler

	requests, connections atomic.Int64
}

// StartHTTP starts a server.
func StartHTTP(cfg HTTPConfig) (*HTTP, error) {
	if cfg.Place == nil {
		cfg.Place = Host{}
	}
	if len(cfg.TLSAddrs) > 0 && cfg.Certificate == nil {
		return nil, errors.New("servers: TLS without a certificate")
	}
	for path, r := range cfg.Routes {
		if err := r.validate(); err != nil {
			return nil, fmt.Errorf("servers: route %s: %w", path, err)
		}
	}
	s := &HTTP{cfg: cfg}
	var err error
	if s.plain, err = listenTCP(cfg.Place, cfg.Addrs); err != nil {
		return nil, err
	}
	if s.secure, err = listenTCP(cfg.Place, cfg.TLSAddrs); err != nil {
		for _, l := range s.plain {
			err = errors.Join(err, l.Close())
		}
		return nil, err
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.lookup = newLookuper(cfg.Lookup, cfg.Place)
	s.serve()
	return s, nil
}

// serve starts the accept loops.
func (s *HTTP) serve() {
	s.server = &http.Server{
		Handler:           http.HandlerFunc(s.handle),
		BaseContext:       func(net.Listener) context.Context { return s.ctx },
		ConnContext:       s.newConn,
		ReadHeaderTimeout: time.Minute,
		ErrorLog:          nobody(),
		Protocols:         new(http.Protocols),
	}
	s.server.Protocols.SetHTTP1(true)
	s.server.Protocols.SetHTTP2(s.cfg.HTTP2)
	for _, l := range s.plain {
		s.wg.Go(func() { _ = s.server.Serve(s.faulty(l)) })
	}
	for _, l := range s.secure {
		conf := s.tlsConfig()
		s.wg.Go(func() { _ = s.server.Serve(tls.NewListener(s.faulty(l), conf)) })
	}
}

// tlsConfig presents the certificate after the handshake delay.
func (s *HTTP) tlsConfig() *tls.Config {
	conf := &tls.Config{
		Certificates: []tls.Certificate{s.cfg.Certificate.pair},
		NextProtos:   []string{"http/1.1"},
	}
	if s.cfg.HTTP2 {
		conf.NextProtos = []string{"h2", "http/1.1"}
	}
	conf.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		if !pause(s.ctx, s.cfg.HandshakeDelay) {
			return nil, s.ctx.Err()
		}
		return nil, nil // go on with this one
	}
	return conf
}

// Addrs are the addresses served in the clear, TLSAddrs those over TLS.
func (s *HTTP) Addrs() []netip.AddrPort { return addrPorts(s.plain) }

// TLSAddrs are the addresses served over TLS.
func (s *HTTP) TLSAddrs() []netip.AddrPort { return addrPorts(s.secure) }

// Requests counts the requests handled so far.
func (s *HTTP) Requests() int64 { return s.requests.Load() }

// Connections counts the connections accepted so far.
func (s *HTTP) Connections() int64 { return s.connections.Load() }

// Close ends the server, its connections and everything it waits for.
func (s *HTTP) Close() error {
	s.cancel()
	err := s.server.Close()
	s.wg.Wait()
	s.active.Lock() // until the last handler is through
	defer s.active.Unlock()
	s.lookup.wait()
	if err != nil {
		return fmt.Errorf("servers: closing the HTTP server: %w", err)
	}
	return nil
}

// faulty adds the faults of accepting to a listener.
func (s *HTTP) faulty(l net.Listener) net.Listener { return &faultyListener{l, s} }

type faultyListener struct {
	net.Listener
	s *HTTP
}

func (l *faultyListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		// After the kernel's accept rather than before it: else a listener
		// that was idle for long enough would take the next client at once.
		if !pause(l.s.ctx, l.s.cfg.AcceptDelay) {
			_ = c.Close()
			return nil, net.ErrClosed
		}
		l.s.connections.Add(1)
		if !l.s.cfg.ResetOnAccept {
			return c, nil
		}
		reset(c)
	}
}

// reset ends a connection with a RST.
func reset(c net.Conn) {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn() // a TLS close_notify would be a polite end
	}
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetLinger(0)
	}
	_ = c.Close()
}
