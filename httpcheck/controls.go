package httpcheck

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"github.com/whyslow/whyslow/internal/millis"
)

// clampedMSS passes every path that carries what each IPv4 host must accept,
// packets of 576 bytes (RFC 791; RFC 9293 3.7.1), and so every IPv6 path.
const clampedMSS = 536

// canaryEvery is the time between two connects of a canary.
const canaryEvery = 100 * time.Millisecond

// canaryTime is how long a body is read beside a canary: sixty connects have
// seen what there is to see.
const canaryTime = 6 * time.Second

// Control runs the experiment that Choose calls name.
func (c *Client) Control(ctx context.Context, name string) (Control, error) {
	switch name {
	case "static":
		return c.Static(ctx)
	case "not-found":
		return c.NotFound(ctx)
	case "options":
		return c.OptionsStar(ctx)
	case "mss-clamp":
		return c.MSSClamp(ctx)
	case "canary":
		return c.Canary(ctx)
	case "ipv4":
		return c.OverFamily(ctx, IPv4)
	case "ipv6":
		return c.OverFamily(ctx, IPv6)
	}
	return Control{}, fmt.Errorf("httpcheck: running a control: unknown name %q", name)
}

// Choose names the controls that could change what r means, the most telling
// first. r must be summarized.
func Choose(r *Result) []string {
	const slow = 100 * time.Millisecond
	var out []string
	if stalled(r) {
		out = append(out, "mss-clamp")
	}
	s := &r.Summary
	if s.Cold == 0 {
		return out
	}
	server := max(s.ColdServer.Duration(), s.SecondServer.Duration(), s.WarmServer.Duration())
	if !s.ColdServer.Known() { // no TCP_INFO: the network's part is in it
		server = s.ColdPhases.Wait.Duration()
	}
	if server > slow {
		out = append(out, "static", "not-found", "options")
	}
	switch r.Body.Class {
	case "clean", "none", "":
	default:
		if s.ColdPhases.Receive.Duration() > 3*slow {
			out = append(out, "canary")
		}
	}
	return out
}

// stalled says whether a fetch looks like one that lost its large segments and
// whether clamping was not tried yet.
func stalled(r *Result) bool {
	if !canClamp {
		return false
	}
	for _, c := range r.Controls {
		if c.Name == "mss-clamp" {
			return false
		}
	}
	for _, s := range r.Samples {
		for i := range s.Exchanges {
			x := &s.Exchanges[i]
			if f := x.Failure; f != nil && f.Kind == "timeout" {
				switch f.Phase {
				case "tls", "wait", "receive":
					return true
				}
			}
			if x.Phases.Connect.Known() && max(x.Phases.TLS.Duration(), x.Phases.Wait.Duration()) >= stallAfter {
				return true
			}
		}
	}
	return false
}

// one sends one request for u on a fresh connection of a group with options o.
func (c *Client) one(ctx context.Context, o Options, rq *request) (Exchange, error) {
	g := c.group()
	g.opts = o
	defer g.close()
	x, _, err := g.exchange(ctx, rq)
	return x, err
}

// sibling is the request for another path on the final URL's host.
func (c *Client) sibling(method, path string) *request {
	t := c.target()
	u := *t.url
	u.Path, u.RawPath, u.RawQuery, u.ForceQuery = path, "", "", false
	return c.request(&u, method)
}

// Static asks the final URL's host for two small files that most servers send
// without thinking, /favicon.ico and /robots.txt, over one fresh connection.
// The one with the shorter wait is the Exchange, the other is in Runs.
func (c *Client) Static(ctx context.Context) (Control, error) {
	ctl := Control{Name: "static", Why: "whether small static files wait as long as the page"}
	g := c.group()
	g.opts.MaxBody = min(g.opts.MaxBody, redirectBody)
	defer g.close()
	for i, path := range []string{"/favicon.ico", "/robots.txt"} {
		x, _, err := g.exchange(ctx, c.sibling(http.MethodGet, path))
		switch {
		case err != nil && i == 0:
			return ctl, err
		case err != nil:
			return ctl, nil
		case i == 0:
			ctl.Exchange = x
		case quicker(&x, &ctl.Exchange):
			ctl.Runs = append(ctl.Runs, ctl.Exchange)
			ctl.Exchange = x
		default:
			ctl.Runs = append(ctl.Runs, x)
		}
		if ctx.Err() != nil {
			break
		}
	}
	return ctl, nil
}

// quicker says whether x answered, and sooner than y if y did too.
func quicker(x, y *Exchange) bool {
	wx, okx := x.Phases.Wait.Get()
	wy, oky := y.Phases.Wait.Get()
	return okx && (!oky || wx < wy)
}

// NotFound asks for a path that does not exist, on a fresh connection: what
// the server takes without the page's own work.
func (c *Client) NotFound(ctx context.Context) (Control, error) {
	ctl := Control{Name: "not-found", Why: "whether a page that does not exist waits as long"}
	o := c.opts
	o.MaxBody = min(o.MaxBody, redirectBody)
	var err error
	ctl.Exchange, err = c.one(ctx, o, c.sibling(http.MethodGet, "/whyslow-"+rand.Text()))
	return ctl, err
}

// OptionsStar sends "OPTIONS *" (RFC 9110 §9.3.7), which concerns the server
// and no resource of it, so that no application sees it.
func (c *Client) OptionsStar(ctx context.Context) (Control, error) {
	ctl := Control{Name: "options", Why: "whether the server itself waits, with no resource asked for"}
	rq := c.sibling(http.MethodOptions, "/")
	rq.star = true
	var err error
	ctl.Exchange, err = c.one(ctx, c.opts, rq)
	return ctl, err
}

// MSSClamp fetches the final URL with small segments (TCP_MAXSEG 536) on a
// fresh connection. Where this works at once and the plain fetch stalls, large
// packets are lost on the way to us: a path MTU black hole.
func (c *Client) MSSClamp(ctx context.Context) (Control, error) { return c.clamp(ctx, c.target()) }

func (c *Client) clamp(ctx context.Context, to goal) (Control, error) {
	ctl := Control{Name: "mss-clamp", Why: fmt.Sprintf("whether segments of %d bytes get through where larger ones stall", clampedMSS)}
	if !canClamp {
		return ctl, ErrUnsupported
	}
	o := c.opts
	o.MSS = clampedMSS
	var err error
	ctl.Exchange, err = c.one(ctx, o, c.request(to.url, to.method))
	return ctl, err
}

// OverFamily fetches the final URL over one address family.
func (c *Client) OverFamily(ctx context.Context, f Family) (Control, error) {
	ctl := Control{Name: fmt.Sprintf("ipv%d", f), Why: "whether the other address family fares differently"}
	if f != IPv4 && f != IPv6 {
		return ctl, fmt.Errorf("httpcheck: running a control: unknown address family %d", f)
	}
	o := c.opts
	o.Family = f
	t := c.target()
	var err error
	ctl.Exchange, err = c.one(ctx, o, c.request(t.url, t.method))
	return ctl, err
}

// Canary fetches the final URL and meanwhile connects to the same address
// every 100 ms, which no server needs to think about: if the connects stay
// fast while the body pauses, the network is innocent. The Exchange is the
// transfer, Runs are the connects, whose At tells when each began; connects
// send no request.
func (c *Client) Canary(ctx context.Context) (Control, error) {
	ctl := Control{Name: "canary", Why: "whether the network is slow while the body is"}
	t := c.target()
	stop, cancel := context.WithCancel(ctx)
	defer cancel()
	runs := make(chan []Exchange, 1)
	go func() { runs <- c.connects(stop, t.url) }() // waited for below
	var err error
	o := c.opts
	o.BodyTime = min(o.BodyTime, canaryTime)
	ctl.Exchange, err = c.one(ctx, o, c.request(t.url, t.method))
	cancel()
	ctl.Runs = <-runs
	return ctl, err
}

// connects connects to u's host every canaryEvery until ctx ends.
func (c *Client) connects(ctx context.Context, u *url.URL) []Exchange {
	const most = 300 // the longest transfer has BodyTime
	tick := time.NewTicker(canaryEvery)
	defer tick.Stop()
	results := make(chan Exchange, most)
	running := 0
	var out []Exchange
	for running < most {
		select {
		case <-tick.C:
			running++
			go func() { results <- c.connectOnly(ctx, u, portOf(u)) }() // waited for below
			continue
		case <-ctx.Done():
		}
		break
	}
	<-ctx.Done()
	for range running {
		x := <-results
		// One that the end of the transfer cut short tells nothing, unless it
		// had waited long already.
		if x.Failure == nil || x.Failure.Kind != "canceled" || x.Failure.After.Duration() >= canaryEvery {
			out = append(out, x)
		}
	}
	sortByAt(out)
	return out
}

// Port connects to another TCP port of the final URL's host and sends nothing.
// A refusal is an answer too: its time is in Failure.
func (c *Client) Port(ctx context.Context, port uint16) (Control, error) {
	ctl := Control{Name: "port", Why: fmt.Sprintf("whether connecting to port %d takes as long", port)}
	ctl.Exchange = c.connectOnly(ctx, c.target().url, port)
	return ctl, nil
}

// connectOnly connects to a port of u's host and closes.
func (c *Client) connectOnly(ctx context.Context, u *url.URL, port uint16) Exchange {
	begin := time.Now()
	x := Exchange{URL: display(u), At: millis.Of(begin.Sub(c.begin))}
	st := stamp{start: begin}
	st.enter("resolve", begin)
	addrs, took, err := c.resolve(ctx, u, c.opts.Family)
	if err != nil {
		x.Failure = st.failure(ctx, err)
		return x
	}
	x.Phases.Resolve = took
	if a, ok := c.lastRemote(u); ok {
		addrs = []netip.Addr{a}
	}
	begin = time.Now()
	st.enter("connect", begin)
	raw, stood, attempts, err := dial(ctx, &c.opts, addrs, port)
	x.Attempts = attempts
	if err != nil {
		x.Failure = st.failure(ctx, err)
		return x
	}
	defer raw.Close()
	x.Phases.Connect = millis.Of(stood.Sub(begin))
	x.Phases.Total = millis.Of(stood.Sub(st.start))
	x.Remote, x.Local = addrPort(raw.RemoteAddr()).String(), addrPort(raw.LocalAddr()).String()
	x.TCPStart = tcpInfo(raw)
	x.TCP = x.TCPStart
	if x.TCP != nil {
		x.Network = x.TCP.MinRTT
	}
	return x
}
