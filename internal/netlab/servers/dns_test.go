package servers_test

import (
	"net/netip"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"

	"github.com/whyslow/whyslow/internal/netlab/servers"
)

var zones = []servers.Zone{
	{Origin: "example.com", Records: []string{
		"www 300 IN A 192.0.2.80",
		"www 300 IN AAAA 2001:db8::80",
		"alias IN CNAME www",
		"away IN CNAME www.example.net.",
		"out IN CNAME www.example.org.",
		"*.wild 0 IN A 192.0.2.99",
		"deep.under IN A 192.0.2.7",
		"sub IN NS ns.sub",
		"ns.sub IN A 192.0.2.54",
	}},
	{Origin: "example.net", Records: []string{"www IN A 192.0.2.81"}},
	{Origin: "big.example", Records: bigSet()},
}

func bigSet() []string {
	var out []string
	for i := range 60 {
		out = append(out, "@ IN A 192.0.2."+string(rune('0'+i/10))+string(rune('0'+i%10)))
	}
	for i, r := range out {
		out[i] = strings.Replace(r, "192.0.2.0", "192.0.2.1", 1)
	}
	return out
}

func startAuthority(t *testing.T, cfg servers.AuthorityConfig) *servers.DNS {
	t.Helper()
	cfg.Addrs = []netip.AddrPort{loopback}
	if cfg.Zones == nil {
		cfg.Zones = zones
	}
	s, err := servers.StartAuthority(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func ask(t *testing.T, s *servers.DNS, network, name string, kind uint16) (*dns.Msg, error) {
	t.Helper()
	c := dns.Client{Net: network, Timeout: 500 * time.Millisecond}
	m, _, err := c.ExchangeContext(t.Context(), new(dns.Msg).SetQuestion(dns.Fqdn(name), kind), s.Addrs()[0].String())
	return m, err
}

// summary is what matters of a reply.
type summary struct {
	Rcode  string
	AA, TC bool
	Answer []string
	NS     []string
}

func summarise(m *dns.Msg) summary {
	s := summary{Rcode: dns.RcodeToString[m.Rcode], AA: m.Authoritative, TC: m.Truncated}
	for _, rr := range m.Answer {
		s.Answer = append(s.Answer, strings.Join(strings.Fields(rr.String()), " "))
	}
	for _, rr := range m.Ns {
		s.NS = append(s.NS, dns.TypeToString[rr.Header().Rrtype]+" "+rr.Header().Name)
	}
	return s
}

func TestAuthorityAnswers(t *testing.T) {
	s := startAuthority(t, servers.AuthorityConfig{})
	soa := []string{"SOA example.com."}
	for _, tt := range []struct {
		name string
		kind uint16
		want summary
	}{
		{"www.example.com", dns.TypeA, summary{Rcode: "NOERROR", AA: true, Answer: []string{"www.example.com. 300 IN A 192.0.2.80"}}},
		{"www.example.com", dns.TypeMX, summary{Rcode: "NOERROR", AA: true, NS: soa}},
		{"nothere.example.com", dns.TypeA, summary{Rcode: "NXDOMAIN", AA: true, NS: soa}},
		{"under.example.com", dns.TypeA, summary{Rcode: "NOERROR", AA: true, NS: soa}},
		{"alias.example.com", dns.TypeA, summary{Rcode: "NOERROR", AA: true, Answer: []string{
			"alias.example.com. 300 IN CNAME www.example.com.", "www.example.com. 300 IN A 192.0.2.80"}}},
		{"away.example.com", dns.TypeA, summary{Rcode: "NOERROR", AA: true, Answer: []string{
			"away.example.com. 300 IN CNAME www.example.net.", "www.example.net. 300 IN A 192.0.2.81"}}},
		{"out.example.com", dns.TypeA, summary{Rcode: "NOERROR", AA: true, Answer: []string{"out.example.com. 300 IN CNAME www.example.org."}}},
		{"a.b.wild.example.com", dns.TypeA, summary{Rcode: "NOERROR", AA: true, Answer: []string{"a.b.wild.example.com. 0 IN A 192.0.2.99"}}},
		{"host.sub.example.com", dns.TypeA, summary{Rcode: "NOERROR", NS: []string{"NS sub.example.com."}}},
		{"www.example.org", dns.TypeA, summary{Rcode: "REFUSED"}},
		{"big.example", dns.TypeA, summary{Rcode: "NOERROR", AA: true, TC: true}},
	} {
		t.Run(tt.name+" "+dns.TypeToString[tt.kind], func(t *testing.T) {
			m, err := ask(t, s, "udp", tt.name, tt.kind)
			if err != nil {
				t.Fatal(err)
			}
			got := summarise(m)
			if got.TC {
				got.Answer = nil // what fits
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if m, err := ask(t, s, "tcp", "big.example", dns.TypeA); err != nil || m.Truncated || len(m.Answer) != 60 {
		t.Errorf("over TCP: %v, %v", m, err)
	}
	if n := s.Asked("WWW.example.com", dns.TypeA); n != 1 {
		t.Errorf("www was asked for %d times, want 1", n)
	}
}

func TestDNSFaults(t *testing.T) {
	const wait = 150 * time.Millisecond
	s := startAuthority(t, servers.AuthorityConfig{})
	aaaa := []uint16{dns.TypeAAAA}
	for _, tt := range []struct {
		name    string
		fault   servers.DNSFault
		kind    uint16
		network string
		want    string // rcode, "timeout", "malformed"; with " TC" or " upward"
		least   time.Duration
	}{
		{"none", servers.DNSFault{Suffix: "other.example", Action: servers.Drop}, dns.TypeA, "udp", "NOERROR", 0},
		{"slow", servers.DNSFault{Delay: wait}, dns.TypeA, "udp", "NOERROR", wait},
		{"dead", servers.DNSFault{Suffix: "example.com", Action: servers.Drop}, dns.TypeA, "udp", "timeout", 0},
		{"AAAA dropped", servers.DNSFault{Types: aaaa, Action: servers.Drop}, dns.TypeAAAA, "udp", "timeout", 0},
		{"AAAA dropped, A", servers.DNSFault{Types: aaaa, Action: servers.Drop}, dns.TypeA, "udp", "NOERROR", 0},
		{"SERVFAIL", servers.DNSFault{Action: servers.ServFail}, dns.TypeA, "udp", "SERVFAIL", 0},
		{"refused", servers.DNSFault{Action: servers.Refuse}, dns.TypeA, "udp", "REFUSED", 0},
		{"no such name", servers.DNSFault{Action: servers.NXDomain}, dns.TypeA, "udp", "NXDOMAIN", 0},
		{"lame", servers.DNSFault{Action: servers.Lame}, dns.TypeA, "udp", "NOERROR upward", 0},
		{"truncated", servers.DNSFault{Action: servers.Truncate}, dns.TypeA, "udp", "NOERROR TC", 0},
		{"truncated, TCP", servers.DNSFault{Action: servers.Truncate}, dns.TypeA, "tcp", "NOERROR", 0},
		{"TCP dead", servers.DNSFault{Transport: "tcp", Action: servers.Drop}, dns.TypeA, "tcp", "timeout", 0},
		{"loop", servers.DNSFault{Action: servers.GarbageLoop}, dns.TypeA, "udp", "malformed", 0},
		{"never", servers.DNSFault{Share: 1e-9, Action: servers.Drop}, dns.TypeA, "udp", "NOERROR", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s.SetFaults(tt.fault)
			start := time.Now()
			m, err := ask(t, s, tt.network, "www.example.com", tt.kind)
			took := time.Since(start)
			got := outcome(m, err)
			if got != tt.want || took < tt.least {
				t.Errorf("%s after %v (%v), want %s after %v", got, took, err, tt.want, tt.least)
			}
		})
	}
}

func outcome(m *dns.Msg, err error) string {
	if err != nil {
		if ne, ok := err.(interface{ Timeout() bool }); ok && ne.Timeout() || strings.Contains(err.Error(), "EOF") {
			return "timeout"
		}
		return "malformed"
	}
	out := dns.RcodeToString[m.Rcode]
	if m.Truncated {
		out += " TC"
	}
	if len(m.Ns) > 0 && m.Ns[0].Header().Name == "." {
		out += " upward"
	}
	return out
}

func TestServerWithoutTCP(t *testing.T) {
	s := startAuthority(t, servers.AuthorityConfig{NoTCP: true})
	if _, err := ask(t, s, "tcp", "www.example.com", dns.TypeA); err == nil {
		t.Error("answered over TCP")
	}
}

func TestResolver(t *testing.T) {
	auth := startAuthority(t, servers.AuthorityConfig{})
	dead := startAuthority(t, servers.AuthorityConfig{Faults: []servers.DNSFault{{Action: servers.Drop}}})
	r, err := servers.StartResolver(servers.ResolverConfig{
		Addrs: []netip.AddrPort{loopback}, Timeout: 100 * time.Millisecond,
		Forwards: []servers.Forward{
			{Zone: ".", Servers: auth.Addrs()},
			{Zone: "example.net", Servers: dead.Addrs()},
			{Zone: "wild.example.com", Servers: append(dead.Addrs(), auth.Addrs()...)},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	for _, tt := range []struct {
		name    string
		kind    uint16
		rcode   int
		answers int
		asked   int // of the authority, after two queries
	}{
		{"www.example.com.", dns.TypeA, dns.RcodeSuccess, 1, 1},
		{"big.example.", dns.TypeA, dns.RcodeSuccess, 60, 2}, // over UDP, then TCP
		{"nothere.example.com.", dns.TypeA, dns.RcodeNameError, 0, 1},
		{"x.wild.example.com.", dns.TypeA, dns.RcodeSuccess, 1, 2}, // TTL 0
		{"www.example.net.", dns.TypeA, dns.RcodeServerFailure, 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for range 2 {
				c := dns.Client{Net: "tcp", Timeout: 5 * time.Second}
				m, _, err := c.Exchange(new(dns.Msg).SetQuestion(tt.name, tt.kind), r.Addrs()[0].String())
				if err != nil {
					t.Fatal(err)
				}
				if m.Rcode != tt.rcode || len(m.Answer) != tt.answers || m.Authoritative || !m.RecursionAvailable {
					t.Errorf("got %v", m)
				}
			}
			if n := auth.Asked(tt.name, tt.kind); n != tt.asked {
				t.Errorf("the authority was asked %d times, want %d", n, tt.asked)
			}
		})
	}
}

func TestZoneText(t *testing.T) {
	text, err := zones[1].Text()
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Split(strings.Join(strings.Fields(strings.ReplaceAll(text, "\n", " ; ")), " "), " ; ")
	got[len(got)-1] = strings.TrimSuffix(got[len(got)-1], " ;")
	sort.Strings(got)
	want := []string{
		"example.net. 300 IN NS ns.example.net.",
		"example.net. 300 IN SOA ns.example.net. hostmaster.example.net. 1 3600 600 86400 60",
		"www.example.net. 300 IN A 192.0.2.81",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, bad := range []servers.Zone{
		{Origin: "example.com", Records: []string{"www IN A nonsense"}},
		{Origin: "example.com", Records: []string{"www.example.net. IN A 192.0.2.1"}},
	} {
		if _, err := bad.Text(); err == nil {
			t.Errorf("%v: accepted", bad)
		}
	}
}
