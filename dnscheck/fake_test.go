package dnscheck

import (
	"context"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// fakeNet is an Exchanger in virtual time: a handler for each server address.
// A server without a handler is dead: it answers nothing.
type fakeNet struct {
	servers map[string]fakeServer
	// way is the TCP handshake's time: zero means 20 ms, negative never.
	way time.Duration

	mu   sync.Mutex
	seen []Query
}

// fakeServer answers a query after a delay. A nil message is silence.
type fakeServer func(q Query, nth int) (*dns.Msg, time.Duration, Outcome)

func (n *fakeNet) Exchange(ctx context.Context, q Query) (*Answer, error) {
	n.mu.Lock()
	nth := 0
	for _, s := range n.seen {
		if s.Server == q.Server && s.Type == q.Type && fqdn(s.Name) == fqdn(q.Name) && s.TCP == q.TCP {
			nth++
		}
	}
	n.seen = append(n.seen, q)
	n.mu.Unlock()
	fail := func(o Outcome) error { return &OutcomeError{Outcome: o, Server: q.Server, TCP: q.TCP} }
	h := n.servers[q.Server.Addr().String()]
	if h == nil {
		<-ctx.Done()
		return nil, fail(outcomeOf(ctx.Err()))
	}
	m, delay, outcome := h(q, nth)
	if m == nil && outcome == "" {
		<-ctx.Done()
		return nil, fail(outcomeOf(ctx.Err()))
	}
	connect := time.Duration(0)
	if q.TCP && n.way < 0 {
		<-ctx.Done()
		return nil, fail(outcomeOf(ctx.Err()))
	}
	if q.TCP {
		if connect = n.way; connect == 0 {
			connect = 20 * time.Millisecond
		}
		delay += connect
	}
	t := time.NewTimer(delay)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
		return nil, fail(outcomeOf(ctx.Err()))
	}
	if outcome != "" {
		return nil, fail(outcome)
	}
	return &Answer{Msg: m, Elapsed: delay, Connect: connect, Truncated: m.Truncated}, nil
}

// answer builds the reply to q from records in presentation format.
func answer(q Query, rcode int, rrs ...string) *dns.Msg {
	m := new(dns.Msg)
	m.Question = []dns.Question{{Name: dns.Fqdn(q.Name), Qtype: q.Type, Qclass: dns.ClassINET}}
	m.Response, m.RecursionAvailable, m.Rcode = true, true, rcode
	for _, s := range rrs {
		rr, err := dns.NewRR(s)
		if err != nil {
			panic(err)
		}
		m.Answer = append(m.Answer, rr)
	}
	return m
}

// zone answers from records by "name TYPE"; what is not there is NXDOMAIN, or
// NODATA where another type is.
func zone(delay time.Duration, records map[string][]string) fakeServer {
	return func(q Query, _ int) (*dns.Msg, time.Duration, Outcome) {
		if q.Class == dns.ClassCHAOS {
			return answer(q, dns.RcodeRefused), delay, ""
		}
		name := strings.TrimSuffix(fqdn(q.Name), ".")
		if rrs, ok := records[name+" "+dns.TypeToString[q.Type]]; ok {
			return answer(q, dns.RcodeSuccess, rrs...), delay, ""
		}
		for k := range records {
			if strings.HasPrefix(k, name+" ") {
				return answer(q, dns.RcodeSuccess), delay, ""
			}
		}
		return answer(q, dns.RcodeNameError), delay, ""
	}
}

func always(rcode int, delay time.Duration) fakeServer {
	return func(q Query, _ int) (*dns.Msg, time.Duration, Outcome) { return answer(q, rcode), delay, "" }
}

func outcomeServer(o Outcome) fakeServer {
	return func(Query, int) (*dns.Msg, time.Duration, Outcome) { return nil, 0, o }
}

var exampleZone = map[string][]string{
	"www.example.com A":      {"www.example.com. 300 IN A 192.0.2.80"},
	"www.example.com AAAA":   {"www.example.com. 300 IN AAAA 2001:db8::80"},
	"v4.example.com A":       {"v4.example.com. 300 IN A 192.0.2.81"},
	"web.corp.example A":     {"web.corp.example. 60 IN A 192.0.2.82"},
	"alias.example.com A":    {"alias.example.com. 60 IN CNAME a.cdn.example.", "a.cdn.example. 20 IN CNAME b.cdn.example.", "b.cdn.example. 5 IN A 192.0.2.83"},
	"alias.example.com AAAA": {"alias.example.com. 60 IN CNAME a.cdn.example.", "a.cdn.example. 20 IN CNAME b.cdn.example."},
}

// conf parses a resolv.conf or fails the test.
func conf(t testing.TB, text string) *Config {
	t.Helper()
	c, err := ParseResolvConf(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func addrs(ss ...string) []netip.Addr {
	out := []netip.Addr{}
	for _, s := range ss {
		out = append(out, netip.MustParseAddr(s))
	}
	return out
}
