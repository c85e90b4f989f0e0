package httpcheck

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/netip"
	"net/url"
	"time"

	"github.com/whyslow/whyslow/internal/millis"
)

// conn is one connection to an origin, over which requests go one after the
// other. Everything on it happens in the goroutine of its owner, so that a
// stamp is taken where the byte moves.
type conn struct {
	meter  *meter
	rec    *records  // nil without TLS
	tls    *tls.Conn // nil without TLS
	limit  *limiter
	br     *bufio.Reader
	h2     *h2 // nil for HTTP/1
	number int
	// requests counts those sent.
	requests int
	// dead says that no further request may be sent.
	dead          bool
	remote, local netip.AddrPort
}

// arrived tells when the byte that br returns next came from the network.
func (k *conn) arrived() time.Time {
	if k.rec != nil {
		return k.rec.start
	}
	return k.meter.lastRead
}

func (k *conn) Write(p []byte) (int, error) {
	if k.tls != nil {
		return k.tls.Write(p)
	}
	return k.meter.Write(p)
}

// close ends the connection, politely if it still works.
func (k *conn) close() {
	if k.tls != nil && !k.dead {
		k.meter.bound(100*time.Millisecond, time.Time{})
		_ = k.tls.Close()
		return
	}
	_ = k.meter.Close()
}

// open connects to u's origin for the exchange x and fills in what it learns.
// st ends in the phase that failed, or after the last.
func (g *group) open(ctx context.Context, u *url.URL, x *Exchange, st *stamp) (*conn, error) {
	c, o := g.client, &g.opts
	st.enter("resolve", time.Now())
	addrs, took, err := c.resolve(ctx, u, o.Family)
	if err != nil {
		return nil, err
	}
	x.Phases.Resolve = took
	// A resolution made elsewhere is part of what the user waits for.
	if d, ok := took.Get(); ok && c.isGiven(u) {
		st.extra = d
	}
	begin := time.Now()
	st.enter("connect", begin)
	raw, stood, attempts, err := dial(ctx, o, addrs, portOf(u))
	x.Attempts = attempts
	if err != nil {
		return nil, err
	}
	x.Phases.Connect = millis.Of(stood.Sub(begin))
	k := &conn{meter: &meter{conn: raw, progress: stood}, number: c.connection()}
	k.remote, k.local = addrPort(raw.RemoteAddr()), addrPort(raw.LocalAddr())
	k.meter.lastRead = stood
	c.connected(u, k.remote.Addr())
	g.use(k.meter, u)
	x.Connection, x.Remote, x.Local = k.number, k.remote.String(), k.local.String()
	x.TCPStart = tcpInfo(raw)
	if g.idle > 0 {
		if stood, err = k.leaveIdle(ctx, g.idle, st); err != nil {
			_ = k.meter.Close()
			return nil, err
		}
	}
	var app io.Reader = k.meter
	if u.Scheme == "https" {
		// The handshake follows the connect at once; what lies between is
		// ours, and small.
		st.enter("tls", stood)
		if err := k.handshake(ctx, o, u.Hostname(), x); err != nil {
			x.TCP = tcpInfo(raw)
			_ = k.meter.Close()
			return nil, err
		}
		x.Phases.TLS = millis.Of(time.Since(stood))
		app = k.tls
	}
	k.limit = &limiter{r: app}
	k.br = bufio.NewReaderSize(k.limit, 16<<10)
	if k.tls != nil && k.tls.ConnectionState().NegotiatedProtocol == "h2" {
		k.h2 = newH2(k, o.MaxHeader)
	}
	return k, nil
}

// isGiven says whether the addresses of u's host came with the options.
func (c *Client) isGiven(u *url.URL) bool {
	return len(c.opts.Addrs) > 0 && u.Hostname() == c.url.Hostname()
}

// handshake does TLS and describes it in x.TLS, also a certificate refused.
func (k *conn) handshake(ctx context.Context, o *Options, host string, x *Exchange) error {
	stop := k.meter.watch(ctx)
	defer stop()
	k.meter.bound(0, time.Now().Add(o.TLSTimeout))
	k.rec = newRecords(k.meter)
	cfg := &tls.Config{
		ServerName:         host,
		RootCAs:            o.RootCAs,
		InsecureSkipVerify: o.Insecure, //nolint:gosec // asked for by --insecure
		NextProtos:         []string{"h2", "http/1.1"},
	}
	if o.HTTP1 {
		cfg.NextProtos = cfg.NextProtos[1:]
	}
	k.tls = tls.Client(k.rec, cfg)
	// Not HandshakeContext: it closes the connection from another goroutine,
	// and the meter bounds the reads anyway.
	if err := k.tls.Handshake(); err != nil {
		var verif *tls.CertificateVerificationError
		if errors.As(err, &verif) {
			x.TLS = describeChain(verif.UnverifiedCertificates)
		}
		if kindOf(err) == "other" {
			err = &kindError{kind: "tls", err: err}
		}
		return err
	}
	cs := k.tls.ConnectionState()
	t := describeChain(cs.PeerCertificates)
	t.Version, t.Cipher, t.Resumed = tls.VersionName(cs.Version), tls.CipherSuiteName(cs.CipherSuite), cs.DidResume
	t.RoundTrips = roundTrips(&cs)
	x.TLS = t
	return nil
}

// roundTrips is how often a handshake crosses the network: once for TLS 1.3
// (RFC 8446 §2), twice for TLS 1.2 (RFC 5246 §7.3) unless resumed, once more
// after a HelloRetryRequest.
func roundTrips(cs *tls.ConnectionState) int {
	n := 1
	if cs.Version < tls.VersionTLS13 && !cs.DidResume {
		n = 2
	}
	if cs.HelloRetryRequest {
		n++
	}
	return n
}

func describeChain(chain []*x509.Certificate) *TLS {
	t := &TLS{}
	for i, c := range chain {
		t.ChainBytes += len(c.Raw)
		if i == 0 {
			t.NotBefore, t.NotAfter = c.NotBefore.UTC(), c.NotAfter.UTC()
			t.Subject, t.Issuer = bounded(name(c), maxText), bounded(c.Issuer.String(), maxText)
		}
	}
	return t
}

func addrPort(a net.Addr) netip.AddrPort {
	if t, ok := a.(*net.TCPAddr); ok {
		ap := t.AddrPort()
		return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
	}
	return netip.AddrPort{}
}
