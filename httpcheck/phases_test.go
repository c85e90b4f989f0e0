package httpcheck

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/whyslow/whyslow/internal/millis"
)

func TestThinkTimeIsWait(t *testing.T) {
	s := newServer(t)
	s.start(answer(func(_, _ int, _ *http.Request) string {
		s.pause(80 * time.Millisecond)
		return ok("hello", "Server: Apache\r\n", "Server-Timing: app;dur=80\r\n", "Content-Type: text/html\r\n")
	}))
	r := run(t, options(s.url("http", "/")))
	x := onlyExchange(t, r)
	within(t, "wait", x.Phases.Wait, 80*time.Millisecond)
	within(t, "total", x.Phases.Total, 87*time.Millisecond) // the resolution given counts
	if x.Phases.Receive.Duration() > 40*time.Millisecond {
		t.Errorf("receive: got %v, want little", x.Phases.Receive)
	}
	if x.Phases.TLS.Known() {
		t.Errorf("tls: got %v, want unmeasured", x.Phases.TLS)
	}
	if got, want := x.Phases.Resolve, millis.Of(7*time.Millisecond); got != want {
		t.Errorf("resolve: got %v, want what the options gave, %v", got, want)
	}
	type head struct {
		Status                int
		Protocol, Server, Typ string
		Timing                []Timing
		Bytes                 int64
	}
	got := head{x.Status, x.Protocol, x.ServerHeader, x.ContentType, x.ServerTiming, x.Bytes}
	want := head{200, "HTTP/1.1", "Apache", "text/html", []Timing{{Name: "app", Dur: millis.Of(80 * time.Millisecond)}}, 5}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("head (-want +got):\n%s", diff)
	}
}

func TestResolveTimeCountsOnce(t *testing.T) {
	s := serve(t, answer(func(_, _ int, _ *http.Request) string { return ok("") }))
	o := options(s.url("http", "/"))
	o.Cold, o.PerConnection = 2, 2
	r := run(t, o)
	var got []bool
	for _, s := range r.Samples {
		got = append(got, s.Exchanges[0].Phases.Resolve.Known())
	}
	if diff := cmp.Diff([]bool{true, false, false, false}, got); diff != "" {
		t.Errorf("resolve known (-want +got):\n%s", diff)
	}
}

func TestSlowTLS(t *testing.T) {
	cert, pool := goodCertificate(t)
	s := newServer(t)
	reply := answer(func(_, _ int, _ *http.Request) string { return ok("x") })
	inner := overTLS(cert, nil, 0, reply)
	s.start(func(n int, c net.Conn) {
		s.pause(80 * time.Millisecond)
		inner(n, c)
	})
	o := options(s.url("https", "/"))
	o.RootCAs = pool
	x := onlyExchange(t, run(t, o))
	within(t, "tls", x.Phases.TLS, 80*time.Millisecond)
	if x.Phases.Connect.Duration() > 60*time.Millisecond || x.Phases.Wait.Duration() > 60*time.Millisecond {
		t.Errorf("connect %v, wait %v: want little", x.Phases.Connect, x.Phases.Wait)
	}
	if x.TLS == nil || x.TLS.Version != "TLS 1.3" || x.TLS.RoundTrips != 1 || x.TLS.Subject != "www.example.com" {
		t.Errorf("TLS: got %+v", x.TLS)
	}
}

// The tickets that a TLS 1.3 server sends after the handshake are no first byte.
func TestSessionTicketsAreNoFirstByte(t *testing.T) {
	cert, pool := goodCertificate(t)
	for _, version := range []uint16{0x0303, 0x0304} {
		t.Run(fmt.Sprintf("%x", version), func(t *testing.T) {
			s := newServer(t)
			s.start(overTLS(cert, nil, version, answer(func(_, _ int, _ *http.Request) string {
				s.pause(80 * time.Millisecond)
				return ok("x")
			})))
			o := options(s.url("https", "/"))
			o.RootCAs = pool
			x := onlyExchange(t, run(t, o))
			within(t, "wait", x.Phases.Wait, 80*time.Millisecond)
			if want := int(0x0305 - version); x.TLS.RoundTrips != want {
				t.Errorf("round trips: got %d, want %d", x.TLS.RoundTrips, want)
			}
		})
	}
}

// The first byte of a TLS response is stamped when it arrives, not when its
// record is complete.
func TestFirstByteInsideRecord(t *testing.T) {
	cert, pool := goodCertificate(t)
	reply := overTLS(cert, nil, 0, answer(func(_, _ int, _ *http.Request) string { return ok(strings.Repeat("x", 8000)) }))
	s := newServer(t)
	s.start(func(n int, c net.Conn) { reply(n, slowTail{c, s}) })
	o := options(s.url("https", "/"))
	o.RootCAs = pool
	x := onlyExchange(t, run(t, o))
	if x.Phases.Wait.Duration() > 150*time.Millisecond {
		t.Errorf("wait: got %v, want little", x.Phases.Wait)
	}
	within(t, "receive", x.Phases.Receive, 200*time.Millisecond)
}

// slowTail delays the second half of each large write.
type slowTail struct {
	net.Conn
	s *server
}

func (c slowTail) Write(p []byte) (int, error) {
	if len(p) < 4000 {
		return c.Conn.Write(p)
	}
	n, err := c.Conn.Write(p[:len(p)/2])
	if err != nil {
		return n, err
	}
	c.s.pause(200 * time.Millisecond)
	m, err := c.Conn.Write(p[n:])
	return n + m, err
}

func TestInterimResponsesAreNoFirstByte(t *testing.T) {
	t.Run("http/1.1", func(t *testing.T) {
		s := newServer(t)
		s.start(func(_ int, c net.Conn) {
			if _, err := http.ReadRequest(bufio.NewReader(c)); err != nil {
				return
			}
			io.WriteString(c, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n")
			s.pause(80 * time.Millisecond)
			io.WriteString(c, ok("x"))
		})
		x := onlyExchange(t, run(t, options(s.url("http", "/"))))
		within(t, "wait", x.Phases.Wait, 80*time.Millisecond)
		if x.Interim != 2 || x.Status != 200 {
			t.Errorf("got %d interim responses and status %d, want 2 and 200", x.Interim, x.Status)
		}
	})
	t.Run("h2", func(t *testing.T) {
		cert, pool := goodCertificate(t)
		s := newServer(t)
		s.start(overH2(cert, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(103)
			s.pause(80 * time.Millisecond)
			io.WriteString(w, "x")
		})))
		o := options(s.url("https", "/"))
		o.RootCAs = pool
		x := onlyExchange(t, run(t, o))
		within(t, "wait", x.Phases.Wait, 80*time.Millisecond)
		if x.Interim != 1 || x.Status != 200 || x.Protocol != "HTTP/2" {
			t.Errorf("got %d interim responses, status %d, %s", x.Interim, x.Status, x.Protocol)
		}
	})
}

func TestHTTP2KeepAlive(t *testing.T) {
	cert, pool := goodCertificate(t)
	body := strings.Repeat("x", 300_000)
	s := serve(t, overH2(cert, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Server", r.Header.Get("X-Echo"))
		w.Header().Set("Trailer", "X-T")
		io.WriteString(w, body)
		w.Header().Set("X-T", "1")
	})))
	o := options(s.url("https", "/?a=b"))
	o.RootCAs, o.Cold, o.PerConnection = pool, 2, 3
	o.Header = http.Header{"x-echo": {strings.Repeat("e", 200)}}
	r := run(t, o)
	var got []string
	for _, s := range r.Samples {
		x := s.Exchanges[0]
		got = append(got, fmt.Sprintf("%d/%d %s %d %d %v", x.Connection, x.Request, x.Protocol, x.Status, x.Bytes, s.Failure))
		if len(x.ServerHeader) != 200 {
			t.Errorf("the request header did not arrive: %q", x.ServerHeader)
		}
	}
	want := []string{
		"1/1 HTTP/2 200 300000 <nil>", "1/2 HTTP/2 200 300000 <nil>", "1/3 HTTP/2 200 300000 <nil>",
		"2/1 HTTP/2 200 300000 <nil>", "2/2 HTTP/2 200 300000 <nil>", "2/3 HTTP/2 200 300000 <nil>",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("samples (-want +got):\n%s", diff)
	}
}

func TestOncePerConnectionCosts(t *testing.T) {
	const slow = 150 * time.Millisecond
	tests := []struct {
		name  string
		delay func(request int) bool
		check func(s *Summary) string
	}{
		{"first request of each connection", func(n int) bool { return n == 1 }, func(s *Summary) string {
			if s.ColdServer.Duration() >= slow && s.WarmServer.Duration() < slow/2 && s.SecondServer.Duration() < slow/2 {
				return ""
			}
			return "want cold slow, the rest fast"
		}},
		{"log line after the first response", func(n int) bool { return n == 2 }, func(s *Summary) string {
			if s.SecondServer.Duration() >= slow && s.WarmServer.Duration() < slow/2 && s.ColdServer.Duration() < slow/2 {
				return ""
			}
			return "want the second slow, the rest fast"
		}},
		{"every request", func(int) bool { return true }, func(s *Summary) string {
			if s.ColdServer.Duration() >= slow && s.WarmServer.Duration() >= slow && s.SecondServer.Duration() >= slow {
				return ""
			}
			return "want all slow"
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newServer(t)
			s.start(answer(func(_, n int, _ *http.Request) string {
				if tt.delay(n) {
					s.pause(slow)
				}
				return ok("x")
			}))
			o := options(s.url("http", "/"))
			o.Cold, o.PerConnection = 3, 3
			o.Budget = 10 * time.Second
			r := run(t, o)
			if len(r.Summary.ByRequest) != 3 || r.Summary.ByRequest[1].Request != 2 || r.Summary.ByRequest[1].Count != 3 {
				t.Errorf("by request: got %+v", r.Summary.ByRequest)
			}
			if tcpInfoMissing(r) {
				t.Skip("no TCP_INFO here: the server's part is unknown")
			}
			if msg := tt.check(&r.Summary); msg != "" {
				t.Errorf("cold %v, second %v, warm %v: %s", r.Summary.ColdServer, r.Summary.SecondServer, r.Summary.WarmServer, msg)
			}
		})
	}
}

func tcpInfoMissing(r *Result) bool { return r.Samples[0].Exchanges[0].TCP == nil }

func TestDripIsSeen(t *testing.T) {
	s := newServer(t)
	s.start(func(_ int, c net.Conn) {
		if _, err := http.ReadRequest(bufio.NewReader(c)); err != nil {
			return
		}
		fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: 80\r\n\r\n")
		for range 8 {
			s.pause(30 * time.Millisecond)
			io.WriteString(c, "0123456789")
		}
	})
	r := run(t, options(s.url("http", "/")))
	x := onlyExchange(t, r)
	within(t, "receive", x.Phases.Receive, 240*time.Millisecond)
	if x.Gaps.Pauses < 6 || x.Gaps.PausedTotal.Duration() < 150*time.Millisecond {
		t.Errorf("gaps: got %+v", *x.Gaps)
	}
	if !tcpInfoMissing(r) && r.Body.Class != "drip" {
		t.Errorf("body: got %+v, want drip", r.Body)
	}
}

// A body that only the end of the connection ends is waited for to that end.
func TestBodyUntilClose(t *testing.T) {
	s := newServer(t)
	s.start(func(_ int, c net.Conn) {
		if _, err := http.ReadRequest(bufio.NewReader(c)); err != nil {
			return
		}
		io.WriteString(c, "HTTP/1.0 200 OK\r\n\r\nbody")
		s.pause(80 * time.Millisecond)
	})
	o := options(s.url("http", "/"))
	o.Cold, o.PerConnection = 2, 3
	r := run(t, o)
	if len(r.Samples) != 2 || r.Samples[1].Failure != nil {
		t.Fatalf("got %d samples, want one a connection", len(r.Samples))
	}
	x := r.Samples[0].Exchanges[0]
	within(t, "receive", x.Phases.Receive, 80*time.Millisecond)
	if x.Bytes != 4 || x.Protocol != "HTTP/1.0" {
		t.Errorf("got %d bytes, %s", x.Bytes, x.Protocol)
	}
}

func TestMethodsAndHeaders(t *testing.T) {
	type seen struct{ Method, URI, Host, Auth, Encoding, Agent, Length string }
	for _, method := range []string{"GET", "HEAD", "POST", "OPTIONS"} {
		t.Run(method, func(t *testing.T) {
			got := make(chan seen, 1)
			s := serve(t, answer(func(_, _ int, r *http.Request) string {
				got <- seen{r.Method, r.RequestURI, r.Host, r.Header.Get("Authorization"),
					r.Header.Get("Accept-Encoding"), r.Header.Get("User-Agent"), r.Header.Get("Content-Length")}
				if r.Method == "HEAD" {
					return "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"
				}
				return ok("x")
			}))
			o := options(strings.Replace(s.url("http", "/p?q=1#f"), "://", "://user:p%20w@", 1))
			o.Method = method
			o.Header = http.Header{"Host": {"other.example"}, "Connection": {"close"}}
			r := run(t, o)
			x := onlyExchange(t, r)
			if x.Failure != nil || !x.Phases.Wait.Known() || !x.Phases.Send.Known() {
				t.Errorf("exchange: %+v", x)
			}
			want := seen{method, "/p?q=1", "other.example", "Basic dXNlcjpwIHc=", "identity", "whyslow", ""}
			if method == "POST" {
				want.Length = "0"
			}
			if diff := cmp.Diff(want, <-got); diff != "" {
				t.Errorf("request (-want +got):\n%s", diff)
			}
			b, err := json.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			for _, secret := range []string{"user", "p%20w", "p w", "dXNl"} {
				if strings.Contains(string(b), secret) {
					t.Errorf("the result shows %q", secret)
				}
			}
		})
	}
}

func TestServerClosingKeepAliveIsNotRetried(t *testing.T) {
	s := serve(t, answer(func(_, n int, _ *http.Request) string {
		if n > 1 {
			return "" // closes
		}
		return ok("x")
	}))
	o := options(s.url("http", "/"))
	o.Cold, o.PerConnection = 2, 3
	r := run(t, o)
	var got []string
	for _, s := range r.Samples {
		kind := ""
		if s.Failure != nil {
			kind = s.Failure.Phase + " " + s.Failure.Kind
		}
		got = append(got, fmt.Sprintf("%d/%d %s", s.Connection, s.Request, kind))
	}
	if diff := cmp.Diff([]string{"1/1 ", "1/2 wait closed", "2/1 ", "2/2 wait closed"}, got); diff != "" {
		t.Errorf("samples (-want +got):\n%s", diff)
	}
	if r.Requests != 4 || r.Failure != nil || r.Summary.Cold != 2 || r.Summary.Warm != 0 {
		t.Errorf("requests %d, failure %v, summary %+v", r.Requests, r.Failure, r.Summary)
	}
}

func TestMaxRequests(t *testing.T) {
	s := serve(t, answer(func(_, _ int, _ *http.Request) string { return ok("x") }))
	o := options(s.url("http", "/"))
	o.Cold, o.PerConnection, o.MaxRequests, o.Reserve = 5, 3, 7, 2
	r := run(t, o)
	if r.Requests != 5 {
		t.Errorf("got %d requests, want the 5 that the reserve leaves", r.Requests)
	}
	o.NoControls = false
	o.Cold, o.PerConnection = 0, 0
	o.MaxRequests, o.Reserve = 0, 0
	if r := run(t, o); r.Requests > 25 || len(r.Samples) != 15 {
		t.Errorf("defaults: got %d requests and %d samples, want at most 25 and 15", r.Requests, len(r.Samples))
	}
}
