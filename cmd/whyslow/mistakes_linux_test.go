package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/whyslow/whyslow/internal/netlab/servers"
)

// A name tells only when it is looked up that a flag leaves nothing to
// connect to: the error, or the report's advice, names the flag.
func TestNamesOfOneFamily(t *testing.T) {
	l := newLab(t, 4*time.Millisecond)
	l.serveDNS(t, []servers.Zone{{Origin: "shop.example", Records: []string{
		"www 300 IN A " + webAddr.String(), "six 300 IN AAAA 2001:db8::80"}}})
	l.serveHTTP(t, servers.HTTPConfig{})
	const six = "six.shop.example"
	from := "--source=" + clientAddr.String()
	tests := []struct {
		args   []string
		status int
		want   string
	}{
		{[]string{"trace", six, from}, 4, six + " has no IPv4 address, and --source " + clientAddr.String() + " reaches no other"},
		{[]string{"pmtu", six, from}, 4, six + " has no IPv4 address, and --source"},
		{[]string{"http", six, from}, 4, six + " has no IPv4 address, and --source"},
		{[]string{"report", six, from}, 4, six + " has no IPv4 address, and --source"},
		{[]string{"trace", site, "-6"}, 4, site + " has no IPv6 address, which -6, --ipv6 asks for"},
		{[]string{"report", site, "-6"}, 4, site + " has no IPv6 address, which -6, --ipv6 asks for"},
		{[]string{"http", "http://" + site + "/", from}, 0, ""},
		{[]string{"dns", six, from}, 0, ""}, // one family of servers knows both
		{[]string{"trace", site, "--source", "127.0.0.1"}, 64, "--source: 127.0.0.1 reaches this host alone, and " + resolverAddr.String() + " is another"},
		{[]string{"report", site, "--interface", "lo"}, 64, "--interface: lo reaches this host alone"},
		{[]string{"report", site, "--source", "198.51.100.99"}, 64, "--source: 198.51.100.99 is no address of this host; this host has"},
	}
	for _, tt := range tests {
		t.Run(strings.Join(tt.args, " "), func(t *testing.T) {
			p := l.run(t, tt.args...)
			said := strings.Join(strings.Fields(p.out.String()+p.err.String()), " ")
			if p.status() != tt.status || !strings.Contains(said, tt.want) {
				t.Errorf("status %d, want %d and %q\n%s%s", p.status(), tt.status, tt.want, &p.out, &p.err)
			}
		})
	}
}

// Only SIGKILL ended "show" of a pipe, and of a standard input that says
// nothing.
func TestShowOfASilentPipeEnds(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	silent, end, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer end.Close()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "show", "-")
	cmd.Env = append(os.Environ(), asProgram+"=1")
	cmd.Stdin = silent
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	silent.Close()
	eventually(t, "reading standard input", func() bool { return reads(cmd.Process.Pid) })
	at := time.Now()
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // the status says it
	if took := time.Since(at); took > promptly || cmd.ProcessState.ExitCode() != 130 {
		t.Errorf("status %d after %v", cmd.ProcessState.ExitCode(), took)
	}
	cmd = exec.CommandContext(t.Context(), "/proc/self/exe", "show", pipe)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	out, _ := cmd.CombinedOutput() // the status says it
	if cmd.ProcessState.ExitCode() != 64 || !strings.Contains(string(out), "is a pipe") {
		t.Errorf("status %d: %s", cmd.ProcessState.ExitCode(), out)
	}
}

// reads reports whether a process has a goroutine in a read of its standard
// input, a pipe, which no poller does for it.
func reads(pid int) bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/syscall", pid))
	for _, path := range threads {
		b, err := os.ReadFile(path)
		if err == nil && strings.HasPrefix(string(b), fmt.Sprintf("%d 0x0 ", unix.SYS_READ)) {
			return true
		}
	}
	return false
}
