package reports

import (
	"fmt"
	"time"

	"github.com/whyslow/whyslow/internal/stats"
)

// The server's own time, told apart by when on a connection it is spent:
//
//   - on every request: think time;
//   - on the first of each connection: something done once a visitor, such as
//     a reverse lookup, or a listener that is slow to accept;
//   - on the second of each connection: work the server does after it has
//     answered the first and before it reads on, such as a reverse lookup made
//     for the access log.

// minServerCost is the least a repeated server delay must be to be a suspect.
const minServerCost = 60 * time.Millisecond

// onceCost is the least a delay that comes once a connection must be. Slow
// start of a script or a cold cache is below it.
const onceCost = 100 * time.Millisecond

// serverPattern is the server's time split by when it is spent.
type serverPattern struct {
	settled time.Duration // each request, in all
	every   time.Duration // the same, what is healthy taken off
	once    time.Duration // more on the first request of each connection
	second  time.Duration // more on the second
	further time.Duration // more on each but the first
	conns   int           // connections that show the first request
	seconds int           // connections that show the second
}

// pattern splits the server's time. Structure is judged by the least over the
// connections: what one connection was spared is not structural.
func (v *view) pattern() serverPattern {
	first, second, later := series(v.server[1]), series(v.server[2]), series(nil)
	for n, s := range v.server {
		if n >= 3 {
			later = append(later, s...)
		}
	}
	p := serverPattern{conns: len(first), seconds: len(second)}
	if len(first) == 0 {
		return p
	}
	settled := first.structural()
	if len(second) > 0 {
		settled = min(settled, second.typical())
	}
	if len(later) > 0 {
		settled = min(settled, later.typical())
	}
	p.settled = settled
	warm := v.warmTime(second, later, first)
	p.every = max(settled-v.thinkBaseline(settled), 0)
	if p.conns >= 2 {
		p.once = first.structural() - warm
	}
	if p.seconds >= 2 && len(later) > 0 {
		p.second = second.structural() - max(first.typical(), later.typical())
		p.further = min(second.structural(), later.structural()) - first.typical()
	}
	return p
}

// warmTime is the server's usual time on a connection it already knows. With
// only two requests a connection the second must stand for it.
func (v *view) warmTime(second, later, first series) time.Duration {
	switch {
	case len(later) > 0:
		return later.typical()
	case len(second) > 0:
		return second.typical()
	}
	return first.typical()
}

// thinkBaseline is what a healthy answer of this server costs: that of its
// fastest small resource, if that is healthy itself.
func (v *view) thinkBaseline(settled time.Duration) time.Duration {
	const healthy = 20 * time.Millisecond
	if v.controlKnown && v.control < settled/2 {
		return min(v.control, 5*healthy)
	}
	return min(settled, healthy)
}

// serverCauses are the suspects inside the server.
func (v *view) serverCauses() []cause {
	if len(v.visits) == 0 {
		return nil
	}
	p := v.pattern()
	var causes []cause
	add := func(c cause, ok bool) {
		if ok {
			causes = append(causes, c)
		}
	}
	add(v.thinkTime(p))
	add(v.oncePerConnection(p))
	add(v.whileLogging(p))
	add(v.furtherRequests(p))
	add(v.intermittent())
	add(v.slowTLS())
	add(v.slowBody())
	add(v.redirectChain())
	add(v.acceptOverflow())
	return causes
}

func (v *view) where() string {
	t := v.r.Target
	if t.Addr == "" || t.Addr == t.Host {
		return t.Host
	}
	return t.Host + " (" + t.Addr + ")"
}

func (v *view) thinkTime(p serverPattern) (cause, bool) {
	if hops := v.slowRedirect(); hops > p.every && hops >= minServerCost {
		return v.redirectThinks(hops, p.every), true
	}
	if p.every < minServerCost {
		return cause{}, false
	}
	c := cause{layer: Server, component: "think-time", where: v.where(), extra: p.every + v.slowRedirect(), p: 0.93,
		phrase: fmt.Sprintf("the server thinks for %s before it answers", ms(p.settled))}
	c.evidence = append(c.evidence, fact("think-time",
		"every request waits for the server, on new and on used connections alike",
		fmt.Sprintf("%s beyond the %s round trip", ms(p.every), ms(v.rtt)), "counts from "+ms(minServerCost)))
	switch {
	case v.controlKnown && v.control < p.every/2:
		c.p = 0.96
		c.evidence = append(c.evidence, fact("control-static",
			"a small resource of the same server ("+v.controlName+") is answered at once",
			ms(v.control), "< "+ms(p.every/2)))
	case v.controlKnown:
		c.p = 0.86
		c.evidence = append(c.evidence, against("control-static",
			"a small resource ("+v.controlName+") is slow too: the whole server, not this page",
			ms(v.control), "< "+ms(p.every/2)))
	}
	c.evidence = append(c.evidence, v.serverTiming(p.every)...)
	v.weighClosing(&c, p.every)
	return c, true
}

// weighClosing lowers the confidence in think time where each request has a
// connection of its own: then what a server does for every request can't be
// told from what it does once a connection, unless something small on a fresh
// one is answered at once.
func (v *view) weighClosing(c *cause, every time.Duration) {
	if len(v.server[2])+len(v.server[3]) > 0 {
		return
	}
	if fresh, ok := v.freshControl("static", "not-found"); ok && fresh < every/3 {
		return
	}
	c.evidence = append(c.evidence, against("one-request-per-connection",
		"the server closes every connection after one request: work for each request and work for each connection look alike",
		"no second request", "at least one more"))
	c.next = append(c.next, "let the server keep connections alive (Connection: keep-alive), and measure again: work done once a connection is then seen apart")
	c.p = min(c.p, 0.6)
	if d, ok := v.idleServer(); ok && d < every/2 {
		c.component, c.p = "accept", 0.87
		c.phrase = fmt.Sprintf("the server accepts each connection %s late", ms(every))
		c.evidence = append(c.evidence, fact("control-idle",
			"a connection left idle first is answered at once: the delay is in accepting it", ms(d), "< "+ms(every/2)))
		return
	}
	if rev, ok := v.slowReverse(); ok && rev.Elapsed.Duration() > every*2/3 && rev.Elapsed.Duration() < every*3/2 {
		c.component, c.p = "hostname-lookups", 0.75
		c.phrase = lookupPhrase(*c, "before it answers", every)
		c.evidence = append(c.evidence, fact("client-ptr", "the PTR record of this host's address is as slow as our resolver sees it",
			fmt.Sprintf("%s for %s", rev.Elapsed, rev.Addr), "≈ "+ms(every)))
	}
}

// idleServer is the server's time for the first request of a connection that
// was left idle before.
func (v *view) idleServer() (time.Duration, bool) {
	idle := v.findControl("idle")
	if idle == nil || idle.Exchange.Failure != nil {
		return 0, false
	}
	return idle.Exchange.Server.Get()
}

// healthyHop is what a server needs at most to send a visitor elsewhere.
const healthyHop = 20 * time.Millisecond

// slowRedirect is the time the server thinks before it redirects, beyond what
// a healthy one needs.
func (v *view) slowRedirect() time.Duration {
	if len(v.visits) == 0 {
		return 0
	}
	return max(v.redirectThink-time.Duration(v.visits[0].redirects)*healthyHop, 0)
}

// redirectThinks is think time before a redirect rather than the page.
func (v *view) redirectThinks(hops, page time.Duration) cause {
	return cause{layer: Server, component: "think-time", where: v.where(), extra: hops + page, p: 0.92,
		phrase: fmt.Sprintf("the server thinks for %s before it redirects to the page", ms(v.redirectThink)),
		evidence: []Evidence{fact("redirect-think",
			"the redirect waits for the server on new and on used connections alike, the page behind it does not",
			fmt.Sprintf("%s, and %s for the page", ms(v.redirectThink), ms(page)), "counts from "+ms(minServerCost))}}
}

// serverTiming holds the server's own account of its time against ours.
func (v *view) serverTiming(think time.Duration) []Evidence {
	var sums []time.Duration
	for _, one := range v.visits {
		var sum time.Duration
		for _, e := range one.sample.Exchanges {
			for _, t := range e.ServerTiming {
				sum += t.Dur.Duration()
			}
		}
		if sum > 0 {
			sums = append(sums, sum)
		}
	}
	if len(sums) == 0 {
		return nil
	}
	told := stats.Median(sums)
	e := fact("server-timing", "the server's own Server-Timing header accounts for it",
		ms(told), "at least 70 % of "+ms(think))
	e.Supports = told >= think*7/10
	return []Evidence{e}
}

func (v *view) oncePerConnection(p serverPattern) (cause, bool) {
	if p.once < onceCost {
		return cause{}, false
	}
	c := cause{layer: Server, component: "hostname-lookups", where: v.where(), extra: p.once, p: 0.72}
	c.evidence = append(c.evidence, fact("once-per-connection",
		"the first request of every new connection waits, later ones do not",
		fmt.Sprintf("%s more on each of %d connections", ms(p.once), p.conns), "counts from "+ms(onceCost)))
	v.weighLookup(&c, p.once)
	v.weighIdle(&c, p.once)
	c.phrase = lookupPhrase(c, "before it answers", p.once)
	return c, true
}

func (v *view) whileLogging(p serverPattern) (cause, bool) {
	if p.second < onceCost {
		return cause{}, false
	}
	c := cause{layer: Server, component: "hostname-lookups", where: v.where(), extra: p.second, p: 0.88}
	c.evidence = append(c.evidence, fact("second-request",
		"the second request of every connection waits, the first and the third do not: the server is busy with what it does after answering the first",
		fmt.Sprintf("%s more on each of %d connections", ms(p.second), p.seconds), "counts from "+ms(onceCost)))
	v.weighLookup(&c, p.second)
	c.phrase = lookupPhrase(c, "while it writes its log", p.second)
	return c, true
}

// furtherRequests is a server that is quick for the first request of each
// connection and slow for all that follow.
func (v *view) furtherRequests(p serverPattern) (cause, bool) {
	if p.further < onceCost {
		return cause{}, false
	}
	return cause{layer: Server, component: "think-time", where: v.where(), extra: p.further, p: 0.85,
		phrase: fmt.Sprintf("the server takes %s longer over each further request of a connection than over the first", ms(p.further)),
		evidence: []Evidence{fact("further-requests",
			"the first request of each connection is answered at once, all later ones wait",
			fmt.Sprintf("%s more on %d connections", ms(p.further), p.seconds), "counts from "+ms(onceCost))},
		next: []string{"on the server: compare a request on a fresh connection with one on a used one (curl URL URL): keep-alive handling, a proxy before it, delayed acknowledgements"}}, true
}

// lookupPhrase names the suspect; a listener that is slow to accept is told
// from a lookup by the idle control.
func lookupPhrase(c cause, when string, d time.Duration) string {
	if c.component == "accept" {
		return fmt.Sprintf("the server accepts each connection %s late", ms(d))
	}
	return fmt.Sprintf("the server does something for %s once a connection %s, as a reverse lookup of the visitor's address does", ms(d), when)
}

// weighLookup asks whether the visitor's PTR record is slow where we can see it.
func (v *view) weighLookup(c *cause, extra time.Duration) {
	c.next = append(c.next, "on the server: set HostnameLookups Off, look for Require host and names in the access log's format, and measure again")
	rev, ok := v.slowReverse()
	if !ok {
		c.evidence = append(c.evidence, against("client-ptr",
			"the PTR record of this host's address is slow or dead as our resolver sees it",
			v.clientPTR(), "counts from 100 ms"))
		return
	}
	c.p = max(c.p, 0.94)
	c.evidence = append(c.evidence, fact("client-ptr",
		"the PTR record of this host's address is slow or dead as our resolver sees it",
		fmt.Sprintf("%s for %s (%s)", rev.Elapsed, rev.Addr, rev.Rcode), "counts from 100 ms"))
}

// clientPTR says how quick the reverse lookup of this host's address was.
func (v *view) clientPTR() string {
	if v.r.DNS != nil {
		for _, rev := range v.r.DNS.Reverse {
			if rev.Of == "client" {
				return fmt.Sprintf("%s for %s", rev.Elapsed, rev.Addr)
			}
		}
	}
	return "not measured"
}

// weighIdle tells a lookup from a late accept: by a connection that was left
// idle before its first request, so that a late accept is over by then and a
// lookup has not begun; or by one on which something static was asked for
// first, which a late accept delays as well.
func (v *view) weighIdle(c *cause, extra time.Duration) {
	if fresh, ok := v.freshControl("static", "not-found", "options"); ok && fresh < extra/3 {
		c.p = max(c.p, 0.86)
		c.evidence = append(c.evidence, fact("control-fresh",
			"a fresh connection that asks for something small first is answered at once: connections are accepted in time",
			ms(fresh), "< "+ms(extra/3)))
		return
	}
	idle := v.findControl("idle")
	if idle == nil || idle.Exchange.Failure != nil {
		c.next = append(c.next, "leave a new connection idle before its first request: a late accept is over by then, a lookup has not begun")
		return
	}
	d, ok := idle.Exchange.Server.Get()
	if !ok {
		return
	}
	if d >= extra/2 {
		c.p = max(c.p, 0.87)
		c.evidence = append(c.evidence, fact("control-idle",
			"a connection left idle first waits all the same: the work begins with the request", ms(d), "at least "+ms(extra/2)))
		return
	}
	c.component, c.p = "accept", 0.87
	c.evidence = append(c.evidence, fact("control-idle",
		"a connection left idle first is answered at once: the delay is in accepting it", ms(d), "< "+ms(extra/2)))
}

// freshControl is the server's time for the first request of a connection that
// asked for something small. What answers OPTIONS * is often not what answers
// requests: it shows that the connection was accepted, and no more.
func (v *view) freshControl(names ...string) (least time.Duration, ok bool) {
	for _, name := range names {
		c := v.findControl(name)
		if c == nil {
			continue
		}
		x, first := c.First()
		d, known := x.Server.Get()
		if !first || !known || x.Failure != nil || x.Status == 0 || x.Status >= 500 {
			continue
		}
		if !ok || d < least {
			least, ok = d, true
		}
	}
	return least, ok
}
