// Package bulk asks a resolver very many questions, PTR above all, at the speed
// that the resolver and good manners permit.
//
// Package dnscheck asks a few questions and keeps all that was learned of each;
// here a question is a slot in a table, and of its answer only what a price
// needs is read: the rcode, the names, how long it may be kept, and how long it
// took. One goroutine and one connected socket serve a nameserver; packets leave
// and arrive in batches (sendmmsg and recvmmsg on Linux).
//
// An answer counts only if its identifier and its question are those of a query
// under way, whichever of its attempts: one that comes after the query was sent
// again is still its answer. Answers that do not fit a datagram are fetched over
// TCP. A nameserver that fails a question leaves it to the next one.
//
// # Politeness
//
// With a Rate, queries leave no faster than that; timeouts and SERVFAIL halve
// the rate for a while, since a resolver in trouble is not helped by more of
// them. The order is shuffled, and PerZone bounds what is under way for the
// reverse zone of one /16 (IPv4) or /32 (IPv6), behind which is one operator.
package bulk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"time"

	"github.com/miekg/dns"
)

// Query is one question of class IN.
type Query struct {
	// Addr is the address whose PTR is wanted. The zero Addr means Name and
	// Type instead.
	Addr netip.Addr
	Name string // absolute or not; no search list is applied
	Type uint16
}

// Options configure a Run. Only Servers is needed.
type Options struct {
	// Servers are asked in order, each for what those before it failed.
	Servers []netip.AddrPort
	// Window is how many queries may be under way at once. Zero means 100.
	Window int
	// Rate bounds the queries a second. Zero means no bound.
	Rate float64
	// PerZone bounds the queries under way for one reverse zone (/16 or /32).
	// Zero means no bound.
	PerZone int
	// Timeout is how long one attempt is waited for. Zero means 2 s.
	Timeout time.Duration
	// Attempts is how often each server is asked. Zero means 2; at most 4.
	Attempts int
	// Seed is of the order in which questions are asked; 0 shuffles anew.
	Seed uint64
	// Dial opens the sockets. Nil means a plain net.Dialer.
	Dial func(ctx context.Context, network string, to netip.AddrPort) (net.Conn, error)
}

// Outcome says what became of a query.
type Outcome uint8

// The outcomes. An answer with any rcode is Answered.
const (
	Unasked  Outcome = iota // ctx ended before it was sent
	Answered                // see Answer.Rcode
	Timeout                 // no server answered in time
	Refused                 // nothing listens at the servers, or they cannot be reached
	Broken                  // an answer came and cannot be read
)

// String returns "answered", "timeout" …
func (o Outcome) String() string {
	names := [...]string{"unasked", "answered", "timeout", "refused", "broken"}
	if int(o) < len(names) {
		return names[o]
	}
	return "unknown"
}

// Answer is what became of one query. It is valid during the call that delivers
// it.
type Answer struct {
	Index   int // of the query
	Outcome Outcome
	Rcode   int // of an answer
	Server  int // index of who answered, or was asked last
	// Took is the round trip of the attempt that was answered, Waited the whole
	// time since the first one was sent: of a timeout it is all that was waited.
	Took, Waited time.Duration
	Sent         int // attempts, TCP included
	// Silent has a bit for each server that did not answer in time: bit 0 is
	// the first. Lost counts the attempts that the server which answered left
	// unanswered before.
	Silent uint64
	Lost   int
	TCP    bool // fetched over TCP
	// Names are of PTR records, at most MaxNames, escaped as in a zone file;
	// Addrs of A and AAAA records.
	Names []string
	Addrs []netip.Addr
	// TTL is the least of the records that answer. Of an answer without any,
	// it is how long that may be kept: the lesser of the TTL and the MINIMUM of
	// the SOA (RFC 2308 5), and Known says whether there was one.
	TTL   time.Duration
	Known bool
}

// Found reports whether records of the type asked for came.
func (a *Answer) Found() bool {
	return a.Outcome == Answered && a.Rcode == dns.RcodeSuccess && len(a.Names)+len(a.Addrs) > 0
}

// MaxNames and MaxAddrs bound what is kept of one answer.
const (
	MaxNames = 8
	MaxAddrs = 64
)

// Stats counts what a Run did.
type Stats struct {
	Sent      int // datagrams, repetitions included
	Answered  int
	Timeouts  int // attempts
	Late      int // answers to an attempt that had been given up
	Strange   int // datagrams that answer nothing asked
	TCP       int // answers fetched over TCP
	Slowdowns int // times that the pace was halved
	Elapsed   time.Duration
}

// ErrNoServers says that Options.Servers is empty.
var ErrNoServers = errors.New("bulk: no nameservers")

func (o *Options) normalise() error {
	if len(o.Servers) == 0 {
		return ErrNoServers
	}
	if o.Window < 0 || o.Rate < 0 || o.PerZone < 0 || o.Timeout < 0 || o.Attempts < 0 {
		return errors.New("bulk: negative option")
	}
	o.Window = min(cmp.Or(o.Window, 100), maxWindow)
	o.Timeout = cmp.Or(o.Timeout, 2*time.Second)
	o.Attempts = min(cmp.Or(o.Attempts, 2), maxAttempts)
	if o.Seed == 0 {
		o.Seed = rand.Uint64()
	}
	if o.Dial == nil {
		o.Dial = func(ctx context.Context, network string, to netip.AddrPort) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, network, to.String())
		}
	}
	return nil
}

// Run asks all queries and delivers what became of each, in no order, exactly
// once. When ctx ends, those not decided are delivered as Unasked, or as Timeout
// if they were under way, and ctx's error is returned.
func Run(ctx context.Context, queries []Query, o Options, deliver func(*Answer)) (st Stats, err error) {
	if err := o.normalise(); err != nil {
		return st, err
	}
	start := time.Now()
	defer func() { st.Elapsed = time.Since(start) }()
	left := shuffled(len(queries), o.Seed)
	tasks := make(map[int]task) // of those that a server has failed
	for i := range o.Servers {
		a := &asker{o: &o, queries: queries, server: i, last: i == len(o.Servers)-1, before: tasks, st: &st, deliver: deliver}
		rest, err := a.run(ctx, left)
		if err != nil {
			return st, fmt.Errorf("bulk: asking %s: %w", o.Servers[i], err)
		}
		left = rest
	}
	return st, ctx.Err()
}

// task is what is remembered of a query between servers.
type task struct {
	first   time.Time // when it was first sent
	sent    int
	outcome Outcome
	rcode   int
	silent  uint64 // see Answer.Silent
}

// shuffled is a random order of n queries.
func shuffled(n int, seed uint64) []int32 {
	rng := rand.New(rand.NewPCG(seed, seed^0x9e3779b97f4a7c15))
	order := make([]int32, n)
	for i := range order {
		order[i] = int32(i)
	}
	rng.Shuffle(n, func(i, j int) { order[i], order[j] = order[j], order[i] })
	return order
}
