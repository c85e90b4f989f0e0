package cli

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"net/url"
	"sync"
	"time"

	"github.com/whyslow/whyslow/httpcheck"
	"github.com/whyslow/whyslow/internal/diagnose"
	"github.com/whyslow/whyslow/pmtu"
)

// connectWait is how long a web server may take to accept: sizes do not matter
// before that.
const connectWait = 3 * time.Second

// timestampBytes is what the TCP timestamp option takes of each segment, padded
// (RFC 7323 appendix A). The kernel's figures leave it out once it is agreed on.
const timestampBytes = 12

// page is the web page that tells which packets come back. Its fetches may run
// side by side.
type page struct {
	common *common
	host   netip.Addr

	mu     sync.Mutex
	target target
}

// fetch is a pmtu.Fetch. The first one follows the redirect of a bare host to
// where the page is, and falls back to plain HTTP where no TLS is spoken.
func (p *page) fetch(ctx context.Context, mss int, patience time.Duration) pmtu.Fetched {
	p.mu.Lock()
	t := p.target
	p.mu.Unlock()
	begin := time.Now()
	x, err := p.once(ctx, t, mss, patience)
	if err == nil && mss == 0 {
		next, ok := elsewhere(t, x)
		if t.bare && otherwise(x.Failure, t) {
			next, ok = t.plainHTTP(), true
		}
		if ok && time.Since(begin) < patience {
			if y, err := p.once(ctx, next, mss, patience); err == nil && better(y, x) {
				x, t = y, next
				p.mu.Lock()
				p.target = next
				p.mu.Unlock()
			}
		}
	}
	if err != nil {
		return pmtu.Fetched{Failure: err.Error()}
	}
	return fetched(x, t)
}

// once fetches a page over a fresh connection. Any certificate will do: nothing
// that comes is believed, and nothing secret is sent.
func (p *page) once(ctx context.Context, t target, mss int, patience time.Duration) (*httpcheck.Exchange, error) {
	u, err := url.Parse(t.url)
	if err != nil {
		return nil, err
	}
	u.User = nil
	c, err := httpcheck.New(httpcheck.Options{
		URL: u.String(), Addrs: []netip.Addr{p.host}, Source: p.common.source, Interface: p.common.iface,
		MSS: mss, Insecure: true, MaxBody: pmtu.MaxFetch, MaxRequests: 1, MaxRedirects: -1,
		ConnectTimeout: connectWait, TLSTimeout: patience, WaitTimeout: patience, StallTimeout: patience, BodyTime: 2 * patience,
	})
	if err != nil {
		return nil, err
	}
	s, err := c.Fetch(ctx)
	if err != nil {
		return nil, err
	}
	if len(s.Exchanges) == 0 {
		return nil, fmt.Errorf("%s was not asked", diagnose.Redacted(t.url))
	}
	return &s.Exchanges[len(s.Exchanges)-1], nil
}

// better reports whether an exchange brought more than another.
func better(x, than *httpcheck.Exchange) bool {
	return x.TCP != nil && (than.TCP == nil || x.TCP.BytesIn > than.TCP.BytesIn || x.Failure == nil)
}

// elsewhere is where a redirect leads, if that is the same host.
func elsewhere(t target, x *httpcheck.Exchange) (target, bool) {
	if x.Status/100 != 3 || x.Location == "" {
		return t, false
	}
	base, err := url.Parse(t.url)
	if err != nil {
		return t, false
	}
	to, err := base.Parse(x.Location)
	if err != nil || to.Hostname() != t.host {
		return t, false
	}
	next, err := parseTarget(to.String())
	return next, err == nil
}

// fetched is what an exchange tells about sizes.
func fetched(x *httpcheck.Exchange, t target) pmtu.Fetched {
	f := pmtu.Fetched{Elapsed: x.Phases.Total}
	for _, tcp := range []*httpcheck.TCP{x.TCPStart, x.TCP} {
		if tcp == nil {
			continue
		}
		options := 0
		if tcp.Timestamps {
			options = timestampBytes
		}
		f.Bytes, f.OurMSS = tcp.BytesIn, tcp.AdvMSS+options
		f.PeerMSS = tcp.SndMSS + options
		f.LargestMSS = 0
		if tcp.BytesIn > 0 {
			// The kernel begins with a guess of 536, and learns from full
			// segments.
			f.LargestMSS = min(tcp.RcvMSS, cmp.Or(tcp.AdvMSS, tcp.RcvMSS)) + options
		}
	}
	fail := x.Failure
	switch {
	case fail == nil:
	case fail.Kind == "timeout" && fail.Phase != "connect" && fail.Phase != "resolve":
		f.Stalled, f.Elapsed = true, fail.After
	case x.Phases.Connect.Known() && f.Bytes > 0:
		// No page, but what came has told its size: a certificate, an alert.
	default:
		f.Failure = fmt.Sprintf("no web server answers at %s: %s", diagnose.Redacted(t.url), fail.Text)
	}
	return f
}
