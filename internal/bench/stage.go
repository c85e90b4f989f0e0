package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/whyslow/whyslow/internal/netlab"
	"github.com/whyslow/whyslow/internal/simnet"
)

// tableTime ends a run sooner than the patience does in tables of many long
// runs, where it is known by then who waits in vain.
const tableTime = 5 * time.Second

// outcome is one run of a program in a world.
type outcome struct {
	wall     time.Duration // start and end of the process included
	packets  int           // that the client sent
	stdout   string
	stderr   string
	ended    bool // by itself, within the patience
	usage    usage
	lateness time.Duration // by which the lab was late for its own events at most
}

// usage is what a process used.
type usage struct {
	cpu time.Duration
	rss int64 // bytes at the peak, as last looked at; 0 means unknown
}

// command is a program to run.
type command struct {
	path string
	args []string
	// ordinary runs it as a user without privilege.
	ordinary bool
	// memory watches how much it holds, every 20 ms.
	memory bool
}

// nobody is the user without privilege. Its group is root's, to which the
// lab's namespace permits ping sockets.
const nobody = 65534

// inWorld builds the lab of a world, runs f and takes it down.
func inWorld(w *world, f func(*netlab.Lab) error) error {
	lab, err := w.lab()
	if err != nil {
		return err
	}
	return errors.Join(f(lab), lab.Close())
}

// perform runs a program in a fresh lab.
func perform(ctx context.Context, w *world, c command, patience time.Duration) (outcome, error) {
	var out outcome
	err := inWorld(w, func(lab *netlab.Lab) (err error) {
		out, err = performIn(ctx, lab, c, patience)
		return err
	})
	return out, err
}

// performIn runs a program in a lab that stands.
func performIn(ctx context.Context, lab *netlab.Lab, c command, patience time.Duration) (outcome, error) {
	before, err := sent(lab)
	if err != nil {
		return outcome{}, err
	}
	out, err := execute(ctx, c, patience)
	if err != nil {
		return out, err
	}
	after, err := sent(lab)
	out.packets, out.lateness = int(after-before), lab.Traffic().Late
	return out, err
}

// sent is the number of packets that the client has sent.
func sent(lab *netlab.Lab) (n uint64, err error) {
	err = lab.Model(func(m *simnet.Net) { n = m.Stats().Sent })
	return n, err
}

// watchMemory looks at how much memory a process holds at most until the
// function returned is called, which tells it. What the kernel says when it has
// ended begins with that of the parent it was forked from.
func watchMemory(pid int, wanted bool) func() int64 {
	if !wanted {
		return func() int64 { return 0 }
	}
	stop, peak := make(chan struct{}), make(chan int64)
	go func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		most := int64(0)
		for {
			select {
			case <-tick.C:
				most = max(most, peakMemory(fmt.Sprint(pid)))
			case <-stop:
				peak <- most
				return
			}
		}
	}()
	return func() int64 {
		close(stop)
		return <-peak
	}
}

// peakMemory is the most memory that a process has held since it runs its
// program, in bytes; 0 if it is gone.
func peakMemory(pid string) int64 {
	b, err := os.ReadFile("/proc/" + pid + "/status")
	if err != nil {
		return 0
	}
	_, after, _ := strings.Cut(string(b), "VmHWM:")
	var kib int64
	if _, err := fmt.Sscan(after, &kib); err != nil {
		return 0
	}
	return kib << 10
}

// execute runs a program in the client's namespace, which is this process's.
func execute(ctx context.Context, c command, patience time.Duration) (outcome, error) {
	path, err := netlab.LookPath(c.path)
	if err != nil {
		return outcome{}, err
	}
	bounded, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(bounded, path, c.args...)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C"}
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.WaitDelay = 200 * time.Millisecond
	prepare(cmd, c.ordinary)
	start := time.Now()
	if err := cmd.Start(); err != nil {
		return outcome{}, fmt.Errorf("starting %s: %w", c.path, err)
	}
	memory := watchMemory(cmd.Process.Pid, c.memory)
	err = cmd.Wait()
	out := outcome{wall: time.Since(start), stdout: stdout.String(), stderr: stderr.String(),
		ended: bounded.Err() == nil, usage: usage{cpu: used(cmd.ProcessState)}}
	out.usage.rss = memory()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return out, ctx.Err()
	case bounded.Err() != nil, errors.As(err, &exit):
		// Out of patience, or a status of its own: what it printed counts.
		return out, nil
	case err != nil:
		return out, fmt.Errorf("running %s: %w", c.path, err)
	}
	return out, nil
}
