package dnscheck

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"
)

const (
	oneServer    = "nameserver 10.0.0.1\n"
	twoServers   = oneServer + "nameserver 10.0.0.2\n"
	threeServers = twoServers + "nameserver 10.0.0.3\n"
)

// dropType answers like s but is silent on one type.
func dropType(s fakeServer, t uint16) fakeServer {
	return func(q Query, nth int) (*dns.Msg, time.Duration, Outcome) {
		if q.Type == t {
			return nil, 0, ""
		}
		return s(q, nth)
	}
}

// truncating sets TC on everything over UDP.
func truncating(s fakeServer) fakeServer {
	return func(q Query, nth int) (*dns.Msg, time.Duration, Outcome) {
		m, d, o := s(q, nth)
		if !q.TCP && m != nil {
			m.Answer, m.Truncated = nil, true
		}
		return m, d, o
	}
}

// trail lists the steps in short: server, name, type, transport and outcome.
func trail(s *Stub) []string {
	out := []string{}
	for _, st := range s.Steps {
		host, _, _ := strings.Cut(st.Server, ":")
		_, last, _ := strings.Cut(host, "10.0.0.")
		t := ""
		if st.Transport == "tcp" {
			t = " tcp"
		}
		out = append(out, fmt.Sprintf("%d %s %s%s %s", st.Round, last, st.Name+" "+st.Type, t, st.Rcode))
	}
	return out
}

// The waits were measured on glibc 2.36 (facts: 10, 20 and 28 s, AAAA dropped
// 15 s) or follow from res_send.c and res_query.c.
func TestStub(t *testing.T) {
	good := zone(10*time.Millisecond, exampleZone)
	both := addrs("192.0.2.80", "2001:db8::80")
	tests := []struct {
		name    string
		conf    string
		servers map[string]fakeServer
		query   string
		family  Family
		elapsed time.Duration
		rcode   string
		addrs   []netip.Addr
		steps   []string // nil: not compared
	}{
		{name: "healthy", conf: oneServer, servers: map[string]fakeServer{"10.0.0.1": good}, query: "www.example.com",
			elapsed: 10 * time.Millisecond, rcode: "NOERROR", addrs: both,
			steps: []string{"0 1 www.example.com A NOERROR", "0 1 www.example.com AAAA NOERROR"}},
		{name: "one dead", conf: oneServer, query: "www.example.com", elapsed: 10 * time.Second, rcode: "timeout"},
		{name: "two dead", conf: twoServers, query: "www.example.com", elapsed: 20 * time.Second, rcode: "timeout"},
		{name: "three dead", conf: threeServers, query: "www.example.com", elapsed: 28 * time.Second, rcode: "timeout"},
		{name: "three dead, timeout 1, one attempt", conf: threeServers + "options timeout:1 attempts:1\n",
			query: "www.example.com", elapsed: 3 * time.Second, rcode: "timeout"},
		{name: "one dead, timeout 0 counts as 1", conf: oneServer + "options timeout:0\n", query: "www.example.com", elapsed: 2 * time.Second, rcode: "timeout"},
		{name: "no attempts", conf: oneServer + "options attempts:0\n", query: "www.example.com", rcode: "timeout"},
		{name: "first dead", conf: twoServers, servers: map[string]fakeServer{"10.0.0.2": good}, query: "www.example.com",
			elapsed: 5010 * time.Millisecond, rcode: "NOERROR", addrs: both},
		{name: "first closed", conf: twoServers, servers: map[string]fakeServer{"10.0.0.1": outcomeServer(Refused), "10.0.0.2": good},
			query: "www.example.com", elapsed: 10 * time.Millisecond, rcode: "NOERROR", addrs: both},
		{name: "all closed, search list not tried", conf: oneServer + "search corp.example other.example\noptions ndots:5\n",
			servers: map[string]fakeServer{"10.0.0.1": outcomeServer(Refused)}, query: "www.example.com", family: IPv4, rcode: "refused",
			steps: []string{"0 1 www.example.com.corp.example A refused", "1 1 www.example.com.corp.example A refused"}},
		{name: "golang.org/issue/64783: SERVFAIL goes on to the next", conf: twoServers,
			servers: map[string]fakeServer{"10.0.0.1": always(dns.RcodeServerFailure, time.Millisecond), "10.0.0.2": good},
			query:   "www.example.com", elapsed: 11 * time.Millisecond, rcode: "NOERROR", addrs: both},
		{name: "REFUSED goes on to the next", conf: twoServers,
			servers: map[string]fakeServer{"10.0.0.1": always(dns.RcodeRefused, time.Millisecond), "10.0.0.2": good},
			query:   "www.example.com", elapsed: 11 * time.Millisecond, rcode: "NOERROR", addrs: both},
		{name: "SERVFAIL everywhere is asked in two rounds", conf: oneServer, servers: map[string]fakeServer{"10.0.0.1": always(dns.RcodeServerFailure, time.Millisecond)},
			query: "www.example.com", elapsed: 2 * time.Millisecond, rcode: "SERVFAIL"},
		{name: "one SERVFAIL of two does not matter", conf: oneServer, query: "v4.example.com",
			servers: map[string]fakeServer{"10.0.0.1": func(q Query, n int) (*dns.Msg, time.Duration, Outcome) {
				if q.Type == dns.TypeAAAA {
					return answer(q, dns.RcodeServerFailure), time.Millisecond, ""
				}
				return good(q, n)
			}},
			elapsed: 10 * time.Millisecond, rcode: "NOERROR", addrs: addrs("192.0.2.81")},
		{name: "AAAA dropped", conf: oneServer, servers: map[string]fakeServer{"10.0.0.1": dropType(good, dns.TypeAAAA)}, query: "www.example.com",
			elapsed: 15 * time.Second, rcode: "NOERROR", addrs: addrs("192.0.2.80"),
			steps: []string{"0 1 www.example.com A NOERROR", "0 1 www.example.com AAAA timeout",
				"1 1 www.example.com A NOERROR", "1 1 www.example.com AAAA timeout",
				"2 1 www.example.com A NOERROR", "2 1 www.example.com AAAA timeout"}},
		{name: "AAAA dropped, IPv4 only", conf: oneServer, servers: map[string]fakeServer{"10.0.0.1": dropType(good, dns.TypeAAAA)}, query: "www.example.com",
			family: IPv4, elapsed: 10 * time.Millisecond, rcode: "NOERROR", addrs: addrs("192.0.2.80")},
		{name: "AAAA dropped, no-aaaa", conf: oneServer + "options no-aaaa\n", servers: map[string]fakeServer{"10.0.0.1": dropType(good, dns.TypeAAAA)}, query: "www.example.com",
			elapsed: 10 * time.Millisecond, rcode: "NOERROR", addrs: addrs("192.0.2.80")},
		{name: "kubernetes/kubernetes#56903: AAAA lost only beside A", conf: oneServer, query: "www.example.com",
			servers: map[string]fakeServer{"10.0.0.1": func(q Query, nth int) (*dns.Msg, time.Duration, Outcome) {
				if q.Type == dns.TypeAAAA && nth == 0 {
					return nil, 0, ""
				}
				return good(q, nth)
			}},
			elapsed: 5020 * time.Millisecond, rcode: "NOERROR", addrs: both},
		{name: "single-request asks one after the other", conf: oneServer + "options single-request\n",
			servers: map[string]fakeServer{"10.0.0.1": good}, query: "www.example.com",
			elapsed: 20 * time.Millisecond, rcode: "NOERROR", addrs: both,
			steps: []string{"0 1 www.example.com A NOERROR", "0 1 www.example.com AAAA NOERROR"}},
		{name: "truncated", conf: oneServer, servers: map[string]fakeServer{"10.0.0.1": truncating(good)}, query: "www.example.com",
			elapsed: 40 * time.Millisecond, rcode: "NOERROR", addrs: both},
		{name: "kubernetes/kubernetes#14051: ndots 5 tries the list first", conf: oneServer + "search ns.svc.example svc.example\noptions ndots:5\n",
			servers: map[string]fakeServer{"10.0.0.1": good}, query: "v4.example.com", family: IPv4,
			elapsed: 30 * time.Millisecond, rcode: "NOERROR", addrs: addrs("192.0.2.81"),
			steps: []string{"0 1 v4.example.com.ns.svc.example A NXDOMAIN", "1 1 v4.example.com.svc.example A NXDOMAIN", "2 1 v4.example.com A NOERROR"}},
		{name: "trailing dot needs no list", conf: oneServer + "search ns.svc.example svc.example\noptions ndots:5\n",
			servers: map[string]fakeServer{"10.0.0.1": good}, query: "v4.example.com.", family: IPv4,
			elapsed: 10 * time.Millisecond, rcode: "NOERROR", addrs: addrs("192.0.2.81")},
		{name: "short name found by the list", conf: oneServer + "search a.example corp.example\n",
			servers: map[string]fakeServer{"10.0.0.1": good}, query: "web", family: IPv4,
			elapsed: 20 * time.Millisecond, rcode: "NOERROR", addrs: addrs("192.0.2.82"),
			steps: []string{"0 1 web.a.example A NXDOMAIN", "1 1 web.corp.example A NOERROR"}},
		{name: "long name not found: as it is, then the list", conf: oneServer + "search corp.example\n",
			servers: map[string]fakeServer{"10.0.0.1": good}, query: "no.example.com", family: IPv4, elapsed: 20 * time.Millisecond, rcode: "NXDOMAIN",
			steps: []string{"0 1 no.example.com A NXDOMAIN", "1 1 no.example.com.corp.example A NXDOMAIN"}},
		{name: "systemd's search . asks again", conf: oneServer + "search .\n",
			servers: map[string]fakeServer{"10.0.0.1": good}, query: "no.example.com", family: IPv4, elapsed: 20 * time.Millisecond, rcode: "NXDOMAIN",
			steps: []string{"0 1 no.example.com A NXDOMAIN", "1 1 no.example.com A NXDOMAIN"}},
		{name: "NODATA", conf: oneServer, servers: map[string]fakeServer{"10.0.0.1": good}, query: "v4.example.com", family: IPv6,
			elapsed: 10 * time.Millisecond, rcode: "NODATA"},
		{name: "slow first answer is taken late", conf: oneServer + "options timeout:1\n", servers: map[string]fakeServer{
			"10.0.0.1": func(q Query, nth int) (*dns.Msg, time.Duration, Outcome) {
				m, _, _ := good(q, nth)
				return m, 700 * time.Millisecond, ""
			}},
			query: "www.example.com", elapsed: 700 * time.Millisecond, rcode: "NOERROR", addrs: both},
		{name: "malformed is final", conf: twoServers, servers: map[string]fakeServer{"10.0.0.1": outcomeServer(Malformed), "10.0.0.2": good},
			query: "www.example.com", rcode: "malformed"},
		{name: "use-vc", conf: oneServer + "options use-vc\n", servers: map[string]fakeServer{"10.0.0.1": good}, query: "www.example.com", family: IPv4,
			elapsed: 30 * time.Millisecond, rcode: "NOERROR", addrs: addrs("192.0.2.80"), steps: []string{"0 1 www.example.com A tcp NOERROR"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := Options{Name: tt.query, Family: tt.family, Config: conf(t, tt.conf), NoHosts: true, Exchanger: &fakeNet{servers: tt.servers}}
				got, err := Resolve(t.Context(), o)
				if err != nil {
					t.Fatal(err)
				}
				if d := got.Elapsed.Duration(); d != tt.elapsed {
					t.Errorf("elapsed %v, want %v", d, tt.elapsed)
				}
				if got.Rcode != tt.rcode {
					t.Errorf("rcode %q, want %q", got.Rcode, tt.rcode)
				}
				if tt.addrs == nil {
					tt.addrs = addrs()
				}
				if d := cmp.Diff(tt.addrs, got.Addrs, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); d != "" {
					t.Errorf("addresses (-want +got):\n%s", d)
				}
				if tt.steps != nil {
					if d := cmp.Diff(tt.steps, trail(got)); d != "" {
						t.Errorf("steps (-want +got):\n%s", d)
					}
				}
			})
		})
	}
}

func TestStubFollowsCNAMEs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &fakeNet{servers: map[string]fakeServer{"10.0.0.1": zone(time.Millisecond, exampleZone)}}
		got, err := Resolve(t.Context(), Options{Name: "alias.example.com", Config: conf(t, oneServer), NoHosts: true, Exchanger: n})
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff([]string{"a.cdn.example.", "b.cdn.example."}, got.CNAME); d != "" {
			t.Errorf("chain (-want +got):\n%s", d)
		}
		if len(got.Addrs) != 1 || got.Addrs[0] != netip.MustParseAddr("192.0.2.83") {
			t.Errorf("addresses %v", got.Addrs)
		}
		if ttl := got.Steps[0].TTL; ttl == nil || *ttl != 5 {
			t.Errorf("TTL %v, want the chain's least, 5", ttl)
		}
	})
}

// A CNAME loop within one answer ends.
func TestStubCNAMELoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &fakeNet{servers: map[string]fakeServer{"10.0.0.1": zone(time.Millisecond, map[string][]string{
			"loop.example.com A": {"loop.example.com. 60 IN CNAME b.example.com.", "b.example.com. 60 IN CNAME loop.example.com."},
		})}}
		got, err := Resolve(t.Context(), Options{Name: "loop.example.com", Family: IPv4, Config: conf(t, oneServer), NoHosts: true, Exchanger: n})
		if err != nil {
			t.Fatal(err)
		}
		if got.Rcode != "NODATA" || len(got.CNAME) != 2 {
			t.Errorf("rcode %s, chain %v", got.Rcode, got.CNAME)
		}
	})
}

func TestStubRotate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := map[string]bool{}
		for range 64 {
			n := &fakeNet{servers: map[string]fakeServer{"10.0.0.1": zone(0, exampleZone), "10.0.0.2": zone(0, exampleZone)}}
			o := Options{Name: "www.example.com", Config: conf(t, twoServers+"options rotate\n"), NoHosts: true, Exchanger: n}
			got, err := Resolve(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			first[got.Steps[0].Server] = true
		}
		if len(first) != 2 {
			t.Errorf("64 resolutions began at %v, want both servers", first)
		}
	})
}

// When ctx ends the stub returns what it knows.
func TestStubInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 7*time.Second)
		defer cancel()
		got, err := Resolve(ctx, Options{Name: "www.example.com", Config: conf(t, twoServers), NoHosts: true, Exchanger: &fakeNet{}})
		if err != nil {
			t.Fatal(err)
		}
		want := []string{"0 1 www.example.com A timeout", "0 1 www.example.com AAAA timeout",
			"1 2 www.example.com A interrupted", "1 2 www.example.com AAAA interrupted"}
		if d := cmp.Diff(want, trail(got)); d != "" {
			t.Errorf("steps (-want +got):\n%s", d)
		}
		if got.Rcode != "interrupted" || got.Elapsed.Duration() != 7*time.Second {
			t.Errorf("rcode %s after %v", got.Rcode, got.Elapsed)
		}
	})
}

// Each pair of queries shares a socket and its repetitions share the ids, so
// that a late answer counts.
func TestStubKeepsIDsAndFlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &fakeNet{}
		if _, err := Resolve(t.Context(), Options{Name: "www.example.com", Config: conf(t, oneServer), NoHosts: true, Exchanger: n}); err != nil {
			t.Fatal(err)
		}
		if len(n.seen) != 4 {
			t.Fatalf("%d queries, want 4", len(n.seen))
		}
		ids := map[uint16]map[uint16]bool{}
		for _, q := range n.seen {
			if q.Flow == nil || q.Flow != n.seen[0].Flow {
				t.Error("queries of one resolution on different flows")
			}
			if ids[q.Type] == nil {
				ids[q.Type] = map[uint16]bool{}
			}
			ids[q.Type][q.ID] = true
		}
		if len(ids[dns.TypeA]) != 1 || len(ids[dns.TypeAAAA]) != 1 {
			t.Errorf("ids %v, want one for each type", ids)
		}
	})
}
