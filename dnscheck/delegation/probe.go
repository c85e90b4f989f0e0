package delegation

import (
	"context"
	"sync"
	"time"

	"github.com/miekg/dns"
)

const (
	// patience is how long a first query is waited for before its repetitions
	// go out: a dead server must not cost the wait once for each.
	patience = 300 * time.Millisecond
	// apart is the time between repetitions, so that they do not queue behind
	// each other.
	apart = 10 * time.Millisecond
	// tries is how often a server that does not answer is asked before it is
	// called dead, and more how often one that answers now and then is asked
	// again before it is called lossy.
	tries = 3
	more  = 4
)

// probe asks one server for the zone's SOA, over UDP and TCP.
func (w *Walker) probe(ctx context.Context, z *zone, s *authority, samples int) {
	q := question{server: s.addr, name: z.name, qtype: dns.TypeSOA}
	var wg sync.WaitGroup
	wg.Go(func() { s.udp, s.plain = w.datagrams(ctx, q, samples) })
	wg.Go(func() {
		q := q
		q.tcp = true
		s.tcp = w.series(ctx, q, 1)
	})
	wg.Wait()
}

// series asks n times if the first is answered, else tries times.
func (w *Walker) series(ctx context.Context, q question, n int) []*response {
	out := make([]*response, max(n, tries))
	var wg sync.WaitGroup
	first := make(chan struct{})
	wg.Go(func() {
		defer close(first)
		out[0] = w.k.ask(ctx, q, 0)
	})
	t := time.NewTimer(patience)
	defer t.Stop()
	answered := false
	select {
	case <-first:
		answered = out[0].msg != nil
	case <-t.C:
	case <-ctx.Done():
	}
	if !answered {
		n = max(n, tries)
	}
	for i := 1; i < n; i++ {
		q := q
		q.nth = i
		wg.Go(func() { out[i] = w.k.ask(ctx, q, 0) })
		if i < n-1 && !pause(ctx, apart) {
			n = i + 1
		}
	}
	wg.Wait()
	return out[:n]
}

// datagrams is series over UDP, with what tells a dropped datagram from a
// dropped EDNS query: one without it, beside the repetitions.
func (w *Walker) datagrams(ctx context.Context, q question, samples int) (all []*response, plain *response) {
	var wg sync.WaitGroup
	answered, stop := context.WithCancel(ctx)
	defer stop()
	wg.Go(func() {
		first := w.k.ask(ctx, q, 0)
		if first.msg != nil && classify(q.name, q.name, q.qtype, first.msg).kind != noEDNS {
			stop()
		}
	})
	wg.Go(func() {
		if pause(answered, patience) {
			q := q
			q.plain = true
			plain = w.k.ask(ctx, q, 0)
		}
	})
	all = w.series(ctx, q, samples)
	wg.Wait()
	lost := 0
	for _, r := range all {
		if r.msg == nil {
			lost++
		}
	}
	if lost > 0 && lost < len(all) {
		for i := range more {
			q := q
			q.nth = len(all) + i
			all = append(all, w.k.ask(ctx, q, 0))
		}
	}
	return all, plain
}

// pause waits and reports whether ctx let it.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
