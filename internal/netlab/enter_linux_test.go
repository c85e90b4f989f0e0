package netlab_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/whyslow/whyslow/internal/netlab"
	"github.com/whyslow/whyslow/internal/netlab/labtest"
	"github.com/whyslow/whyslow/internal/simnet"
)

// role is the environment variable that makes the test binary play a part in
// a test instead of running tests.
const role = "WHYSLOW_NETLAB_ROLE"

func TestMain(m *testing.M) {
	if play, ok := roles[os.Getenv(role)]; ok {
		os.Exit(play())
	}
	os.Exit(netlab.Main(m))
}

var roles = map[string]func() int{
	// Enters, and is asked to end with 7 there.
	"exit": func() int {
		if netlab.Inside() {
			return 7
		}
		return enter()
	},
	// Enters, and tells what it is told there.
	"signal": func() int {
		if !netlab.Inside() {
			return enter()
		}
		c := make(chan os.Signal, 1)
		signal.Notify(c, os.Interrupt, syscall.SIGTERM)
		fmt.Println("ready")
		if s := <-c; s == syscall.SIGTERM {
			return 42
		}
		return 43
	},
	// Enters, and runs a lab with a server until it is killed.
	"lab": func() int {
		if !netlab.Inside() {
			return enter()
		}
		if err := runLab(); err != nil {
			fmt.Println(err)
			return 1
		}
		select {}
	},
	// Tries to make a lab without entering.
	"outside": func() int {
		n := simnet.New(1)
		id := n.AddHost(simnet.Host{Addrs: []netip.Addr{client4}})
		_, err := netlab.New(netlab.Config{Net: n, Client: id, Ends: []netlab.End{{Node: id, Addrs: []netip.Addr{client4}}}})
		if errors.Is(err, netlab.ErrOutside) {
			return 3
		}
		return 1
	},
	// Forbids its user namespace the kind of namespace named in LIMIT, and
	// says what Permitted makes of it.
	"limited": func() int {
		if err := os.WriteFile("/proc/sys/user/"+os.Getenv("LIMIT"), []byte("0"), 0o644); err != nil {
			fmt.Println(err)
			return 0
		}
		var e *netlab.PermissionError
		if errors.As(netlab.Permitted(), &e) {
			return int(e.Reason)
		}
		return 0
	},
}

func enter() int {
	code, err := netlab.Enter(context.Background(), netlab.EnterConfig{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// runLab starts a lab with a process in its server's namespace that has a
// child, and prints the identity of both namespaces.
func runLab() error {
	n := simnet.New(1)
	client := n.AddHost(simnet.Host{Addrs: []netip.Addr{client4}})
	server := n.AddHost(simnet.Host{Addrs: []netip.Addr{server4}})
	n.Connect(client, server, simnet.Link{}, simnet.Link{})
	lab, err := netlab.New(netlab.Config{Net: n, Client: client, Ends: []netlab.End{
		{Node: client, Addrs: []netip.Addr{client4}}, {Node: server, Addrs: []netip.Addr{server4}},
	}})
	if err != nil {
		return err
	}
	out := make(lines, 1)
	p, err := lab.Server(server).Start(netlab.Command{
		Path: "sh", Args: []string{"-c", "sleep 2718.28 & echo up; wait"}, Output: out,
	})
	if err != nil {
		return err
	}
	<-out
	mine, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		return err
	}
	its, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", p.Pid()))
	if err != nil {
		return err
	}
	fmt.Println("ready", os.Getpid(), mine, its, lab.Dir())
	return nil
}

// actor starts this test binary in a role.
func actor(t *testing.T, name string, env ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(append(os.Environ(), role+"="+name), env...)
	cmd.Stderr = os.Stderr
	return cmd
}

func exitCode(err error) int {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	if err != nil {
		return -1
	}
	return 0
}

func TestEnterPassesOnTheExitStatus(t *testing.T) {
	labtest.Need(t)
	if got := exitCode(actor(t, "exit").Run()); got != 7 {
		t.Errorf("exit status %d, want 7", got)
	}
}

func TestNewRefusesOutside(t *testing.T) {
	labtest.Need(t)
	if got := exitCode(actor(t, "outside").Run()); got != 3 {
		t.Errorf("exit status %d, want 3", got)
	}
}

func TestEnterPassesOnSignals(t *testing.T) {
	labtest.Need(t)
	for sig, want := range map[os.Signal]int{syscall.SIGTERM: 42, os.Interrupt: 43} {
		cmd := actor(t, "signal")
		// A group of its own is not the terminal's foreground group.
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		start(t, cmd)
		if err := cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		if got := exitCode(cmd.Wait()); got != want {
			t.Errorf("%v: exit status %d, want %d", sig, got, want)
		}
	}
}

// start starts an actor and returns the words behind its "ready".
func start(t *testing.T, cmd *exec.Cmd) []string {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	said, err := bufio.NewReader(out).ReadString('\n')
	words := strings.Fields(said)
	if err != nil || len(words) == 0 || words[0] != "ready" {
		t.Fatalf("the actor said %q, %v", said, err)
	}
	return words[1:]
}

func TestNothingStaysBehindAfterKill(t *testing.T) {
	labtest.Need(t)
	for _, who := range []string{"the process that entered", "the process inside"} {
		t.Run(who, func(t *testing.T) {
			cmd := actor(t, "lab")
			words := start(t, cmd)
			var inside int
			if _, err := fmt.Sscan(words[0], &inside); err != nil {
				t.Fatal(err)
			}
			if inhabitants(words[1:3]) < 3 {
				t.Fatal("no processes in the lab's namespaces: this test sees nothing")
			}
			victim := cmd.Process.Pid
			if who == "the process inside" {
				victim = inside
			}
			if err := unix.Kill(victim, unix.SIGKILL); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait()
			deadline := time.Now().Add(20 * time.Second)
			for inhabitants(words[1:3]) > 0 {
				if time.Now().After(deadline) {
					t.Fatal("processes stay behind in the lab's namespaces")
				}
				time.Sleep(5 * time.Millisecond) // polling for the end of processes that are not ours to wait for
			}
			if left, err := os.ReadDir(words[3]); err != nil || len(left) > 0 {
				t.Errorf("%s holds %v, %v after the kill", words[3], left, err)
			}
		})
	}
}

// inhabitants counts the processes in some network namespaces.
func inhabitants(namespaces []string) int {
	count := 0
	links, _ := filepath.Glob("/proc/[0-9]*/ns/net")
	for _, l := range links {
		ns, err := os.Readlink(l)
		if err == nil && (ns == namespaces[0] || ns == namespaces[1]) {
			count++
		}
	}
	return count
}

func TestPermittedSaysWhy(t *testing.T) {
	labtest.Need(t)
	for limit, want := range map[string]netlab.Reason{
		"max_user_namespaces": netlab.NoUserNamespace,
		"max_net_namespaces":  netlab.NoNetNamespace,
	} {
		cmd := actor(t, "limited", "LIMIT="+limit)
		cmd.Stdout = os.Stderr
		// A user namespace below this one, as an ordinary user, whose limits
		// are its own.
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 1000, HostID: os.Geteuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: 1000, HostID: os.Getegid(), Size: 1}},
			AmbientCaps: []uintptr{unix.CAP_SYS_RESOURCE},
		}
		if got := netlab.Reason(exitCode(cmd.Run())); got != want {
			t.Errorf("with %s 0: reason %d, want %d", limit, got, want)
		}
	}
}
