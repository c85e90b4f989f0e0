package httpcheck

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestRedirectsEachWithTheirPhases(t *testing.T) {
	cert, pool := goodCertificate(t)
	b := newServer(t)
	b.start(overTLS(cert, nil, 0, answer(func(_, _ int, r *http.Request) string {
		if r.URL.Path == "/new" {
			return redirectTo("/newer?x=1#frag")
		}
		b.pause(60 * time.Millisecond)
		return ok("page")
	})))
	a := serve(t, answer(func(_, _ int, _ *http.Request) string { return redirectTo(b.url("https", "/new")) }))
	o := options(a.url("http", "/old"))
	o.RootCAs, o.Cold, o.PerConnection = pool, 2, 3
	r := run(t, o)

	var got []string
	for _, s := range r.Samples {
		line := fmt.Sprintf("cold=%v", s.Cold)
		for _, x := range s.Exchanges {
			line += fmt.Sprintf(" | %d/%d %d connect=%v tls=%v", x.Connection, x.Request, x.Status, x.Phases.Connect.Known(), x.Phases.TLS.Known())
		}
		got = append(got, line)
	}
	want := []string{
		"cold=true | 1/1 302 connect=true tls=false | 2/1 302 connect=true tls=true | 2/2 200 connect=false tls=false",
		"cold=false | 1/2 302 connect=false tls=false | 2/3 302 connect=false tls=false | 2/4 200 connect=false tls=false",
		"cold=false | 2/5 200 connect=false tls=false",
		"cold=true | 3/1 302 connect=true tls=false | 4/1 302 connect=true tls=true | 4/2 200 connect=false tls=false",
		"cold=false | 4/3 200 connect=false tls=false",
		"cold=false | 4/4 200 connect=false tls=false",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("samples (-want +got):\n%s", diff)
	}
	var steps []string
	for _, s := range r.Summary.Steps {
		steps = append(steps, fmt.Sprintf("%s %d ×%d", s.URL, s.Status, s.Count))
	}
	if diff := cmp.Diff([]string{
		a.url("http", "/old") + " 302 ×2",
		b.url("https", "/new") + " 302 ×2",
		b.url("https", "/newer?x=1") + " 200 ×2",
	}, steps); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	within(t, "cold wait, all steps", r.Summary.ColdPhases.Wait, 60*time.Millisecond)
	if r.Summary.Bytes != 4 {
		t.Errorf("bytes: got %d, want the final body's 4", r.Summary.Bytes)
	}
}

func TestRedirectFailures(t *testing.T) {
	long := strings.Repeat("x", 9000)
	tests := []struct {
		name     string
		location func(s *server, path string) string
		kind     string
		requests int
	}{
		{"to itself", func(_ *server, p string) string { return p }, "redirect-loop", 1},
		{"round in a circle", func(_ *server, p string) string {
			if p == "/" {
				return "/b"
			}
			return "/"
		}, "redirect-loop", 2},
		{"without end", func(_ *server, p string) string { return p + "x" }, "redirect-loop", 11},
		{"other scheme", func(*server, string) string { return "javascript:alert(1)" }, "protocol", 1},
		{"file", func(*server, string) string { return "file:///etc/passwd" }, "protocol", 1},
		{"no host", func(*server, string) string { return "http://" }, "protocol", 1},
		{"not a URL", func(*server, string) string { return "http://[::1" }, "protocol", 1},
		{"escapes", func(*server, string) string { return "http://\x1b[31m\x00/" }, "protocol", 1},
		{"bad port", func(*server, string) string { return "http://www.example.com:99999/" }, "protocol", 1},
		{"too long", func(*server, string) string { return "/" + long }, "too-large", 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newServer(t)
			s.start(answer(func(_, _ int, r *http.Request) string { return redirectTo(tt.location(s, r.URL.Path)) }))
			o := options(s.url("http", "/"))
			o.Cold = 5
			r := run(t, o)
			if r.Failure == nil || r.Failure.Phase != "redirect" || r.Failure.Kind != tt.kind || len(r.Samples) != 1 {
				t.Fatalf("%d samples, failure %+v, want %s", len(r.Samples), r.Failure, tt.kind)
			}
			if r.Requests != tt.requests {
				t.Errorf("got %d requests, want %d", r.Requests, tt.requests)
			}
			if x := r.Samples[0].Exchanges[0]; !x.Phases.Total.Known() || len(x.Location) > 2000 {
				t.Errorf("the redirect itself was answered: %+v", x.Phases)
			}
		})
	}
}

func TestRedirectNotFollowed(t *testing.T) {
	s := serve(t, answer(func(_, _ int, _ *http.Request) string { return redirectTo("/x") }))
	o := options(s.url("http", "/"))
	o.MaxRedirects = -1
	r := run(t, o)
	x := onlyExchange(t, r)
	if r.Failure != nil || x.Status != 302 || x.Location != s.url("http", "/x") {
		t.Errorf("failure %v, status %d, location %q", r.Failure, x.Status, x.Location)
	}
}

func TestSecretsStayWithTheirHost(t *testing.T) {
	type seen struct{ Auth, Cookie, Key, Accept, Host string }
	got := make(chan seen, 10)
	note := func(r *http.Request) {
		got <- seen{r.Header.Get("Authorization"), r.Header.Get("Cookie"), r.Header.Get("X-Api-Key"), r.Header.Get("Accept-Language"), r.Host}
	}
	b := serve(t, answer(func(_, _ int, r *http.Request) string { note(r); return ok("x") }))
	a := serve(t, answer(func(_, _ int, r *http.Request) string {
		note(r)
		if r.URL.Path == "/" {
			return redirectTo("/second")
		}
		return redirectTo(fmt.Sprintf("http://them:selves@www.example.com:%d/", b.port()))
	}))
	o := options(strings.Replace(a.url("http", "/"), "://", "://u:p@", 1))
	o.Header = http.Header{"Cookie": {"c=1"}, "X-Api-Key": {"k"}, "Accept-Language": {"de"}, "Host": {"alias.example"}}
	r := run(t, o)
	if r.Failure != nil {
		t.Fatal(r.Failure)
	}
	own := seen{"Basic dTpw", "c=1", "k", "de", "alias.example"}
	want := []seen{own, own, {Accept: "de", Host: fmt.Sprintf("www.example.com:%d", b.port())}}
	if diff := cmp.Diff(want, []seen{<-got, <-got, <-got}); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	if x := r.Samples[0].Exchanges[1]; strings.Contains(x.Location, "them") {
		t.Errorf("Location shows credentials: %q", x.Location)
	}
}

func TestSeeOtherBecomesGet(t *testing.T) {
	s := serve(t, answer(func(_, _ int, r *http.Request) string {
		if r.URL.Path == "/" {
			return strings.Replace(redirectTo("/done"), "302", "303", 1)
		}
		return ok(r.Method)
	}))
	o := options(s.url("http", "/"))
	o.Method, o.PerConnection = "POST", 3
	r := run(t, o)
	var got []string
	for _, s := range r.Samples {
		for _, x := range s.Exchanges {
			got = append(got, x.Method)
		}
	}
	if diff := cmp.Diff([]string{"POST", "GET", "POST", "GET", "GET"}, got); diff != "" {
		t.Errorf("methods (-want +got):\n%s", diff)
	}
}
