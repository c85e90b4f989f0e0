package reports

import (
	"fmt"
	"time"
)

// slowTLS is a handshake that takes longer than its round trips on every
// connection.
func (v *view) slowTLS() (cause, bool) {
	trips := 0
	for _, one := range v.visits {
		trips = max(trips, one.tlsTrips)
	}
	if trips == 0 {
		return cause{}, false
	}
	need := time.Duration(trips)*v.usualRTT() + 15*time.Millisecond
	extra := v.phase(func(one visit) time.Duration { return one.tls }).structural() - need
	if extra < 50*time.Millisecond {
		return cause{}, false
	}
	c := cause{layer: Server, component: "tls", where: v.where(), extra: extra, p: 0.92,
		phrase: fmt.Sprintf("the server takes %s over each TLS handshake", ms(extra)),
		evidence: []Evidence{fact("tls-time", "every handshake takes longer than its round trips, and connecting does not",
			fmt.Sprintf("%s beyond %d × %s", ms(extra), trips, ms(v.rtt)), "counts from 50 ms")}}
	if idle := v.findControl("idle"); idle != nil && idle.Exchange.Failure == nil {
		v.weighIdleTLS(&c, idle.Exchange.Phases.TLS.Duration()-need, extra)
	}
	return c, true
}

// weighIdleTLS tells a slow handshake from a slow accept: a connection that
// was left idle before its handshake has long been accepted.
func (v *view) weighIdleTLS(c *cause, d, extra time.Duration) {
	if d >= extra/2 {
		c.p = 0.95
		c.evidence = append(c.evidence, fact("control-idle",
			"a connection left idle first shakes hands as slowly: it is the handshake", ms(d), "at least "+ms(extra/2)))
		return
	}
	c.component, c.p = "accept", 0.88
	c.phrase = fmt.Sprintf("the server accepts each connection %s late", ms(extra))
	c.evidence = append(c.evidence, fact("control-idle",
		"a connection left idle first shakes hands at once: the delay is in accepting it", ms(max(d, 0)), "< "+ms(extra/2)))
}

// redirectChain is the cost of being sent on more than once. A single redirect
// (http to https, a trailing slash) is how sites work.
func (v *view) redirectChain() (cause, bool) {
	least := 1 << 30
	for _, one := range v.visits {
		least = min(least, one.redirects)
	}
	if least < 2 {
		return cause{}, false
	}
	spent := v.phase(func(one visit) time.Duration { return one.redirectTime }).typical()
	return cause{layer: Server, component: redirects, where: v.r.Target.URL, extra: 1, p: 0.93,
		phrase: fmt.Sprintf("the page is behind %d redirects, one after the other", least),
		evidence: []Evidence{fact("redirects", "the URL leads to the page only by way of others",
			fmt.Sprintf("%d redirects, %s", least, ms(spent)), "at most 1 redirect")}}, true
}

// acceptOverflow is a server whose accept queue is full: SYNs go unanswered
// although the path loses nothing.
func (v *view) acceptOverflow() (cause, bool) {
	lost, hit := 0, 0
	for _, one := range v.visits {
		lost += one.synLost
		if one.synLost > 0 {
			hit++
		}
	}
	if lost == 0 || v.pathLoses() || v.segmentsLost() {
		return cause{}, false
	}
	connect := v.phase(func(one visit) time.Duration { return one.connect })
	extra := connect.mean() - v.rtt
	if extra < minServerCost {
		return cause{}, false
	}
	c := cause{layer: Server, component: "accept", where: v.where(), extra: extra, p: 0.6,
		phrase: fmt.Sprintf("the server leaves connection requests unanswered (%d sent again)", lost),
		evidence: []Evidence{fact("syn-retries", "SYNs had to be sent again",
			fmt.Sprintf("%d in %d connections", lost, len(v.visits)), "no SYN sent again")},
		next: []string{"on the server: compare ListenOverflows in nstat and the Send-Q of ss -ltn while it happens",
			"on firewalls before it: look for a limit on new connections (SYN limit, conntrack table full)"}}
	if d := v.destinationSample(); d != nil && d.Sent >= 50 && d.Received == d.Sent {
		// A path that is dead now and then may be alive while it is probed, and
		// a firewall that limits new connections looks the same. Those that got
		// through a full queue wait in it.
		c.p = 0.65
		if hit >= 3 && series(v.server[1]).typical() >= minServerCost {
			c.p = 0.82
		}
		c.evidence = append(c.evidence, fact("path-clean", "probes to the same address lose nothing",
			fmt.Sprintf("0 of %d", d.Sent), "none lost"))
	}
	return c, true
}
