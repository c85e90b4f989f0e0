package dnscheck

import (
	"context"
	"time"

	"github.com/miekg/dns"
)

// This file is res_send.c of glibc 2.36: one question, or an A and AAAA pair,
// put to the servers in turn until one answers.

// tcpWait bounds a TCP exchange of the stub. glibc itself has no bound here
// (send_vc blocks in connect as long as the kernel sends SYNs, about 130 s on
// Linux); a measurement must have one.
const tcpWait = 10 * time.Second

// edns0Size is what glibc advertises under "options edns0" (resolv-internal.h,
// RESOLV_EDNS_BUFFER_SIZE since 2.33).
const edns0Size = 1200

// outcome abandoned marks a query that the stub stopped waiting for because
// its twin decided the matter.
const abandoned = "abandoned"

// question is one of the (at most two) queries of a resolution step.
type question struct {
	qtype uint16
	id    uint16
}

// reply is what became of one question in one wait.
type reply struct {
	i       int // which question
	step    int // its index in stubRun.steps
	elapsed time.Duration
	ans     *Answer
	err     error
}

// verdict of one wait on one server.
type verdict int

const (
	done        verdict = iota // the answers decide
	nextServer                 // try the next one
	retryTCP                   // truncated
	interrupted                // ctx ended
)

// stubRun is one resolution: glibc's struct __res_state plus what was seen.
type stubRun struct {
	model Model
	ex    Exchanger
	cfg   *Config
	port  uint16
	start time.Time

	steps []Step
	round int
	notes []string

	rotation int // what res_send.c calls the global offset

	// singleRequest and reopen are switched on for the rest of the resolution
	// by a lost twin, as res_send.c does in statp->options.
	singleRequest, reopen bool
}

// sent is the result of one send.
type sent struct {
	// answers in order of arrival, none for questions unanswered.
	answers []*Answer
	// malformed says that an answer came that cannot be read.
	malformed bool
	// failed says that no server gave an answer that counts; gotSomewhere
	// that at least something came or was waited for (ETIMEDOUT rather than
	// ECONNREFUSED); rejected is the last SERVFAIL, NOTIMP or REFUSED.
	failed, gotSomewhere bool
	rejected             string
	interrupted          bool
}

// send asks for name with all types, by the rules of __res_context_send.
func (r *stubRun) send(ctx context.Context, name string, types []uint16) sent {
	qs := make([]question, len(types))
	for i, t := range types {
		qs[i] = question{qtype: t, id: randomID()}
	}
	if len(qs) == 2 && qs[0].id == qs[1].id {
		qs[1].id = qs[0].id%65535 + 1
	}
	flow := new(Flow)
	defer flow.Close()
	n := len(r.cfg.Nameservers)
	offset := 0
	if r.cfg.Rotate && n > 1 {
		offset = r.rotation
		r.rotation++
	}
	s := sent{}
	tcp := r.cfg.UseVC
	for try := 0; try < r.cfg.Attempts; try++ {
		for shift := range n {
			w := &wait{stubRun: r, flow: flow, name: name, qs: qs, ns: (shift + offset) % n, attempt: try + 1}
			v := nextServer
			if !tcp {
				if v = w.datagram(ctx, &s); v == retryTCP {
					tcp = true
				}
			}
			if tcp {
				// At most one attempt per server over TCP.
				try = r.cfg.Attempts
				v = w.stream(ctx, &s)
			}
			switch v {
			case done:
				return s
			case interrupted:
				s.interrupted = true
				return s
			}
		}
	}
	s.answers, s.failed = nil, true
	return s
}

// datagram is send_dg: the questions together on one socket; if only one of
// two is answered in time, once more one after the other, and once more from
// two sockets.
func (w *wait) datagram(ctx context.Context, s *sent) verdict {
	for {
		v, lostTwin := w.datagramOnce(ctx, s)
		switch {
		case !lostTwin:
			return v
		case !w.single():
			w.singleRequest = true
		case !w.fresh():
			w.reopen = true
			w.flow.Drop(w.server())
		default:
			return done // with the one answer there is
		}
	}
}

func (r *stubRun) single() bool { return r.singleRequest || r.cfg.SingleRequest || r.fresh() }
func (r *stubRun) fresh() bool  { return r.reopen || r.cfg.SingleRequestReopen }

// datagramOnce is one pass of send_dg's poll loop. lostTwin says that one
// question of two was answered when time ran out.
func (w *wait) datagramOnce(ctx context.Context, s *sent) (v verdict, lostTwin bool) {
	s.answers, s.malformed = nil, false
	wctx, cancel := context.WithTimeout(ctx, w.cfg.ServerWait(w.ns))
	ch := make(chan reply, len(w.qs))
	inFlight, asked, received := 0, 0, 0
	for asked < len(w.qs) && (asked == 0 || !w.single()) {
		w.ask(wctx, asked, false, ch)
		asked++
		inFlight++
	}
	defer func() { w.finish(cancel, ch, inFlight, ctx.Err() == nil) }()
	for {
		if inFlight == 0 {
			if asked == len(w.qs) {
				break
			}
			if w.fresh() {
				w.flow.Drop(w.server())
			}
			w.ask(wctx, asked, false, ch)
			asked++
			inFlight++
		}
		p := <-ch
		inFlight--
		w.record(p)
		if p.err != nil {
			switch o := outcomeOf(p.err); {
			case ctx.Err() != nil:
				w.steps[p.step].Rcode = string(Interrupted)
				return interrupted, false
			case o == Timeout || o == Mismatch:
				s.gotSomewhere = true
				// Its twin has the same deadline: let it be seen to end.
				for ; inFlight > 0; inFlight-- {
					q := <-ch
					w.record(q)
					if v, decided := w.accept(s, q, &received); decided {
						inFlight--
						return v, false
					}
				}
				if len(s.answers) > 0 || s.malformed {
					return done, len(w.qs) == 2
				}
				return nextServer, false
			case o != Malformed:
				return nextServer, false
			}
		}
		if v, decided := w.accept(s, p, &received); decided {
			return v, false
		}
	}
	if len(s.answers) == 0 && !s.malformed {
		return nextServer, false
	}
	return done, false
}

// accept takes one reply into s. decided says that the wait is over.
func (w *wait) accept(s *sent, p reply, received *int) (v verdict, decided bool) {
	if p.err != nil {
		if outcomeOf(p.err) == Malformed {
			// send_dg looks at the header alone and takes it; the reading
			// fails later, for good.
			s.malformed, s.gotSomewhere = true, true
			*received++
		}
		return 0, false
	}
	s.gotSomewhere = true
	m := p.ans.Msg
	if rejects(m) {
		s.rejected = rcodeString(m.Rcode)
		if *received > 0 || len(w.qs) == 1 || w.single() {
			if len(s.answers) > 0 || s.malformed {
				return done, true
			}
			return nextServer, true
		}
		*received++
		return 0, false
	}
	if m.Truncated {
		return retryTCP, true
	}
	*received++
	s.answers = append(s.answers, p.ans)
	return 0, false
}

// rejects reports whether a stub turns to the next server over this answer: an
// error that another server may not have, or a referral from a server that
// does not recurse (res_send.c, "referred query").
func rejects(m *dns.Msg) bool {
	switch m.Rcode {
	case dns.RcodeServerFailure, dns.RcodeNotImplemented, dns.RcodeRefused:
		return true
	}
	return lame(m)
}

// lame reports whether a server gave neither an answer nor recursion nor
// authority.
func lame(m *dns.Msg) bool {
	return m.Rcode == dns.RcodeSuccess && len(m.Answer) == 0 && !m.Authoritative && !m.RecursionAvailable && len(m.Extra) == 0
}

// stream is send_vc: the questions over TCP. Any answer counts, whatever its
// rcode.
func (w *wait) stream(ctx context.Context, s *sent) verdict {
	s.answers, s.malformed = nil, false
	wctx, cancel := context.WithTimeout(ctx, tcpWait)
	ch := make(chan reply, len(w.qs))
	inFlight := len(w.qs)
	for i := range w.qs {
		w.ask(wctx, i, true, ch)
	}
	defer func() { w.finish(cancel, ch, inFlight, ctx.Err() == nil) }()
	failed := false
	for ; inFlight > 0; inFlight-- {
		p := <-ch
		w.record(p)
		switch {
		case ctx.Err() != nil && p.err != nil:
			w.steps[p.step].Rcode = string(Interrupted)
			inFlight--
			return interrupted
		case p.err == nil:
			s.gotSomewhere = true
			s.answers = append(s.answers, p.ans)
		case outcomeOf(p.err) == Malformed:
			s.gotSomewhere, s.malformed = true, true
		default:
			failed = true
			if outcomeOf(p.err) != Refused {
				s.gotSomewhere = true
			}
			if outcomeOf(p.err) == Timeout {
				w.note("a TCP query was given up after " + tcpWait.String() + "; glibc would have waited as long as the kernel does, about two minutes")
			}
		}
	}
	if failed && len(s.answers) == 0 {
		return nextServer
	}
	return done
}

func (r *stubRun) note(s string) {
	for _, n := range r.notes {
		if n == s {
			return
		}
	}
	r.notes = append(r.notes, s)
}

// sleep waits for d and reports whether ctx let it.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(max(0, d))
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func rcodeString(rc int) string {
	if s, ok := dns.RcodeToString[rc]; ok {
		return s
	}
	return "RCODE" + itoa(rc)
}

// minTTL is the least TTL of the records, nil if there are none.
func minTTL(rrs []dns.RR) *int {
	var least *int
	for _, rr := range rrs {
		if ttl := int(rr.Header().Ttl); least == nil || ttl < *least {
			least = &ttl
		}
	}
	return least
}
