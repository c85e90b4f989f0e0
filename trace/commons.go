package trace

import (
	"context"
	"net/netip"
	"sync"
	"time"

	"github.com/whyslow/whyslow/internal/netprobe"
)

// commons is what the traces of a group know together. Its methods may be
// called by several goroutines, and for a nil commons, which knows nothing.
type commons struct {
	budget *netprobe.Budget
	every  time.Duration // in which a router gains an error
	size   int           // traces in the group
	leads  map[int]bool  // by trace; not changed once they run
	ready  chan struct{} // closed when it is known how far they go together
	over   chan struct{} // closed when they know their paths

	mu      sync.Mutex
	pending int // that lead and do not
	done    map[int]bool
	paths   map[int]*[maxHops + 1]Event      // by trace: the first answer of each router
	ways    map[int]*[maxHops + 1]netip.Addr // the same, and what was taken over
	answers map[netip.Addr]int               // errors each router sent to any
	asked   [maxHops + 1]int                 // probes sent by all
	free    [maxHops + 1]time.Time           // when a router there has an error to send again
}

func newCommons(b *netprobe.Budget, every time.Duration, size int) *commons {
	return &commons{budget: b, every: every, size: size, leads: make(map[int]bool), ready: make(chan struct{}), over: make(chan struct{}),
		done: make(map[int]bool), paths: make(map[int]*[maxHops + 1]Event), ways: make(map[int]*[maxHops + 1]netip.Addr), answers: make(map[netip.Addr]int)}
}

// alone reports whether there is one trace only.
func (g *commons) alone() bool { return g == nil || g.size == 1 }

// settled says that a trace knows its path, or never will.
func (g *commons) settled(trace int) {
	if g == nil || !g.leads[trace] {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.done[trace] {
		g.done[trace] = true
		if g.pending--; g.pending == 0 {
			g.open()
			close(g.over)
		}
	}
}

// wait returns when it is known how far those that lead go the same way, or
// when they know all of it.
func (g *commons) wait(ctx context.Context, all bool) error {
	until := g.ready
	if all {
		until = g.over
	}
	select {
	case <-until:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// sent notes a probe.
func (g *commons) sent(ttl int, now time.Time) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asked[ttl]++
	g.free[ttl] = later(g.free[ttl], now.Add(g.every))
}

// learn keeps a router's answer.
func (g *commons) learn(trace int, ev Event) {
	if g == nil || ev.Role != RoleRouter || ev.TTL < 1 || ev.TTL > maxHops {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.paths[trace]
	if p == nil {
		p = new([maxHops + 1]Event)
		g.paths[trace] = p
	}
	g.passes(trace, ev.TTL, ev.Addr)
	g.answers[ev.Addr]++
	if p[ev.TTL].Addr.IsValid() {
		return
	}
	p[ev.TTL] = ev
	if g.leads[trace] && g.part() {
		g.open()
	}
}

// passes notes where a trace's way goes. The caller holds mu.
func (g *commons) passes(trace, ttl int, router netip.Addr) {
	w := g.ways[trace]
	if w == nil {
		w = new([maxHops + 1]netip.Addr)
		g.ways[trace] = w
	}
	w[ttl] = router
}

// took notes what a trace has taken over.
func (g *commons) took(trace, ttl int, router netip.Addr) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.passes(trace, ttl, router)
}

// open lets the others begin. The caller holds mu.
func (g *commons) open() {
	select {
	case <-g.ready:
	default:
		close(g.ready)
	}
}

// part reports whether it is known where the ways of those that lead part: all
// that lies before has answered, and was the same.
func (g *commons) part() bool {
	for ttl := 1; ttl <= maxHops; ttl++ {
		var seen netip.Addr
		for i := range g.leads {
			p := g.paths[i]
			if p == nil || !p[ttl].Addr.IsValid() {
				return false
			}
			if seen.IsValid() && seen != p[ttl].Addr {
				return true
			}
			seen = p[ttl].Addr
		}
	}
	return false
}

// trunk is the way that those that lead have in common, by TTL. Hops that are
// silent for all have no Addr. All that lead met routers up to TTL known, and no
// destination before.
func (g *commons) trunk() (way []Event, known int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	var first *[maxHops + 1]Event
	for i := range g.leads {
		if first = g.paths[i]; first == nil {
			return nil, 0 // it saw nobody
		}
	}
	known = maxHops
	for i := range g.leads {
		if g.pending > 0 {
			break // not known yet
		}
		last := 0
		for ttl, ev := range g.paths[i] {
			if ev.Addr.IsValid() {
				last = ttl
			}
		}
		known = min(known, last)
	}
	depth := 0
	for ttl := 1; ttl <= maxHops; ttl++ {
		for i := range g.leads {
			if g.paths[i][ttl].Addr != first[ttl].Addr {
				return first[:depth+1], known
			}
		}
		if first[ttl].Addr.IsValid() {
			depth = ttl
		}
	}
	return first[:depth+1], known
}

// behind is the answer at a TTL of another trace that passes a router further
// on: what paths from one host share at one place, they share before it.
func (g *commons) behind(trace int, router netip.Addr, at, ttl int) (Event, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i, p := range g.paths {
		if i != trace && g.ways[i][at] == router && p[ttl].Addr.IsValid() {
			return p[ttl], true
		}
	}
	return Event{}, false
}

// only is the answer of the one router at a TTL that is seen by all traces
// which pass a router before it (at 0: by all), if more than one see it and so
// many have asked that it may have no errors left.
func (g *commons) only(ttl, at int, router netip.Addr) (ev Event, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	seen := 0
	for i, p := range g.paths {
		switch {
		case !p[ttl].Addr.IsValid(), at > 0 && g.ways[i][at] != router:
		case seen > 0 && p[ttl].Addr != ev.Addr:
			return Event{}, false
		default:
			ev = p[ttl]
			seen++
		}
	}
	return ev, seen > 1 && g.asked[ttl] >= errorBurst
}

// limited reports whether the routers at a TTL may be silent for want of
// errors to send.
func (g *commons) limited(ttl int) bool {
	if g == nil {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.asked[ttl] < errorBurst {
		return false
	}
	for _, p := range g.paths {
		if p[ttl].Addr.IsValid() {
			return true
		}
	}
	return false
}

// spent reports whether a router has sent the group as many errors as routers
// send in a row.
func (g *commons) spent(router netip.Addr) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.answers[router] >= errorBurst
}

// slot is when one probe may be sent to a TTL again; nobody else gets it.
func (g *commons) slot(ttl int, now time.Time) time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	routers := make(map[netip.Addr]bool)
	for _, p := range g.paths {
		if a := p[ttl].Addr; a.IsValid() {
			routers[a] = true
		}
	}
	at := later(g.free[ttl], now)
	g.free[ttl] = at.Add(g.every / time.Duration(max(len(routers), 1)))
	return at
}
