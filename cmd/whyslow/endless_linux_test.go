package main

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/whyslow/whyslow/internal/netlab/servers"
)

// mostMemory is what the program may take, whatever it is sent. MiB; the race
// detector takes several times what the program does.
const mostMemory = 300

// answering serves connections on port 80 by hand: each request is answered by
// f.
func (l *lab) answering(t *testing.T, f func(io.Writer)) {
	t.Helper()
	ln, err := l.web.Listen("tcp", webAddr.String()+":80")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var open []net.Conn
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open = append(open, c)
			mu.Unlock()
			wg.Go(func() {
				defer func() { _ = c.Close() }()
				for br := bufio.NewReader(c); ; {
					if _, err := http.ReadRequest(br); err != nil {
						return
					}
					f(c)
				}
			})
		}
	})
	t.Cleanup(func() {
		_ = ln.Close()
		mu.Lock()
		for _, c := range open {
			_ = c.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
}

// endlessly writes s until the client has had enough.
func endlessly(w io.Writer, begin, s string) {
	if _, err := io.WriteString(w, begin); err != nil {
		return
	}
	for chunk := strings.Repeat(s, 1+8192/len(s)); ; {
		if _, err := io.WriteString(w, chunk); err != nil {
			return
		}
	}
}

// Whatever a server sends without end is given up after a bounded time, with
// bounded memory, and the report says in one line what it was.
func TestEndlessAnswersEnd(t *testing.T) {
	routes := func(r map[string]servers.Route) func(*testing.T, *lab) {
		return func(t *testing.T, l *lab) { l.serveHTTP(t, servers.HTTPConfig{Routes: r}) }
	}
	byHand := func(begin, s string) func(*testing.T, *lab) {
		return func(t *testing.T, l *lab) { l.answering(t, func(w io.Writer) { endlessly(w, begin, s) }) }
	}
	root := func(r servers.Route) func(*testing.T, *lab) { return routes(map[string]servers.Route{"/": r}) }
	tests := []struct {
		name   string
		serve  func(*testing.T, *lab)
		status int
		says   string // somewhere in the text
		within time.Duration
	}{
		{"body", root(servers.Route{Fault: servers.EndlessBody}), 0, "longer than 32 MiB", 15 * time.Second},
		{"body that drips", root(servers.Route{Fault: servers.EndlessBody, Pace: servers.Pace{Every: 20 * time.Millisecond}}), 0, "still coming after 20 s", 60 * time.Second},
		{"gzip bomb", root(servers.Route{Fault: servers.GzipBomb}), 0, "longer than 32 MiB", 15 * time.Second},
		{"headers", root(servers.Route{Fault: servers.EndlessHeaders}), 4, "header exceeds", 5 * time.Second},
		{"header line", byHand("HTTP/1.1 200 OK\r\nX: ", "x"), 4, "header exceeds", 5 * time.Second},
		{"interim responses", byHand("", "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"), 4, "interim (1xx) responses without end", 5 * time.Second},
		{"chunks", byHand("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "1\r\nx\r\n"), 0, "longer than 32 MiB", 40 * time.Second},
		{"trailers", byHand("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", "A: b\r\n"), 4, "", 5 * time.Second},
		{"noise", byHand("", "x"), 4, "not HTTP", 5 * time.Second},
		{"redirect to itself", root(servers.Route{Redirect: "/"}), 4, "redirects in a circle", 5 * time.Second},
		{"redirects in a circle", routes(map[string]servers.Route{"/": {Redirect: "/a"}, "/a": {Redirect: "/b"}, "/b": {Redirect: "/a"}}), 4, "redirects in a circle", 5 * time.Second},
		{"redirects that never repeat", func(t *testing.T, l *lab) {
			n := 0
			var mu sync.Mutex
			l.answering(t, func(w io.Writer) {
				mu.Lock()
				defer mu.Unlock()
				n++
				_, _ = io.WriteString(w, "HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: /"+strings.Repeat("x", n)+"\r\n\r\n")
			})
		}, 4, "more than 10 redirects", 5 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := newLab(t, 4*time.Millisecond)
			l.serveDNS(t, zones())
			tt.serve(t, l)
			began := time.Now()
			p, forms := l.forms(t, "report", "http://"+site+"/")
			took := p.ended.Sub(began)
			requests := int64(0)
			if l.http != nil {
				requests = l.http.Requests()
			}
			line, _, _ := strings.Cut(forms["text"], "\n\n")
			t.Logf("%v, %d MiB, %d requests, status %d: %s", took.Round(10*time.Millisecond), p.memory(), requests, p.status(), line)
			if took > 2*tt.within { // twice: other tests run too
				t.Errorf("took %v", took)
			}
			if m := p.memory(); m > mostMemory {
				t.Errorf("took %d MiB", m)
			}
			if p.status() != tt.status {
				t.Errorf("status %d, want %d; stderr %q", p.status(), tt.status, forms["stderr"])
			}
			if !strings.Contains(strings.Join(strings.Fields(forms["text"]), " "), tt.says) {
				t.Errorf("does not say %q:\n%s", tt.says, forms["text"])
			}
			for form, out := range forms {
				if err := harmless(form, out); err != "" {
					t.Errorf("%s: %s", form, err)
				}
			}
		})
	}
}
