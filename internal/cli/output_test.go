package cli

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// A place that cannot be written was noticed after a minute of measuring.
func TestUnwritablePlacesAreRefusedAtOnce(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "dir.md"), 0o700); err != nil {
		t.Fatal(err)
	}
	kept := filepath.Join(dir, "kept.md")
	if err := os.WriteFile(kept, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	var asked sync.Once
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		asked.Do(func() { t.Error("it was measured all the same") })
	}))
	defer srv.Close()
	for _, command := range []string{"report", "http"} {
		refused(t, []string{command, srv.URL, "-o", filepath.Join(dir, "dir.md")}, "dir.md cannot be written: it is a directory")
		refused(t, []string{command, srv.URL, "-o", filepath.Join(dir, "no", "x.md")}, "x.md cannot be written: the directory")
		refused(t, []string{command, srv.URL, "-o", filepath.Join(kept, "x.md")}, "x.md cannot be written:")
		refused(t, []string{command, srv.URL, "-o", kept, "-o", filepath.Join(dir, "dir.md")}, "it is a directory")
	}
	if readFile(t, kept) != "old" {
		t.Error("a file was emptied by looking whether it could be written")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 2 {
		t.Errorf("temporary files stay behind: %v, %v", left, err)
	}
}

// Root may write what is write-protected, so this takes an ordinary user, or a
// place that is read-only for everyone.
func TestWriteProtectedFilesAreRefusedAtOnce(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x.md")
	if err := os.WriteFile(path, []byte("old"), 0o400); err != nil {
		t.Fatal(err)
	}
	if f, err := os.OpenFile(path, os.O_WRONLY, 0); err == nil {
		f.Close()
		path = "/proc/version.md" // root
		if _, err := os.Stat("/proc"); err != nil {
			path = filepath.Join(dir, "no", "x.md") // root, and no /proc
		}
	}
	refused(t, []string{"http", "http://127.0.0.1/", "-o", path}, "-o, --output: "+path+" cannot be written: ")
}

// What was measured was lost with the disk that it should be written to.
func TestNoResultIsLostToAFailingDisk(t *testing.T) {
	tests := []struct {
		name  string
		flags []string
		want  string // on stdout
	}{
		{"quiet", []string{"--quiet"}, "HTTP phases"},
		{"quiet, as JSON", []string{"--quiet", "--json"}, `"schema": "whyslow/http/1"`},
		{"aloud", nil, "HTTP phases"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "gone")
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { _ = os.RemoveAll(dir) }))
			defer srv.Close()
			there := filepath.Join(t.TempDir(), "there.md")
			got := run(t, append([]string{"http", srv.URL, "--samples", "1", "--no-controls",
				"-o", filepath.Join(dir, "x.md"), "-o", there}, tt.flags...)...)
			if got.status != statusUnwritten || !strings.Contains(got.err, "writing "+filepath.Join(dir, "x.md")+": ") {
				t.Errorf("status %d, stderr %q", got.status, got.err)
			}
			if strings.Count(got.out, tt.want) != 1 {
				t.Errorf("stdout does not hold the result once: %q", got.out)
			}
			if !strings.Contains(readFile(t, there), "HTTP") {
				t.Error("the other file was not written")
			}
		})
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

// A full stdout is no reason not to write the files, and no status 4.
func TestAFullStdoutKeepsNoFileFromBeingWritten(t *testing.T) {
	path, out := savedFile(t), filepath.Join(t.TempDir(), "x.html")
	var errs strings.Builder
	status := Run(t.Context(), Env{Out: fullDisk{}, Err: &errs}, []string{"show", path, "-o", out})
	if status != statusUnwritten || !strings.Contains(errs.String(), "no space left") {
		t.Errorf("status %d, stderr %q", status, &errs)
	}
	if !strings.Contains(strings.ToLower(readFile(t, out)), "<!doctype") {
		t.Error("the file was not written")
	}
	for _, args := range [][]string{{"doctor"}, {"doctor", "--json"}, {"demo", "--list"}} {
		if status := Run(t.Context(), Env{Out: fullDisk{}}, args); status != statusUnwritten {
			t.Errorf("%v: status %d", args, status)
		}
	}
}

// Errors were Go's chains of prefixes, and of several a literal \n.
func TestErrorsAreSentences(t *testing.T) {
	denied := errors.New("not permitted on this host")
	chain := fmt.Errorf("trace: opening icmp: netprobe: opening 127.0.0.1: %w", errors.Join(
		fmt.Errorf("netprobe: opening raw sockets: netprobe: %w (socket: operation not permitted)", denied),
		fmt.Errorf("netprobe: opening a ping socket: netprobe: %w (socket: permission denied)", denied)))
	const both = "opening raw sockets: not permitted on this host (socket: operation not permitted); " +
		"opening a ping socket: not permitted on this host (socket: permission denied)"
	if got := refusals(chain); got != both {
		t.Errorf("got %q", got)
	}
	if got, want := readable(chain), "opening icmp: opening 127.0.0.1: "+both; got != want {
		t.Errorf("got %q", got)
	}
	if got, want := readable(errors.New("http://trace: x, retrace: y, pmtu: z")), "http://trace: x, retrace: y, pmtu: z"; got != want {
		t.Errorf("words that are no prefixes: got %q", got)
	}
}
