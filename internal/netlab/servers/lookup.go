package servers

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/miekg/dns"
)

// LookupTime says when a server looks up a client's name.
type LookupTime uint8

// The times.
const (
	NoLookup LookupTime = iota
	// BeforeResponse looks up before the response of a Route with Lookup, as
	// a program that asks for the name does.
	BeforeResponse
	// WhileLogging looks up after each response, as %h in a log format does:
	// the response is not late, but the next one on the connection is.
	WhileLogging
)

// Lookup is how a server looks up its clients' names: once a connection, with
// real queries to real resolvers, one after the other as the C library does.
type Lookup struct {
	When LookupTime
	// Double also looks up the addresses of the name.
	Double    bool
	Resolvers []netip.AddrPort
	// Timeout of one query; zero means 5 s. Attempts at each resolver; zero
	// means 2.
	Timeout  time.Duration
	Attempts int
}

// lookuper does the lookups of one server.
type lookuper struct {
	Lookup
	place Place
	wg    sync.WaitGroup
}

func newLookuper(l Lookup, p Place) *lookuper {
	if l.Timeout == 0 {
		l.Timeout = 5 * time.Second
	}
	if l.Attempts == 0 {
		l.Attempts = 2
	}
	return &lookuper{Lookup: l, place: p}
}

// wait waits for lookups made while logging.
func (l *lookuper) wait() { l.wg.Wait() }

// conn is what the server remembers of one connection.
type conn struct {
	lookuper *lookuper
	remote   netip.Addr
	once     sync.Once

	mu     sync.Mutex
	logged chan struct{} // closed when the last response is logged; nil before
}

// connKey is the context key of a *conn.
type connKey struct{}

func (s *HTTP) newConn(ctx context.Context, c net.Conn) context.Context {
	state := &conn{lookuper: s.lookup}
	if a, ok := c.RemoteAddr().(*net.TCPAddr); ok {
		state.remote = a.AddrPort().Addr().Unmap()
	}
	return context.WithValue(ctx, connKey{}, state)
}

func connOf(r *http.Request) *conn {
	c, _ := r.Context().Value(connKey{}).(*conn)
	return c
}

// lookup looks up the client's name unless that was done before.
func (c *conn) lookup(ctx context.Context) {
	c.once.Do(func() { c.lookuper.reverse(ctx, c.remote) })
}

// log looks the name up in the background; waitForLog waits for that.
func (c *conn) log(ctx context.Context) {
	done := make(chan struct{})
	c.mu.Lock()
	c.logged = done
	c.mu.Unlock()
	c.lookuper.wg.Go(func() {
		defer close(done)
		c.lookup(ctx)
	})
}

func (c *conn) waitForLog(ctx context.Context) {
	c.mu.Lock()
	logged := c.logged
	c.mu.Unlock()
	if logged == nil {
		return
	}
	select {
	case <-logged:
	case <-ctx.Done():
	}
}

// reverse asks for the name of addr, and with Double for its addresses. Only
// the time it takes matters.
func (l *lookuper) reverse(ctx context.Context, addr netip.Addr) {
	name, err := dns.ReverseAddr(addr.String())
	if err != nil {
		return
	}
	answer := l.query(ctx, name, dns.TypePTR)
	if answer == nil || !l.Double {
		return
	}
	for _, rr := range answer.Answer {
		if ptr, ok := rr.(*dns.PTR); ok {
			l.query(ctx, ptr.Ptr, dns.TypeA)
			l.query(ctx, ptr.Ptr, dns.TypeAAAA)
			return
		}
	}
}

// query asks the resolvers in turn, all of them Attempts times, and returns
// the first answer, nil if there was none.
func (l *lookuper) query(ctx context.Context, name string, qtype uint16) *dns.Msg {
	q := new(dns.Msg).SetQuestion(dns.Fqdn(name), qtype)
	for range l.Attempts {
		for _, r := range l.Resolvers {
			answer, err := exchange(ctx, l.place, r, q, l.Timeout)
			if err == nil && answer.Rcode != dns.RcodeServerFailure && answer.Rcode != dns.RcodeRefused {
				return answer
			}
			if ctx.Err() != nil {
				return nil
			}
		}
	}
	return nil
}

// exchange asks one server from a place, over TCP if the answer was cut.
func exchange(ctx context.Context, p Place, server netip.AddrPort, q *dns.Msg, timeout time.Duration) (*dns.Msg, error) {
	answer, err := exchangeOver(ctx, p, "udp", server, q, timeout)
	if answer == nil || !answer.Truncated {
		return answer, err
	}
	return exchangeOver(ctx, p, "tcp", server, q, timeout)
}

func exchangeOver(ctx context.Context, p Place, network string, server netip.AddrPort, q *dns.Msg, timeout time.Duration) (*dns.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	c, err := p.Dial(ctx, network, server.String())
	if err != nil {
		return nil, err
	}
	// The end of ctx ends the exchange: with the server, or at the timeout.
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer func() {
		if stop() {
			_ = c.Close()
		}
	}()
	q = q.Copy()
	q.Id = dns.Id()
	client := &dns.Client{Net: network, Timeout: timeout}
	answer, _, err := client.ExchangeWithConnContext(ctx, q, &dns.Conn{Conn: c})
	return answer, err
}
