package netlab

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
)

// marker is the environment variable that tells a process that it runs inside
// a lab's namespaces. Its value is the process id of whoever put it there, so
// that a grandchild that merely inherits the environment is not fooled.
const marker = "WHYSLOW_NETLAB_PARENT"

// EnterConfig says how to run this program again inside a lab's namespaces.
// The zero value runs it as it was started.
type EnterConfig struct {
	// Args are the arguments behind the program's name. Nil means os.Args[1:].
	Args []string
	// Env is added to the environment.
	Env []string
	// Stdin, Stdout and Stderr; nil means this process's own.
	Stdin          io.Reader
	Stdout, Stderr io.Writer
}

// Inside reports whether Enter or Main of a parent process put this process
// into namespaces of its own.
func Inside() bool {
	return os.Getenv(marker) == strconv.Itoa(os.Getppid())
}

// Main is for TestMain: it runs the tests of a package inside a lab's
// namespaces where the host permits that, else outside, where labtest.Need
// skips those that cannot do without.
//
//	func TestMain(m *testing.M) { os.Exit(netlab.Main(m)) }
func Main(m interface{ Run() int }) int {
	if Inside() {
		if err := Prepare(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 2
		}
		return m.Run()
	}
	if Permitted() != nil {
		return m.Run()
	}
	code, err := Enter(context.Background(), EnterConfig{})
	if err != nil {
		// Only reached if the host changed its mind since Permitted.
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	return code
}
