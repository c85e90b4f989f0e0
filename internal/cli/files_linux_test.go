package cli

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Only SIGKILL ended "show" of a pipe that nobody writes to.
func TestPipesAndDevicesAreNotOpened(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"pipe", "pipe.md"} {
		if err := unix.Mkfifo(at(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(at("pipe"), at("link")); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", at("sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for what, path := range map[string]string{"a pipe": at("pipe"), "a pipe, and": at("link"), "a socket": at("sock"),
		"a directory": dir, "a device": "/dev/zero"} {
		t.Run(what, func(t *testing.T) {
			refused(t, []string{"show", path}, "is "+what)
			refused(t, []string{"report", "127.0.0.1", "--resolv-conf", path}, "--resolv-conf: "+path+" is "+what)
			refused(t, []string{"doctor", "--resolv-conf", path}, "--resolv-conf: "+path+" is "+what)
			refused(t, []string{"http", "--cacert", path, "https://127.0.0.1/"}, "--cacert: "+path+" is "+what)
		})
	}
	refused(t, []string{"show", at("pipe")}, "to read from it: whyslow show - < "+at("pipe"))
	refused(t, []string{"report", "127.0.0.1", "-o", at("pipe.md")}, "-o, --output: "+at("pipe.md")+" cannot be written: it is a pipe")
}

// Reading a terminal or a pipe that says nothing ended at a second Ctrl-C only.
func TestReadingStandardInputEndsAtCtrlC(t *testing.T) {
	silent, end, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	defer end.Close()
	ctx, cancel := context.WithCancel(t.Context())
	reading := make(chan struct{})
	go func() {
		<-reading
		cancel()
	}()
	start := time.Now()
	got := runEnv(t, ctx, Env{In: &announced{File: silent, began: reading}}, "show", "-")
	if took := time.Since(start); took > 2*time.Second {
		t.Errorf("took %v to end", took)
	}
	if got.status != statusInterrupted || !strings.Contains(got.err, "standard input: interrupted") {
		t.Errorf("%+v", got)
	}
}

// announced tells when it is read from.
type announced struct {
	*os.File
	began chan struct{}
}

func (a *announced) Read(b []byte) (int, error) {
	close(a.began)
	return a.File.Read(b)
}

// A symbolic link stays one: what it points to is replaced.
func TestLinksAreWrittenThrough(t *testing.T) {
	dir := t.TempDir()
	real, link := filepath.Join(dir, "real.md"), filepath.Join(dir, "link.md")
	if err := os.WriteFile(real, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(real, link); err != nil {
		t.Fatal(err)
	}
	if got := run(t, "show", savedFile(t), "-o", link); got.status != statusOK {
		t.Errorf("%+v", got)
	}
	if readFile(t, real) == "old" {
		t.Error("the link was replaced, not the file")
	}
}
