// Command bench measures whyslow beside its peers, on the same networks and in
// the same run:
//
//	go run ./internal/bench path              # as root; about six minutes
//	go run ./internal/bench path --quick      # within ninety seconds
//
// Opinions: every figure is measured where it is printed, none is carried over
// from elsewhere; the contenders take turns, so that what the machine does
// beside them meets all alike; each run gets a network of its own, since spent
// error limits and cached path MTUs are what one run leaves to the next; wall
// time is that of the whole process, start and end included, as a user waits
// for it; a goal that is missed is printed as missed. Limits: Linux and root
// only; the networks are netlab's, whose delays are right to a fraction of a
// millisecond.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/whyslow/whyslow/internal/netlab"
)

// binaryVariable hands the built whyslow to the process inside the lab.
const binaryVariable = "WHYSLOW_BENCH_BINARY"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	if len(os.Args) > 1 && os.Args[1] == workerName {
		os.Exit(worker(ctx, os.Args[2:], os.Stdout, os.Stderr))
	}
	code, err := run(ctx, os.Args[1:], os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
	}
	os.Exit(code)
}

// The exit statuses beside 0. A missed goal is none of them: this is a
// benchmark, not a test.
const (
	exitFailed = 1
	exitUsage  = 64
)

// options are the command line.
type options struct {
	quick    bool
	markdown bool
	verbose  bool
	install  bool
	list     bool
	runs     int           // of each contender in a row
	patience time.Duration // for one run of a contender
	only     []string
	binary   string // whyslow; empty means built
}

func parseOptions(args []string) (options, error) {
	var o options
	fs := pflag.NewFlagSet("bench path", pflag.ContinueOnError)
	fs.BoolVar(&o.quick, "quick", false, "fewer runs and rows, within ninety seconds")
	fs.BoolVar(&o.markdown, "markdown", false, "print Markdown")
	fs.BoolVarP(&o.verbose, "verbose", "v", false, "print each run to stderr")
	fs.BoolVar(&o.install, "install-peers", false, "install the peers from Debian's packages first")
	fs.BoolVar(&o.list, "list", false, "list what --only may name")
	fs.IntVar(&o.runs, "runs", 0, "runs of each contender in a row (default 5; quick 2)")
	fs.DurationVar(&o.patience, "patience", 0, "end a run after this time (default 12s; quick 2s)")
	fs.StringSliceVar(&o.only, "only", nil, "only these `TABLES` or rows, such as destination,path/v6")
	fs.StringVar(&o.binary, "whyslow", os.Getenv(binaryVariable), "a whyslow that is built already")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	if fs.NArg() > 0 {
		return o, fmt.Errorf("unexpected %q", fs.Arg(0))
	}
	if o.runs < 0 || o.patience < 0 {
		return o, errors.New("negative option")
	}
	if o.runs == 0 {
		o.runs = 5
		if o.quick {
			o.runs = 2
		}
	}
	if o.patience == 0 {
		o.patience = 12 * time.Second
		if o.quick {
			o.patience = 2 * time.Second
		}
	}
	return o, checkOnly(o.only)
}

func run(ctx context.Context, args []string, out io.Writer) (int, error) {
	if len(args) == 0 || args[0] != "path" {
		return exitUsage, errors.New("usage: go run ./internal/bench path [FLAGS]; --help lists them")
	}
	o, err := parseOptions(args[1:])
	switch {
	case errors.Is(err, pflag.ErrHelp):
		return 0, nil
	case err != nil:
		return exitUsage, err
	case o.list:
		return 0, writeList(out)
	}
	if netlab.Inside() {
		if err := netlab.Prepare(); err != nil {
			return exitFailed, err
		}
		return exitStatus(benchPath(ctx, o, out))
	}
	if o.install {
		if err := installPeers(ctx); err != nil {
			return exitFailed, err
		}
	}
	if err := netlab.Permitted(); err != nil {
		return exitFailed, err
	}
	if os.Geteuid() != 0 {
		return exitFailed, errors.New("the peers need root to probe")
	}
	return enter(ctx, o, args)
}

// enter builds whyslow and runs this program again inside a lab.
func enter(ctx context.Context, o options, args []string) (int, error) {
	if o.binary == "" {
		dir, err := os.MkdirTemp("", "whyslow-bench-")
		if err != nil {
			return exitFailed, err
		}
		defer func() { _ = os.RemoveAll(dir) }()
		if o.binary, err = buildWhyslow(ctx, dir); err != nil {
			return exitFailed, err
		}
	}
	code, err := netlab.Enter(ctx, netlab.EnterConfig{Args: args, Env: []string{binaryVariable + "=" + o.binary}})
	if err != nil {
		return exitFailed, err
	}
	return code, nil
}

// buildWhyslow builds the program into dir, where every user may run it: the
// runs without privilege are another user's.
func buildWhyslow(ctx context.Context, dir string) (string, error) {
	if err := os.Chmod(dir, 0o755); err != nil {
		return "", err
	}
	path := filepath.Join(dir, "whyslow")
	cmd := exec.CommandContext(ctx, "go", "build", "-o", path, "github.com/whyslow/whyslow/cmd/whyslow")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("building whyslow: %w", err)
	}
	return path, nil
}

func exitStatus(err error) (int, error) {
	if err != nil {
		return exitFailed, err
	}
	return 0, nil
}
