package delegation

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/miekg/dns"

	"github.com/whyslow/whyslow/dnscheck"
)

const (
	// rootWait bounds the search for a root server that answers: where port 53
	// is filtered, it is filtered to all.
	rootWait = 1500 * time.Millisecond
	// rootAgain is when the question is repeated, against a lost packet.
	rootAgain = 600 * time.Millisecond
	// primed4 and primed6 are how many hints are asked.
	primed4, primed6 = 4, 2
)

// hintName is the owner of the hints until the root's own names are known.
const hintName = "hint."

// begin asks the root for its servers (RFC 8109).
func (w *Walker) begin(ctx context.Context) rootFailure {
	z := newZone(".", nil)
	w.zones["."] = z
	var hints []netip.Addr
	n4, n6 := 0, 0
	for _, a := range w.o.Roots {
		switch {
		case !w.wants(a):
		case a.Is4() && n4 < primed4:
			hints, n4 = append(hints, a), n4+1
		case a.Is6() && n6 < primed6:
			hints, n6 = append(hints, a), n6+1
		}
	}
	ctx, cancel := context.WithTimeout(ctx, rootWait)
	defer cancel()
	got := w.prime(ctx, hints)
	unreachable, why := 0, ""
	for i, r := range got {
		if r == nil || r.msg == nil {
			if r != nil && r.outcome == dnscheck.Unreachable {
				unreachable++
			}
			continue
		}
		c := classify(".", ".", dns.TypeNS, r.msg)
		if c.kind == answers && !(w.public() && r.msg.RecursionAvailable) {
			w.takeNS(z, r.msg)
			z.nsAsked = true
			w.nameHints(z, hints)
			return rootFailure{}
		}
		if why = c.why; why == "" {
			why = "offers recursion, which no root server does"
		}
		why = hints[i].String() + " " + why
	}
	switch {
	case why != "" && w.public():
		return rootFailure{"intercepted", "something on the way answers in place of the root servers (" + why + "), so that the walk cannot be done from here"}
	case why != "":
		z.addresses[hintName], z.childNS, z.last, z.nsAsked = hints, []string{hintName}, true, true
		return rootFailure{"broken", "the server given as root is none: " + why}
	case unreachable == len(hints):
		return rootFailure{"filtered", "no root server can be reached from here: there is no route"}
	}
	return rootFailure{"filtered", fmt.Sprintf("no root server answers within %v: port 53 is filtered on the way, or the servers are down; %d addresses were asked", rootWait, len(hints))}
}

// prime asks all hints at once, and once more, until one has answered.
func (w *Walker) prime(ctx context.Context, hints []netip.Addr) []*response {
	got := make([]*response, len(hints))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var mu sync.Mutex
	var wg sync.WaitGroup
	ask := func(i int, plain bool) *response {
		r := w.k.whole(ctx, question{server: hints[i], name: ".", qtype: dns.TypeNS, plain: plain})
		mu.Lock()
		defer mu.Unlock()
		if got[i] == nil || got[i].msg == nil {
			got[i] = r
		}
		if r.msg != nil && classify(".", ".", dns.TypeNS, r.msg).kind == answers {
			cancel()
		}
		return r
	}
	for i := range hints {
		first := make(chan *response, 1)
		wg.Go(func() { first <- ask(i, false) })
		wg.Go(func() {
			t := time.NewTimer(rootAgain)
			defer t.Stop()
			select {
			case r := <-first:
				if r.msg == nil || classify(".", ".", dns.TypeNS, r.msg).kind != noEDNS {
					return // a second packet would fare no better
				}
			case <-t.C:
			case <-ctx.Done():
				return
			}
			ask(i, true) // without EDNS: something may drop it
		})
	}
	wg.Wait()
	return got
}

// nameHints makes sure that the root has servers with addresses, even where a
// root of one's own names some that cannot be found.
func (w *Walker) nameHints(z *zone, hints []netip.Addr) {
	if len(z.addrs()) == 0 {
		z.addresses[hintName], z.childNS = hints, append(z.childNS, hintName)
	}
}
