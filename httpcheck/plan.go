package httpcheck

import (
	"context"
	"fmt"
	"time"
)

// plan decides after each sample whether another is worth its time. Within
// Options.Budget all are taken. Beyond it only those without which causes
// could not be told apart: a cost that comes once a connection needs several
// connections with several requests each; one that comes with every request
// shows on two.
type plan struct {
	opts  *Options
	begin time.Time
	stall time.Duration // Client.stallAfter

	connections int // opened, or tried
	samples     int
	succeeded   int
	steps       int // exchanges of a cold sample
	longest     time.Duration
	shortest    time.Duration   // of those that succeeded
	waits       []time.Duration // of the current connection's final exchanges
	pattern     bool            // the requests of one connection differ
	cured       bool            // small segments cured a stall
	stalls      int             // samples that stalled, once one was cured
	limited     bool            // the server asked for less (429, 503)
	failed      bool            // the last sample
	spent       bool            // no requests left
	told        bool            // that bodies are not read to their end
	final       bool            // a failure that another try would only repeat
}

// direct says whether warm samples go to the final URL directly. The first
// warm sample follows the redirects again: a redirect that is slow itself
// shows there too, one that merely came first on its connection does not.
func (p *plan) direct() bool { return p.connections > 1 || p.samples > 1 }

// limit is how many requests the samples may take in all.
func (p *plan) limit() int {
	if n := p.opts.MaxRequests - p.opts.Reserve; n > 0 {
		return n
	}
	return p.opts.MaxRequests
}

// connect says whether to open another connection, and counts it.
func (p *plan) connect(requests int, now time.Time) bool {
	switch spent := now.Sub(p.begin); {
	case p.spent, p.final, p.connections >= p.opts.Cold:
		return false
	case p.stalls >= 2:
		return false // decided, and each further one would stall again
	case requests+max(1, p.steps) > p.limit():
		return false
	case p.limited && p.connections >= 2:
		return false
	case p.connections >= p.least(spent) && spent+spent/time.Duration(max(1, p.connections)) > p.opts.Budget:
		return false
	}
	p.connections++
	p.waits = p.waits[:0]
	return true
}

// least is the number of connections that are opened whatever they cost.
func (p *plan) least(spent time.Duration) int {
	switch {
	case p.connections == 0:
		return 1
	case p.cured:
		return 2 // does it stall again without the cure?
	case p.succeeded == 0 && spent > p.opts.Budget:
		return 1 // a timeout is waited for once
	case p.pattern && p.longest > 2*p.opts.Budget:
		return 2
	case p.pattern:
		return 3
	case p.longest > 2*p.opts.Budget:
		return 1
	case p.longest > p.opts.Budget && p.shortest > p.longest*9/10:
		return 2 // long, and the same each time
	}
	return 3 // below three there is no telling what repeats
}

// fetches is how many fetches the current connection carries. The third has one
// less and the fourth one more than the others: backends that take turns would
// else stay in step with us, and the slow one would look like a matter of the
// place on the connection.
func (p *plan) fetches() int {
	n := p.opts.PerConnection
	if n < 3 {
		return n
	}
	switch p.connections % 4 {
	case 3:
		return n - 1
	case 0:
		return n + 1
	}
	return n
}

// again says whether to send another request over the connection that has
// carried n fetches.
func (p *plan) again(n, requests int, now time.Time) bool {
	cost := 1
	if !p.direct() {
		cost = p.steps
	}
	switch {
	case p.failed, p.final, n >= p.fetches(), requests+cost > p.limit():
		return false
	case now.Sub(p.begin) <= p.opts.Budget:
		return true
	case p.cured, p.limited:
		return false
	case p.pattern:
		return true
	}
	return n == 1 && p.connections == 1
}

// note takes over the n-th sample of a connection.
func (p *plan) note(s *Sample, n int, cured bool, took time.Duration) {
	p.samples++
	p.longest = max(p.longest, took)
	p.cured = p.cured || cured
	if p.cured && took >= p.stall {
		p.stalls++
	}
	p.failed = s.Failure != nil
	if n == 1 {
		p.steps = max(p.steps, len(s.Exchanges))
	}
	if p.failed {
		p.final = p.succeeded == 0 && lasting(s.Failure.Kind)
		return
	}
	p.succeeded++
	p.final = s.last().Truncated == "time" // the next would take as long again
	if p.shortest == 0 || took < p.shortest {
		p.shortest = took
	}
	last := &s.Exchanges[len(s.Exchanges)-1]
	p.limited = p.limited || last.Status == 429 || last.Status == 503
	p.waits = append(p.waits, last.Phases.Wait.Duration())
	least, most := p.waits[0], p.waits[0]
	for _, w := range p.waits {
		least, most = min(least, w), max(most, w)
	}
	if most-least > max(100*time.Millisecond, most/2) {
		p.pattern = true
	}
}

// shortened says, once a run, that bodies are not read to their end.
func (p *plan) shortened(s *Sample) string {
	if p.told || len(s.Exchanges) == 0 {
		return ""
	}
	text := ""
	switch s.last().Truncated {
	case "size":
		text = fmt.Sprintf("the body is longer than %s and was read no further: receive and total are those of this part", mebibytes(p.opts.MaxBody))
	case "time":
		text = fmt.Sprintf("the body was still coming after %.3g s and was read no longer: receive and total are lower bounds", p.opts.BodyTime.Seconds())
	case "stream":
		text = fmt.Sprintf("the body is a stream (%s), meant not to end: its first bytes were read", bounded(s.last().ContentType, 60))
	}
	p.told = text != ""
	return text
}

// mebibytes writes a size, in bytes where MiB would be a fraction.
func mebibytes(n int64) string {
	if n%(1<<20) != 0 {
		return fmt.Sprintf("%d bytes", n)
	}
	return fmt.Sprintf("%d MiB", n>>20)
}

// lasting says whether a failure of this kind would come again at once.
func lasting(kind string) bool {
	switch kind {
	case "nxdomain", "dns", "certificate", "tls", "protocol", "too-large", "redirect-loop", "canceled":
		return true
	}
	return false
}

const (
	// stallAfter is the silence on a connection after which the same fetch is
	// tried with small segments. Shorter than Linux needs to find a black hole
	// by itself (tcp_mtu_probing: 6.5 s measured), longer than most servers think.
	stallAfter = 3 * time.Second
	// abandonAfter is the silence after which a stalled fetch is given up if
	// the one with small segments succeeded at once.
	abandonAfter = 8 * time.Second
)

// fetchOrClamp fetches to. If the first fetch of a run stalls after it
// connected, the same is tried beside it with small segments; the control is
// returned if it came to an end. Once that has cured a stall, a further one is
// not waited for.
func (c *Client) fetchOrClamp(ctx context.Context, g *group, to goal, p *plan) (Sample, *Control, error) {
	var watch func(context.Context, *group) *Control
	switch {
	case !canClamp || c.opts.MSS != 0:
	case p.samples == 0:
		watch = c.clampStalled
	case p.cured:
		watch = c.abandonStalled
	}
	if watch == nil {
		s, err := g.fetch(ctx, to)
		return s, nil, err
	}
	watchCtx, cancel := context.WithCancel(ctx)
	found := make(chan *Control, 1)
	go func() { found <- watch(watchCtx, g) }() // waited for below
	s, err := g.fetch(ctx, to)
	cancel()
	return s, <-found, err
}

// clampStalled waits for g's connection to fall silent, then repeats what is
// asked on it with small segments. If that succeeds quickly and the silence
// goes on, it gives the connection up.
func (c *Client) clampStalled(ctx context.Context, g *group) *Control {
	m := g.silent(ctx, c.stallAfter)
	if m == nil {
		return nil
	}
	_, u := g.inUse()
	ctl, err := c.clamp(ctx, goal{u, c.opts.Method})
	if err != nil {
		return nil
	}
	if f := ctl.Exchange.Failure; f != nil && f.Kind == "canceled" {
		if f.InPhase.Duration() < c.stallAfter {
			return nil
		}
		// The plain fetch ended first, and small segments were no help until
		// then: as telling as a timeout, and not worth waiting for again.
		f.Kind, f.Text = "timeout", fmt.Sprintf("%s: no answer within %.1f s", f.Phase, f.InPhase.Duration().Seconds())
	}
	if c.cures(&ctl) && g.silent(ctx, c.abandonAfter) == m {
		m.abort(errAbandoned)
	}
	return &ctl
}

// cures says whether the fetch with small segments did not stall.
func (c *Client) cures(ctl *Control) bool {
	if ctl == nil {
		return false
	}
	total, ok := ctl.Exchange.Phases.Total.Get()
	return ok && total < c.stallAfter
}

// abandonStalled gives g's connection up as soon as it has stalled.
func (c *Client) abandonStalled(ctx context.Context, g *group) *Control {
	if m := g.silent(ctx, c.stallAfter); m != nil {
		m.abort(errAbandoned)
	}
	return nil
}

// silent waits until nothing has moved on g's connection for d. It returns nil
// if ctx ends first.
func (g *group) silent(ctx context.Context, d time.Duration) *meter {
	const look = 100 * time.Millisecond
	for {
		rest := look
		if m, _ := g.inUse(); m != nil {
			if rest = time.Until(m.idle().Add(d)); rest <= 0 {
				return m
			}
		}
		t := time.NewTimer(rest)
		select {
		case <-ctx.Done():
			t.Stop()
			return nil
		case <-t.C:
		}
	}
}
