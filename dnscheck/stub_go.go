package dnscheck

import (
	"context"
	"slices"
	"strings"

	"github.com/miekg/dns"
)

// This file is net/dnsclient_unix.go of Go 1.26: A and AAAA each go their own
// way through the servers, every query from a socket of its own.

// goSearch tries every name of the list until one has an address. Whatever
// happened to one name, the next is tried: a dead server costs its waits for
// each of them.
func (r *stubRun) goSearch(ctx context.Context, name string, types []uint16) queryResult {
	var names []string
	switch bare := strings.TrimSuffix(name, "."); {
	case bare != name:
		names = []string{name}
	default:
		for _, domain := range r.cfg.Search {
			if len(name)+1+len(domain) <= maxNameLen {
				names = append(names, name+"."+domain)
			}
		}
		if strings.Count(name, ".") >= r.cfg.Ndots {
			names = slices.Insert(names, 0, name)
		} else {
			names = append(names, name)
		}
	}
	last := queryResult{herrno: hostNotFound, name: name}
	for i, n := range names {
		q := r.query(ctx, n, types)
		if q.herrno == success || q.sent.interrupted {
			return q
		}
		// The error told is that of the name itself, else the first.
		if i == 0 || n == name {
			last = q
		}
	}
	return last
}

// goLane is what became of one type.
type goLane struct {
	run         *stubRun
	ans         *Answer // nil: nobody gave one that counts
	sent        sent
	interrupted bool
}

func (r *stubRun) goQuery(ctx context.Context, name string, types []uint16) queryResult {
	lanes := make([]goLane, len(types))
	ends := make(chan struct{}, len(types))
	for i, t := range types {
		offset := 0
		if n := len(r.cfg.Nameservers); r.cfg.Rotate && n > 1 {
			offset = r.rotation % n
			r.rotation++
		}
		sub := &stubRun{model: r.model, ex: r.ex, cfg: r.cfg, port: r.port, start: r.start, round: r.round}
		run := func() {
			lanes[i] = sub.goTry(ctx, name, t, offset)
			ends <- struct{}{}
		}
		if r.cfg.SingleRequest {
			run()
			r.round = sub.round
			continue
		}
		go run()
	}
	for range types {
		<-ends
	}
	return r.goJoin(name, types, lanes)
}

// goJoin puts the lanes together. Waits that began together are one round.
func (r *stubRun) goJoin(name string, types []uint16, lanes []goLane) queryResult {
	q := queryResult{name: name, herrno: noData}
	var steps []Step
	for i, l := range lanes {
		steps = append(steps, l.run.steps...)
		r.round = max(r.round, l.run.round)
		for _, n := range l.run.notes {
			r.note(n)
		}
		q.sent.gotSomewhere = q.sent.gotSomewhere || l.sent.gotSomewhere
		q.sent.interrupted = q.sent.interrupted || l.interrupted
		q.sent.malformed = q.sent.malformed || l.sent.malformed
		switch {
		case l.ans == nil:
			q.sent.rejected = l.sent.rejected
			if q.herrno == noData {
				q.herrno = tryAgain
			}
		case l.ans.Msg.Rcode == dns.RcodeNameError:
			if q.herrno != success {
				q.herrno = hostNotFound
			}
		case hasType(l.ans.Msg.Answer, types[i]):
			q.herrno = success
		}
		if l.ans != nil {
			q.sent.answers = append(q.sent.answers, l.ans)
		}
	}
	slices.SortStableFunc(steps, func(a, b Step) int { return a.Round - b.Round })
	r.steps = append(r.steps, steps...)
	if q.herrno == tryAgain {
		q.sent.answers, q.sent.failed = nil, true
	}
	return q
}

func hasType(rrs []dns.RR, t uint16) bool {
	return slices.ContainsFunc(rrs, func(rr dns.RR) bool { return rr.Header().Rrtype == t })
}

// goTry is tryOneName: one type, server after server, round after round, until
// one says that there is such a name or none.
func (r *stubRun) goTry(ctx context.Context, name string, qtype uint16, offset int) goLane {
	l := goLane{run: r}
	n := len(r.cfg.Nameservers)
	for try := range r.cfg.Attempts {
		for shift := range n {
			w := &wait{stubRun: r, name: name, qs: []question{{qtype: qtype, id: randomID()}}, ns: (shift + offset) % n, attempt: try + 1}
			a, err := w.goExchange(ctx)
			switch {
			case ctx.Err() != nil && err != nil:
				l.interrupted = true
				return l
			case err != nil:
				o := outcomeOf(err)
				l.sent.gotSomewhere = l.sent.gotSomewhere || o == Timeout || o == Mismatch || o == Malformed
				l.sent.malformed = o == Malformed
				l.sent.rejected = ""
				continue
			}
			l.sent.gotSomewhere, l.sent.malformed = true, false
			if rc := a.Msg.Rcode; rc != dns.RcodeSuccess && rc != dns.RcodeNameError || lame(a.Msg) {
				l.sent.rejected = rcodeString(rc)
				continue
			}
			l.ans = a
			return l
		}
	}
	return l
}

// goExchange asks one server, over TCP too where the answer was truncated.
// Each transport has the whole timeout, handshake included.
func (w *wait) goExchange(ctx context.Context) (*Answer, error) {
	for tcp := w.cfg.UseVC; ; tcp = true {
		w.flow = new(Flow)
		wctx, cancel := context.WithTimeout(ctx, w.cfg.Timeout)
		ch := make(chan reply, 1)
		w.ask(wctx, 0, tcp, ch)
		p := <-ch
		cancel()
		w.flow.Close()
		w.record(p)
		w.round++
		if p.err != nil && ctx.Err() != nil {
			w.steps[p.step].Rcode = string(Interrupted)
		}
		if p.err != nil || tcp || !p.ans.Msg.Truncated {
			return p.ans, p.err
		}
	}
}
