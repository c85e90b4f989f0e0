package netlab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ambient are the capabilities a lab needs and its servers may need. They are
// handed down so that a program inside keeps them although it runs under its
// own, ordinary user id: Apache httpd refuses to serve as root.
var ambient = []uintptr{
	unix.CAP_NET_ADMIN, unix.CAP_NET_RAW, unix.CAP_NET_BIND_SERVICE,
	unix.CAP_SYS_ADMIN, unix.CAP_SYS_CHROOT,
}

// Enter runs this program again in new network and mount namespaces, and in a
// new user namespace where the process has no privilege, and returns its exit
// status. The child dies with this process. Interrupts and termination
// requests are passed on, so ctx need not end with them; its end terminates the
// child.
func Enter(ctx context.Context, cfg EnterConfig) (int, error) {
	// The parent-death signal is sent when the thread that forked ends, not
	// the process: hold on to it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	args := cfg.Args
	if args == nil {
		args = os.Args[1:]
	}
	cmd := exec.CommandContext(ctx, "/proc/self/exe", args...)
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(append(os.Environ(), cfg.Env...), marker+"="+strconv.Itoa(os.Getpid()))
	cmd.Stdin, cmd.Stdout, cmd.Stderr = cfg.Stdin, cfg.Stdout, cfg.Stderr
	if cmd.Stdin == nil {
		cmd.Stdin = os.Stdin
	}
	if cmd.Stdout == nil {
		cmd.Stdout = os.Stdout
	}
	if cmd.Stderr == nil {
		cmd.Stderr = os.Stderr
	}
	cmd.SysProcAttr = namespaceAttr()
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second

	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	defer signal.Stop(signals)
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("netlab: entering namespaces: %w", refusal(err))
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		passOn(signals, stop, cmd.Process)
	}()
	err := cmd.Wait()
	close(stop)
	<-stopped
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) && cmd.ProcessState == nil {
		return 0, fmt.Errorf("netlab: waiting for the process inside: %w", err)
	}
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal()), nil // as a shell reports it
	}
	return cmd.ProcessState.ExitCode(), nil
}

// passOn hands the signals this process gets to the child until stop closes.
func passOn(signals <-chan os.Signal, stop <-chan struct{}, child *os.Process) {
	for {
		select {
		case <-stop:
			return
		case s := <-signals:
			if s != syscall.SIGTERM && terminalSent() {
				continue // Ctrl-C went to the whole foreground group already
			}
			// An error means that the child is gone, and Wait knows.
			_ = child.Signal(s)
		}
	}
}

// terminalSent reports whether this process's group is the foreground group of
// its terminal, to all of which the terminal sends its signals itself.
func terminalSent() bool {
	tty, err := os.Open("/dev/tty")
	if err != nil {
		return false
	}
	defer func() { _ = tty.Close() }()
	group, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

// namespaceAttr says which namespaces a child gets: with CAP_SYS_ADMIN new
// ones of this user namespace, else ones of a new user namespace that maps
// this user and group to themselves.
func namespaceAttr() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS,
		Pdeathsig:  syscall.SIGKILL,
	}
	if privileged() {
		return attr
	}
	uid, gid := os.Geteuid(), os.Getegid()
	attr.Cloneflags |= syscall.CLONE_NEWUSER
	attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
	attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}}
	attr.AmbientCaps = ambient
	return attr
}

// privileged reports whether this process may make namespaces without a user
// namespace around them, and use them.
func privileged() bool {
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var caps [2]unix.CapUserData
	if err := unix.Capget(&head, &caps[0]); err != nil {
		return false
	}
	need := uint32(1<<unix.CAP_SYS_ADMIN | 1<<unix.CAP_NET_ADMIN | 1<<unix.CAP_NET_RAW)
	// An ordinary user's capabilities reach the child only if they are
	// ambient; inside a lab they are, for root they need not be.
	return caps[0].Effective&need == need && (os.Geteuid() == 0 || caps[0].Inheritable&need == need)
}
