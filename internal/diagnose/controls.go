package diagnose

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/whyslow/whyslow/httpcheck"
	"github.com/whyslow/whyslow/reports"
)

// light are the controls that send and receive next to nothing. They run
// before the path is sampled.
var light = []string{"static", "not-found", "options"}

// lightControls asks for small things: is everything slow, or this page? The
// first that is answered at once has told, and a slow server is not asked to
// be slow again.
func (r *run) lightControls(ctx context.Context) {
	for _, name := range httpcheck.Choose(r.report.HTTP) {
		if !slices.Contains(light, name) {
			continue
		}
		r.control(ctx, name)
		if r.cleared() {
			break
		}
	}
	r.fold()
}

// cleared reports whether the last control showed that the server can be
// quick: even the first request on its connection was.
func (r *run) cleared() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.report.HTTP.Controls
	if len(all) == 0 {
		return false
	}
	x, ok := all[len(all)-1].First()
	if !ok || x.Failure != nil || x.Status == 0 || x.Status >= 500 {
		return false
	}
	d, ok := x.Server.Get()
	return ok && d < quickAnswer
}

// quickAnswer is what a server needs at most for something it need not think
// about.
const quickAnswer = 30 * time.Millisecond

// heavyControls fetch the page itself again under other conditions, with
// nothing else on the wire but what belongs to the experiment.
func (r *run) heavyControls(ctx context.Context, p *path) {
	for _, name := range httpcheck.Choose(r.report.HTTP) {
		switch {
		case slices.Contains(light, name):
		case name == "canary":
			r.canary(ctx, p)
		default:
			r.control(ctx, name)
		}
	}
	r.fold()
}

// idleControl asks over a connection that was left idle, if that can tell a
// late accept from what it looks like. It runs before the path is sampled: a
// listener that accepts late would have the sampling's own connects to get
// through first.
func (r *run) idleControl(ctx context.Context) {
	pause := idlePause(r.judge())
	if pause == 0 || ctx.Err() != nil {
		return
	}
	r.say("http", "asking again over a connection that was left idle")
	c, err := r.http.Idle(ctx, pause)
	r.keepControl(c, err)
	r.fold()
}

// canary watches a second connection, and the path, while the page is fetched.
func (r *run) canary(ctx context.Context, p *path) {
	var beside sync.WaitGroup
	defer beside.Wait()
	during, stop := context.WithCancel(ctx)
	defer stop()
	beside.Go(func() { p.sampleLoaded(during) })
	r.control(during, "canary")
}

func (r *run) control(ctx context.Context, name string) {
	if ctx.Err() != nil {
		return
	}
	r.say("http", "control: "+name)
	c, err := r.http.Control(ctx, name)
	r.keepControl(c, err)
}

func (r *run) keepControl(c httpcheck.Control, err error) {
	if err != nil && c.Name == "" {
		return // no budget left, or the platform has no such control
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.report.HTTP.Add(httpcheck.Event{Control: &c})
}

// maxIdle bounds how long a connection is left idle: servers close idle ones,
// Apache after 5 s.
const maxIdle = 4500 * time.Millisecond

// beforeAnswer are the components that a late accept can be taken for.
var beforeAnswer = []string{"accept", "tls", "hostname-lookups", "think-time"}

// idlePause is how long a fresh connection must be left idle to tell a late
// accept from work that begins with the request; 0 if nothing asks for it.
func idlePause(v reports.Verdict) time.Duration {
	saw := func(rule string) bool {
		return slices.ContainsFunc(v.Evidence, func(e reports.Evidence) bool { return e.Rule == rule })
	}
	if !saw("tls-time") && !saw("one-request-per-connection") && (!saw("once-per-connection") || saw("control-fresh")) {
		return 0
	}
	var most float64
	for _, b := range v.Blame {
		if b.Layer == reports.Server && slices.Contains(beforeAnswer, b.Component) {
			most = max(most, b.MS)
		}
	}
	if most < 50 {
		return 0 // too little for a verdict to rest on
	}
	pause := time.Duration(most*1.25)*time.Millisecond + 200*time.Millisecond
	return min(pause, maxIdle)
}

// again takes a second round of samples where the first does not decide: what
// comes and goes needs more loads to be told from what stays.
func (r *run) again(ctx context.Context) {
	v := r.judge()
	few := v.Layer == reports.None && r.report.HTTP.Summary.Cold < 3
	if r.limits.more == 0 || !few && !undecided(v) || ctx.Err() != nil {
		return
	}
	cold := &r.report.HTTP.Summary.ColdPhases
	if cold.Total.Duration()-cold.Resolve.Duration() > r.limits.again {
		return // not one more would be over in time, though it looks nothing up
	}
	r.say("http", "the first loads do not decide, fetching more")
	ctx, cancel := context.WithTimeout(ctx, r.limits.again)
	defer cancel()
	for range r.limits.more {
		s, err := r.http.Fetch(ctx)
		if err != nil || ctx.Err() != nil {
			break // a load cut short by our own bound is no observation
		}
		r.keepEvent(httpcheck.Event{Sample: &s})
	}
	r.fold()
}

// undecided reports whether more loads could change the verdict.
func undecided(v reports.Verdict) bool {
	if v.Failed {
		return false
	}
	if v.Layer == reports.Inconclusive {
		return true
	}
	if slices.ContainsFunc(v.Evidence, func(e reports.Evidence) bool { return e.Rule == "odd-requests" }) {
		return v.Confidence < 0.8
	}
	return v.Layer == reports.Network && v.Component != nil && *v.Component == "loss" || v.Slow && v.Confidence < 0.8
}

// measureHTTP takes the samples and the controls, with the path measured
// beside them where it does not disturb.
func (r *run) measureHTTP(ctx context.Context, found addresses) {
	var beside sync.WaitGroup
	p := &path{run: r, fallback: found.addrs[0], quiet: make(chan struct{})}
	beside.Go(func() { p.measure(ctx) })
	r.samples(ctx)
	r.lightControls(ctx)
	r.idleControl(ctx)
	close(p.quiet)
	beside.Wait()
	r.heavyControls(ctx, p)
	r.again(ctx)
}
