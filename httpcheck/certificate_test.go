package httpcheck

import (
	"strings"
	"testing"
	"time"
)

func TestCertificates(t *testing.T) {
	now := time.Now()
	hour := func(n int) time.Time { return now.Add(time.Duration(n) * time.Hour) }
	tests := []struct {
		name        string
		from, until time.Time
		names       []string
		trusted     bool
		want        string // part of the text
	}{
		{"expired", hour(-48), hour(-24), []string{"www.example.com"}, true, "www.example.com expired at " + hour(-24).UTC().Format(time.DateOnly)},
		{"not yet valid", hour(24), hour(48), []string{"www.example.com"}, true, "not valid before " + hour(24).UTC().Format(time.DateOnly)},
		{"unknown authority", hour(-1), hour(1), []string{"www.example.com"}, false, "unknown authority"},
		{"another name", hour(-1), hour(1), []string{"other.example"}, true, "is for other.example, not for www.example.com"},
		{"many names", hour(-1), hour(1), []string{"a.example", "b.example", "c.example", "d.example", "e.example", "f.example"}, true, "d.example and 2 more"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cert, pool := certificate(t, tt.from, tt.until, tt.names...)
			if !tt.trusted {
				_, pool = goodCertificate(t)
			}
			s := serve(t, overTLS(cert, nil, 0, answer(noRequest(t))))
			o := options(s.url("https", "/"))
			o.RootCAs, o.Cold = pool, 5
			r := run(t, o)
			wantFailure(t, r, "tls", "certificate")
			if !strings.Contains(r.Failure.Text, tt.want) {
				t.Errorf("text %q does not say %q", r.Failure.Text, tt.want)
			}
			x := onlyExchange(t, r)
			if !x.Phases.Connect.Known() || x.Phases.TLS.Known() {
				t.Errorf("phases: %+v", x.Phases)
			}
			if x.TLS == nil || !x.TLS.NotAfter.Equal(tt.until.UTC().Truncate(time.Second)) {
				t.Errorf("the refused certificate is not described: %+v", x.TLS)
			}
		})
		t.Run(tt.name+", accepted", func(t *testing.T) {
			cert, _ := certificate(t, tt.from, tt.until, tt.names...)
			s := serve(t, overTLS(cert, nil, 0, answer(okAlways)))
			o := options(s.url("https", "/"))
			o.Insecure = true
			if r := run(t, o); r.Failure != nil {
				t.Errorf("failure: %+v", r.Failure)
			}
		})
	}
}

func TestNotTLS(t *testing.T) {
	s := serve(t, afterRequest(nil)) // plain HTTP, which no ClientHello satisfies
	r := run(t, options(s.url("https", "/")))
	if r.Failure == nil || r.Failure.Phase != "tls" {
		t.Errorf("failure: %+v", r.Failure)
	}
}
