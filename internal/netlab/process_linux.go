package netlab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Process is a program that runs in a namespace. It and all its descendants
// end with Kill, with the lab, or with this process, however that ends.
type Process struct {
	cmd  *exec.Cmd
	tail *tail
	done chan struct{}
	err  error // set before done closes
}

// Start starts a program in the namespace.
func (ns *Namespace) Start(c Command) (*Process, error) {
	path, err := LookPath(c.Path)
	if err != nil {
		return nil, fmt.Errorf("netlab: %w", err)
	}
	p := &Process{tail: &tail{also: c.Output}, done: make(chan struct{})}
	p.cmd = exec.Command(path, c.Args...)
	p.cmd.Dir = c.Dir
	if c.Dir == "" {
		p.cmd.Dir = "/"
	}
	p.cmd.Env = c.Env
	if c.Env == nil {
		p.cmd.Env = []string{"PATH=" + systemPath, "LANG=C"}
	}
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = c.Stdin, p.tail, p.tail
	p.cmd.WaitDelay = time.Second
	p.cmd.SysProcAttr = &syscall.SysProcAttr{
		Pdeathsig: syscall.SIGKILL, // when the keeper ends, so with this process
		// The program is the first process of its own process namespace: when
		// it dies, the kernel kills whatever it forked.
		Cloneflags: syscall.CLONE_NEWPID,
		// Ctrl-C is for whyslow, which still has a report to write.
		Setpgid: true,
	}
	if err := ns.inKeeper(p.cmd.Start); err != nil {
		return nil, fmt.Errorf("netlab: starting %s in %s: %w", c.Path, ns.name, err)
	}
	ns.mu.Lock()
	ns.processes = append(ns.processes, p)
	ns.mu.Unlock()
	go func() {
		defer close(p.done)
		p.err = p.cmd.Wait()
	}()
	return p, nil
}

// systemPath is where system programs live, which an ordinary user's PATH
// often lacks.
const systemPath = "/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin"

// LookPath finds a program in PATH, or where system programs live.
func LookPath(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err == nil || strings.Contains(name, "/") {
		return path, err
	}
	for _, dir := range filepath.SplitList(systemPath) {
		if p, e := exec.LookPath(filepath.Join(dir, name)); e == nil {
			return p, nil
		}
	}
	return "", err
}

// Pid is the process's id as this process sees it.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait waits until the process has ended and returns its error, as
// exec.Cmd.Wait does, or until ctx ends.
func (p *Process) Wait(ctx context.Context) error {
	select {
	case <-p.done:
		return p.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Signal sends a signal to the process.
func (p *Process) Signal(s os.Signal) error {
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("netlab: signal to %s: %w", p.cmd.Path, err)
	}
	return nil
}

// Stop asks the process to end, kills it if it has not within grace, and waits
// for it.
func (p *Process) Stop(grace time.Duration) {
	if p.Signal(syscall.SIGTERM) == nil {
		t := time.NewTimer(grace)
		defer t.Stop()
		select {
		case <-p.done:
			return
		case <-t.C:
		}
	}
	p.Kill()
}

// Kill kills the process with all its descendants and waits for it.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // an error means that it is dead already
	<-p.done
}

// Output returns the last 64 KiB of what the process wrote.
func (p *Process) Output() string { return p.tail.String() }

// tail keeps the end of what is written to it.
type tail struct {
	also io.Writer // may be nil

	mu  sync.Mutex
	buf []byte
}

const tailSize = 64 << 10

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	t.buf = append(t.buf, b...)
	if over := len(t.buf) - tailSize; over > 0 {
		t.buf = append(t.buf[:0], t.buf[over:]...)
	}
	t.mu.Unlock()
	if t.also != nil {
		return t.also.Write(b)
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.ToValidUTF8(t.buf, []byte("�")))
}
