package netprobe

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Environment of the tests: requireLab turns skips into failures; insideLab is
// set for the copy of the test binary that runs in namespaces of its own.
const (
	requireLab = "WHYSLOW_REQUIRE_LAB"
	insideLab  = "WHYSLOW_NETPROBE_LAB"
)

// TestMain runs the tests of an ordinary user in a user namespace, where they
// may build networks as root does.
func TestMain(m *testing.M) {
	if os.Getenv(insideLab) != "" {
		if err := loopbackUp(); err != nil {
			fmt.Fprintf(os.Stderr, "loopback stays down: %v\n", err)
		}
		os.Exit(runStamped(m))
	}
	if os.Geteuid() == 0 {
		os.Exit(runStamped(m))
	}
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), insideLab+"=ordinary user")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		// A network namespace too: one can only come back to a namespace of
		// one's own user namespace.
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
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

// runStamped runs the tests with kernel timestamps on: the kernel switches them
// on in the background when the first socket asks, so one asks throughout.
func runStamped(m *testing.M) int {
	s, err := withSocket(context.Background(), family4, unix.SOCK_DGRAM, 0, "stamps", func(fd int) error {
		return setOptions(fd, stampOptions(0))
	})
	if err == nil {
		defer s.close()
		for range 100 {
			r, _, err := askLoopback(context.Background(), family4, openUDP)
			if err != nil || r.KernelTime {
				break
			}
		}
	}
	return m.Run()
}

func loopbackUp() error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	return netlink.LinkSetUp(lo)
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
