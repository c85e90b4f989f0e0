package dnscheck

import (
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// loopbackServer runs h on 127.0.0.x at port, UDP and TCP. A port of 0 chooses
// one, which is returned. ok is false where the host has only 127.0.0.1.
func loopbackServer(t *testing.T, last int, port uint16, h dns.HandlerFunc) (uint16, bool) {
	t.Helper()
	pc, err := net.ListenPacket("udp", fmt.Sprintf("127.0.0.%d:%d", last, port))
	if err != nil {
		return 0, false
	}
	port = uint16(pc.LocalAddr().(*net.UDPAddr).Port)
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.%d:%d", last, port))
	if err != nil {
		pc.Close()
		return 0, false
	}
	for _, srv := range []*dns.Server{{PacketConn: pc, Handler: h}, {Listener: l, Handler: h}} {
		started, done := make(chan struct{}), make(chan struct{})
		srv.NotifyStartedFunc = func() { close(started) }
		go func() {
			defer close(done)
			srv.ActivateAndServe()
		}()
		<-started
		t.Cleanup(func() { srv.Shutdown(); <-done })
	}
	return port, true
}

// handler serves a fakeServer's answers, at once.
func handler(s fakeServer) dns.HandlerFunc {
	return func(w dns.ResponseWriter, q *dns.Msg) {
		_, tcp := w.RemoteAddr().(*net.TCPAddr)
		m, _, _ := s(Query{Name: q.Question[0].Name, Type: q.Question[0].Qtype, Class: q.Question[0].Qclass, TCP: tcp}, 0)
		if m == nil {
			return
		}
		m.Id, m.Question = q.Id, q.Question
		w.WriteMsg(m)
	}
}

// The whole over real sockets: a dead server first, a live one behind it, whose
// large answers go over TCP.
func TestRunOverLoopback(t *testing.T) {
	port, ok := loopbackServer(t, 3, 0, handler(truncating(zone(0, exampleZone))))
	if ok {
		_, ok = loopbackServer(t, 2, port, func(dns.ResponseWriter, *dns.Msg) {})
	}
	if !ok {
		t.Skip("no second loopback address or no common free port")
	}
	o := Options{
		Name: "alias.example.com", Config: conf(t, "nameserver 127.0.0.2\nnameserver 127.0.0.3\noptions timeout:1\n"),
		Port: port, NoHosts: true, Wait: 500 * time.Millisecond,
	}
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if !r.Stub.Found() || r.Stub.Addrs[0].String() != "192.0.2.83" || len(r.Stub.CNAME) != 2 {
		t.Fatalf("stub %+v", r.Stub)
	}
	got := map[string]Finding{}
	for _, f := range r.Findings {
		got[f.Component+" "+f.Where] = f
	}
	dead, live := fmt.Sprintf("127.0.0.2:%d", port), fmt.Sprintf("127.0.0.3:%d", port)
	down, cut := got[ResolverDown+" "+dead], got[Truncation+" "+live]
	if d := down.Cost.Duration(); d < 900*time.Millisecond || d > r.Stub.Elapsed.Duration() || !down.Confirmed || down.Line != 1 {
		t.Errorf("the dead server: %+v of %v", down, r.Stub.Elapsed)
	}
	if !cut.Cost.Known() {
		t.Errorf("no cost of truncation in %v", brief(r.Findings))
	}
	tcpRows := 0
	for _, s := range r.Servers {
		if s.Transport == "tcp" && s.Answered == s.Sent && s.Connect.Known() {
			tcpRows++
		}
	}
	if tcpRows != 2 {
		t.Errorf("%d TCP rows, want A and AAAA: %+v", tcpRows, r.Servers)
	}
}

// Real programs ask for the port that resolv.conf cannot name, and a closed
// one costs no wait.
func TestResolveClosedPort(t *testing.T) {
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := uint16(c.LocalAddr().(*net.UDPAddr).Port)
	c.Close()
	st, err := Resolve(t.Context(), Options{Name: "www.example.com", Config: conf(t, "nameserver 127.0.0.1\n"), Port: port, NoHosts: true})
	if err != nil {
		t.Fatal(err)
	}
	if st.Rcode != "refused" || st.Elapsed.Duration() > 4*time.Second {
		t.Errorf("rcode %s after %v", st.Rcode, st.Elapsed)
	}
}
