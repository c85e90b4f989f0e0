package dnscheck

import (
	"context"
	"strings"
	"time"

	"github.com/miekg/dns"
)

// This file is res_msend.c and lookup_name.c of musl 1.2.3: every question to
// every server at once, from one socket, and again in intervals until the
// timeout, which is that of the whole.

// muslSearch tries the list only for a name with too few dots, and the name as
// it is last. Only a name that does not exist lets it go on: an error, and a
// name without addresses, end the search.
func (r *stubRun) muslSearch(ctx context.Context, name string, types []uint16) queryResult {
	if !strings.HasSuffix(name, ".") && strings.Count(name, ".") < r.cfg.Ndots {
		for _, domain := range r.cfg.Search {
			if len(name)+1+len(domain) > maxNameLen {
				continue
			}
			if q := r.query(ctx, name+"."+domain, types); q.herrno != hostNotFound || q.sent.interrupted {
				return q
			}
		}
	}
	return r.query(ctx, name, types)
}

// muslSend is one __res_msend.
type muslSend struct {
	*stubRun
	flow     *Flow
	name     string
	qs       []question
	answers  []*Answer // by question
	ch       chan reply
	asked    map[int]int // server by step
	inFlight int
	retries  int // SERVFAILs that are asked again at once
	wave     int
	rejected string
	heard    bool
}

func (r *stubRun) muslQuery(ctx context.Context, name string, types []uint16) queryResult {
	m := &muslSend{stubRun: r, name: name, flow: new(Flow), answers: make([]*Answer, len(types)), asked: map[int]int{}}
	defer m.flow.Close()
	for i, t := range types {
		m.qs = append(m.qs, question{qtype: t, id: randomID()})
		if i > 0 && m.qs[i].id == m.qs[0].id {
			m.qs[i].id = m.qs[0].id%65535 + 1
		}
	}
	m.send(ctx)
	q := queryResult{name: name, herrno: noData, sent: sent{gotSomewhere: m.heard, rejected: m.rejected}}
	for i, a := range m.answers {
		switch {
		case a == nil:
			// One unanswered question of two fails both.
			q.herrno, q.sent.failed, q.sent.answers = tryAgain, true, nil
			q.sent.interrupted = ctx.Err() != nil
			return q
		case a.Msg.Rcode == dns.RcodeNameError:
			q.herrno = hostNotFound
		case q.herrno != hostNotFound && hasType(a.Msg.Answer, types[i]):
			q.herrno = success
		}
		q.sent.answers = append(q.sent.answers, a)
	}
	return q
}

// muslInterval is the time between two waves, in whole milliseconds.
func muslInterval(c *Config) time.Duration {
	// "attempts:0" divides by zero in musl; it is taken for 1.
	return time.Duration(c.Timeout.Milliseconds()/int64(max(c.Attempts, 1))) * time.Millisecond
}

func (m *muslSend) send(ctx context.Context) {
	timeout, interval := m.cfg.Timeout, muslInterval(m.cfg)
	if timeout <= 0 {
		m.note("timeout:0: musl asks nobody")
		return
	}
	wctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	// An interval rounded down leaves a few milliseconds at the end, which the
	// waves before have eaten up: no wave more.
	waves := max(m.cfg.Attempts, 1)
	m.ch = make(chan reply, waves*(len(m.qs)*len(m.cfg.Nameservers)+2*len(m.qs)))
	began := time.Now()
	for ; m.wave < waves; m.wave++ {
		if m.wave > 0 {
			m.round++
		}
		m.retries = 2 * len(m.qs)
		for i := range m.qs {
			for ns := range m.cfg.Nameservers {
				if m.answers[i] == nil {
					m.askOne(wctx, i, ns)
				}
			}
		}
		until := time.Duration(m.wave+1) * interval
		if m.wave+1 == waves {
			until = timeout
		}
		if m.collect(wctx, until-time.Since(began)) {
			break
		}
	}
	m.end(ctx, cancel)
}

func (m *muslSend) askOne(ctx context.Context, i, ns int) {
	w := &wait{stubRun: m.stubRun, flow: m.flow, name: m.name, qs: m.qs, ns: ns, attempt: m.wave + 1}
	m.asked[len(m.steps)] = ns
	m.inFlight++
	w.ask(ctx, i, false, m.ch)
}

// collect takes replies for d and reports whether the wait is over.
func (m *muslSend) collect(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(max(d, 0))
	defer t.Stop()
	for {
		select {
		case p := <-m.ch:
			m.inFlight--
			m.record(p)
			if m.take(ctx, p) {
				return true
			}
		case <-ctx.Done():
			return true
		case <-t.C:
			return ctx.Err() != nil
		}
	}
}

// take looks at one reply and reports whether all questions are answered.
// Errors of the socket are not seen: musl's is not connected, so that a closed
// port is silence.
func (m *muslSend) take(ctx context.Context, p reply) bool {
	if p.err != nil {
		m.heard = m.heard || outcomeOf(p.err) != Unreachable
		return false
	}
	m.heard = true
	switch msg := p.ans.Msg; {
	case m.answers[p.i] != nil:
	case msg.Rcode == dns.RcodeSuccess || msg.Rcode == dns.RcodeNameError:
		m.answers[p.i] = p.ans
		if msg.Truncated {
			m.note("an answer was truncated: musl before 1.2.4 takes what is in it, later ones ask again over TCP")
		}
	case msg.Rcode == dns.RcodeServerFailure && m.retries > 0:
		m.retries--
		m.rejected = rcodeString(msg.Rcode)
		m.askOne(ctx, p.i, m.asked[p.step])
	default:
		m.rejected = rcodeString(msg.Rcode)
	}
	for _, a := range m.answers {
		if a == nil {
			return false
		}
	}
	return true
}

// end waits for what is still under way. A query of an earlier wave was waited
// for in vain, one of the last was given up.
func (m *muslSend) end(ctx context.Context, cancel context.CancelFunc) {
	decided := true
	for _, a := range m.answers {
		decided = decided && a != nil
	}
	if decided {
		cancel()
	}
	for ; m.inFlight > 0; m.inFlight-- {
		p := <-m.ch
		m.record(p)
		if p.err == nil {
			continue
		}
		m.heard = true
		switch st := &m.steps[p.step]; {
		case ctx.Err() != nil:
			st.Rcode = string(Interrupted)
		case outcomeOf(p.err) != Interrupted:
		case st.Round < m.round:
			st.Rcode = string(Timeout)
		default:
			st.Rcode = abandoned
		}
	}
	m.round++
}
