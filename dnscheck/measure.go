package dnscheck

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/miekg/dns"
)

const (
	// controlDelay is how long the stub has the network for itself: one that
	// is still waiting then waits for something that a few packets more
	// cannot delay.
	controlDelay = 300 * time.Millisecond
	// controlName is answered by a resolver from its own knowledge, if only
	// with a refusal (RFC 4892).
	controlName = "id.server."
	controls    = 3
	// coldProbes is the number of random names a server and zone.
	coldProbes = 3
	// maxLinks bounds the names of a CNAME chain whose zones are asked.
	maxLinks = 4
	// ednsSize is the UDP size of the EDNS control (DNS flag day 2020).
	ednsSize = 1232
)

// measureAll is the whole measurement. It returns when everything it started
// has ended.
func (s *session) measureAll(ctx context.Context, emit func(Event)) {
	view := s.cfg.View(s.port)
	emit(Event{Config: &view})
	for _, w := range s.cfg.Warnings {
		emit(Event{Warning: w})
	}
	var wg sync.WaitGroup
	defer wg.Wait()

	// The controls ask nothing that would warm a cache for the name. Where
	// the stub waits for a dead server they run meanwhile.
	stubDone := make(chan struct{})
	needed := true // written before stubDone is closed
	wg.Go(func() {
		t := time.NewTimer(controlDelay)
		defer t.Stop()
		select {
		case <-t.C:
		case <-stubDone:
			if !needed {
				return
			}
		}
		s.controls(ctx, emit)
	})
	st := s.resolve(ctx)
	needed = st.Source != "hosts"
	close(stubDone)
	emit(Event{Stub: st})
	if s.o.OnStub != nil && st.Source != sourceLiteral {
		s.o.OnStub(st)
	}
	if ctx.Err() != nil {
		return
	}
	if needed {
		s.direct(ctx, &wg, st, emit)
	}
	if !s.o.NoReverse {
		wg.Go(func() { s.reverse(ctx, st, emit) })
	}
}

// controls asks each server what it knows itself, over UDP and TCP: whether it
// lives, and how far it is.
func (s *session) controls(ctx context.Context, emit func(Event)) {
	var wg sync.WaitGroup
	for i := range s.cfg.Nameservers {
		for _, tcp := range []bool{false, true} {
			wg.Go(func() {
				r := row{
					server: s.server(i), name: controlName, qtype: dns.TypeTXT, class: dns.ClassCHAOS,
					tcp: tcp, n: controls, wait: s.wait(nil),
				}
				if sv, _ := s.measure(ctx, r); sv.Sent > 0 {
					emit(Event{Control: &sv})
				}
			})
		}
	}
	wg.Wait()
}

// wait is how long a direct query waits: what the user says, or 2 s, or half
// as long again as the slowest answer that the stub has seen.
func (s *session) wait(st *Stub) time.Duration {
	if s.o.Wait > 0 {
		return s.o.Wait
	}
	w := defaultWait
	if st != nil {
		for _, step := range st.Steps {
			if step.answered() {
				w = max(w, step.Elapsed.Duration()*3/2)
			}
		}
	}
	return min(w, maxWait)
}

// answered reports whether a server said anything that can be read.
func (s *Step) answered() bool {
	switch Outcome(s.Rcode) {
	case Timeout, Refused, Unreachable, Malformed, Mismatch, Closed, Interrupted, abandoned, "":
		return false
	}
	return true
}

// direct asks every server, all at once, for the name itself, for random names
// below it, and what the outcome so far makes worth asking.
func (s *session) direct(ctx context.Context, wg *sync.WaitGroup, st *Stub, emit func(Event)) {
	name, types := s.directName(st), s.o.Family.types()
	if s.target.addr.IsValid() {
		rev, err := reverseName(s.target.addr)
		if err != nil {
			emit(Event{Warning: err.Error()})
			return
		}
		name, types = rev, []uint16{dns.TypePTR}
	}
	var edns uint16
	if s.cfg.EDNS0 {
		edns = edns0Size
	}
	emitRow := func(r row) Server {
		sv, _ := s.measure(ctx, r)
		if sv.Sent > 0 {
			emit(Event{Server: &sv})
		}
		return sv
	}
	links := s.coldNames(st, name)
	failed := slices.ContainsFunc(st.Steps, func(s Step) bool { return s.Rcode == "SERVFAIL" })
	for i := range s.cfg.Nameservers {
		base := row{server: s.server(i), name: name, n: s.o.Probes, wait: s.wait(st), edns: edns}
		for k, t := range types {
			r := base
			r.qtype = t
			wg.Go(func() {
				sv := emitRow(r)
				if sv.Truncated {
					r.tcp = true
					emitRow(r)
				}
				if sv.Rcode == "SERVFAIL" && k == 0 && !failed {
					s.unvalidated(ctx, base, t, emit)
				}
			})
			if failed && k == 0 {
				wg.Go(func() { s.unvalidated(ctx, base, t, emit) })
			}
		}
		wg.Go(func() {
			r := base
			r.qtype, r.n = types[0], controls
			if r.edns == 0 {
				r.edns = ednsSize
			} else {
				r.edns = 0
			}
			s.control(ctx, r, emit)
		})
		for _, l := range links {
			wg.Go(func() { s.cold(ctx, base, l, emit) })
		}
	}
}

// unvalidated asks a server that fails whether it would answer if it did not
// validate.
func (s *session) unvalidated(ctx context.Context, r row, qtype uint16, emit func(Event)) {
	r.qtype, r.cd, r.n, r.edns = qtype, true, 2, ednsSize
	s.control(ctx, r, emit)
}

func (s *session) control(ctx context.Context, r row, emit func(Event)) {
	if sv, _ := s.measure(ctx, r); sv.Sent > 0 {
		emit(Event{Control: &sv})
	}
}

// directName is the name that the servers are asked for: the one that the stub
// found in the end, or the one that it would have tried first.
func (s *session) directName(st *Stub) string {
	if st.Name != "" {
		return st.Name
	}
	if len(st.Steps) > 0 {
		return dns.Fqdn(st.Steps[0].Name)
	}
	return dns.Fqdn(s.target.name)
}

// coldNames are the names below which random names are asked: the name's own
// and those of its CNAMEs. A name that does not exist says nothing about the
// names below it (RFC 8020 lets the cache answer), so its parent is taken.
func (s *session) coldNames(st *Stub, name string) []string {
	if s.target.addr.IsValid() {
		return nil
	}
	if st.Rcode == "NXDOMAIN" {
		_, parent, _ := strings.Cut(name, ".")
		if parent == "" {
			return nil
		}
		name = parent
	}
	names := []string{name}
	for _, c := range st.CNAME {
		if len(names) == maxLinks {
			break
		}
		names = append(names, fqdn(c))
	}
	return names
}

// cold asks for names that no cache can hold. Rows of servers that answer
// nothing say nothing about an authority and are left out.
func (s *session) cold(ctx context.Context, base row, below string, emit func(Event)) {
	base.name, base.random, base.qtype, base.n = below, true, dns.TypeA, coldProbes
	sv, results := s.measure(ctx, base)
	if sv.Sent == 0 {
		return
	}
	if sv.Answered == 0 && sv.Rcodes[string(Refused)]+sv.Rcodes[string(Unreachable)] == sv.Sent {
		return
	}
	for _, r := range results {
		if r.ans != nil && r.ans.Msg.Rcode == dns.RcodeSuccess && len(r.ans.Msg.Answer) > 0 {
			sv.Wildcard = true
		}
	}
	sv.Name = fmt.Sprintf("*.%s", below)
	emit(Event{Cold: &sv})
}

// firstAddrs are a few addresses of a set, of both families where there are.
func firstAddrs(addrs []netip.Addr, n int) []netip.Addr {
	var out []netip.Addr
	for _, v4 := range []bool{true, false} {
		taken := 0
		for _, a := range addrs {
			if a.Is4() == v4 && taken < n {
				out = append(out, a)
				taken++
			}
		}
	}
	return out
}
