package netprobe

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// Environment of the tests: requireLab turns skips into failures; insideLab is
// set for the copy of the test binary that runs in namespaces of its own, and
// holds the reason if there are none.
const (
	requireLab = "WHYSLOW_REQUIRE_LAB"
	insideLab  = "WHYSLOW_NETPROBE_LAB"
)

// TestMain runs the tests of an ordinary user in a user namespace, where they
// may build networks as root does.
func TestMain(m *testing.M) {
	if os.Geteuid() == 0 || os.Getenv(insideLab) != "" {
		os.Exit(m.Run())
	}
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), insideLab+"=ordinary user")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		Pdeathsig:   syscall.SIGKILL,
	}
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		os.Exit(0)
	case errors.As(err, &exit):
		os.Exit(exit.ExitCode())
	}
	// No user namespace: run what needs none; labs will skip by themselves.
	fmt.Fprintf(os.Stderr, "no user namespace: %v\n", err)
	os.Exit(m.Run())
}

// unavailable skips the test for want of something the host denies, or fails
// it where the lab is required.
func unavailable(t *testing.T, format string, args ...any) {
	t.Helper()
	if os.Getenv(requireLab) == "1" {
		t.Fatalf("required, but "+format, args...)
	}
	t.Skipf(format, args...)
}
