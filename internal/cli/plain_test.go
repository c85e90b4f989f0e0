package cli

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/whyslow/whyslow/httpcheck"
	"github.com/whyslow/whyslow/reports"
)

// "www.x.test:8081" of a server that speaks plain HTTP was "first record does
// not look like a TLS handshake", and nothing to be done.
func TestPlainHTTPOnAnotherPort(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }))
	defer srv.Close()
	host := strings.TrimPrefix(srv.URL, "http://")
	t.Run("report of a bare host", func(t *testing.T) {
		got := run(t, "report", host+"/a?TOK5", "--budget", "quick", "--json")
		var rep reports.Report
		if err := json.Unmarshal([]byte(got.out), &rep); err != nil {
			t.Fatal(err)
		}
		if got.status != statusOK || rep.Verdict.Failed || rep.Target.URL != srv.URL+"/a?…" || rep.HTTP.URL != srv.URL+"/a?…" {
			t.Errorf("status %d, target %q, %q, verdict %q", got.status, rep.Target.URL, rep.HTTP.URL, rep.Verdict.Summary)
		}
		if strings.Contains(got.out, "TOK5") {
			t.Error("the bare query is told")
		}
	})
	t.Run("http of a bare host", func(t *testing.T) {
		got := run(t, "http", host, "--samples", "1", "--no-controls", "--json")
		var res httpcheck.Result
		if err := json.Unmarshal([]byte(got.out), &res); err != nil {
			t.Fatal(err)
		}
		if got.status != statusOK || res.URL != srv.URL+"/" {
			t.Errorf("status %d, URL %q, stderr %q", got.status, res.URL, got.err)
		}
	})
	t.Run("report of https", func(t *testing.T) {
		got := run(t, "report", "https://"+host+"/a?TOK5", "--budget", "quick", "--json")
		var rep reports.Report
		if err := json.Unmarshal([]byte(got.out), &rep); err != nil {
			t.Fatal(err)
		}
		next := strings.Join(rep.Verdict.Next, "\n")
		if got.status != statusUnmeasured || !strings.Contains(next, "try "+srv.URL+"/a") {
			t.Errorf("status %d, verdict %q, next %q", got.status, rep.Verdict.Summary, next)
		}
	})
	t.Run("http of https", func(t *testing.T) {
		got := run(t, "http", "https://al:HUNTER2@"+host+"/?TOK5")
		if got.status != statusUnmeasured || !strings.Contains(got.err, "whyslow http http://") || strings.Contains(got.err, "HUNTER") {
			t.Errorf("status %d, stderr %q", got.status, got.err)
		}
	})
}

// A port that was named is the only one that is asked.
func TestARefusedPortIsNotAskedTwice(t *testing.T) {
	srv := httptest.NewServer(http.NotFoundHandler())
	host := strings.TrimPrefix(srv.URL, "http://")
	srv.Close()
	got := run(t, "report", host, "--budget", "quick", "--json")
	var rep reports.Report
	if err := json.Unmarshal([]byte(got.out), &rep); err != nil {
		t.Fatal(err)
	}
	if got.status != statusUnmeasured || rep.Target.URL != "https://"+host+"/" || len(rep.Environment.Notes) > 0 {
		t.Errorf("status %d, target %q, notes %q", got.status, rep.Target.URL, rep.Environment.Notes)
	}
}
