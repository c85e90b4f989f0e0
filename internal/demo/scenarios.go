package demo

import (
	"time"

	"github.com/whyslow/whyslow/internal/millis"
	"github.com/whyslow/whyslow/internal/simnet"
	"github.com/whyslow/whyslow/reports"
)

const msec = time.Millisecond

// Scenarios returns every scenario, in the order in which a table shows them.
func Scenarios() []Scenario {
	return []Scenario{
		{Name: "healthy", Title: "nothing is wrong", Loopback: true, build: healthy},
		{Name: "far", Title: "far away, and nothing is wrong", build: far},
		{Name: "slow-link", Title: "one slow link, behind a router that only answers slowly", build: slowLink},
		{Name: "lossy-link", Title: "a link that loses packets", build: lossyLink},
		{Name: "thin-link", Title: "a link of little bandwidth", build: thinLink},
		{Name: "mtu-blackhole", Title: "large packets from the server vanish", build: mtuBlackHole},
		{Name: "dead-resolver", Title: "the first resolver is gone", Loopback: true, build: deadResolver},
		{Name: "slow-resolver", Title: "the resolver itself is slow", Loopback: true, build: slowResolver},
		{Name: "slow-authority", Title: "the name's own server is slow", Loopback: true, build: slowAuthority},
		{Name: "aaaa-dropped", Title: "questions for AAAA are never answered", Loopback: true, build: aaaaDropped},
		{Name: "hostname-lookups", Title: "the server looks visitors up before it answers", Loopback: true, build: hostnameLookups},
		{Name: "lookups-in-log", Title: "the server looks visitors up to write its log", Loopback: true, build: lookupsInLog},
		{Name: "far-think-time", Title: "a slow script, far away", build: farThinkTime},
		{Name: "slow-body", Title: "the server sends the page in dribs and drabs", Loopback: true, build: slowBody},
		{Name: "slow-tls", Title: "slow TLS handshakes", Loopback: true, build: slowTLS},
		{Name: "late-accept", Title: "the server accepts connections late", Loopback: true, build: lateAccept},
		{Name: "redirects", Title: "a chain of redirects", build: redirectChain},
	}
}

func healthy(p *plan) {
	p.is(reports.None, "healthy", "", "a healthy network and a healthy server")
}

func far(p *plan) {
	rtt := p.between(120*msec, 220*msec)
	p.stretch(rtt)
	p.is(reports.None, "distance", "", "%v of round trip, spread over %d links, and a healthy server", millis.Of(rtt), len(p.there))
}

func slowLink(p *plan) {
	i := max(p.anyLink(), 2)
	delay := p.between(190*msec, 420*msec)
	p.there[i].Delay += delay / 2
	p.back[i].Delay += delay / 2
	p.there[i].Jitter += 2 * msec
	innocent := i - 2 // the router that the link before it leads to
	p.routers[innocent].ControlDelay = delay + p.between(60*msec, 200*msec)
	p.is(reports.Network, "latency", p.link(i), "%s adds %v to each round trip; router %d before it only answers slowly",
		p.link(i), millis.Of(delay), innocent+1)
}

func lossyLink(p *plan) {
	i := p.anyLink()
	p.stretch(p.between(30*msec, 70*msec))
	loss := 0.06 + 0.08*p.rng.Float64()
	p.there[i].Loss, p.back[i].Loss = loss, loss
	p.web.bytes = 60000 + p.rng.IntN(60000)
	p.is(reports.Network, "loss", p.link(i), "%s loses %.0f %% in each direction", p.link(i), 100*loss)
}

func thinLink(p *plan) {
	i := p.anyLink()
	rate := 400_000 + p.rng.Int64N(1_000_000)
	p.back[i].Rate, p.there[i].Rate = rate, rate
	p.back[i].Queue = 30000
	p.web.bytes = 120000 + p.rng.IntN(60000)
	p.is(reports.Network, "bandwidth", p.link(i), "%s carries %.1f Mbit/s", p.link(i), float64(rate)/1e6)
}

func mtuBlackHole(p *plan) {
	i := p.anyLink()
	mtu := 1280 + p.rng.IntN(200)
	p.narrow(i, mtu)
	// The router on the server's side of the narrow link is the one that
	// should tell the server, and does not.
	p.routers[i].TooBig = simnet.Absent
	p.web.bytes = 20000 + p.rng.IntN(30000)
	p.is(reports.Network, "mtu-blackhole", p.link(i), "%s carries at most %d bytes, and the router behind it says nothing to the server", p.link(i), mtu)
}

func deadResolver(p *plan) {
	p.dns.deadFirst = true
	p.is(reports.DNS, "resolver-down", deadAddr.String(), "the first nameserver of resolv.conf, %s, never answers", deadAddr)
}

func slowResolver(p *plan) {
	p.dns.resolverDelay = p.between(350*msec, 1200*msec)
	p.is(reports.DNS, "resolver-slow", resolverAddr.String(), "the resolver takes %v over every answer", millis.Of(p.dns.resolverDelay))
}

func slowAuthority(p *plan) {
	p.dns.authorityDelay = p.between(500*msec, 1800*msec)
	p.is(reports.DNS, "authority-slow", siteZone, "the authoritative server of %s, %s, takes %v over every answer", siteZone, authorityAddr, millis.Of(p.dns.authorityDelay))
}

func aaaaDropped(p *plan) {
	p.dns.dropAAAA = true
	p.is(reports.DNS, "aaaa-blocked", resolverAddr.String(), "the resolver never answers questions for AAAA")
}

func hostnameLookups(p *plan) {
	p.web.lookup = lookupBefore
	p.dns.reverseDelay = p.between(500*msec, 1800*msec)
	p.is(reports.Server, "hostname-lookups", webAddr.String(), "the server looks up the visitor's name before it answers; the PTR takes %v", millis.Of(p.dns.reverseDelay))
}

func lookupsInLog(p *plan) {
	p.web.lookup = lookupWhileLogging
	p.dns.reverseDelay = p.between(500*msec, 1800*msec)
	p.is(reports.Server, "hostname-lookups", webAddr.String(), "the server looks up the visitor's name while it logs; the PTR takes %v", millis.Of(p.dns.reverseDelay))
}

func farThinkTime(p *plan) {
	rtt := p.between(90*msec, 180*msec)
	p.stretch(rtt)
	p.web.think = p.between(900*msec, 1500*msec)
	p.is(reports.Server, "think-time", webAddr.String(), "the server thinks for %v; the %v of round trip are innocent",
		millis.Of(p.web.think), millis.Of(rtt))
}

func slowBody(p *plan) {
	p.web.bytes = 20000 + p.rng.IntN(20000)
	p.web.drip = 5 + p.rng.IntN(6)
	p.web.dripPause = p.between(90*msec, 200*msec)
	p.is(reports.Server, "body", webAddr.String(), "the server sends the body in %d pieces, %v apart", p.web.drip, millis.Of(p.web.dripPause))
}

func slowTLS(p *plan) {
	p.web.tls = true
	p.web.handshake = p.between(300*msec, 1200*msec)
	p.is(reports.Server, "tls", webAddr.String(), "each TLS handshake takes the server %v", millis.Of(p.web.handshake))
}

func lateAccept(p *plan) {
	p.web.accept = p.between(400*msec, 1000*msec)
	p.is(reports.Server, "accept", webAddr.String(), "the server accepts each connection %v late", millis.Of(p.web.accept))
}

func redirectChain(p *plan) {
	rtt := p.between(60*msec, 85*msec)
	p.stretch(rtt)
	p.web.redirects = 4 + p.rng.IntN(4)
	p.is(reports.Server, "redirects", webAddr.String(), "the page is behind %d redirects", p.web.redirects)
}
