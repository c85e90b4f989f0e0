package servers

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/miekg/dns"
)

// Forward says whom a resolver asks for the names below a zone.
type Forward struct {
	Zone    string // "." for everything
	Servers []netip.AddrPort
}

// ResolverConfig describes a caching resolver that forwards.
type ResolverConfig struct {
	Place    Place // nil means Host
	Addrs    []netip.AddrPort
	Forwards []Forward // the longest zone that fits is asked
	// Timeout of a query to one server; zero means 2 s. Attempts at each
	// server; zero means 2.
	Timeout  time.Duration
	Attempts int
	NoCache  bool
	NoTCP    bool
	Faults   []DNSFault // of its own answers
	Seed     uint64
}

// StartResolver starts a resolver.
func StartResolver(cfg ResolverConfig) (*DNS, error) {
	if cfg.Place == nil {
		cfg.Place = Host{}
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = 2 * time.Second
	}
	if cfg.Attempts == 0 {
		cfg.Attempts = 2
	}
	for _, f := range cfg.Forwards {
		if _, ok := dns.IsDomainName(f.Zone); !ok || len(f.Servers) == 0 {
			return nil, fmt.Errorf("servers: forwarding %q needs a zone and servers", f.Zone)
		}
	}
	r := &resolver{cfg: cfg, cache: map[dns.Question]cached{}}
	return startDNS(dnsConfig{
		place: cfg.Place, addrs: cfg.Addrs, noTCP: cfg.NoTCP, faults: cfg.Faults, seed: cfg.Seed,
		answer: r.answer,
	})
}

type resolver struct {
	cfg   ResolverConfig
	mu    sync.Mutex
	cache map[dns.Question]cached
}

type cached struct {
	msg    *dns.Msg
	stored time.Time
	ttl    time.Duration
}

// cacheSize bounds the cache; a full one is emptied.
const cacheSize = 10000

func (r *resolver) answer(ctx context.Context, q *dns.Msg) *dns.Msg {
	key := q.Question[0]
	key.Name = dns.CanonicalName(key.Name)
	msg := r.load(key)
	if msg == nil {
		if msg = r.ask(ctx, q); msg == nil {
			msg = new(dns.Msg).SetRcode(q, dns.RcodeServerFailure)
		} else {
			r.store(key, msg)
		}
	}
	reply := msg.Copy()
	reply.Id, reply.Question = q.Id, q.Question
	reply.Response, reply.RecursionAvailable, reply.RecursionDesired = true, true, q.RecursionDesired
	reply.Authoritative = false
	return reply
}

// load returns a copy of what the cache has, with the TTLs counted down.
func (r *resolver) load(key dns.Question) *dns.Msg {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, ok := r.cache[key]
	age := time.Since(c.stored)
	if !ok || age >= c.ttl {
		return nil
	}
	msg := c.msg.Copy()
	for _, section := range [][]dns.RR{msg.Answer, msg.Ns} {
		for _, rr := range section {
			rr.Header().Ttl -= min(uint32(age/time.Second), rr.Header().Ttl)
		}
	}
	return msg
}

// store caches a message for its least TTL, a negative one as RFC 2308 5 says.
func (r *resolver) store(key dns.Question, msg *dns.Msg) {
	if r.cfg.NoCache || msg.Rcode != dns.RcodeSuccess && msg.Rcode != dns.RcodeNameError {
		return
	}
	ttl := uint32(86400)
	for _, rr := range msg.Answer {
		ttl = min(ttl, rr.Header().Ttl)
	}
	if len(msg.Answer) == 0 {
		ttl = 0
		for _, rr := range msg.Ns {
			if soa, ok := rr.(*dns.SOA); ok {
				ttl = min(soa.Minttl, soa.Hdr.Ttl)
			}
		}
	}
	if ttl == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.cache) >= cacheSize {
		clear(r.cache)
	}
	r.cache[key] = cached{msg.Copy(), time.Now(), time.Duration(ttl) * time.Second}
}

// ask asks the servers of the zone the name is in, nil if none answers.
func (r *resolver) ask(ctx context.Context, q *dns.Msg) *dns.Msg {
	up := q.Copy()
	up.Extra = nil
	for range r.cfg.Attempts {
		for _, server := range r.upstream(q.Question[0].Name) {
			msg, err := exchange(ctx, r.cfg.Place, server, up, r.cfg.Timeout)
			if err == nil && (msg.Rcode == dns.RcodeSuccess || msg.Rcode == dns.RcodeNameError) {
				msg.Extra = nil // glue and options were for this resolver
				return msg
			}
			if ctx.Err() != nil {
				return nil
			}
		}
	}
	return nil
}

func (r *resolver) upstream(name string) []netip.AddrPort {
	var best *Forward
	for i, f := range r.cfg.Forwards {
		if dns.IsSubDomain(dns.Fqdn(f.Zone), name) && (best == nil || dns.CountLabel(f.Zone) > dns.CountLabel(best.Zone)) {
			best = &r.cfg.Forwards[i]
		}
	}
	if best == nil {
		return nil
	}
	return best.Servers
}
