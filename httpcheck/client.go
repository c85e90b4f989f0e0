package httpcheck

import (
	"context"
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

	mu       sync.Mutex
	requests int
	conns    int
	hosts    map[string]resolution
	resolved bool     // Options.ResolveTime was accounted for
	final    *url.URL // where redirects led, nil until known
	warned   map[string]bool
}

// resolution is what a host name resolved to.
type resolution struct {
	addrs []netip.Addr
	err   error
}

// New returns a client for the URL of o. It sends nothing yet.
func New(o Options) (*Client, error) { return nil, nil }

// Run measures o.URL and folds the events. A cancelled ctx gives what is known
// so far together with ctx.Err(); other errors mean unusable options. That the
// URL could not be fetched is a result, not an error.
func Run(ctx context.Context, o Options) (*Result, error) { return nil, nil }

// Events measures the samples, and the controls that Choose names unless
// Options.NoControls is set, in order of time. It ends with ctx.Err() if ctx
// ends first.
func (c *Client) Events(ctx context.Context) iter.Seq2[Event, error] { return nil }

// Requests returns how many requests were sent so far.
func (c *Client) Requests() int { return 0 }

// NewResult returns the empty result of a run that begins now, for Add.
func (c *Client) NewResult() *Result { return nil }

// Add folds one event into the result.
func (r *Result) Add(e Event) {}

// Finish computes what follows from the events so far: Summary, Body and
// Failure. It may be called again after more events.
func (r *Result) Finish(elapsed time.Duration, requests int) {}

// Fetch fetches the URL once on a fresh connection, redirects followed.
func (c *Client) Fetch(ctx context.Context) (Sample, error) { return Sample{}, nil }

// Static asks the final URL's host for small files that most servers send
// without thinking, on one fresh connection; the fastest is the Exchange.
func (c *Client) Static(ctx context.Context) (Control, error) { return Control{}, nil }

// NotFound asks for a path that does not exist, on a fresh connection.
func (c *Client) NotFound(ctx context.Context) (Control, error) { return Control{}, nil }

// OptionsStar sends "OPTIONS *" (RFC 9110 §9.3.7), which no application sees.
func (c *Client) OptionsStar(ctx context.Context) (Control, error) { return Control{}, nil }

// MSSClamp fetches the final URL with small segments (TCP_MAXSEG 1200). Where
// this works at once and the plain fetch stalls, large packets are lost on the
// way to us: a path MTU black hole.
func (c *Client) MSSClamp(ctx context.Context) (Control, error) { return Control{}, nil }

// OverFamily fetches the final URL over one address family.
func (c *Client) OverFamily(ctx context.Context, f Family) (Control, error) { return Control{}, nil }

// Canary fetches the final URL and connects beside it every 100 ms. The
// Exchange is the transfer, Runs are the connects, whose At tells when.
func (c *Client) Canary(ctx context.Context) (Control, error) { return Control{}, nil }

// Port connects to another TCP port of the final URL's address and sends nothing.
func (c *Client) Port(ctx context.Context, port uint16) (Control, error) { return Control{}, nil }

// Choose names the controls that could change what r means, most telling
// first: "static", "not-found", "options", "mss-clamp", "canary".
func Choose(r *Result) []string { return nil }

var _ = millis.Value{}
