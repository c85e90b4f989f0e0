package reports

import (
	"net/netip"
	"time"

	"github.com/whyslow/whyslow/dnscheck"
	"github.com/whyslow/whyslow/httpcheck"
	"github.com/whyslow/whyslow/internal/millis"
	"github.com/whyslow/whyslow/pmtu"
	"github.com/whyslow/whyslow/trace"
)

// world makes the report that a diagnosis of a given world would bring home,
// so that the judge can be tried on thousands of worlds without a network.
type world struct {
	rtt    time.Duration
	think  time.Duration
	once   time.Duration // more on the first request of a connection
	second time.Duration // more on the second
	tls    time.Duration // more in the handshake
	static time.Duration // server time of the static control
	body   time.Duration // receive phase
	bytes  int64
	class  string
	dns    time.Duration
	find   []dnscheck.Finding
	// synLost[i] and stall[i] happen to connection i.
	synLost map[int]int
	stall   map[int]time.Duration
	resent  int
	lost    int // of 100 echoes
	hops    []time.Duration
	direct  map[int]int // ttl → lost of 100
	ptr     time.Duration
	control []httpcheck.Control
	fail    *httpcheck.Failure
	plain   bool
	redir   int
}

func (w world) report() *Report {
	r := &Report{Schema: Schema, Target: Target{URL: "https://www.example.com/", Host: "www.example.com", Port: 443, Addr: "203.0.113.80"}}
	r.DNS = w.lookup()
	r.HTTP = w.http()
	r.Trace = w.path()
	r.PMTU = &pmtu.Result{Schema: pmtu.Schema}
	return r
}

func (w world) lookup() *dnscheck.Result {
	d := &dnscheck.Result{Findings: w.find, Stub: &dnscheck.Stub{Model: "glibc", Rcode: "NOERROR",
		Elapsed: millis.Of(max(w.dns, 2*time.Millisecond)), Addrs: []netip.Addr{netip.MustParseAddr("203.0.113.80")}}}
	if w.ptr > 0 {
		d.Reverse = []dnscheck.Reverse{{Addr: netip.MustParseAddr("192.0.2.10"), Of: "client", Rcode: "NOERROR", Elapsed: millis.Of(w.ptr)}}
	}
	return d
}

func (w world) http() *httpcheck.Result {
	h := &httpcheck.Result{Schema: httpcheck.Schema, Controls: w.control, Failure: w.fail}
	for conn := range 5 {
		for req := range 3 {
			h.Samples = append(h.Samples, w.sample(conn, req+1))
		}
	}
	h.Body.Class = w.class
	static := httpcheck.Exchange{Status: 200, Server: millis.Of(max(w.static, time.Millisecond))}
	if w.fail == nil {
		h.Controls = append(h.Controls, httpcheck.Control{Name: "static", Exchange: static})
	}
	return h
}

func (w world) sample(conn, req int) httpcheck.Sample {
	s := httpcheck.Sample{Cold: req == 1, Connection: conn + 1, Request: req, Failure: w.fail}
	if req == 1 {
		for range w.redir {
			s.Exchanges = append(s.Exchanges, w.exchange(conn, 1))
		}
	}
	s.Exchanges = append(s.Exchanges, w.exchange(conn, req))
	return s
}

func (w world) exchange(conn, req int) httpcheck.Exchange {
	jitter := time.Duration(conn*7+req*3) * 100 * time.Microsecond
	server := w.think + jitter + time.Millisecond
	switch req {
	case 1:
		server += w.once
	case 2:
		server += w.second
	}
	e := httpcheck.Exchange{Status: 200, Bytes: w.bytes, Remote: "203.0.113.80:443", Failure: w.fail}
	e.TCP = &httpcheck.TCP{MinRTT: millis.Of(w.rtt), Retrans: w.resent}
	e.TCPStart = &httpcheck.TCP{MinRTT: millis.Of(w.rtt)}
	var connect, tls time.Duration
	if req == 1 {
		connect = w.rtt + jitter/4 + time.Duration(w.synLost[conn])*time.Second
		e.TCPStart.Retrans = w.synLost[conn]
		e.TCP.Retrans += w.synLost[conn]
		e.Phases.Connect = millis.Of(connect)
		if !w.plain {
			tls = w.rtt + 3*time.Millisecond + w.tls + jitter/4
			e.Phases.TLS = millis.Of(tls)
			e.TLS = &httpcheck.TLS{Version: "TLS 1.3", RoundTrips: 1}
		}
		server += w.stall[conn]
	}
	e.Phases.Send = millis.Of(50 * time.Microsecond)
	e.Phases.Wait = millis.Of(w.rtt + server)
	e.Network, e.Server = millis.Of(w.rtt), millis.Of(server)
	e.Phases.Receive = millis.Of(w.body + time.Millisecond)
	e.Phases.Total = millis.Of(connect + tls + w.rtt + server + w.body + time.Millisecond)
	if w.class == "drip" {
		e.Gaps = &httpcheck.Gaps{Pauses: 5, PausedTotal: millis.Of(w.body * 9 / 10)}
	}
	return e
}

func (w world) path() *trace.Result {
	hops := w.hops
	if hops == nil {
		for i := range 6 {
			hops = append(hops, w.rtt*time.Duration(i+1)/6)
		}
	}
	t := &trace.Result{Schema: trace.Schema, Reached: true}
	n := len(hops)
	t.HopCount = &n
	for i, d := range hops {
		addr := netip.AddrFrom4([4]byte{198, 51, 100, byte(i + 1)})
		if i == n-1 {
			addr = netip.MustParseAddr("203.0.113.80")
		}
		h := trace.Hop{TTL: i + 1, Replies: []trace.Replier{{Addr: addr, Sent: 3, Received: 3,
			Min: millis.Of(d), Median: millis.Of(d + 200*time.Microsecond), Max: millis.Of(d + 500*time.Microsecond), ReplyTTL: 64 - i,
			ICMP: "time exceeded"}}}
		h.Direct = echoes(w.direct[i+1], d)
		t.Hops = append(t.Hops, h)
	}
	t.Destination = echoes(w.lost, w.rtt)
	return t
}

func echoes(lost int, rtt time.Duration) *trace.Sampled {
	return &trace.Sampled{Sent: 100, Received: 100 - lost, Loss: float64(lost) / 100, Method: "icmp",
		Min: millis.Of(rtt), Median: millis.Of(rtt + 300*time.Microsecond), P95: millis.Of(rtt + time.Millisecond), Max: millis.Of(rtt + 2*time.Millisecond)}
}
