package cli

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/whyslow/whyslow/reports"
)

func TestReportOnLoopback(t *testing.T) {
	var agent string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		agent = r.Header.Get("X-Token")
		w.Header().Set("Server", hostile[8:20])
		_, _ = io.WriteString(w, "hello")
	}))
	defer srv.Close()
	url := strings.Replace(srv.URL, "http://", "http://user:secret@", 1) + "/a?token=abc"
	dir := t.TempDir()
	args := []string{"report", url, "--budget", "quick", "--json", "-H", "X-Token: s3cret"}
	for _, name := range []string{"r.txt", "r.md", "r.html", "r.json"} {
		args = append(args, "-o", filepath.Join(dir, name))
	}
	got := run(t, args...)
	if got.status != statusOK {
		t.Fatalf("%+v", got)
	}
	var rep reports.Report
	if err := json.Unmarshal([]byte(got.out), &rep); err != nil {
		t.Fatal(err)
	}
	if rep.Schema != reports.Schema || rep.HTTP == nil || rep.Verdict.Layer == "" {
		t.Errorf("schema %q, verdict %+v", rep.Schema, rep.Verdict)
	}
	if agent != "s3cret" {
		t.Errorf("the header arrived as %q", agent)
	}
	for _, name := range []string{"r.txt", "r.md", "r.html", "r.json"} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, secret := range []string{"secret@", "s3cret", "token=abc"} {
			if strings.Contains(string(b), secret) {
				t.Errorf("%s tells %q", name, secret)
			}
		}
		if len(b) == 0 || len(b) > 1<<20 {
			t.Errorf("%s has %d bytes", name, len(b))
		}
	}
	if got.out != readFile(t, filepath.Join(dir, "r.json")) {
		t.Error("stdout and the JSON file differ")
	}
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestReportOfARefusedPort(t *testing.T) {
	srv := httptest.NewServer(http.NotFoundHandler())
	closed := srv.URL
	srv.Close()
	got := run(t, "report", closed+"/", "--budget", "quick", "--json")
	if got.status != statusUnmeasured {
		t.Errorf("status %d", got.status)
	}
	var rep reports.Report
	if err := json.Unmarshal([]byte(got.out), &rep); err != nil {
		t.Fatal(err)
	}
	v := rep.Verdict
	if !v.Failed || v.Layer != reports.Server || v.Component == nil || *v.Component != "refused" {
		t.Errorf("verdict %+v", v)
	}
}
