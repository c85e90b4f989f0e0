package httpcheck

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/whyslow/whyslow/internal/millis"
)

// lines records the request lines a server saw.
type lines struct {
	mu   sync.Mutex
	seen []string
}

func (l *lines) add(r *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen = append(l.seen, r.Method+" "+r.RequestURI)
}

func client(t *testing.T, o Options) *Client {
	t.Helper()
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestControlsAskForTheRightThing(t *testing.T) {
	var l lines
	s := newServer(t)
	s.start(answer(func(_, _ int, r *http.Request) string {
		l.add(r)
		if r.RequestURI == "/favicon.ico" {
			s.pause(50 * time.Millisecond)
		}
		return ok("x")
	}))
	o := options(s.url("http", "/page?q=1"))
	o.Header = http.Header{"X-Api-Key": {"k"}}
	c := client(t, o)
	for _, name := range []string{"static", "not-found", "options", "ipv4"} {
		ctl, err := c.Control(t.Context(), name)
		if err != nil || ctl.Name != name || ctl.Why == "" || ctl.Exchange.Failure != nil || ctl.Exchange.Status != 200 {
			t.Errorf("%s: %v, %+v", name, err, ctl)
		}
		if name == "static" && (!strings.HasSuffix(ctl.Exchange.URL, "/robots.txt") || len(ctl.Runs) != 1) {
			t.Errorf("static chose %s of %d", ctl.Exchange.URL, 1+len(ctl.Runs))
		}
	}
	got := l.seen
	if len(got) != 5 || !strings.HasPrefix(got[2], "GET /whyslow-") || len(got[2]) < 30 {
		t.Fatalf("requests: %q", got)
	}
	got[2] = "GET /random"
	if diff := cmp.Diff([]string{"GET /favicon.ico", "GET /robots.txt", "GET /random", "OPTIONS *", "GET /page?q=1"}, got); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	if c.Requests() != 5 {
		t.Errorf("counted %d requests", c.Requests())
	}
	if ctl, err := c.Control(t.Context(), "ipv6"); err != nil || ctl.Exchange.Failure == nil || ctl.Exchange.Failure.Phase != "resolve" {
		t.Errorf("ipv6 without an address: %v, %+v", err, ctl.Exchange.Failure)
	}
	if _, err := c.Control(t.Context(), "nonsense"); err == nil {
		t.Error("an unknown control was run")
	}
}

func TestOptionsStarOverHTTP2(t *testing.T) {
	paths := make(chan string, 1)
	cert, pool := goodCertificate(t)
	s := serve(t, overH2(cert, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		paths <- r.Method + " " + r.RequestURI
	})))
	o := options(s.url("https", "/page"))
	o.RootCAs = pool
	ctl, err := client(t, o).OptionsStar(t.Context())
	if err != nil || ctl.Exchange.Failure != nil {
		t.Fatalf("%v, %+v", err, ctl.Exchange.Failure)
	}
	if got := <-paths; got != "OPTIONS *" {
		t.Errorf("asked %q", got)
	}
}

func TestControlsGoToTheFinalHost(t *testing.T) {
	var l lines
	b := serve(t, answer(func(_, _ int, r *http.Request) string { l.add(r); return ok("x") }))
	a := serve(t, answer(func(_, _ int, _ *http.Request) string { return redirectTo(b.url("http", "/final")) }))
	c := client(t, options(a.url("http", "/")))
	if s, err := c.Fetch(t.Context()); err != nil || s.Failure != nil {
		t.Fatalf("%v, %+v", err, s.Failure)
	}
	if _, err := c.NotFound(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(l.seen) != 2 {
		t.Errorf("the final host saw %q", l.seen)
	}
}

func TestPortControl(t *testing.T) {
	s := serve(t, answer(okAlways))
	other := serve(t, func(int, net.Conn) {})
	c := client(t, options(s.url("http", "/")))
	ctl, err := c.Port(t.Context(), uint16(other.port()))
	if err != nil || ctl.Exchange.Failure != nil || !ctl.Exchange.Phases.Connect.Known() || c.Requests() != 0 {
		t.Errorf("open port: %v, %+v", err, ctl)
	}
	other.ln.Close()
	ctl, err = c.Port(t.Context(), uint16(other.port()))
	if err != nil || ctl.Exchange.Failure == nil || ctl.Exchange.Failure.Kind != "refused" || !ctl.Exchange.Failure.InPhase.Known() {
		t.Errorf("closed port: %v, %+v", err, ctl.Exchange.Failure)
	}
}

func TestCanaryConnectsDuringTheTransfer(t *testing.T) {
	s := newServer(t)
	s.start(afterRequest(func(c net.Conn) {
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nx")
		s.pause(700 * time.Millisecond)
		io.WriteString(c, "y")
	}))
	c := client(t, options(s.url("http", "/")))
	ctl, err := c.Canary(t.Context())
	if err != nil || ctl.Exchange.Failure != nil {
		t.Fatalf("%v, %+v", err, ctl.Exchange.Failure)
	}
	within(t, "transfer", ctl.Exchange.Phases.Receive, 700*time.Millisecond)
	if len(ctl.Runs) < 2 {
		t.Errorf("%d connects", len(ctl.Runs))
	}
	for i, x := range ctl.Runs {
		if !x.Phases.Connect.Known() || i > 0 && x.At.Duration() < ctl.Runs[i-1].At.Duration() {
			t.Errorf("connect %d: %+v", i, x)
		}
	}
	if c.Requests() != 1 {
		t.Errorf("%d requests, want the transfer's one", c.Requests())
	}
}

func TestIdleTimeIsNotMeasured(t *testing.T) {
	cert, pool := goodCertificate(t)
	s := serve(t, overTLS(cert, nil, 0, answer(okAlways)))
	o := options(s.url("https", "/"))
	o.RootCAs = pool
	ctl, err := client(t, o).Idle(t.Context(), 400*time.Millisecond)
	if err != nil || ctl.Exchange.Failure != nil {
		t.Fatalf("%v, %+v", err, ctl.Exchange.Failure)
	}
	if d := ctl.Exchange.Phases.Total.Duration(); d > 300*time.Millisecond {
		t.Errorf("total %v holds the idle time", d)
	}
}

func TestRequestLimitStopsControls(t *testing.T) {
	s := serve(t, answer(okAlways))
	o := options(s.url("http", "/"))
	o.MaxRequests = 1
	c := client(t, o)
	if _, err := c.NotFound(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"static", "not-found", "options", "canary"} {
		if _, err := c.Control(t.Context(), name); err != ErrRequests {
			t.Errorf("%s: got %v, want ErrRequests", name, err)
		}
	}
	if _, err := c.Fetch(t.Context()); err != ErrRequests {
		t.Errorf("Fetch: got %v, want ErrRequests", err)
	}
}

func TestChoose(t *testing.T) {
	slow := millis.Of(300 * time.Millisecond)
	healthy := func() *Result { return &Result{Summary: Summary{Cold: 5}, Body: Body{Class: "clean"}} }
	tests := []struct {
		name string
		r    func(r *Result)
		want []string
	}{
		{"healthy", func(*Result) {}, nil},
		{"slow at first", func(r *Result) { r.Summary.ColdServer = slow }, []string{"static", "not-found", "options"}},
		{"slow at the second", func(r *Result) { r.Summary.ColdServer, r.Summary.SecondServer = millis.Of(0), slow }, []string{"static", "not-found", "options"}},
		{"far, and no TCP_INFO", func(r *Result) { r.Summary.ColdPhases.Wait = slow }, []string{"static", "not-found", "options"}},
		{"slow body", func(r *Result) {
			r.Body.Class = "drip"
			r.Summary.ColdPhases.Receive = millis.Of(time.Second)
		}, []string{"canary"}},
		{"nothing succeeded", func(r *Result) { r.Summary.Cold = 0 }, nil},
		{"stalled", func(r *Result) {
			r.Summary.Cold = 0
			r.Samples = []Sample{{Exchanges: []Exchange{{Failure: &Failure{Phase: "wait", Kind: "timeout"}}}}}
		}, []string{"mss-clamp"}},
		{"stalled, and clamped already", func(r *Result) {
			r.Summary.Cold = 0
			r.Samples = []Sample{{Exchanges: []Exchange{{Failure: &Failure{Phase: "wait", Kind: "timeout"}}}}}
			r.Controls = []Control{{Name: "mss-clamp"}}
		}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := healthy()
			tt.r(r)
			want := tt.want
			if !canClamp && len(want) > 0 && want[0] == "mss-clamp" {
				want = want[1:]
			}
			if diff := cmp.Diff(want, Choose(r)); diff != "" && len(want)+len(Choose(r)) > 0 {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestRunChoosesControls(t *testing.T) {
	s := newServer(t)
	s.start(func(_ int, c net.Conn) {
		br := bufio.NewReader(c)
		for {
			r, err := http.ReadRequest(br)
			if err != nil {
				return
			}
			if r.URL.Path == "/" {
				s.pause(150 * time.Millisecond)
			}
			fmt.Fprint(c, ok("x"))
		}
	})
	o := options(s.url("http", "/"))
	o.Cold, o.NoControls = 2, false
	r := run(t, o)
	var names []string
	for _, c := range r.Controls {
		names = append(names, c.Name)
	}
	if diff := cmp.Diff([]string{"static", "not-found", "options"}, names); diff != "" {
		t.Errorf("controls (-want +got):\n%s", diff)
	}
	if r.Requests != 6 {
		t.Errorf("%d requests", r.Requests)
	}
}
