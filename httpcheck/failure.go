package httpcheck

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/net/http2"

	"github.com/whyslow/whyslow/internal/millis"
)

// Reasons of our own for giving up.
var (
	errHeaderSize = errors.New("the response header exceeds its bound")
	errInterim    = errors.New("the server sends interim (1xx) responses without end")
	errFlood      = errors.New("the server floods the connection with control frames")
	errAbandoned  = errors.New("no byte came, while the same fetch with small segments succeeded")
)

// kindError is an error whose kind is known where it arises.
type kindError struct {
	kind string
	err  error
}

func (e *kindError) Error() string { return e.err.Error() }
func (e *kindError) Unwrap() error { return e.err }

// stamp is the progress of one exchange: which phase it is in and since when.
type stamp struct {
	start time.Time // of the exchange
	extra time.Duration
	phase string
	since time.Time
}

func (s *stamp) enter(phase string, now time.Time) { s.phase, s.since = phase, now }

// failure describes err in the phase the exchange is in.
func (s *stamp) failure(ctx context.Context, err error) *Failure {
	now := time.Now()
	f := &Failure{
		Phase:   s.phase,
		After:   millis.Of(now.Sub(s.start) + s.extra),
		InPhase: millis.Of(now.Sub(s.since)),
	}
	if over(ctx) {
		f.Kind, f.Text = "canceled", "interrupted"
		return f
	}
	f.Kind = kindOf(err)
	f.Text = bounded(textOf(s.phase, f, err), maxText)
	return f
}

// over says whether ctx has ended. A deadline of ctx reaches the sockets by a
// timer of their own, which may fire before that of ctx itself.
func over(ctx context.Context) bool {
	until, bounded := ctx.Deadline()
	return ctx.Err() != nil || bounded && !time.Now().Before(until)
}

// maxText bounds the text of a failure. Bytes.
const maxText = 400

// kindOf returns the Failure.Kind of an error.
func kindOf(err error) string {
	var (
		known *kindError
		dns   *net.DNSError
		errno syscall.Errno
		verif *tls.CertificateVerificationError
		alert tls.AlertError
		rec   tls.RecordHeaderError
		h2c   http2.ConnectionError
		h2s   http2.StreamError
	)
	switch {
	case errors.As(err, &known):
		return known.kind
	case errors.Is(err, context.Canceled):
		return "canceled"
	case errors.Is(err, errHeaderSize):
		return "too-large"
	case errors.Is(err, errAbandoned), errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	case errors.As(err, &dns):
		if dns.IsNotFound {
			return "nxdomain"
		}
		return "dns"
	case errors.As(err, &errno):
		return errnoKind(errno)
	case errors.As(err, &verif):
		return "certificate"
	case errors.As(err, &alert), errors.As(err, &rec):
		return "tls"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed):
		return "closed"
	case errors.As(err, &h2c), errors.As(err, &h2s), errors.Is(err, http2.ErrFrameTooLarge):
		return "protocol"
	}
	return "other"
}

// textOf says in one line what happened.
func textOf(phase string, f *Failure, err error) string {
	switch f.Kind {
	case "timeout":
		if errors.Is(err, errAbandoned) {
			return fmt.Sprintf("%s: %v", phase, errAbandoned)
		}
		return fmt.Sprintf("%s: no answer within %.1f s", phase, f.InPhase.Duration().Seconds())
	case "certificate":
		return certificateText(err, time.Now())
	case "closed":
		switch phase {
		case "wait":
			return "the server closed the connection without a complete answer"
		case "tls":
			return "the server closed the connection during the TLS handshake"
		}
	case "reset":
		return fmt.Sprintf("%s: the connection was reset", phase)
	}
	// Errors of the kernel and of crypto/tls name the phase themselves.
	return phase + ": " + strings.TrimPrefix(err.Error(), phase+": ")
}

// certificateText says what is wrong with a certificate, and until when or for
// which names it would have been right.
func certificateText(err error, now time.Time) string {
	var (
		invalid x509.CertificateInvalidError
		unknown x509.UnknownAuthorityError
		host    x509.HostnameError
	)
	const day = time.DateOnly
	switch {
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired && invalid.Cert != nil:
		c := invalid.Cert
		if now.Before(c.NotBefore) {
			return fmt.Sprintf("certificate of %s is not valid before %s", name(c), c.NotBefore.UTC().Format(time.RFC3339))
		}
		return fmt.Sprintf("certificate of %s expired at %s", name(c), c.NotAfter.UTC().Format(time.RFC3339))
	case errors.As(err, &host) && host.Certificate != nil:
		c := host.Certificate
		return fmt.Sprintf("certificate is for %s, not for %s", names(c), host.Host)
	case errors.As(err, &unknown):
		if unknown.Cert == nil {
			return "certificate signed by unknown authority"
		}
		c := unknown.Cert
		return fmt.Sprintf("certificate of %s is signed by unknown authority %q (valid %s to %s)",
			name(c), c.Issuer.String(), c.NotBefore.UTC().Format(day), c.NotAfter.UTC().Format(day))
	}
	return "certificate: " + err.Error()
}

// name is what a certificate calls its owner.
func name(c *x509.Certificate) string {
	if c.Subject.CommonName != "" {
		return c.Subject.CommonName
	}
	return names(c)
}

// names lists the first few names a certificate is valid for.
func names(c *x509.Certificate) string {
	all := append([]string(nil), c.DNSNames...)
	for _, ip := range c.IPAddresses {
		if a, ok := netip.AddrFromSlice(ip); ok {
			all = append(all, a.Unmap().String())
		}
	}
	const few = 4
	switch {
	case len(all) == 0:
		return "no name"
	case len(all) > few:
		return fmt.Sprintf("%s and %d more", strings.Join(all[:few], ", "), len(all)-few)
	}
	return strings.Join(all, ", ")
}
