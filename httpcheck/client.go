package httpcheck

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/netip"
	"net/url"
	"sync"
	"time"

	"github.com/whyslow/whyslow/internal/millis"
)

// Event is one thing that happened in a run. Exactly one field is set.
type Event struct {
	Sample  *Sample  `json:"sample,omitempty"`
	Control *Control `json:"control,omitempty"`
	Warning string   `json:"warning,omitempty"`
}

// Client measures one URL. Its methods share one budget of requests, the
// addresses found and the clock of the run. They may be called concurrently,
// but a timed sample is only worth its name if nothing else runs beside it.
type Client struct {
	opts  Options
	url   *url.URL
	begin time.Time
	// stallAfter and abandonAfter are the constants of these names.
	stallAfter, abandonAfter time.Duration

	mu       sync.Mutex
	requests int
	conns    int
	hosts    map[string]resolution
	resolved bool // Options.ResolveTime was accounted for
	final    goal // where the redirects led
}

// goal is what is asked for at the end of the redirects. Its url is nil until
// they were followed once.
type goal struct {
	url    *url.URL
	method string
}

// resolution is what a host name resolved to, and the address among them that
// last won.
type resolution struct {
	addrs  []netip.Addr
	winner netip.Addr
}

// New returns a client for the URL of o. It sends nothing yet.
func New(o Options) (*Client, error) {
	u, err := parseURL(o.URL)
	if err != nil {
		return nil, fmt.Errorf("httpcheck: checking options: %w", err)
	}
	o, err = o.defaults()
	if err != nil {
		return nil, err
	}
	if _, err := o.control(); err != nil {
		return nil, err
	}
	c := &Client{opts: o, url: u, begin: time.Now(), hosts: map[string]resolution{}, stallAfter: stallAfter, abandonAfter: abandonAfter}
	if len(o.Addrs) > 0 {
		c.hosts[u.Hostname()] = resolution{addrs: o.Addrs}
	}
	return c, nil
}

// Run measures o.URL and folds the events. A cancelled ctx gives what is known
// so far together with ctx.Err(); other errors mean unusable options. That the
// URL could not be fetched is a result, not an error.
func Run(ctx context.Context, o Options) (*Result, error) {
	c, err := New(o)
	if err != nil {
		return nil, err
	}
	r := c.NewResult()
	for e, err := range c.Events(ctx) {
		if err != nil {
			c.Finish(r)
			return r, err
		}
		r.Add(e)
	}
	c.Finish(r)
	return r, nil
}

// NewResult returns the empty result of the client's run, for Add.
func (c *Client) NewResult() *Result {
	return &Result{Schema: Schema, URL: display(c.url), Started: c.begin.UTC(), Samples: []Sample{}}
}

// Finish writes the time and the requests spent so far into r and computes
// what follows from its events. It may be called again after more events.
func (c *Client) Finish(r *Result) {
	r.Elapsed = millis.Of(time.Since(c.begin))
	r.Requests = c.Requests()
	r.Summarize()
}

// Requests returns how many requests were sent so far.
func (c *Client) Requests() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.requests
}

// take reserves one request of the budget.
func (c *Client) take() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.requests >= c.opts.MaxRequests {
		return false
	}
	c.requests++
	return true
}

// give returns a request that was not sent.
func (c *Client) give() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests--
}

// connection numbers a new connection.
func (c *Client) connection() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conns++
	return c.conns
}

func (c *Client) connections() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.conns
}

func (c *Client) arrivedAt(u *url.URL, method string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.final = goal{u, method}
}

// target is the final URL as far as it is known.
func (c *Client) target() goal {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.final.url != nil {
		return c.final
	}
	return c.start()
}

// start is where a fetch begins.
func (c *Client) start() goal { return goal{c.url, c.opts.Method} }

// connected remembers the address that won.
func (c *Client) connected(u *url.URL, a netip.Addr) {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.hosts[u.Hostname()]
	h.winner = a
	c.hosts[u.Hostname()] = h
}

// lastRemote returns the address that last won for u's host.
func (c *Client) lastRemote(u *url.URL) (netip.Addr, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.hosts[u.Hostname()].winner
	return a, a.IsValid()
}

// Events measures the samples, and the controls that Choose names unless
// Options.NoControls is set, in order of time. A first fetch that stalls is
// compared with a clamped one in any case, since waiting for it would take
// longer than all else. It ends with ctx.Err() if ctx ends first.
func (c *Client) Events(ctx context.Context) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		r := &Result{} // what Choose looks at
		emit := func(e Event) bool {
			r.Add(e)
			return yield(e, nil)
		}
		if !c.samples(ctx, emit) {
			return
		}
		if !c.opts.NoControls && ctx.Err() == nil {
			r.Summarize()
			for _, name := range Choose(r) {
				ctl, err := c.Control(ctx, name)
				switch {
				case errors.Is(err, ErrRequests), errors.Is(err, ErrUnsupported):
					continue // it never ran
				case ctx.Err() != nil:
				case !emit(Event{Control: &ctl}):
					return
				}
				if ctx.Err() != nil {
					break
				}
			}
		}
		if err := ctx.Err(); err != nil {
			yield(Event{}, err)
		}
	}
}

// samples takes the samples of a run in order. False means that the consumer
// wants no more.
func (c *Client) samples(ctx context.Context, emit func(Event) bool) bool {
	p := plan{opts: &c.opts, begin: time.Now(), stall: c.stallAfter}
	for !over(ctx) && p.connect(c.Requests(), time.Now()) {
		g := c.group()
		ok := c.connectionSamples(ctx, g, &p, emit)
		g.close()
		if !ok {
			return false
		}
	}
	return true
}

// connectionSamples takes the samples of one fresh connection.
func (c *Client) connectionSamples(ctx context.Context, g *group, p *plan, emit func(Event) bool) bool {
	to := c.start()
	for i := 1; ; i++ {
		begin := time.Now()
		s, ctl, err := c.fetchOrClamp(ctx, g, to, p)
		if err != nil {
			p.spent = true
			return true
		}
		p.note(&s, i, c.cures(ctl), time.Since(begin))
		if !emit(Event{Sample: &s}) {
			return false
		}
		if ctl != nil && !emit(Event{Control: ctl}) {
			return false
		}
		if w := p.shortened(&s); w != "" && !emit(Event{Warning: w}) {
			return false
		}
		if over(ctx) || !p.again(i, c.Requests(), time.Now()) {
			return true
		}
		if !g.has(c.target().url) {
			return true // the server closes after each response
		}
		if p.direct() {
			to = c.target()
		}
	}
}

// Fetch fetches the URL once on a fresh connection, redirects followed.
func (c *Client) Fetch(ctx context.Context) (Sample, error) {
	g := c.group()
	defer g.close()
	return g.fetch(ctx, c.start())
}
