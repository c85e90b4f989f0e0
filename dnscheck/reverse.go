package dnscheck

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/miekg/dns"
	"github.com/whyslow/whyslow/internal/millis"
)

const (
	// reverseWait bounds one reverse lookup. A web server's own resolver may
	// wait longer, but seconds are enough to see that it would.
	reverseWait = 3500 * time.Millisecond
	// hedge is how long one server is waited for before the next is asked
	// beside it; the first answer counts.
	hedge = 1200 * time.Millisecond
	// reversePerFamily bounds the addresses looked up, maxNames the names
	// taken and confirmed of each.
	reversePerFamily = 2
	maxNames         = 16
	maxConfirm       = 3
)

// reverse looks up the names of the addresses found and of this host's own.
func (s *session) reverse(ctx context.Context, st *Stub, emit func(Event)) {
	order := s.liveFirst(st)
	var wg sync.WaitGroup
	defer wg.Wait()
	look := func(a netip.Addr, of string) {
		wg.Go(func() {
			if r, ok := s.lookupAddr(ctx, a, of, order); ok {
				emit(Event{Reverse: &r})
			}
		})
	}
	for _, a := range firstAddrs(st.Addrs, reversePerFamily) {
		look(a, "server")
	}
	client := s.o.ClientAddr
	if !client.IsValid() && len(st.Addrs) > 0 {
		client = s.sourceTowards(ctx, st.Addrs[0])
	}
	if client.IsValid() {
		look(client, "client")
	}
}

// sourceTowards asks the kernel for the address that packets to dst would
// leave from. Nothing is sent.
func (s *session) sourceTowards(ctx context.Context, dst netip.Addr) netip.Addr {
	if s.o.Source.IsValid() {
		return s.o.Source
	}
	h := &Host{Interface: s.o.Interface}
	c, err := h.dial(ctx, "udp", netip.AddrPortFrom(dst, 53))
	if err != nil {
		return netip.Addr{}
	}
	defer c.Close()
	if a, ok := c.LocalAddr().(*net.UDPAddr); ok {
		return a.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}

// liveFirst orders the servers: those that answered the stub, then those that
// it did not ask, then those that left it waiting, whose cost was seen once
// and need not be paid again.
func (s *session) liveFirst(st *Stub) []netip.AddrPort {
	score := map[string]int{}
	for _, step := range st.Steps {
		switch {
		case step.answered():
			score[step.Server] = -1
		case score[step.Server] == 0:
			score[step.Server] = 1
		}
	}
	var out []netip.AddrPort
	for i := range s.cfg.Nameservers {
		out = append(out, s.server(i))
	}
	slices.SortStableFunc(out, func(a, b netip.AddrPort) int { return score[a.String()] - score[b.String()] })
	return out
}

// lookupAddr asks for the PTR records of a and confirms the names. ok is false
// if ctx ended first.
func (s *session) lookupAddr(ctx context.Context, a netip.Addr, of string, order []netip.AddrPort) (Reverse, bool) {
	r := Reverse{Addr: a, Of: of, Names: []string{}}
	name, err := reverseName(a)
	if err != nil {
		return r, false
	}
	ans, took, err := s.ask(ctx, name, dns.TypePTR, order)
	if ctx.Err() != nil && err != nil {
		return r, false
	}
	r.Elapsed = millis.Of(took)
	if err != nil {
		r.Rcode = string(outcomeOf(err))
		return r, true
	}
	r.Rcode = rcodeString(ans.Msg.Rcode)
	for _, rr := range ans.Msg.Answer {
		if p, ok := rr.(*dns.PTR); ok && len(r.Names) < maxNames {
			r.Names = append(r.Names, p.Ptr)
		}
	}
	if len(r.Names) == 0 && r.Rcode == "NOERROR" {
		r.Rcode = "NODATA"
	}
	r.Confirmed = s.confirm(ctx, a, r.Names, order)
	return r, true
}

// confirm is the forward half of a double lookup (FCrDNS): true if one of the
// names has a among its addresses, nil if that could not be found out.
func (s *session) confirm(ctx context.Context, a netip.Addr, names []string, order []netip.AddrPort) *bool {
	if len(names) == 0 {
		return nil
	}
	a = a.WithZone("").Unmap()
	qtype := dns.TypeAAAA
	if a.Is4() {
		qtype = dns.TypeA
	}
	checked, yes := true, true
	for _, n := range names[:min(len(names), maxConfirm)] {
		ans, _, err := s.ask(ctx, strings.ToLower(n), qtype, order)
		if err != nil || ans.Msg.Rcode != dns.RcodeSuccess && ans.Msg.Rcode != dns.RcodeNameError {
			checked = false
			continue
		}
		if addrs, _ := follow(n, ans.Msg.Answer); slices.Contains(addrs, a) {
			return &yes
		}
	}
	if !checked {
		return nil
	}
	no := false
	return &no
}

// askReply is what one server made of a question.
type askReply struct {
	ans  *Answer
	took time.Duration
	err  error
}

// ask puts one question to the servers in order, each a hedge after the one
// before, and returns the first answer that is one, with the time it took its
// server.
func (s *session) ask(ctx context.Context, name string, qtype uint16, order []netip.AddrPort) (*Answer, time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, reverseWait)
	ch := make(chan askReply, len(order))
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	began := time.Now()
	var last askReply
	next, pending := 0, 0
	start := func() {
		q := Query{Server: order[next], Name: name, Type: qtype}
		wg.Go(func() { ch <- s.askOne(ctx, q) })
		next, pending = next+1, pending+1
	}
	for pending > 0 || next < len(order) && ctx.Err() == nil {
		if pending == 0 {
			start()
		}
		var late <-chan time.Time
		if next < len(order) {
			t := time.NewTimer(hedge)
			defer t.Stop() // at most one a server
			late = t.C
		}
		select {
		case r := <-ch:
			pending--
			if r.err == nil && !rejects(r.ans.Msg) {
				return r.ans, r.took, nil
			}
			if last.ans == nil {
				last = r
			}
		case <-late:
			start()
		}
	}
	switch {
	case last.ans != nil:
		return last.ans, last.took, nil
	case last.err != nil:
		return nil, time.Since(began), last.err
	default:
		return nil, time.Since(began), &OutcomeError{Outcome: Timeout, Err: errors.New("no server asked")}
	}
}

// askOne asks one server, over TCP where the answer was cut.
func (s *session) askOne(ctx context.Context, q Query) askReply {
	began := time.Now()
	a, err := s.ex.Exchange(ctx, q)
	if err == nil && a.Truncated {
		q.TCP = true
		if whole, err := s.ex.Exchange(ctx, q); err == nil {
			a = whole
		}
	}
	return askReply{a, time.Since(began), err}
}
