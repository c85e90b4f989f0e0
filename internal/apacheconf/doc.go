// Package apacheconf reads an Apache httpd 2.4 configuration in the order that
// httpd does, and says from it what makes the server look up names, in which
// format each log is written, and how many workers there are.
//
// It is no validator: directives it does not know are kept, and a fault gives a
// warning that names file and line while the rest is still read. What only a
// request can decide (<If>, regular expressions, .htaccess of paths that no
// document root holds) is kept and marked, never guessed. Modules are known by
// LoadModule; those that distributions compile in are assumed. It reads neither
// the environment nor the disk by itself: both are given.
package apacheconf

import (
	"fmt"
	"io/fs"
)

// Options say how a configuration is read.
type Options struct {
	// FS is the root of the file system: /etc/apache2 is "etc/apache2" there.
	FS fs.FS
	// Env are variables for ${NAME}, as ReadEnv gives them; Define comes first.
	Env map[string]string
	// Defines are names given to httpd with -D.
	Defines []string
	// Version of httpd for <IfVersion>. Empty means 2.4.62.
	Version string
	// NoHtaccess leaves .htaccess files below document roots unread.
	NoHtaccess bool
}

// Bounds of what is read. httpd itself permits 20 nested includes.
const (
	maxFiles      = 2000
	maxBytes      = 16 << 20
	maxFile       = 4 << 20
	maxDirectives = 100_000
	maxDepth      = 20
	maxSections   = 40
	maxLine       = 64 << 10
	maxWarnings   = 100
	maxWalked     = 20_000 // directory entries seen while looking for .htaccess
)

// Place is a line of a file.
type Place struct {
	File string `json:"file"`
	Line int    `json:"line"`
}

// String is file:line.
func (p Place) String() string { return fmt.Sprintf("%s:%d", p.File, p.Line) }

// Directive is a line of the configuration, or a section with its contents.
type Directive struct {
	// Name is in lower case; a section's has no brackets.
	Name string
	// Written is the name as the file has it.
	Written string
	Args    []string
	// Raw is everything after the name, variables replaced.
	Raw      string
	Place    Place
	Section  bool
	Children []*Directive
}

// Config is a configuration that was read.
type Config struct {
	Directives []*Directive
	// Modules are loaded or assumed to be compiled in, as in "rewrite_module".
	Modules map[string]bool
	// ServerRoot is what relative paths start from.
	ServerRoot string
	Warnings   []string

	htaccess []*Directive // as Directory sections
}
