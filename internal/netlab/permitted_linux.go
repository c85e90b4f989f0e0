package netlab

import (
	"errors"
	"os"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Permitted reports why this host does not let this process enter a lab, as a
// *PermissionError, or nil. It runs no program.
func Permitted() error {
	attr := namespaceAttr()
	// Changing the root directory to itself needs a capability in the new user
	// namespace: some hosts give the namespace but no rights in it.
	attr.Chroot = "/"
	err := tryFork(attr)
	if err == nil {
		return nil
	}
	return refusal(err)
}

// tryFork forks as attr says and reports what the kernel refused.
func tryFork(attr *syscall.SysProcAttr) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	// The kernel makes the namespaces before it looks for the program. With
	// one that does not exist, "no such file" means that all else went well.
	p, err := os.StartProcess("/proc/self/no-such-program", []string{"probe"}, &os.ProcAttr{Sys: attr})
	if err == nil {
		_, err = p.Wait()
		return err
	}
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}

// refusal finds out which part of namespaceAttr made a fork fail with err, by
// trying with less.
func refusal(err error) *PermissionError {
	var call *os.PathError
	if errors.As(err, &call) {
		err = call.Err // "operation not permitted" without the made-up program
	}
	attr := namespaceAttr()
	if attr.Cloneflags&syscall.CLONE_NEWUSER == 0 {
		return &PermissionError{Reason: NoNetNamespace, Err: err}
	}
	attr.AmbientCaps, attr.Cloneflags = nil, syscall.CLONE_NEWUSER
	if tryFork(attr) != nil {
		return &PermissionError{Reason: NoUserNamespace, Err: err}
	}
	if b, e := os.ReadFile("/proc/sys/kernel/apparmor_restrict_unprivileged_userns"); e == nil && strings.TrimSpace(string(b)) == "1" {
		return &PermissionError{Reason: NoCapabilities, Err: err}
	}
	attr.Cloneflags |= syscall.CLONE_NEWNET | syscall.CLONE_NEWNS
	if tryFork(attr) != nil {
		return &PermissionError{Reason: NoNetNamespace, Err: err}
	}
	return &PermissionError{Reason: NoCapabilities, Err: err}
}
