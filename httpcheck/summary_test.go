package httpcheck

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/whyslow/whyslow/internal/millis"
)

func msv(n int) millis.Value { return millis.Of(time.Duration(n) * time.Millisecond) }

// exchangeOf is an exchange at a place on a connection.
func exchangeOf(conn, request, wait, server int) Exchange {
	return Exchange{
		URL: "http://www.example.com/", Connection: conn, Request: request, Remote: "192.0.2.1:80", Status: 200, Bytes: 10,
		Phases:  Phases{Wait: msv(wait), Total: msv(wait + 1)},
		Network: msv(wait - server), Server: msv(server),
	}
}

func TestSummarize(t *testing.T) {
	r := &Result{}
	for conn, waits := range [][]int{{10, 2010, 11}, {12, 2012, 13}, {14, 2014, 15}} {
		for i, w := range waits {
			x := exchangeOf(conn+1, i+1, w, w-5)
			r.Add(Event{Sample: &Sample{Cold: i == 0, Connection: conn + 1, Request: i + 1, Exchanges: []Exchange{x}}})
		}
	}
	failed := Failure{Phase: "wait", Kind: "reset"}
	r.Add(Event{Sample: &Sample{Cold: true, Exchanges: []Exchange{{Failure: &failed}}, Failure: &failed}})
	r.Summarize()
	want := Summary{
		Cold: 3, Warm: 6, MinRTT: msv(5), Bytes: 10,
		ColdPhases: Phases{Wait: msv(12), Total: msv(13)},
		WarmPhases: Phases{Wait: millis.Of(1012500 * time.Microsecond), Total: millis.Of(1013500 * time.Microsecond)},
		ColdServer: msv(7), SecondServer: msv(2007), WarmServer: msv(8),
		ByRequest: []RequestStat{
			{URL: "http://www.example.com/", Request: 1, Count: 3, Wait: msv(12), Server: msv(7), Min: msv(5), Max: msv(9)},
			{URL: "http://www.example.com/", Request: 2, Count: 3, Wait: msv(2012), Server: msv(2007), Min: msv(2005), Max: msv(2009)},
			{URL: "http://www.example.com/", Request: 3, Count: 3, Wait: msv(13), Server: msv(8), Min: msv(6), Max: msv(10)},
		},
		Steps: []Step{{URL: "http://www.example.com/", Status: 200, Count: 3,
			Phases: Phases{Wait: msv(12), Total: msv(13)}, Network: msv(5), Server: msv(7)}},
	}
	if diff := cmp.Diff(want, r.Summary); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if r.Failure != nil {
		t.Errorf("one failure among successes is none of the run: %+v", r.Failure)
	}
}

// Only the first load of a run looks the name up; the median of the totals was
// less than the lookup beside it: "resolve 501.6 … total 42.2".
func TestTotalIsNotLessThanItsPhases(t *testing.T) {
	r := &Result{}
	for i, total := range []int{544, 40, 42} {
		x := exchangeOf(i+1, 1, 30, 10)
		x.Phases.Total = msv(total)
		if i == 0 {
			x.Phases.Resolve = msv(500)
		}
		r.Add(Event{Sample: &Sample{Cold: true, Connection: i + 1, Request: 1, Exchanges: []Exchange{x}}})
	}
	r.Summarize()
	want := Phases{Resolve: msv(500), Wait: msv(30), Total: msv(542)}
	if diff := cmp.Diff(want, r.Summary.ColdPhases); diff != "" {
		t.Errorf("cold (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, r.Summary.Steps[0].Phases); diff != "" {
		t.Errorf("step (-want +got):\n%s", diff)
	}
}

func TestSummarizeFailures(t *testing.T) {
	r := &Result{}
	for _, kind := range []string{"canceled", "timeout", "reset", "timeout"} {
		r.Add(Event{Sample: &Sample{Failure: &Failure{Phase: "wait", Kind: kind}, Exchanges: []Exchange{{}}}})
	}
	r.Summarize()
	if r.Failure == nil || r.Failure.Kind != "timeout" {
		t.Errorf("got %+v, want the commonest", r.Failure)
	}
	if r.Summary.ColdPhases.Wait.Known() || r.Body.Class != "none" {
		t.Errorf("something is known of nothing: %+v, %+v", r.Summary, r.Body)
	}
}

// What did not happen is null, and a result reads back as it was written.
func TestJSON(t *testing.T) {
	x := exchangeOf(1, 1, 30, 20)
	x.Failure = &Failure{Phase: "receive", Kind: "timeout", Text: "t", After: msv(3)}
	r := &Result{Schema: Schema, URL: x.URL, Started: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Samples: []Sample{{Cold: true, Exchanges: []Exchange{x}}}}
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var back Result
	if err := json.Unmarshal(b, &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(r, &back); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	var doc struct {
		Schema  string
		Failure *string
		Samples []struct {
			Exchanges []struct {
				Phases map[string]*float64
				TCP    *string
				Server *float64 `json:"server_ms"`
			}
		}
	}
	doc.Failure = new(string)
	if err := json.Unmarshal(b, &doc); err != nil {
		t.Fatal(err)
	}
	wait, total, server := 30.0, 31.0, 20.0
	got := doc.Samples[0].Exchanges[0]
	want := map[string]*float64{"resolve_ms": nil, "connect_ms": nil, "tls_ms": nil, "send_ms": nil, "wait_ms": &wait, "receive_ms": nil, "total_ms": &total}
	if diff := cmp.Diff(want, got.Phases); diff != "" {
		t.Errorf("phases (-want +got):\n%s", diff)
	}
	if doc.Schema != Schema || doc.Failure != nil || got.TCP != nil || *got.Server != server {
		t.Errorf("%+v", doc)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	tests := []struct {
		name string
		o    Options
	}{
		{"no URL", Options{}},
		{"no scheme", Options{URL: "www.example.com"}},
		{"other scheme", Options{URL: "ftp://www.example.com/"}},
		{"no host", Options{URL: "http:///x"}},
		{"port", Options{URL: "http://www.example.com:0/"}},
		{"method", Options{URL: "http://www.example.com/", Method: "GET /"}},
		{"header name", Options{URL: "http://www.example.com/", Header: map[string][]string{"a b": {"c"}}}},
		{"header value", Options{URL: "http://www.example.com/", Header: map[string][]string{"a": {"b\r\nc: d"}}}},
		{"family", Options{URL: "http://www.example.com/", Family: 5}},
		{"segment size", Options{URL: "http://www.example.com/", MSS: 10}},
		{"password", Options{URL: "http://u:sec\x7fret@www.example.com/"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Run(t.Context(), tt.o)
			if err == nil {
				t.Fatal("no error")
			}
			if got := err.Error(); len(got) < 12 || got[:11] != "httpcheck: " || cmp.Equal(tt.name, "password") && got != "httpcheck: checking options: invalid URL" {
				t.Errorf("error: %q", got)
			}
		})
	}
}

func TestNormalizedURL(t *testing.T) {
	for in, want := range map[string]string{
		"http://www.example.com":              "http://www.example.com/",
		"https://WWW.Example.com/#f":          "https://www.example.com/",
		"https://bücher.example/":             "https://xn--bcher-kva.example/",
		"https://a_b.example/":                "https://a_b.example/",
		"http://[2001:db8::1]:8080/x?y":       "http://[2001:db8::1]:8080/x?y",
		"https://user:pw@www.example.com/?q=": "https://www.example.com/?q=",
	} {
		u, err := parseURL(in)
		if err != nil {
			t.Errorf("%s: %v", in, err)
			continue
		}
		if got := display(u); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
}
