package dnscheck

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/miekg/dns"
	"github.com/whyslow/whyslow/internal/millis"
	"github.com/whyslow/whyslow/internal/stats"
)

const (
	// patience is how long the first of a row of queries is waited for before
	// the others are sent beside it: an answered first query keeps cold and
	// warm apart, an unanswered one must not cost its wait twice.
	patience = 250 * time.Millisecond
	// gap is the time between the queries of a row, so that they do not
	// queue behind each other.
	gap = 10 * time.Millisecond
)

// row is a series of like queries to one server.
type row struct {
	server netip.AddrPort
	name   string
	// random puts a new random label in front of name for each query.
	random       bool
	qtype, class uint16
	tcp          bool
	n            int
	wait         time.Duration // for each query
	edns         uint16
	cd           bool
}

// result is what became of one query of a row.
type result struct {
	elapsed, connect time.Duration
	ans              *Answer
	outcome          Outcome // "" if answered
}

// measure performs a row: the first query, then the rest in quick succession.
// It takes no longer than patience + n·gap + wait.
func (s *session) measure(ctx context.Context, r row) (Server, []result) {
	flow := new(Flow)
	defer flow.Close()
	results := make([]result, r.n)
	var wg sync.WaitGroup
	first := make(chan struct{})
	for i := range r.n {
		q := r // the wait may change while this query is under way
		wg.Go(func() {
			if i == 0 {
				defer close(first)
			}
			results[i] = s.one(ctx, q, flow)
		})
		if i == 0 && !r.random {
			t := time.NewTimer(patience)
			select {
			case <-first:
			case <-t.C:
			case <-ctx.Done():
			}
			t.Stop()
			r.wait = r.afterFirst(first, results)
		} else if i < r.n-1 {
			sleep(ctx, gap)
		}
	}
	wg.Wait()
	return r.fold(results), results
}

// afterFirst is how long the rest of the queries wait. A host answers a closed
// port with an ICMP error, but not every time (Linux gives 6, then one a
// second): after one refusal the others are not waited for at length.
func (r row) afterFirst(first <-chan struct{}, results []result) time.Duration {
	select {
	case <-first:
		if o := results[0].outcome; o == Refused || o == Unreachable {
			return min(r.wait, patience)
		}
	default:
	}
	return r.wait
}

func (s *session) one(ctx context.Context, r row, flow *Flow) result {
	ctx, cancel := context.WithTimeout(ctx, r.wait)
	defer cancel()
	name := r.name
	if r.random {
		name = prefixed(randomLabel(), name)
	}
	q := Query{Server: r.server, Name: name, Type: r.qtype, Class: r.class, TCP: r.tcp, EDNS: r.edns, CD: r.cd, Flow: flow}
	began := time.Now()
	a, err := s.ex.Exchange(ctx, q)
	res := result{elapsed: time.Since(began), ans: a}
	if err != nil {
		res.outcome = outcomeOf(err)
		if oe := asOutcome(err); oe != nil {
			res.connect = oe.Connect
		}
		return res
	}
	res.connect = a.Connect
	if a.Elapsed > 0 {
		res.elapsed = a.Elapsed
	}
	return res
}

// prefixed puts a label in front of a name, cutting labels off the name's
// front where the whole would be too long.
func prefixed(label, name string) string {
	for len(label)+1+len(name) > maxNameLen {
		_, rest, ok := strings.Cut(name, ".")
		if !ok {
			return label
		}
		name = rest
	}
	return label + "." + name
}

// fold sums a row up. Queries that the caller's ctx cut off count as unsent.
func (r row) fold(results []result) Server {
	sv := Server{
		Addr: r.server.String(), Transport: "udp", Name: r.name, Type: dns.TypeToString[r.qtype],
		Wait: millis.Of(r.wait), EDNS: r.edns > 0, CD: r.cd, Rcodes: map[string]int{},
	}
	if r.tcp {
		sv.Transport = "tcp"
	}
	var times []time.Duration
	var connect []time.Duration
	for i, res := range results {
		if res.outcome == Interrupted {
			continue
		}
		sv.Sent++
		if res.connect > 0 {
			connect = append(connect, res.connect)
		}
		if res.ans == nil {
			sv.Rcodes[string(res.outcome)]++
			continue
		}
		sv.Answered++
		sv.take(res.ans)
		if i == 0 && !r.random {
			sv.First = millis.Of(res.elapsed)
			continue
		}
		times = append(times, res.elapsed)
	}
	sv.Rcode = commonest(sv.Rcodes)
	if len(connect) > 0 {
		sv.Connect = millis.Of(slices.Min(connect))
	}
	if len(times) > 0 {
		sv.Min = millis.Of(slices.Min(times))
		sv.Median = millis.Of(stats.Median(times))
		sv.Max = millis.Of(slices.Max(times))
	}
	return sv
}

// take adds what one answer says.
func (sv *Server) take(a *Answer) {
	m := a.Msg
	sv.Rcodes[rcodeString(m.Rcode)]++
	sv.Answers = max(sv.Answers, len(m.Answer))
	sv.Truncated = sv.Truncated || a.Truncated
	sv.Lame = sv.Lame || lame(m)
	if t := minTTL(m.Answer); t != nil && (sv.TTL == nil || *t < *sv.TTL) {
		sv.TTL = t
	}
	if e := ede(m); e != "" && sv.EDE == "" {
		sv.EDE = e
	}
	if z := soaZone(m); z != "" && sv.Zone == "" {
		sv.Zone = z
	}
}

// soaZone is the zone that a negative answer comes from (RFC 2308, section 3).
func soaZone(m *dns.Msg) string {
	for _, rr := range m.Ns {
		if soa, ok := rr.(*dns.SOA); ok {
			return fqdn(soa.Hdr.Name)
		}
	}
	return ""
}

// commonest returns the outcome that occurred most, the first in the alphabet
// among equals.
func commonest(counts map[string]int) string {
	best := ""
	for k, n := range counts {
		if best == "" || n > counts[best] || n == counts[best] && k < best {
			best = k
		}
	}
	return best
}
