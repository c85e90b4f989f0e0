package demo

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net/netip"
	"net/url"
	"time"

	"github.com/whyslow/whyslow/internal/simnet"
	"github.com/whyslow/whyslow/reports"
)

// plan is a network to be built: a chain of routers from the client to the web
// server, with the DNS near its beginning, healthy until a scenario spoils it.
type plan struct {
	scenario Scenario
	seed     uint64
	rng      *rand.Rand
	truth    Truth

	routers []simnet.Router
	// there[i] and back[i] are the two directions of link i, which leads from
	// hop i to hop i+1; hop 0 is the client, the last the web server.
	there, back []simnet.Link

	dns dnsPlan
	web webPlan
}

// dnsPlan is the resolution: a caching resolver in front of an authority.
type dnsPlan struct {
	deadFirst      bool // resolv.conf names a resolver first that is gone
	resolverDelay  time.Duration
	authorityDelay time.Duration
	dropAAAA       bool
	reverseDelay   time.Duration // of PTR answers, whose TTL is then 0
}

// webPlan is the web server.
type webPlan struct {
	tls       bool
	think     time.Duration
	bytes     int
	drip      int           // body pieces; 0 means at once
	dripPause time.Duration // between pieces
	handshake time.Duration
	accept    time.Duration // each connection is accepted this late
	lookup    lookupMoment
	redirects int
}

// lookupMoment is when the server looks its visitor's name up.
type lookupMoment uint8

const (
	noLookup lookupMoment = iota
	lookupBefore
	lookupWhileLogging
)

// The addresses of every demo, from the documentation ranges (RFC 5737).
var (
	clientAddr    = netip.MustParseAddr("192.0.2.10")
	resolverAddr  = netip.MustParseAddr("192.0.2.53")
	deadAddr      = netip.MustParseAddr("192.0.2.54")
	authorityAddr = netip.MustParseAddr("198.51.100.253")
	webAddr       = netip.MustParseAddr("203.0.113.80")
)

const (
	siteZone = "shop.example"
	webName  = "www." + siteZone
)

// newPlan draws a plan. The same scenario and seed give the same plan, and one
// scenario's draws do not depend on another's.
func newPlan(s Scenario, seed uint64) *plan {
	h := fnv.New64a()
	_, _ = h.Write([]byte(s.Name))
	p := &plan{scenario: s, seed: seed, rng: rand.New(rand.NewPCG(seed, h.Sum64()))}
	n := 4 + p.rng.IntN(8)
	for i := range n {
		p.routers = append(p.routers, simnet.Router{
			Name: fmt.Sprintf("r%d", i+1), Addr4: netip.AddrFrom4([4]byte{198, 51, 100, byte(i + 1)})})
	}
	for range n + 1 {
		l := simnet.Link{Delay: p.between(200*time.Microsecond, 2*time.Millisecond), Jitter: p.between(0, 200*time.Microsecond)}
		p.there, p.back = append(p.there, l), append(p.back, l)
	}
	p.web = webPlan{tls: p.rng.IntN(3) > 0, think: p.between(time.Millisecond, 12*time.Millisecond), bytes: 4000 + p.rng.IntN(30000)}
	s.build(p)
	return p
}

// between draws a duration.
func (p *plan) between(lo, hi time.Duration) time.Duration {
	return lo + time.Duration(p.rng.Int64N(int64(hi-lo)+1))
}

// anyLink draws a link that is neither the client's own nor the server's.
func (p *plan) anyLink() int { return 1 + p.rng.IntN(len(p.there)-2) }

// stretch spreads a round trip over all links, unevenly but so that no link
// dominates.
func (p *plan) stretch(rtt time.Duration) {
	weights := make([]float64, len(p.there))
	var sum float64
	for i := range weights {
		weights[i] = 0.5 + p.rng.Float64()
		sum += weights[i]
	}
	for i, w := range weights {
		d := time.Duration(w / sum * float64(rtt/2))
		p.there[i].Delay, p.back[i].Delay = d, d
	}
}

// link names link i as a verdict does.
func (p *plan) link(i int) string { return fmt.Sprintf("link %d-%d", i, i+1) }

// is states the truth.
func (p *plan) is(l reports.Layer, component, where, story string, args ...any) {
	p.truth = Truth{Layer: l, Component: component, Where: where, Story: fmt.Sprintf(story, args...)}
}

// narrow sets the MTU of link i and of nothing else.
func (p *plan) narrow(i, mtu int) { p.there[i].MTU, p.back[i].MTU = mtu, mtu }

func (p *plan) url() string { return p.urlAt(0) }

// urlAt is the page's URL at a port; 0 means the scheme's own.
func (p *plan) urlAt(port uint16) string {
	u := url.URL{Scheme: "http", Host: webName, Path: "/page"}
	if p.web.tls {
		u.Scheme = "https"
	}
	if port != 0 {
		u.Host = fmt.Sprintf("%s:%d", webName, port)
	}
	if p.web.redirects > 0 {
		u.Path = fmt.Sprintf("/old/%d", p.web.redirects)
	}
	return u.String()
}
