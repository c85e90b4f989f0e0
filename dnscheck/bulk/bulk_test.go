package bulk

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"
)

// nameserver is a server on a loopback port whose answers a test decides.
type nameserver struct {
	addr  netip.AddrPort
	asked atomic.Int64
}

// serve answers with what handle leaves in the message; nil means silence.
func serve(t *testing.T, handle func(nth int, tcp bool, q dns.Question, m *dns.Msg) *dns.Msg) *nameserver {
	t.Helper()
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := pc.LocalAddr().(*net.UDPAddr).AddrPort()
	l, err := net.Listen("tcp", addr.String())
	if err != nil {
		t.Skipf("the port is taken for TCP, not permitted: %v", err)
	}
	s := &nameserver{addr: addr}
	h := dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) {
		_, tcp := w.RemoteAddr().(*net.TCPAddr)
		m := new(dns.Msg).SetReply(r)
		if m = handle(int(s.asked.Add(1)), tcp, r.Question[0], m); m != nil {
			_ = w.WriteMsg(m) // the asker may be gone
		}
	})
	for _, srv := range []*dns.Server{{PacketConn: pc, Handler: h}, {Listener: l, Handler: h}} {
		ready := make(chan struct{})
		srv.NotifyStartedFunc = func() { close(ready) }
		var wg sync.WaitGroup
		wg.Go(func() { _ = srv.ActivateAndServe() })
		<-ready
		t.Cleanup(func() { _ = srv.Shutdown(); wg.Wait() })
	}
	return s
}

func ptr(q dns.Question, target string, ttl uint32) dns.RR {
	return &dns.PTR{Hdr: dns.RR_Header{Name: q.Name, Rrtype: dns.TypePTR, Class: dns.ClassINET, Ttl: ttl}, Ptr: target}
}

func soa(zone string, ttl, minimum uint32) dns.RR {
	return &dns.SOA{Hdr: dns.RR_Header{Name: zone, Rrtype: dns.TypeSOA, Class: dns.ClassINET, Ttl: ttl}, Ns: "ns." + zone, Mbox: "h." + zone, Minttl: minimum}
}

func addresses(n int) []Query {
	var qs []Query
	for i := range n {
		qs = append(qs, Query{Addr: netip.AddrFrom4([4]byte{192, 0, byte(i >> 8), byte(i)})})
	}
	return qs
}

// run asks and checks that each query is delivered exactly once.
func run(t *testing.T, ctx context.Context, qs []Query, o Options) (map[int]Answer, Stats, error) {
	t.Helper()
	got := make(map[int]Answer)
	st, err := Run(ctx, qs, o, func(a *Answer) {
		if _, twice := got[a.Index]; twice {
			t.Errorf("query %d is delivered twice", a.Index)
		}
		keep := *a
		keep.Names, keep.Addrs = append([]string(nil), a.Names...), append([]netip.Addr(nil), a.Addrs...)
		got[a.Index] = keep
	})
	if len(got) != len(qs) {
		t.Errorf("%d of %d queries were delivered", len(got), len(qs))
	}
	return got, st, err
}

func TestAnswers(t *testing.T) {
	s := serve(t, func(_ int, tcp bool, q dns.Question, m *dns.Msg) *dns.Msg {
		switch {
		case q.Name == "1.2.0.192.in-addr.arpa.":
			m.Answer = []dns.RR{ptr(q, "a.example.", 300), ptr(q, "b.example.", 60)}
		case q.Name == "2.2.0.192.in-addr.arpa.":
			m.Rcode, m.Ns = dns.RcodeNameError, []dns.RR{soa("2.0.192.in-addr.arpa.", 900, 120)}
		case q.Name == "3.2.0.192.in-addr.arpa.":
			m.Ns = []dns.RR{soa("2.0.192.in-addr.arpa.", 30, 120)}
		case q.Name == "4.2.0.192.in-addr.arpa.": // RFC 2317
			m.Answer = []dns.RR{&dns.CNAME{Hdr: dns.RR_Header{Name: q.Name, Rrtype: dns.TypeCNAME, Class: dns.ClassINET, Ttl: 10},
				Target: "4.0/25.2.0.192.in-addr.arpa."}, ptr(dns.Question{Name: "4.0/25.2.0.192.in-addr.arpa."}, "c.example.", 3600)}
		case q.Name == "5.2.0.192.in-addr.arpa." && !tcp:
			m.Truncated = true
		case q.Name == "5.2.0.192.in-addr.arpa.":
			for i := range 200 {
				m.Answer = append(m.Answer, ptr(q, fmt.Sprintf("%d.example.", i), 5))
			}
		case strings.EqualFold(q.Name, "a.example.") && q.Qtype == dns.TypeA:
			m.Answer = []dns.RR{&dns.A{Hdr: dns.RR_Header{Name: q.Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 7}, A: net.IPv4(192, 0, 2, 1)}}
		case strings.HasSuffix(q.Name, ".8.b.d.0.1.0.0.2.ip6.arpa."):
			m.Answer = []dns.RR{ptr(q, "six.example.", 1)}
		default:
			m.Rcode = dns.RcodeRefused
		}
		return m
	})
	qs := []Query{{Addr: netip.MustParseAddr("192.0.2.1")}, {Addr: netip.MustParseAddr("::ffff:192.0.2.2")}, {Addr: netip.MustParseAddr("192.0.2.3")},
		{Addr: netip.MustParseAddr("192.0.2.4")}, {Addr: netip.MustParseAddr("192.0.2.5")}, {Addr: netip.MustParseAddr("2001:db8::1")},
		{Name: "A.example", Type: dns.TypeA}, {Name: "nobody.example", Type: dns.TypeAAAA}, {Name: strings.Repeat("a", 64) + ".example", Type: dns.TypeA}}
	got, st, err := run(t, t.Context(), qs, Options{Servers: []netip.AddrPort{s.addr}})
	if err != nil {
		t.Fatal(err)
	}
	text := func(a Answer) string {
		return fmt.Sprintf("%v %d %v %v %v %v tcp=%v", a.Outcome, a.Rcode, a.Names, a.Addrs, a.TTL, a.Known, a.TCP)
	}
	want := []string{
		"answered 0 [a.example. b.example.] [] 1m0s true tcp=false",
		"answered 3 [] [] 2m0s true tcp=false",
		"answered 0 [] [] 30s true tcp=false",
		"answered 0 [c.example.] [] 10s true tcp=false",
		"answered 0 [0.example. 1.example. 2.example. 3.example. 4.example. 5.example. 6.example. 7.example.] [] 5s true tcp=true",
		"answered 0 [six.example.] [] 1s true tcp=false",
		"answered 0 [] [192.0.2.1] 7s true tcp=false",
		"answered 5 [] [] 0s false tcp=false",
		"broken 0 [] [] 0s false tcp=false",
	}
	for i := range qs {
		if diff := cmp.Diff(want[i], text(got[i])); diff != "" {
			t.Errorf("query %d (-want +got):\n%s", i, diff)
		}
	}
	if st.TCP != 1 || st.Timeouts != 0 || st.Strange != 0 {
		t.Errorf("%+v", st)
	}
}

// A server that loses the first attempt costs its timeout, and an answer that
// comes after the query was sent again is its answer all the same.
func TestLostAndLate(t *testing.T) {
	var seen sync.Map
	s := serve(t, func(_ int, _ bool, q dns.Question, m *dns.Msg) *dns.Msg {
		_, again := seen.LoadOrStore(q.Name, true)
		if q.Name == "1.2.0.192.in-addr.arpa." && !again {
			return nil
		}
		if q.Name == "2.2.0.192.in-addr.arpa." {
			if again {
				return nil
			}
			time.Sleep(150 * time.Millisecond)
		}
		m.Answer = []dns.RR{ptr(q, "a.example.", 300)}
		return m
	})
	qs := []Query{{Addr: netip.MustParseAddr("192.0.2.1")}, {Addr: netip.MustParseAddr("192.0.2.2")}}
	got, st, err := run(t, t.Context(), qs, Options{Servers: []netip.AddrPort{s.addr}, Timeout: 100 * time.Millisecond, Attempts: 2})
	if err != nil {
		t.Fatal(err)
	}
	for i := range qs {
		if a := got[i]; !a.Found() || a.Sent != 2 || a.Waited < 100*time.Millisecond {
			t.Errorf("query %d: %+v", i, a)
		}
	}
	if got[0].Took > 90*time.Millisecond || got[1].Took < 140*time.Millisecond {
		t.Errorf("round trips %v and %v are not of the attempt that was answered", got[0].Took, got[1].Took)
	}
	if st.Late != 1 || st.Timeouts != 2 {
		t.Errorf("%+v", st)
	}
}

// What one server fails the next is asked for; where none knows, the rcode of
// one says more than the silence of another.
func TestNextServer(t *testing.T) {
	fails := serve(t, func(_ int, _ bool, q dns.Question, m *dns.Msg) *dns.Msg {
		m.Rcode = dns.RcodeServerFailure
		return m
	})
	knows := serve(t, func(_ int, _ bool, q dns.Question, m *dns.Msg) *dns.Msg {
		if q.Name == "1.1.0.192.in-addr.arpa." {
			return nil
		}
		m.Answer = []dns.RR{ptr(q, "a.example.", 300)}
		return m
	})
	closed := netip.MustParseAddrPort("127.0.0.1:1")
	qs := addresses(300)
	got, _, err := run(t, t.Context(), qs, Options{Servers: []netip.AddrPort{closed, fails.addr, knows.addr}, Timeout: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	for i, q := range qs {
		a := got[i]
		if q.Addr.String() == "192.0.1.1" {
			if a.Outcome != Answered || a.Rcode != dns.RcodeServerFailure {
				t.Errorf("%v: %+v", q.Addr, a)
			}
		} else if !a.Found() || a.Server != 2 {
			t.Errorf("%v: %+v", q.Addr, a)
		}
	}
	got, _, err = run(t, t.Context(), qs, Options{Servers: []netip.AddrPort{closed}, Timeout: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	for i := range qs {
		if got[i].Outcome != Refused {
			t.Fatalf("%v: %+v", qs[i].Addr, got[i])
		}
	}
}

// Many queries to a server that drops, delays and doubles: each is delivered
// once, and none gets another's answer.
func TestNothingIsLostOrMixed(t *testing.T) {
	s := serve(t, func(nth int, _ bool, q dns.Question, m *dns.Msg) *dns.Msg {
		if nth%7 == 0 {
			return nil
		}
		if nth%11 == 0 {
			time.Sleep(30 * time.Millisecond)
		}
		if nth%13 == 0 {
			m.Truncated = true
			return m
		}
		m.Answer = []dns.RR{ptr(q, "of-"+q.Name, 300)}
		return m
	})
	qs := addresses(3000)
	got, st, err := run(t, t.Context(), qs, Options{Servers: []netip.AddrPort{s.addr}, Timeout: 25 * time.Millisecond, Attempts: 4, Window: 256})
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for i, q := range qs {
		a := got[i]
		if !a.Found() {
			continue
		}
		found++
		arpa, _ := dns.ReverseAddr(q.Addr.String())
		if a.Names[0] != "of-"+arpa {
			t.Fatalf("%v got the answer of %s", q.Addr, a.Names[0])
		}
	}
	if found < len(qs)*9/10 {
		t.Errorf("%d of %d found: %+v", found, len(qs), st)
	}
}

// A reply that anybody could forge, or that is noise, decides nothing.
func TestStrangeReplies(t *testing.T) {
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer pc.Close()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer pc.Close()
	wg.Go(func() {
		buf := make([]byte, 512)
		for {
			n, from, err := pc.ReadFrom(buf)
			if err != nil {
				return
			}
			var q dns.Msg
			if q.Unpack(buf[:n]) != nil {
				continue
			}
			send := func(change func(m *dns.Msg)) {
				m := new(dns.Msg).SetReply(&q)
				m.Answer = []dns.RR{ptr(q.Question[0], "evil.example.", 1)}
				change(m)
				if b, err := m.Pack(); err == nil {
					_, _ = pc.WriteTo(b, from)
				}
			}
			_, _ = pc.WriteTo([]byte("x"), from)
			send(func(m *dns.Msg) { m.Id ^= 1 })
			send(func(m *dns.Msg) { m.Question[0].Name = "9.9.9.9.in-addr.arpa." })
			send(func(m *dns.Msg) { m.Question[0].Qtype = dns.TypeA })
			send(func(m *dns.Msg) { m.Response = false })
			send(func(m *dns.Msg) { m.Question = nil })
			send(func(m *dns.Msg) {
				m.Question[0].Name = strings.ToUpper(m.Question[0].Name)
				m.Answer[0].(*dns.PTR).Ptr = "good.example."
			})
		}
	})
	got, st, err := run(t, t.Context(), addresses(20), Options{Servers: []netip.AddrPort{pc.LocalAddr().(*net.UDPAddr).AddrPort()}})
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range got {
		if len(a.Names) != 1 || a.Names[0] != "good.example." {
			t.Errorf("%+v", a)
		}
	}
	if st.Strange < 80 {
		t.Errorf("%+v", st)
	}
}

func TestInterrupted(t *testing.T) {
	s := serve(t, func(nth int, _ bool, q dns.Question, m *dns.Msg) *dns.Msg {
		if nth > 100 {
			return nil
		}
		m.Answer = []dns.RR{ptr(q, "a.example.", 300)}
		return m
	})
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	begin := time.Now()
	got, _, err := run(t, ctx, addresses(5000), Options{Servers: []netip.AddrPort{s.addr, s.addr}, Window: 50})
	if took := time.Since(begin); err == nil || took > time.Second {
		t.Errorf("%v after %v", err, took)
	}
	count := map[Outcome]int{}
	for _, a := range got {
		count[a.Outcome]++
	}
	if count[Answered] != 100 || count[Timeout] == 0 || count[Unasked] < 4000 {
		t.Errorf("%v", count)
	}
}

// The pace is kept, and halved while a resolver is in trouble.
func TestPoliteness(t *testing.T) {
	s := serve(t, func(_ int, _ bool, q dns.Question, m *dns.Msg) *dns.Msg { return m })
	_, st, err := run(t, t.Context(), addresses(100), Options{Servers: []netip.AddrPort{s.addr}, Rate: 400})
	if err != nil || st.Elapsed < 200*time.Millisecond || st.Elapsed > 2*time.Second {
		t.Errorf("100 queries at 400/s took %v: %v", st.Elapsed, err)
	}
	p := newPace(&Options{Rate: 100, Window: 100})
	now := time.Now()
	for range 1000 {
		now = now.Add(10 * time.Millisecond)
		p.trouble(now)
	}
	if p.factor != slowest || p.slowdowns == 0 {
		t.Errorf("a resolver in trouble is asked at %v of the pace", p.factor)
	}
	for range 5000 {
		now = now.Add(10 * time.Millisecond)
		p.success(now)
	}
	if p.factor != 1 {
		t.Errorf("and afterwards at %v", p.factor)
	}
	for i := range 1000 {
		now = now.Add(10 * time.Millisecond)
		if i%8 == 0 {
			p.trouble(now)
		} else {
			p.success(now)
		}
	}
	if p.factor != 1 {
		t.Errorf("one failure in eight, which is ordinary, slows down to %v", p.factor)
	}
}

// One operator's servers get no more than PerZone at once.
func TestPerZone(t *testing.T) {
	var now, most atomic.Int64
	s := serve(t, func(_ int, _ bool, q dns.Question, m *dns.Msg) *dns.Msg {
		if strings.HasSuffix(q.Name, ".0.192.in-addr.arpa.") {
			n := now.Add(1)
			defer now.Add(-1)
			for was := most.Load(); n > was && !most.CompareAndSwap(was, n); was = most.Load() {
			}
			time.Sleep(5 * time.Millisecond)
		}
		return m
	})
	qs := addresses(60)
	for i := range 60 {
		qs = append(qs, Query{Addr: netip.AddrFrom4([4]byte{byte(i + 1), 1, 1, 1})})
	}
	if _, _, err := run(t, t.Context(), qs, Options{Servers: []netip.AddrPort{s.addr}, PerZone: 3}); err != nil {
		t.Fatal(err)
	}
	if m := most.Load(); m > 3 || m < 2 {
		t.Errorf("%d of one zone at once, want 3", m)
	}
}
