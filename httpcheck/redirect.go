package httpcheck

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/whyslow/whyslow/internal/millis"
)

// group is a set of connections, one to each origin, that belong together: the
// cold sample opens them, the warm ones after it use them again.
type group struct {
	client *Client
	opts   Options
	conns  map[string]*conn // by scheme and authority
	idle   time.Duration    // left idle after connecting; only for Client.Idle

	mu     sync.Mutex
	active *meter   // the connection in use
	asked  *url.URL // what it is used for
}

func (c *Client) group() *group {
	return &group{client: c, opts: c.opts, conns: map[string]*conn{}}
}

func (g *group) close() {
	for _, k := range g.conns {
		k.close()
	}
	clear(g.conns)
}

// has says whether a connection to u's origin is there to be used again.
func (g *group) has(u *url.URL) bool { return g.conns[origin(u)] != nil }

func origin(u *url.URL) string { return u.Scheme + "://" + u.Host }

// use remembers the connection that bytes go over, and what for.
func (g *group) use(m *meter, u *url.URL) {
	g.mu.Lock()
	g.active, g.asked = m, u
	g.mu.Unlock()
}

// inUse returns what use remembered; nil before there is a connection.
func (g *group) inUse() (*meter, *url.URL) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.active, g.asked
}

// exchange sends one request, over the group's connection to the origin or a
// new one. The error is ErrRequests or nil; what went wrong is in x.Failure.
func (g *group) exchange(ctx context.Context, rq *request) (x Exchange, h http.Header, err error) {
	c := g.client
	if !c.take() {
		return x, nil, ErrRequests
	}
	start := time.Now()
	x = Exchange{URL: display(rq.url), Method: rq.method, At: millis.Of(start.Sub(c.begin))}
	st := stamp{start: start}
	key := origin(rq.url)
	k := g.conns[key]
	if k == nil {
		k, err = g.open(ctx, rq.url, &x, &st)
		if err != nil {
			c.give() // nothing was sent
			x.Failure = st.failure(ctx, err)
			return x, nil, nil
		}
		g.conns[key] = k
	}
	g.use(k.meter, rq.url)
	h, err = c.perform(ctx, k, &g.opts, rq, &x, &st)
	if err != nil {
		x.Failure = st.failure(ctx, err)
	}
	if k.dead {
		k.close()
		delete(g.conns, key)
	}
	return x, h, nil
}

// fetch fetches a URL, redirects followed. The error is ErrRequests if not even
// the first request could be sent.
func (g *group) fetch(ctx context.Context, to goal) (Sample, error) {
	var s Sample
	c := g.client
	u, method := to.url, to.method
	seen := map[string]bool{}
	before := c.connections()
	for {
		rq := c.request(u, method)
		x, h, err := g.exchange(ctx, rq)
		if err != nil {
			if len(s.Exchanges) == 0 {
				return s, err
			}
			s.Failure = redirectFailure("other", "the request limit was reached on the way")
			return s, nil
		}
		seen[method+" "+u.String()] = true
		location := h.Get("Location")
		var next *url.URL
		if isRedirect(x.Status) && location != "" {
			var failure *Failure
			next, failure = follow(u, location)
			x.Location = shown(next, location)
			if x.Failure == nil && c.opts.MaxRedirects > 0 {
				s.Failure = failure
			}
		}
		s.Exchanges = append(s.Exchanges, x)
		s.Connection, s.Request = x.Connection, x.Request
		s.Cold = x.Connection > before
		if x.Failure != nil {
			s.Failure = x.Failure
			return s, nil
		}
		if s.Failure != nil {
			return s, nil
		}
		if next == nil || c.opts.MaxRedirects == 0 {
			c.arrivedAt(u, method)
			return s, nil
		}
		if method != http.MethodHead && (x.Status == http.StatusSeeOther ||
			method == http.MethodPost && x.Status < http.StatusTemporaryRedirect) {
			method = http.MethodGet // RFC 9110 §15.4.2–4
		}
		if seen[method+" "+next.String()] {
			s.Failure = redirectFailure("redirect-loop", "the redirects lead back to "+display(next))
			return s, nil
		}
		if len(s.Exchanges) > c.opts.MaxRedirects {
			s.Failure = redirectFailure("redirect-loop", fmt.Sprintf("more than %d redirects", c.opts.MaxRedirects))
			return s, nil
		}
		u = next
	}
}

func redirectFailure(kind, text string) *Failure {
	return &Failure{Phase: "redirect", Kind: kind, Text: bounded(text, maxText)}
}

// isRedirect says whether a status sends a browser elsewhere, RFC 9110 §15.4.
func isRedirect(status int) bool {
	switch status {
	case 301, 302, 303, 307, 308:
		return true
	}
	return false
}

// follow resolves a Location (RFC 9110 §10.2.2). Credentials in it are
// dropped: they are the server's, not the user's.
func follow(base *url.URL, location string) (*url.URL, *Failure) {
	if len(location) > maxURL {
		return nil, redirectFailure("too-large", fmt.Sprintf("a Location of %d bytes", len(location)))
	}
	ref, err := url.Parse(strings.TrimSpace(location))
	if err != nil {
		return nil, redirectFailure("protocol", "an invalid Location")
	}
	next := base.ResolveReference(ref)
	next.User = nil
	next, err = normalize(next)
	if err != nil {
		return nil, redirectFailure("protocol", "Location: "+err.Error())
	}
	return next, nil
}

// shown is a Location for the result: the URL it means, or what was sent if it
// means none.
func shown(next *url.URL, location string) string {
	if next != nil {
		return display(next)
	}
	const some = 1 << 10
	// It may hold credentials where a parser fails; leave out all before an @.
	if i := strings.LastIndexByte(location, '@'); i >= 0 {
		location = location[i+1:]
	}
	return bounded(location, some)
}
