package dnscheck

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"
)

// model is a caching resolver: what it holds it answers after own, what it
// does not after own and the authority's time for the zone.
type model struct {
	own       time.Duration
	authority time.Duration
	zones     map[string]time.Duration // extra for names within, instead of authority
	ttl       int
	noCache   bool
	records   map[string][]string // by "name TYPE"; nil means exampleZone
	soa       string              // "" means example.com.
	// fate decides first; ok false leaves it to the rest.
	fate func(q Query, nth int) (m *dns.Msg, d time.Duration, o Outcome, ok bool)

	mu    sync.Mutex
	cache map[string]bool
}

func (r *model) serve(q Query, nth int) (*dns.Msg, time.Duration, Outcome) {
	if r.fate != nil {
		if m, d, o, ok := r.fate(q, nth); ok {
			return m, d, o
		}
	}
	if q.Class == dns.ClassCHAOS {
		return answer(q, dns.RcodeRefused), r.own, ""
	}
	records := r.records
	if records == nil {
		records = exampleZone
	}
	m, _, _ := zone(0, records)(q, nth)
	for _, rr := range m.Answer {
		rr.Header().Ttl = uint32(r.ttl)
	}
	soa := r.soa
	if soa == "" {
		soa = "example.com."
	}
	if len(m.Answer) == 0 {
		rr, _ := dns.NewRR(soa + " 60 IN SOA ns.example. host.example. 1 2 3 4 60")
		m.Ns = append(m.Ns, rr)
	}
	key := fqdn(q.Name) + dns.TypeToString[q.Type]
	d := r.own
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.cache[key] || r.noCache || r.ttl == 0 {
		extra := r.authority
		for z, t := range r.zones {
			if within(strings.TrimSuffix(fqdn(q.Name), "."), z) {
				extra = t
			}
		}
		d += extra
		if r.cache == nil {
			r.cache = map[string]bool{}
		}
		r.cache[key] = true
	}
	return m, d, ""
}

// brief is a finding as the tests compare it: component, where and cost.
func brief(fs []Finding) []string {
	out := []string{}
	for _, f := range fs {
		cost := "-"
		if c, ok := f.Cost.Get(); ok {
			cost = c.Round(time.Millisecond).String()
		}
		mark := ""
		if !f.Confirmed {
			mark = " ?"
		}
		out = append(out, fmt.Sprintf("%s %s %s%s", f.Component, f.Where, cost, mark))
	}
	return out
}

const msec = time.Millisecond

func TestRun(t *testing.T) {
	healthy := func() *model { return &model{own: 20 * msec, ttl: 300} }
	tests := []struct {
		name    string
		conf    string
		servers map[string]*model // nil: dead
		query   string
		way     time.Duration // TCP handshake; zero means 20 ms, negative none
		want    []string
		limit   time.Duration // on the whole run beyond the stub; zero means 1 s
	}{
		{name: "healthy", conf: twoServers, servers: map[string]*model{"10.0.0.1": healthy(), "10.0.0.2": healthy()}, want: []string{}},
		{name: "healthy with an authority 25 ms away", conf: oneServer,
			servers: map[string]*model{"10.0.0.1": {own: 20 * msec, authority: 25 * msec, ttl: 300}}, want: []string{}},
		{name: "far but healthy", conf: oneServer, way: 180 * msec, servers: map[string]*model{"10.0.0.1": {own: 180 * msec, ttl: 300}}, want: []string{}, limit: 2 * time.Second},
		{name: "first dead", conf: twoServers, servers: map[string]*model{"10.0.0.2": healthy()},
			want: []string{"resolver-down 10.0.0.1 5s"}, limit: 3 * time.Second},
		{name: "two dead of three", conf: threeServers, servers: map[string]*model{"10.0.0.3": healthy()},
			want: []string{"resolver-down 10.0.0.1 5s", "resolver-down 10.0.0.2 3s"}, limit: 3 * time.Second},
		{name: "all dead", conf: twoServers, want: []string{"resolver-down 10.0.0.1 10s", "resolver-down 10.0.0.2 10s"}, limit: 3 * time.Second},
		{name: "second dead, not needed", conf: twoServers, servers: map[string]*model{"10.0.0.1": healthy()},
			want: []string{"resolver-down 10.0.0.2 -"}, limit: 3 * time.Second},
		{name: "slow resolver", conf: oneServer, servers: map[string]*model{"10.0.0.1": {own: 400 * msec, ttl: 300}},
			want: []string{"resolver-slow 10.0.0.1 380ms"}, limit: 2 * time.Second},
		{name: "slow resolver, TCP filtered", conf: oneServer, way: -1, servers: map[string]*model{"10.0.0.1": {own: 400 * msec, ttl: 300}},
			want: []string{"resolver-slow 10.0.0.1 350ms ?"}, limit: 4 * time.Second},
		{name: "slow now and then", conf: oneServer, servers: map[string]*model{"10.0.0.1": {own: 20 * msec, ttl: 300, fate: fickle(0)}},
			want: []string{"resolver-slow 10.0.0.1 880ms"}, limit: 5 * time.Second},
		{name: "slow now and then, this lookup spared", conf: oneServer, servers: map[string]*model{"10.0.0.1": {own: 20 * msec, ttl: 300, fate: fickle(1)}},
			want: []string{"resolver-slow 10.0.0.1 -"}, limit: 5 * time.Second},
		{name: "slow authority", conf: oneServer, servers: map[string]*model{"10.0.0.1": {own: 20 * msec, authority: 900 * msec, ttl: 300}},
			want: []string{"authority-slow example.com 900ms"}, limit: 2 * time.Second},
		{name: "slow authority and dead first server", conf: twoServers, servers: map[string]*model{"10.0.0.2": {own: 20 * msec, authority: 900 * msec, ttl: 300}},
			want: []string{"resolver-down 10.0.0.1 5s", "authority-slow example.com 900ms"}, limit: 3 * time.Second},
		{name: "slow authority and slow resolver", conf: oneServer, servers: map[string]*model{"10.0.0.1": {own: 300 * msec, authority: 900 * msec, ttl: 300}},
			want: []string{"authority-slow example.com 900ms", "resolver-slow 10.0.0.1 280ms"}, limit: 3 * time.Second},
		{name: "TTL 0 and a slow authority is no slow resolver", conf: oneServer, servers: map[string]*model{"10.0.0.1": {own: 20 * msec, authority: 900 * msec, ttl: 0}},
			want: []string{"authority-slow example.com 900ms", "ttl-zero www.example.com -"}, limit: 3 * time.Second},
		{name: "name cached, authority slow", conf: oneServer,
			servers: map[string]*model{"10.0.0.1": {own: 20 * msec, authority: 900 * msec, ttl: 300, cache: map[string]bool{"www.example.com.A": true, "www.example.com.AAAA": true}}},
			want:    []string{"authority-slow example.com -"}, limit: 2 * time.Second},
		{name: "forwarder without a cache", conf: oneServer, servers: map[string]*model{"10.0.0.1": {own: 20 * msec, authority: 400 * msec, ttl: 300, noCache: true}},
			want: []string{"resolver-slow 10.0.0.1 400ms ?"}, limit: 2 * time.Second},
		{name: "far first server beside a near one", conf: twoServers, way: -1, // the near one's way is its answers'
			servers: map[string]*model{"10.0.0.1": {own: 120 * msec, ttl: 300}, "10.0.0.2": {own: 2 * msec, ttl: 300}},
			want:    []string{"resolver-slow 10.0.0.1 118ms ?"}, limit: 3 * time.Second},
		{name: "AAAA dropped", conf: oneServer, servers: map[string]*model{"10.0.0.1": {own: 20 * msec, ttl: 300, fate: dropAAAA}},
			want: []string{"aaaa-blocked 10.0.0.1 14.98s"}, limit: 3 * time.Second},
		{name: "search list", conf: oneServer + "search a.example b.example\noptions ndots:5\n", servers: map[string]*model{"10.0.0.1": healthy()},
			want: []string{"search-list search a.example b.example (ndots:5) 40ms"}},
		{name: "truncation", conf: oneServer, servers: map[string]*model{"10.0.0.1": {own: 20 * msec, ttl: 300, fate: truncateName}},
			want: []string{"truncation 10.0.0.1 40ms"}},
		{name: "one query lost", conf: oneServer, servers: map[string]*model{"10.0.0.1": {own: 20 * msec, ttl: 300, fate: loseFirst}},
			want: []string{"resolver-loss 10.0.0.1 5s ?"}},
		{name: "REFUSED first", conf: twoServers, servers: map[string]*model{"10.0.0.1": {fate: reject(dns.RcodeRefused, 20*msec)}, "10.0.0.2": healthy()},
			want: []string{"lame 10.0.0.1 20ms"}},
		{name: "SERVFAIL first", conf: twoServers, servers: map[string]*model{"10.0.0.1": {own: 20 * msec, fate: reject(dns.RcodeServerFailure, 20*msec)}, "10.0.0.2": healthy()},
			want: []string{"servfail 10.0.0.1 20ms"}},
		{name: "coredns#6163: SERVFAIL after seconds is a dead authority", conf: oneServer, servers: map[string]*model{"10.0.0.1": {own: 20 * msec, fate: reject(dns.RcodeServerFailure, 1800*msec)}},
			want: []string{"authority-down www.example.com 3.58s"}, limit: 4 * time.Second},
		{name: "resolver silent on this name alone", conf: oneServer + "options timeout:1\n", servers: map[string]*model{"10.0.0.1": {own: 20 * msec, fate: silentOnNames}},
			want: []string{"authority-down www.example.com 1.98s"}, limit: 3 * time.Second},
		{name: "unbound asks a slow authority longer than the stub waits", conf: oneServer, servers: map[string]*model{"10.0.0.1": {own: 20 * msec, authority: 1000 * msec, ttl: 300, fate: loseFirst}},
			want: []string{"authority-slow example.com 6s"}, limit: 3 * time.Second},
		{name: "SERVFAIL late or never is no loss", conf: oneServer + "options timeout:1\n", servers: map[string]*model{"10.0.0.1": {own: 20 * msec, fate: failLate}},
			want: []string{"authority-down www.example.com 1.98s"}, limit: 5 * time.Second},
		{name: "bogus signature", conf: oneServer, servers: map[string]*model{"10.0.0.1": {own: 20 * msec, ttl: 300, fate: bogus}},
			want: []string{"validation www.example.com 20ms"}},
		{name: "no such name", conf: oneServer, servers: map[string]*model{"10.0.0.1": healthy()}, query: "nosuch.example.com", want: []string{"nxdomain nosuch.example.com -"}},
		{name: "chain of slow zones", conf: oneServer, query: "alias.example.com",
			servers: map[string]*model{"10.0.0.1": {own: 20 * msec, ttl: 300, soa: "example.", zones: map[string]time.Duration{
				"alias.example.com": 600 * msec, "a.cdn.example": 300 * msec, "b.cdn.example": 300 * msec}}},
			want: []string{"cname-chain alias.example.com 600ms"}, limit: 2 * time.Second},
		{name: "EDNS dropped", conf: oneServer, servers: map[string]*model{"10.0.0.1": {own: 20 * msec, ttl: 300, fate: dropEDNS}},
			want: []string{"edns 10.0.0.1 -"}, limit: 3 * time.Second},
		{name: "golang.org/issue/65197: EDNS asked for and dropped", conf: oneServer + "options edns0 timeout:1\n", servers: map[string]*model{"10.0.0.1": {own: 20 * msec, ttl: 300, fate: dropEDNS}},
			want: []string{"edns 10.0.0.1 1.98s"}, limit: 3 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := &fakeNet{servers: map[string]fakeServer{}, way: tt.way}
				for addr, m := range tt.servers {
					n.servers[addr] = m.serve
				}
				if tt.query == "" {
					tt.query = "www.example.com"
				}
				r, err := Run(t.Context(), Options{Name: tt.query, Config: conf(t, tt.conf), NoHosts: true, NoReverse: true, Exchanger: n})
				if err != nil {
					t.Fatal(err)
				}
				if d := cmp.Diff(tt.want, brief(r.Findings)); d != "" {
					t.Errorf("findings (-want +got):\n%s", d)
					for _, f := range r.Findings {
						t.Log(f.Text)
					}
				}
				var sum time.Duration
				for _, f := range r.Findings {
					sum += f.Cost.Duration()
				}
				if sum > r.Stub.Elapsed.Duration() {
					t.Errorf("costs of %v exceed the stub's %v", sum, r.Stub.Elapsed)
				}
				if tt.limit == 0 {
					tt.limit = time.Second
				}
				if over := r.Elapsed.Duration() - r.Stub.Elapsed.Duration(); over > tt.limit {
					t.Errorf("took %v beyond the stub's %v", over, r.Stub.Elapsed)
				}
			})
		})
	}
}

// fickle takes 900 ms for every second question of a kind.
func fickle(slow int) func(Query, int) (*dns.Msg, time.Duration, Outcome, bool) {
	return func(q Query, nth int) (*dns.Msg, time.Duration, Outcome, bool) {
		m, _, _ := zone(0, exampleZone)(q, nth)
		for _, rr := range m.Answer {
			rr.Header().Ttl = 300
		}
		d := 20 * msec
		if nth%2 == slow {
			d = 900 * msec
		}
		return m, d, "", q.Class != dns.ClassCHAOS
	}
}

func dropAAAA(q Query, _ int) (*dns.Msg, time.Duration, Outcome, bool) {
	return nil, 0, "", q.Type == dns.TypeAAAA
}

func truncateName(q Query, _ int) (*dns.Msg, time.Duration, Outcome, bool) {
	m := answer(q, dns.RcodeSuccess)
	m.Truncated = true
	return m, 20 * msec, "", !q.TCP && fqdn(q.Name) == "www.example.com."
}

func loseFirst(q Query, nth int) (*dns.Msg, time.Duration, Outcome, bool) {
	return nil, 0, "", nth == 0 && fqdn(q.Name) == "www.example.com." && !q.TCP
}

func reject(rcode int, d time.Duration) func(Query, int) (*dns.Msg, time.Duration, Outcome, bool) {
	return func(q Query, _ int) (*dns.Msg, time.Duration, Outcome, bool) {
		return answer(q, rcode), d, "", q.Class != dns.ClassCHAOS
	}
}

func silentOnNames(q Query, _ int) (*dns.Msg, time.Duration, Outcome, bool) {
	return nil, 0, "", q.Class != dns.ClassCHAOS
}

func bogus(q Query, _ int) (*dns.Msg, time.Duration, Outcome, bool) {
	return answer(q, dns.RcodeServerFailure), 20 * msec, "", !q.CD && q.Class != dns.ClassCHAOS
}

func failLate(q Query, nth int) (*dns.Msg, time.Duration, Outcome, bool) {
	if q.Class == dns.ClassCHAOS || nth%2 == 0 {
		return nil, 0, "", q.Class != dns.ClassCHAOS
	}
	return answer(q, dns.RcodeServerFailure), 1900 * msec, "", true
}

func dropEDNS(q Query, _ int) (*dns.Msg, time.Duration, Outcome, bool) {
	return nil, 0, "", q.EDNS > 0
}

// The stub comes before the other measurements, so that a caller can go on.
func TestEventsOrderAndOnStub(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		n := &fakeNet{servers: map[string]fakeServer{"10.0.0.1": (&model{own: 20 * msec, ttl: 300}).serve}}
		var at time.Duration
		o := Options{Name: "www.example.com", Config: conf(t, oneServer), NoHosts: true, NoReverse: true, Exchanger: n,
			OnStub: func(s *Stub) { at = time.Since(began) }}
		var kinds []string
		for e, err := range Events(t.Context(), o) {
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case e.Config != nil:
				kinds = append(kinds, "config")
			case e.Stub != nil:
				kinds = append(kinds, "stub")
			default:
				kinds = append(kinds, "rest")
			}
		}
		if len(kinds) < 6 || kinds[0] != "config" || kinds[1] != "stub" {
			t.Errorf("events %v", kinds)
		}
		if at != 20*msec {
			t.Errorf("OnStub after %v, want the stub's 20ms", at)
		}
	})
}

// A caller that stops early stops the measurement.
func TestEventsStopEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		o := Options{Name: "www.example.com", Config: conf(t, oneServer), NoHosts: true, Exchanger: &fakeNet{}}
		for range Events(t.Context(), o) {
			break
		}
		if d := time.Since(began); d > 0 {
			t.Errorf("went on for %v", d)
		}
	})
}

// zdns#524: the whole is bounded by ctx, and what is known is returned.
func TestRunInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &fakeNet{servers: map[string]fakeServer{"10.0.0.2": (&model{own: 20 * msec, ttl: 300}).serve}}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		r, err := Run(ctx, Options{Name: "www.example.com", Config: conf(t, twoServers), NoHosts: true, Exchanger: n})
		if err != nil {
			t.Fatal(err)
		}
		if !r.Interrupted || r.Elapsed.Duration() != 3*time.Second || r.Stub == nil || r.Stub.Rcode != "interrupted" {
			t.Errorf("got interrupted %v after %v, stub %+v", r.Interrupted, r.Elapsed, r.Stub)
		}
		if d := cmp.Diff([]string{"resolver-down 10.0.0.1 2.98s"}, brief(r.Findings)); d != "" {
			t.Errorf("findings (-want +got):\n%s", d)
		}
	})
}

// dnsdiag#61: an NXDOMAIN is an answer with a time, not a loss of 100 %.
// dnsperf#262, pdns#5559: unanswered queries are counted apart and do not
// poison the median.
func TestRowsTimeEveryRcodeAndCensorLosses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &fakeNet{servers: map[string]fakeServer{"10.0.0.1": func(q Query, nth int) (*dns.Msg, time.Duration, Outcome) {
			if nth == 3 {
				return nil, 0, ""
			}
			return answer(q, dns.RcodeNameError), 20 * msec, ""
		}}}
		s, err := newSession(Options{Name: "x.example", Config: conf(t, oneServer), Exchanger: n})
		if err != nil {
			t.Fatal(err)
		}
		sv, _ := s.measure(t.Context(), row{server: s.server(0), name: "x.example.", qtype: dns.TypeA, n: 5, wait: time.Second})
		if sv.Sent != 5 || sv.Answered != 4 || sv.Rcode != "NXDOMAIN" || sv.Rcodes["timeout"] != 1 ||
			sv.Median.Duration() != 20*msec || sv.Max.Duration() != 20*msec || sv.Wait.Duration() != time.Second {
			t.Errorf("got %+v", sv)
		}
	})
}

// golang.org/issue/17093: all PTR names are listed; the double lookup confirms.
// The dead first server is not waited for again.
func TestRunReverse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		records := map[string][]string{
			"www.example.com A":              {"www.example.com. 300 IN A 192.0.2.80"},
			"80.2.0.192.in-addr.arpa PTR":    {"80.2.0.192.in-addr.arpa. 60 IN PTR www.example.com.", "80.2.0.192.in-addr.arpa. 60 IN PTR other.example.com."},
			"9.113.0.203.in-addr.arpa PTR":   {"9.113.0.203.in-addr.arpa. 60 IN PTR liar.example.com."},
			"liar.example.com A":             {"liar.example.com. 60 IN A 192.0.2.1"},
			"100.100.51.198.in-addr.arpa NS": nil,
		}
		n := &fakeNet{servers: map[string]fakeServer{"10.0.0.2": (&model{own: 20 * msec, ttl: 300, records: records,
			zones: map[string]time.Duration{"in-addr.arpa": 2 * time.Second}}).serve}}
		r, err := Run(t.Context(), Options{Name: "www.example.com", Family: IPv4, Config: conf(t, twoServers), NoHosts: true, Exchanger: n,
			ClientAddr: netip.MustParseAddr("203.0.113.9")})
		if err != nil {
			t.Fatal(err)
		}
		yes, no := true, false
		want := []Reverse{
			{Addr: netip.MustParseAddr("192.0.2.80"), Of: "server", Names: []string{"www.example.com.", "other.example.com."}, Rcode: "NOERROR", Confirmed: &yes},
			{Addr: netip.MustParseAddr("203.0.113.9"), Of: "client", Names: []string{"liar.example.com."}, Rcode: "NOERROR", Confirmed: &no},
		}
		for i := range r.Reverse {
			if d := r.Reverse[i].Elapsed.Duration(); d != 2020*msec {
				t.Errorf("reverse lookup of %v took %v, want 2.02s", r.Reverse[i].Addr, d)
			}
			r.Reverse[i].Elapsed = want[0].Elapsed
		}
		if d := cmp.Diff(want, r.Reverse, sameAddr); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
	})
}

// zdns#548: an address or its arpa name may be given.
func TestRunLiteral(t *testing.T) {
	for _, name := range []string{"192.0.2.80", "80.2.0.192.in-addr.arpa"} {
		synctest.Test(t, func(t *testing.T) {
			records := map[string][]string{"80.2.0.192.in-addr.arpa PTR": {"80.2.0.192.in-addr.arpa. 60 IN PTR www.example.com."}}
			n := &fakeNet{servers: map[string]fakeServer{"10.0.0.1": (&model{own: 20 * msec, ttl: 300, records: records}).serve}}
			r, err := Run(t.Context(), Options{Name: name, Config: conf(t, oneServer+"search a.example\n"), Exchanger: n, ClientAddr: netip.MustParseAddr("203.0.113.9"),
				OnStub: func(*Stub) { t.Error("OnStub called for a literal") }})
			if err != nil {
				t.Fatal(err)
			}
			if r.Stub != nil {
				t.Error("a literal has a stub")
			}
			if len(r.Servers) != 1 || r.Servers[0].Type != "PTR" || r.Servers[0].Answered != 5 {
				t.Errorf("servers %+v", r.Servers)
			}
			if len(r.Reverse) != 2 || r.Reverse[0].Names[0] != "www.example.com." || r.Reverse[0].Confirmed == nil {
				t.Errorf("reverse %+v", r.Reverse)
			}
			for _, q := range n.seen {
				// dnsdiag#47: no suffix is appended to a reverse name.
				if strings.HasSuffix(fqdn(q.Name), "a.example.") {
					t.Errorf("asked for %s", q.Name)
				}
			}
		})
	}
}

func TestRunOptionErrors(t *testing.T) {
	for _, o := range []Options{
		{},
		{Name: "a..b"},
		{Name: "www.example.com", Family: 5},
		{Name: "www.example.com", Probes: -1},
		{Name: "www.example.com", Wait: time.Hour},
		{Name: "www.example.com", ResolvConf: t.TempDir()},
	} {
		if r, err := Run(t.Context(), o); err == nil {
			t.Errorf("%+v: no error but %+v", o, r)
		}
	}
}
