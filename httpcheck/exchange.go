package httpcheck

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/textproto"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/whyslow/whyslow/internal/millis"
)

// request is one request, ready to be sent.
type request struct {
	url    *url.URL
	method string
	host   string // the authority asked for
	header http.Header
	star   bool // "*" instead of a path
}

// response is the head of the final response to a request.
type response struct {
	status   int
	protocol string
	header   http.Header
	first    time.Time // arrival of its first byte
	interim  int       // 1xx responses before it
	// toEOF says that only the end of the connection ends the body.
	toEOF bool
}

// round is one request and its response on a connection of one protocol.
type round interface {
	// encode returns the request as the bytes to be written.
	encode(*request) ([]byte, error)
	head() (*response, error)
	// body reads and forgets up to max bytes. errBodySize says there are more.
	body(max int64) (int64, error)
}

// Bounds of what is kept of a response.
const (
	maxInterim    = 32       // 1xx responses; RFC 9110 §15.2 sets no limit
	maxField      = 256      // bytes of a header value in results
	redirectBody  = 64 << 10 // bytes of a redirect's body read to keep its connection
	minPause      = 10 * time.Millisecond
	discardBuffer = 32 << 10
)

var errBodySize = errors.New("httpcheck: body bound reached")

// perform sends rq over k and reads the response into x. st ends in the phase
// that failed, or after the last. The header returned is the response's.
func (c *Client) perform(ctx context.Context, k *conn, o *Options, rq *request, x *Exchange, st *stamp) (http.Header, error) {
	k.requests++
	x.Connection, x.Request, x.Remote, x.Local = k.number, k.requests, k.remote.String(), k.local.String()
	if x.TCPStart == nil {
		x.TCPStart = tcpInfo(k.meter.conn)
	}
	stop := k.meter.watch(ctx)
	defer stop()
	defer func() { c.account(k, x) }()
	var r round = &h1{conn: k, method: rq.method}
	if k.h2 != nil {
		r = k.h2
	}
	k.dead = true // until the response was read to its end
	begin := time.Now()
	st.enter("send", begin)
	raw, err := r.encode(rq)
	if err != nil {
		return nil, err
	}
	k.meter.bound(o.StallTimeout, time.Time{})
	if _, err := k.Write(raw); err != nil {
		return nil, err
	}
	sent := time.Now()
	x.Phases.Send = millis.Of(sent.Sub(begin))
	st.enter("wait", sent)
	k.meter.bound(0, sent.Add(o.WaitTimeout))
	k.limit.left = o.MaxHeader + int64(k.br.Size())
	if k.h2 != nil {
		k.limit.left += maxControlBytes // the framer bounds the header itself
	}
	head, err := r.head()
	if err != nil {
		return nil, orProtocol(err)
	}
	x.Phases.Wait = millis.Of(max(0, head.first.Sub(sent)))
	x.describe(head)
	st.enter("receive", head.first)
	return head.header, k.receive(r, o, head, x, st)
}

// receive reads the body.
func (k *conn) receive(r round, o *Options, head *response, x *Exchange, st *stamp) error {
	k.limit.left = 1 << 62 // from here on the body's bounds hold
	g := &gapMeter{first: head.first, min: minPause}
	if x.TCPStart != nil {
		g.min = max(g.min, x.TCPStart.MinRTT.Duration()/2)
	}
	patience := o.BodyTime
	if isStream(x.ContentType) {
		patience = min(patience, streamTime)
	}
	until := head.first.Add(patience)
	k.meter.gaps = g
	k.meter.bound(o.StallTimeout, until)
	limit := o.MaxBody
	if isRedirect(head.status) {
		limit = min(limit, redirectBody)
	}
	n, err := r.body(limit)
	k.meter.gaps = nil
	x.Bytes = n
	if n > 0 {
		x.Gaps = &Gaps{Reads: g.reads, Pauses: g.pauses, PausedTotal: millis.Of(g.total), LongestPause: millis.Of(g.longest)}
		if g.pauses > 0 {
			x.Gaps.LongestAt = millis.Of(g.at)
		}
	}
	end := k.meter.lastRead
	switch {
	case errors.Is(err, errBodySize):
		x.Truncated = "size"
	case errors.Is(err, os.ErrDeadlineExceeded) && !time.Now().Before(until):
		x.Truncated = "time"
		if isStream(x.ContentType) {
			x.Truncated = "stream"
		}
		end = time.Now()
	case err != nil:
		k.dead = true
		return orProtocol(err)
	}
	if x.Truncated != "" {
		k.dead = true
	}
	if head.toEOF && x.Truncated == "" {
		end = time.Now() // the end of the connection is what the client waits for
		x.Gaps.last(end.Sub(k.meter.lastRead), k.meter.lastRead.Sub(head.first), g.min)
	}
	x.Phases.Receive = millis.Of(max(0, end.Sub(head.first)))
	x.Phases.Total = millis.Of(end.Sub(st.start) + st.extra)
	return nil
}

// account fills in what the kernel knows at the end of an exchange.
func (c *Client) account(k *conn, x *Exchange) {
	x.TCP = tcpInfo(k.meter.conn)
	if x.TCP == nil {
		return
	}
	rtt, ok := x.TCP.MinRTT.Get()
	if !ok {
		return
	}
	x.Network = millis.Of(rtt)
	if wait, ok := x.Phases.Wait.Get(); ok {
		// Never below zero: the stamps and the kernel's clock may differ by
		// some microseconds.
		x.Server = millis.Of(max(0, wait-rtt))
	}
}

// describe takes over what the response's head says.
func (x *Exchange) describe(head *response) {
	h := head.header
	x.Status, x.Protocol, x.Interim = head.status, head.protocol, head.interim
	x.ServerHeader = bounded(h.Get("Server"), maxField)
	x.ServerTiming = ParseServerTiming(h.Values("Server-Timing"))
	x.ContentType = bounded(h.Get("Content-Type"), maxField)
	x.ContentEncoding = bounded(h.Get("Content-Encoding"), maxField)
	x.RetryAfter = bounded(h.Get("Retry-After"), maxField)
}

// orProtocol calls an error that nothing else explains a breach of protocol:
// the parsers' own errors have no types.
func orProtocol(err error) error {
	if kindOf(err) == "other" {
		return &kindError{kind: "protocol", err: err}
	}
	return err
}

// request builds the request for u. Credentials and unknown headers go only to
// the origin they were meant for.
func (c *Client) request(u *url.URL, method string) *request {
	rq := &request{url: u, method: method, host: u.Host, header: http.Header{
		"User-Agent":      {"whyslow"},
		"Accept":          {"*/*"},
		"Accept-Encoding": {"identity"},
	}}
	own := sameSite(c.url, u)
	if own && c.url.User != nil {
		password, _ := c.url.User.Password()
		auth := http.Request{Header: http.Header{}}
		auth.SetBasicAuth(c.url.User.Username(), password)
		maps.Copy(rq.header, auth.Header)
	}
	for name, values := range c.opts.Header {
		name = textproto.CanonicalMIMEHeaderKey(name)
		switch {
		case name == "Host":
			if own && len(values) > 0 {
				rq.host = values[0]
			}
		case framing[name]:
		case own || harmless(name):
			rq.header[name] = values
		}
	}
	return rq
}

// framing headers are written by the protocol; a caller's would only break it.
var framing = map[string]bool{
	"Connection": true, "Content-Length": true, "Transfer-Encoding": true, "Trailer": true,
	"Keep-Alive": true, "Upgrade": true, "Te": true, "Expect": true, "Proxy-Connection": true,
}

// harmless says whether a header can hold no secret. The rest, an X-Api-Key
// say, stays with the host it was meant for.
func harmless(name string) bool {
	switch name {
	case "User-Agent", "Cache-Control", "Pragma", "Range":
		return true
	}
	return strings.HasPrefix(name, "Accept")
}

// sameSite says whether what was meant for a may be sent to b: the same
// origin, or its upgrade from http to https on the default ports.
func sameSite(a, b *url.URL) bool {
	if !strings.EqualFold(a.Hostname(), b.Hostname()) {
		return false
	}
	if a.Scheme == b.Scheme {
		return portOf(a) == portOf(b)
	}
	return a.Scheme == "http" && portOf(a) == 80 && portOf(b) == 443
}
