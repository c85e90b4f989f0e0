package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gdamore/tcell/v3/vt"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/whyslow/whyslow/internal/netlab/servers"
	"github.com/whyslow/whyslow/trace"
)

// pty is a program on a terminal of its own.
type pty struct {
	*program
	master *os.File
	slave  *os.File
	before unix.Termios

	mu     sync.Mutex
	screen vt.MockTerm
	raw    bytes.Buffer // all that was written
	width  int
	height int
}

// onTerminal starts whyslow on a new terminal; stdout may go elsewhere.
func (l *lab) onTerminal(t *testing.T, width, height int, stdout *os.File, args ...string) *pty {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudo-terminals: %v", err)
	}
	t.Cleanup(func() { master.Close() })
	var n int
	if err := control(master, func(fd int) (err error) {
		if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
			return err
		}
		n, err = unix.IoctlGetInt(fd, unix.TIOCGPTN)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { slave.Close() })
	p := &pty{program: &program{done: make(chan struct{})}, master: master, slave: slave,
		screen: vt.NewMockTerm(vt.MockOptSize{X: vt.Col(width), Y: vt.Row(height)})}
	if err := p.screen.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.screen.Stop() })
	p.resize(t, width, height)
	p.before = p.termios(t)
	p.cmd = exec.CommandContext(t.Context(), "/proc/self/exe", append(args, "--resolv-conf", l.conf)...)
	p.cmd.Env = append(os.Environ(), asProgram+"=1", "TERM=xterm-256color", "LANG=C.UTF-8", "LC_ALL=C.UTF-8", "NO_COLOR=")
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = slave, slave, slave
	if stdout != nil {
		p.cmd.Stdout = stdout
	}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go p.read()
	go func() {
		defer close(p.done)
		_ = p.cmd.Wait() // the status says it
		p.ended = time.Now()
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.done
	})
	return p
}

// control runs f with a file's descriptor.
func control(f *os.File, do func(fd int) error) error {
	c, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := c.Control(func(fd uintptr) { failed = do(int(fd)) }); err != nil {
		return err
	}
	return failed
}

func (p *pty) termios(t *testing.T) (state unix.Termios) {
	t.Helper()
	if err := control(p.slave, func(fd int) error {
		s, err := unix.IoctlGetTermios(fd, unix.TCGETS)
		if err == nil {
			state = *s
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return state
}

func (p *pty) resize(t *testing.T, width, height int) {
	t.Helper()
	p.mu.Lock()
	p.width, p.height = width, height
	p.screen.SetSize(vt.Coord{X: vt.Col(width), Y: vt.Row(height)})
	p.mu.Unlock()
	if err := control(p.master, func(fd int) error {
		return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: uint16(height), Col: uint16(width)})
	}); err != nil {
		t.Fatal(err)
	}
}

// read gives what the program writes to an emulator.
func (p *pty) read() {
	buf := make([]byte, 4096)
	for {
		n, err := p.master.Read(buf)
		if err != nil {
			return
		}
		p.mu.Lock()
		p.raw.Write(buf[:n])
		_, _ = p.screen.Write(buf[:n])
		p.mu.Unlock()
	}
}

// lines are what the terminal shows.
func (p *pty) lines() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.screen.Drain()
	var out []string
	for y := range p.height {
		var b strings.Builder
		for x := range p.width {
			c := p.screen.GetCell(vt.Coord{X: vt.Col(x), Y: vt.Row(y)}).C
			if c == "" {
				c = " "
			}
			b.WriteString(c)
		}
		out = append(out, strings.TrimRight(b.String(), " "))
	}
	return out
}

func (p *pty) text() string { return strings.Join(p.lines(), "\n") }

func (p *pty) shows(t *testing.T, want string) {
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Logf("the screen:\n%s", p.text())
		}
	}()
	eventually(t, "the screen shows "+want, func() bool { return strings.Contains(p.text(), want) })
}

func (p *pty) press(t *testing.T, keys string) {
	t.Helper()
	if _, err := p.master.WriteString(keys); err != nil {
		t.Fatal(err)
	}
}

// gone checks that the program ended soon and left the terminal as it was, and
// returns what it wrote after the screen.
func (p *pty) gone(t *testing.T, since time.Time, status int) string {
	t.Helper()
	<-p.done
	if took := p.ended.Sub(since); took > promptly {
		t.Errorf("ended after %v", took)
	}
	if p.status() != status {
		t.Errorf("status %d, want %d", p.status(), status)
	}
	if diff := cmp.Diff(p.before, p.termios(t)); diff != "" {
		t.Errorf("the terminal is not as it was (-want +got):\n%s", diff)
	}
	const leave = "\x1b[?1049l"
	eventually(t, "the screen is left", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return strings.Contains(p.raw.String(), leave)
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	_, after, _ := strings.Cut(p.raw.String(), leave)
	if !strings.Contains(p.raw.String(), "\x1b[?25h") {
		t.Error("the cursor stays hidden")
	}
	return after
}

func liveLab(t *testing.T) *lab {
	l := newLab(t, 20*time.Millisecond)
	l.serveDNS(t, zones(servers.Zone{Origin: "100.51.198.in-addr.arpa", Records: []string{
		"1 300 IN PTR r1.transit.example.", "2 300 IN PTR r2.transit.example.", `3 300 IN PTR r\027]0\;owned\007.transit.example.`}}))
	return l
}

func TestLive(t *testing.T) {
	l := liveLab(t)
	p := l.onTerminal(t, 100, 30, nil, "trace", "--live", "-i", "0.3", site)
	p.shows(t, "reached at hop 4")
	p.shows(t, "r2.transit.example")
	p.shows(t, `r\027]0`)
	p.shows(t, "MTU 1500")
	p.press(t, "\x1b[A\r") // up: the last hop
	p.shows(t, "Round trips, ms")
	p.resize(t, 60, 16)
	eventually(t, "the footer stands at the new edge", func() bool { return strings.HasSuffix(p.lines()[15], "? help") })
	p.resize(t, 20, 5)
	p.press(t, "\x1b\x1b")
	eventually(t, "something stands on a tiny screen", func() bool { return strings.Contains(p.lines()[0], "whyslow trace") })
	p.resize(t, 100, 30)
	p.press(t, "p")
	p.shows(t, "paused")
	p.press(t, "pnc")
	p.shows(t, "stddev")
	p.shows(t, "198.51.100.3")
	p.press(t, "ccc")
	p.shows(t, "round 9 ")
	at := time.Now()
	p.press(t, "q")
	after := p.gone(t, at, 0)
	for _, want := range []string{"reached at hop 4", "r1.transit.example", webAddr.String()} {
		if !strings.Contains(after, want) {
			t.Errorf("the table that is printed lacks %q:\n%s", want, after)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if strings.Contains(p.raw.String(), "\x1b]0;owned") {
		t.Error("a name spoke to the terminal")
	}
}

// However it is told to end, the terminal is as it was, and what was measured
// is printed.
func TestLiveEnds(t *testing.T) {
	l := liveLab(t)
	for _, tt := range []struct {
		name   string
		end    func(*pty)
		args   []string
		status int
	}{
		{"Ctrl-C", func(p *pty) { p.press(t, "\x03") }, nil, 0},
		{"SIGTERM", func(p *pty) { _ = p.cmd.Process.Signal(syscall.SIGTERM) }, nil, 130},
		{"SIGINT", func(p *pty) { _ = p.cmd.Process.Signal(syscall.SIGINT) }, nil, 130},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := l.onTerminal(t, 80, 24, nil, append([]string{"trace", "--live", "-n", site}, tt.args...)...)
			p.shows(t, "round 2 ")
			at := time.Now()
			tt.end(p)
			if after := p.gone(t, at, tt.status); !strings.Contains(after, "reached at hop 4") {
				t.Errorf("no table:\n%s", after)
			}
		})
	}
	t.Run("rounds", func(t *testing.T) {
		p := l.onTerminal(t, 80, 24, nil, "trace", "--live", "-n", "-c", "3", "-i", "0.2", site)
		<-p.done
		if after := p.gone(t, p.ended, 0); !strings.Contains(after, "reached at hop 4") {
			t.Errorf("no table:\n%s", after)
		}
	})
}

// The result goes to stdout, the view to the terminal.
func TestLiveWithResultElsewhere(t *testing.T) {
	l := liveLab(t)
	file, err := os.CreateTemp(t.TempDir(), "result")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	p := l.onTerminal(t, 80, 24, file, "trace", "--live", "-n", "--json", "-i", "0.2", site)
	p.shows(t, "round 5 ")
	at := time.Now()
	p.press(t, "q")
	p.gone(t, at, 0)
	b, err := os.ReadFile(file.Name())
	if err != nil {
		t.Fatal(err)
	}
	var res trace.Result
	if err := json.Unmarshal(b, &res); err != nil {
		t.Fatalf("%v\n%s", err, b)
	}
	if !res.Reached || len(res.Hops) != 4 || res.Hops[0].Sent < 4 {
		t.Errorf("result: %s", b)
	}
}

// Without a terminal nobody could see it: an error that names the flag, not a
// screen full of escapes in a file.
func TestLiveWithoutTerminal(t *testing.T) {
	l := liveLab(t)
	p := l.run(t, "trace", "--live", site)
	if p.status() != 64 || !strings.Contains(p.err.String(), "--live") || !strings.Contains(p.err.String(), "-c N") || p.out.Len() > 0 {
		t.Errorf("status %d, stdout %q, stderr %q", p.status(), &p.out, &p.err)
	}
}

// Ctrl-Z gives the terminal back and stops; continued, the view goes on, and
// the first key is not lost.
func TestLiveStopsAndContinues(t *testing.T) {
	l := liveLab(t)
	p := l.onTerminal(t, 80, 24, nil, "trace", "--live", "-n", "-i", "0.2", site)
	p.shows(t, "round 3 ")
	// Its process group is orphaned, having no shell, and so SIGTSTP is
	// discarded: the view comes back by itself.
	p.press(t, "\x1a")
	eventually(t, "the terminal is given back", func() bool { return p.termios(t) == p.before })
	eventually(t, "the terminal is taken again", func() bool { return p.termios(t) != p.before })
	p.shows(t, "round 8 ")
	at := time.Now()
	p.press(t, "q")
	p.gone(t, at, 0)
}
