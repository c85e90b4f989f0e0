package dnscheck

import (
	"context"
	"net/netip"
	"time"

	"github.com/miekg/dns"
	"github.com/whyslow/whyslow/internal/millis"
)

// wait is the questions put to one server.
type wait struct {
	*stubRun
	flow    *Flow
	name    string
	qs      []question
	ns      int // index of the server in the configuration
	attempt int
}

func (w *wait) server() netip.AddrPort {
	return netip.AddrPortFrom(w.cfg.Nameservers[w.ns], w.port)
}

// ask starts question i and returns its place in steps. The reply goes to ch,
// which never blocks the sender.
func (w *wait) ask(ctx context.Context, i int, tcp bool, ch chan<- reply) {
	transport := "udp"
	if tcp {
		transport = "tcp"
	}
	step := len(w.steps)
	w.steps = append(w.steps, Step{
		Server: w.server().String(), Name: w.name, Type: dns.TypeToString[w.qs[i].qtype],
		At: millis.Of(time.Since(w.start)), Transport: transport, Attempt: w.attempt, Round: w.round,
	})
	q := Query{
		Server: w.server(), Name: w.name, Type: w.qs[i].qtype, ID: w.qs[i].id, TCP: tcp,
		AD: w.cfg.TrustAD, Flow: w.flow, EDNS: w.ednsSize(),
	}
	began := time.Now()
	go func() {
		a, err := w.ex.Exchange(ctx, q)
		if err == nil && len(a.Msg.Question) == 0 {
			// A server that chokes on the query and answers FORMERR without
			// repeating the question is not heard by send_dg, which compares
			// questions: it waits on.
			<-ctx.Done()
			a, err = nil, &OutcomeError{Outcome: outcomeOf(ctx.Err()), Server: q.Server, TCP: tcp}
			if asOutcome(err).Outcome == Timeout {
				asOutcome(err).Outcome = Mismatch
			}
		}
		ch <- reply{i: i, step: step, elapsed: time.Since(began), ans: a, err: err}
	}()
}

// record writes what became of a question into its step.
func (r *stubRun) record(p reply) {
	st := &r.steps[p.step]
	st.Elapsed = millis.Of(p.elapsed)
	if p.err != nil {
		st.Rcode = string(outcomeOf(p.err))
		return
	}
	m := p.ans.Msg
	st.Rcode = rcodeString(m.Rcode)
	if p.ans.Truncated && m.Truncated {
		st.Rcode = "truncated"
	}
	st.Answers, st.TTL = len(m.Answer), minTTL(m.Answer)
	st.EDE, st.RecursionAvailable, st.Authoritative = ede(m), m.RecursionAvailable, m.Authoritative
	st.Referral = lame(m)
}

// finish collects the questions still in flight after the wait was decided.
// cancel must make them return.
func (r *stubRun) finish(cancel context.CancelFunc, ch <-chan reply, inFlight int, over bool) {
	cancel()
	for ; inFlight > 0; inFlight-- {
		p := <-ch
		r.record(p)
		switch {
		case p.err == nil:
		case !over:
			r.steps[p.step].Rcode = string(Interrupted)
		case outcomeOf(p.err) == Interrupted:
			r.steps[p.step].Rcode = abandoned
		}
	}
	r.round++
}
