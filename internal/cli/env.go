package cli

import (
	"io"
	"os"

	"golang.org/x/term"
)

// Env is what a command gets from its process. The zero Env has no input, no
// environment and discards what is written.
type Env struct {
	In  io.Reader
	Out io.Writer // results
	Err io.Writer // progress, warnings, errors
	// OutTerminal and ErrTerminal say that a person looks at the stream:
	// colours go to a terminal only, and so does progress.
	OutTerminal, ErrTerminal bool
	// Width is the width of the output in columns. Zero means 80.
	Width int
	// Hostname is this host's name; empty means unknown.
	Hostname string
	// Getenv reads the environment. Nil means an empty one.
	Getenv func(string) string
	// Argv is the command line as typed, for the report. Nil means the
	// arguments given to Run after the program's name.
	Argv []string
}

// Host returns the Env of this process.
func Host() Env {
	env := Env{
		In:          os.Stdin,
		Out:         os.Stdout,
		Err:         os.Stderr,
		OutTerminal: term.IsTerminal(int(os.Stdout.Fd())),
		ErrTerminal: term.IsTerminal(int(os.Stderr.Fd())),
		Getenv:      os.Getenv,
	}
	env.Hostname, _ = os.Hostname() // an unknown name is no reason to stop
	if env.OutTerminal {
		if w, _, err := term.GetSize(int(os.Stdout.Fd())); err == nil && w > 0 {
			env.Width = w
		}
	}
	return env
}

// withDefaults fills in what a test left out.
func (e Env) withDefaults(args []string) Env {
	if e.In == nil {
		e.In = eofReader{}
	}
	if e.Out == nil {
		e.Out = io.Discard
	}
	if e.Err == nil {
		e.Err = io.Discard
	}
	if e.Getenv == nil {
		e.Getenv = func(string) string { return "" }
	}
	if e.Width == 0 {
		e.Width = 80
	}
	if e.Argv == nil {
		e.Argv = append([]string{"whyslow"}, args...)
	}
	return e
}

type eofReader struct{}

func (eofReader) Read([]byte) (int, error) { return 0, io.EOF }
