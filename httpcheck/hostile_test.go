package httpcheck

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/http2"
)

// afterRequest reads one request, then lets f write whatever it likes.
func afterRequest(f func(c net.Conn)) serveFunc {
	return func(_ int, c net.Conn) {
		if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
			f(c)
		}
	}
}

// endless writes s until the client has had enough.
func endless(c io.Writer, s string) {
	chunk := []byte(strings.Repeat(s, 1+4096/len(s)))
	for {
		if _, err := c.Write(chunk); err != nil {
			return
		}
	}
}

func TestHostileHTTP1(t *testing.T) {
	write := func(s string) func(net.Conn) { return func(c net.Conn) { io.WriteString(c, s) } }
	tests := []struct {
		name        string
		f           func(c net.Conn)
		phase, kind string // of the failure; empty for none
		truncated   string
	}{
		{"closed without an answer", func(net.Conn) {}, "wait", "closed", ""},
		{"closed within the header", write("HTTP/1.1 200 OK\r\nA: b"), "wait", "closed", ""},
		{"reset", func(c net.Conn) { c.(*net.TCPConn).SetLinger(0) }, "wait", "reset", ""},
		{"another protocol", write("SSH-2.0-OpenSSH_9.9\r\n"), "wait", "protocol", ""},
		{"binary", write("\x16\x03\x01\x02\x00\x01\x00\r\n\r\n"), "wait", "protocol", ""},
		{"endless noise", func(c net.Conn) { endless(c, "x") }, "wait", "protocol", ""},
		{"endless line", func(c net.Conn) {
			io.WriteString(c, "HTTP/1.1 200 ")
			endless(c, "x")
		}, "wait", "too-large", ""},
		{"endless header", func(c net.Conn) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\n")
			endless(c, "A: b\r\n")
		}, "wait", "too-large", ""},
		{"endless interim responses", func(c net.Conn) { endless(c, "HTTP/1.1 103 Early Hints\r\n\r\n") }, "wait", "protocol", ""},
		{"body shorter than said", write("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc"), "receive", "closed", ""},
		{"body longer than said", write("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nabc"), "", "", ""},
		{"two lengths", write("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"), "wait", "protocol", ""},
		{"negative length", write("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\nab"), "wait", "protocol", ""},
		{"bad chunk", write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"), "receive", "protocol", ""},
		{"endless chunk extension", func(c net.Conn) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;")
			endless(c, "x")
		}, "receive", "protocol", ""},
		{"endless trailer", func(c net.Conn) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n")
			endless(c, "A: b\r\n")
		}, "receive", "protocol", ""},
		{"endless body", func(c net.Conn) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n")
			endless(c, "x")
		}, "", "", "size"},
		{"endless chunks", func(c net.Conn) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
			endless(c, "1\r\nx\r\n")
		}, "", "", "size"},
		{"endless length", func(c net.Conn) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 9223372036854775807\r\n\r\n")
			endless(c, "x")
		}, "", "", "size"},
		{"upgrade nobody asked for", write("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\nxyz"), "", "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := serve(t, afterRequest(tt.f))
			o := options(s.url("http", "/"))
			o.MaxBody, o.MaxHeader = 1<<20, 16<<10
			o.PerConnection = 2
			r := run(t, o)
			x := &r.Samples[0].Exchanges[0]
			var phase, kind string
			if x.Failure != nil {
				phase, kind = x.Failure.Phase, x.Failure.Kind
				if x.Failure.Text == "" || !x.Failure.After.Known() {
					t.Errorf("failure says too little: %+v", x.Failure)
				}
			}
			if diff := cmp.Diff([]string{tt.phase, tt.kind, tt.truncated}, []string{phase, kind, x.Truncated}); diff != "" {
				t.Errorf("phase, kind, truncated (-want +got):\n%s\n%+v", diff, x.Failure)
			}
			if tt.phase == "wait" && x.Phases.Wait.Known() {
				t.Errorf("wait: got %v for a phase that did not finish", x.Phases.Wait)
			}
			if !x.Phases.Connect.Known() || !x.Phases.Send.Known() {
				t.Errorf("the phases that finished are missing: %+v", x.Phases)
			}
			if x.Bytes > o.MaxBody {
				t.Errorf("read %d bytes, more than %d", x.Bytes, o.MaxBody)
			}
		})
	}
}

// Terminal escapes in a header are no reason not to measure the page.
func TestControlCharactersInHeaders(t *testing.T) {
	const evil = "evil\x1b[31m\x00\x07<b>"
	const want = "evil?[31m??<b>"
	t.Run("http/1.1", func(t *testing.T) {
		s := serve(t, answer(func(_, n int, _ *http.Request) string {
			return ok("x", "Server: "+evil+"\r\n", "Location: /"+evil+"\r\n")
		}))
		o := options(s.url("http", "/"))
		o.PerConnection = 2
		r := run(t, o)
		if r.Failure != nil || r.Samples[0].Exchanges[0].ServerHeader != want || r.Summary.Warm != 1 {
			t.Errorf("failure %+v, server %q, want %q", r.Failure, r.Samples[0].Exchanges[0].ServerHeader, want)
		}
	})
	t.Run("h2", func(t *testing.T) {
		o, _ := frames(t, func(fr *http2.Framer, b func(...string) []byte, _ net.Conn) {
			fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: b(":status", "200", "server", evil), EndHeaders: true, EndStream: true})
		})
		x := onlyExchange(t, run(t, o))
		if x.Failure != nil || x.ServerHeader != want {
			t.Errorf("failure %+v, server %q, want %q", x.Failure, x.ServerHeader, want)
		}
	})
}

func TestGzipBombIsNotDecoded(t *testing.T) {
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	z.Write(make([]byte, 50<<20))
	z.Close()
	s := serve(t, answer(func(_, _ int, _ *http.Request) string { return ok(bomb.String(), "Content-Encoding: gzip\r\n") }))
	x := onlyExchange(t, run(t, options(s.url("http", "/"))))
	if x.Bytes != int64(bomb.Len()) || x.ContentEncoding != "gzip" {
		t.Errorf("got %d bytes, encoding %q, want %d as sent", x.Bytes, x.ContentEncoding, bomb.Len())
	}
}

// What a server sends without end is not kept.
func TestEndlessBodyTakesNoMemory(t *testing.T) {
	s := serve(t, afterRequest(func(c net.Conn) {
		io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n")
		endless(c, "x")
	}))
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	x := onlyExchange(t, run(t, options(s.url("http", "/"))))
	runtime.ReadMemStats(&after)
	if x.Bytes != 32<<20 {
		t.Errorf("read %d bytes, want the default bound", x.Bytes)
	}
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 8<<20 {
		t.Errorf("allocated %d bytes", grown)
	}
}

func TestTimeouts(t *testing.T) {
	hang := func(s *server) func(net.Conn) { return func(net.Conn) { s.pause(time.Minute) } }
	const short = 120 * time.Millisecond
	t.Run("tls", func(t *testing.T) {
		s := newServer(t)
		s.start(func(_ int, c net.Conn) { hang(s)(c) })
		o := options(s.url("https", "/"))
		o.TLSTimeout = short
		wantFailure(t, run(t, o), "tls", "timeout")
	})
	t.Run("wait", func(t *testing.T) {
		s := newServer(t)
		s.start(afterRequest(func(c net.Conn) { hang(s)(c) }))
		o := options(s.url("http", "/"))
		o.WaitTimeout = short
		wantFailure(t, run(t, o), "wait", "timeout")
	})
	t.Run("header that drips", func(t *testing.T) {
		s := newServer(t)
		s.start(afterRequest(func(c net.Conn) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\n")
			for range 100 {
				io.WriteString(c, "A: b\r\n")
				s.pause(20 * time.Millisecond)
			}
		}))
		o := options(s.url("http", "/"))
		o.WaitTimeout = short
		wantFailure(t, run(t, o), "wait", "timeout")
	})
	t.Run("body stalls", func(t *testing.T) {
		s := newServer(t)
		s.start(afterRequest(func(c net.Conn) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc")
			hang(s)(c)
		}))
		o := options(s.url("http", "/"))
		o.StallTimeout = short
		r := run(t, o)
		wantFailure(t, r, "receive", "timeout")
		x := onlyExchange(t, r)
		if x.Bytes != 3 || x.Status != 200 || !x.Phases.Wait.Known() || x.Phases.Receive.Known() || x.Phases.Total.Known() {
			t.Errorf("what is known of a stalled body: %+v", x)
		}
	})
	t.Run("body drips for ever", func(t *testing.T) {
		s := newServer(t)
		s.start(afterRequest(func(c net.Conn) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n")
			for range 1000 {
				if _, err := io.WriteString(c, "x"); err != nil {
					return
				}
				s.pause(20 * time.Millisecond)
			}
		}))
		o := options(s.url("http", "/"))
		o.BodyTime = 3 * short
		x := onlyExchange(t, run(t, o))
		if x.Truncated != "time" || x.Failure != nil {
			t.Errorf("got truncated %q, failure %+v", x.Truncated, x.Failure)
		}
		within(t, "receive", x.Phases.Receive, 3*short)
	})
	t.Run("resolver", func(t *testing.T) {
		o := options("http://www.example.com/")
		o.Addrs = nil
		o.Resolver = func(context.Context, string) ([]netip.Addr, error) {
			return nil, &net.DNSError{Err: "i/o timeout", Name: "www.example.com", IsTimeout: true}
		}
		wantFailure(t, run(t, o), "resolve", "dns")
	})
}

func wantFailure(t *testing.T, r *Result, phase, kind string) {
	t.Helper()
	f := r.Failure
	if f == nil {
		t.Fatalf("no failure, want %s %s", phase, kind)
	}
	if f.Phase != phase || f.Kind != kind || f.Text == "" || !f.After.Known() {
		t.Errorf("failure: got %+v, want %s %s", f, phase, kind)
	}
	for _, s := range r.Samples {
		if s.Exchanges[0].Phases.Total.Known() {
			t.Errorf("a failed exchange has a total")
		}
	}
}

func TestCancelReturnsAtOnce(t *testing.T) {
	cert, pool := goodCertificate(t)
	tests := []struct {
		name, scheme string
		phases       string // in one of which it is when the cancel comes
		serve        func(s *server, reached func()) serveFunc
	}{
		{"tls", "https", "tls", func(s *server, reached func()) serveFunc {
			return func(_ int, c net.Conn) {
				c.Read(make([]byte, 1)) // the ClientHello
				reached()
				s.pause(time.Minute)
			}
		}},
		{"wait", "http", "wait", func(s *server, reached func()) serveFunc {
			return afterRequest(func(net.Conn) { reached(); s.pause(time.Minute) })
		}},
		{"wait over h2", "https", "wait", func(s *server, reached func()) serveFunc {
			return overH2(cert, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached(); s.pause(time.Minute) }))
		}},
		{"receive", "http", "wait receive", func(s *server, reached func()) serveFunc {
			return afterRequest(func(c net.Conn) {
				io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nx")
				reached()
				s.pause(time.Minute)
			})
		}},
		{"endless body", "http", "wait receive", func(s *server, reached func()) serveFunc {
			return afterRequest(func(c net.Conn) {
				io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n")
				reached()
				endless(c, "x")
			})
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var at atomic.Int64
			s := newServer(t)
			s.start(tt.serve(s, func() { at.Store(time.Now().UnixNano()); cancel() }))
			o := options(s.url(tt.scheme, "/"))
			o.RootCAs, o.MaxBody = pool, 1<<50
			r, err := Run(ctx, o)
			took := time.Since(time.Unix(0, at.Load()))
			if !errors.Is(err, context.Canceled) {
				t.Errorf("error: got %v, want canceled", err)
			}
			if took > 2*time.Second {
				t.Errorf("returned %v after the cancel", took)
			}
			x := onlyExchange(t, r)
			if x.Failure == nil || x.Failure.Kind != "canceled" || !strings.Contains(tt.phases, x.Failure.Phase) {
				t.Errorf("failure: got %+v, want canceled in %s", x.Failure, tt.phases)
			}
			if !x.Phases.Connect.Known() {
				t.Error("the connect that finished is missing")
			}
		})
	}
}

func TestConnectFailures(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := ln.Addr().(*net.TCPAddr).Port
	ln.Close()
	url := fmt.Sprintf("http://www.example.com:%d/", port)
	t.Run("refused", func(t *testing.T) {
		o := options(url)
		o.Cold = 5
		r := run(t, o)
		wantFailure(t, r, "connect", "refused")
		if r.Requests != 0 || len(r.Samples) > 5 {
			t.Errorf("%d requests, %d samples", r.Requests, len(r.Samples))
		}
		a := r.Samples[0].Exchanges[0].Attempts
		if len(a) != 1 || a[0].Kind != "refused" || a[0].Won {
			t.Errorf("attempts: %+v", a)
		}
	})
	t.Run("no route for the source", func(t *testing.T) {
		o := options(url)
		o.Source = netip.MustParseAddr("2001:db8::1")
		wantFailure(t, run(t, o), "connect", "unreachable")
	})
	t.Run("no address of the family", func(t *testing.T) {
		o := options(url)
		o.Family = IPv6
		wantFailure(t, run(t, o), "resolve", "dns")
	})
	t.Run("no such name", func(t *testing.T) {
		o := options(url)
		o.Addrs = nil
		o.Resolver = func(context.Context, string) ([]netip.Addr, error) {
			return nil, &net.DNSError{Err: "no such host", Name: "www.example.com", IsNotFound: true}
		}
		o.Cold = 5
		r := run(t, o)
		wantFailure(t, r, "resolve", "nxdomain")
		if len(r.Samples) != 1 {
			t.Errorf("asked %d times", len(r.Samples))
		}
	})
}
