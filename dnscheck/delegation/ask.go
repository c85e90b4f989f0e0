package delegation

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"time"

	"github.com/miekg/dns"

	"github.com/whyslow/whyslow/dnscheck"
)

// udpSize is what queries advertise: what passes every path that carries IPv6
// (DNS flag day 2020), so that the size of a reply is not what fails.
const udpSize = 1232

// Outcomes that an asker adds to dnscheck's.
const unasked dnscheck.Outcome = "unasked" // the bound of queries was met

// question is one query, as a key: the same question is put once.
type question struct {
	server netip.Addr
	name   string
	qtype  uint16
	tcp    bool
	plain  bool // without EDNS
	nth    int  // repetitions, for loss and spread
}

// response is what became of a question. It is complete once done is closed.
type response struct {
	done      chan struct{}
	msg       *dns.Msg         // nil without an answer
	outcome   dnscheck.Outcome // "" with an answer
	elapsed   time.Duration
	truncated bool
}

// way is what the path from here can fail for as a whole.
type way struct{ v6, tcp, plain bool }

// tally counts servers asked one way.
type tally struct{ answered, failed, unreachable int }

// asker puts questions, each once, within bounds. It is safe for concurrent
// use.
type asker struct {
	ex    dnscheck.Exchanger
	port  uint16
	wait  time.Duration
	limit int
	slots chan struct{}

	mu     sync.Mutex
	sent   int
	asked  map[question]*response
	ways   map[way]*tally
	habits map[netip.Addr]*habit
}

// habit is how a server took the UDP queries it got.
type habit struct {
	silent                int // unanswered in a row
	edns, ednsLost, plain int // answered with EDNS, not answered, answered without
}

func newAsker(o Options) *asker {
	return &asker{
		ex: o.Exchanger, port: o.Port, wait: o.Wait, limit: o.MaxQueries, slots: make(chan struct{}, inFlight),
		asked: map[question]*response{}, ways: map[way]*tally{}, habits: map[netip.Addr]*habit{},
	}
}

// ask puts q, or waits for the answer if it is put already. wait bounds it;
// zero means the usual.
func (k *asker) ask(ctx context.Context, q question, wait time.Duration) *response {
	k.mu.Lock()
	if r := k.asked[q]; r != nil {
		k.mu.Unlock()
		select {
		case <-r.done:
			return r
		case <-ctx.Done():
			return &response{outcome: dnscheck.Interrupted}
		}
	}
	if k.sent >= k.limit {
		k.mu.Unlock()
		return &response{outcome: unasked}
	}
	k.sent++
	r := &response{done: make(chan struct{})}
	k.asked[q] = r
	k.mu.Unlock()
	if wait == 0 {
		wait = k.wait
	}
	k.exchange(ctx, q, r, wait)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.count(q, r)
	close(r.done)
	return r
}

func (k *asker) exchange(ctx context.Context, q question, r *response, wait time.Duration) {
	select {
	case k.slots <- struct{}{}:
		defer func() { <-k.slots }()
	case <-ctx.Done():
		r.outcome = dnscheck.Interrupted
		return
	}
	qctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	query := dnscheck.Query{Server: netip.AddrPortFrom(q.server, k.port), Name: q.name, Type: q.qtype, TCP: q.tcp, NoRD: true}
	if !q.plain {
		query.EDNS, query.DO = udpSize, true
	}
	began := time.Now()
	a, err := k.ex.Exchange(qctx, query)
	r.elapsed = time.Since(began)
	if err == nil {
		r.msg, r.truncated = a.Msg, a.Truncated
		if a.Elapsed > 0 {
			r.elapsed = a.Elapsed
		}
		return
	}
	var oe *dnscheck.OutcomeError
	switch {
	case ctx.Err() != nil:
		// The walk's own end, not this query's: nothing is known.
		r.outcome = dnscheck.Interrupted
	case errors.As(err, &oe):
		r.outcome = oe.Outcome
	case qctx.Err() != nil:
		r.outcome = dnscheck.Timeout
	default:
		r.outcome = dnscheck.Malformed // a query that cannot be built
	}
}

// count files a response. Interrupted ones are forgotten, so that another
// walk may ask again.
func (k *asker) count(q question, r *response) {
	if r.outcome == dnscheck.Interrupted {
		delete(k.asked, q)
		return
	}
	w := way{v6: q.server.Is6(), tcp: q.tcp, plain: q.plain}
	t := k.ways[w]
	if t == nil {
		t = &tally{}
		k.ways[w] = t
	}
	h := k.habits[q.server]
	if h == nil {
		h = &habit{}
		k.habits[q.server] = h
	}
	switch {
	case r.outcome == "":
		t.answered++
		switch {
		case q.tcp:
		case q.plain:
			h.silent, h.plain = 0, h.plain+1
		default:
			h.silent, h.edns = 0, h.edns+1
		}
	case r.outcome == dnscheck.Unreachable:
		t.unreachable++
	default:
		t.failed++
		if !q.tcp {
			h.silent++
			if !q.plain {
				h.ednsLost++
			}
		}
	}
}

// queries is how many were sent.
func (k *asker) queries() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.sent
}

// left is how many may still be sent.
func (k *asker) left() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.limit - k.sent
}

// habit is how a server took the UDP queries it got so far.
func (k *asker) habit(a netip.Addr) habit {
	k.mu.Lock()
	defer k.mu.Unlock()
	if h := k.habits[a]; h != nil {
		return *h
	}
	return habit{}
}

// deaf reports whether a server is to be asked without EDNS: it has answered
// only without, or nobody has answered with it.
func (k *asker) deaf(a netip.Addr) bool {
	h := k.habit(a)
	if h.edns > 0 {
		return false
	}
	if h.ednsLost > 0 && h.plain > 0 {
		return true
	}
	with, without, lost := k.edns()
	return with == 0 && without > 0 && lost > 1
}

// noRoute reports whether nothing of a family can be sent from here.
func (k *asker) noRoute(v6 bool) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	unreachable := 0
	for w, t := range k.ways {
		if w.v6 == v6 {
			if t.answered+t.failed > 0 {
				return false
			}
			unreachable += t.unreachable
		}
	}
	return unreachable >= 2
}

// sum adds up what became of queries of one family and transport.
func (k *asker) sum(v6, tcp bool) tally {
	k.mu.Lock()
	defer k.mu.Unlock()
	var s tally
	for w, t := range k.ways {
		if w.v6 == v6 && w.tcp == tcp {
			s.answered, s.failed, s.unreachable = s.answered+t.answered, s.failed+t.failed, s.unreachable+t.unreachable
		}
	}
	return s
}

// whole asks over UDP and, where the answer does not fit, over TCP.
func (k *asker) whole(ctx context.Context, q question) *response {
	q.plain = q.plain || k.deaf(q.server)
	r := k.ask(ctx, q, 0)
	if r.msg == nil || !r.truncated || q.tcp {
		return r
	}
	q.tcp = true
	if t := k.ask(ctx, q, 0); t.msg != nil {
		return t
	}
	return r
}

// edns is how many queries over UDP were answered with EDNS and without it, and
// how many with it were not.
func (k *asker) edns() (with, without, lost int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for w, t := range k.ways {
		if w.tcp {
			continue
		}
		if w.plain {
			without += t.answered
		} else {
			with += t.answered
			lost += t.failed
		}
	}
	return with, without, lost
}
