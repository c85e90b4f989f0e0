package netlab

import (
	"io"
)

// Command is a program to run in a namespace.
type Command struct {
	// Path of the program, looked up in PATH if it has no slash.
	Path string
	Args []string // behind the program's name
	Dir  string   // working directory; empty means the root directory
	// Env is the whole environment. Nil means PATH, LANG=C and nothing else.
	Env []string
	// Stdin; nil means none.
	Stdin io.Reader
	// Output gets standard output and error beside the tail that
	// Process.Output keeps. Nil means nobody.
	Output io.Writer
}

// Files are what a server namespace sees in place of the host's own files.
// A nil entry leaves the host's.
type Files struct {
	ResolvConf []byte // /etc/resolv.conf
	Hosts      []byte // /etc/hosts
}
