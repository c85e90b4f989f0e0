// Package render writes a report for people and for programs. It never
// computes: what a report means was decided before it came here, and the only
// arithmetic is the scale of a chart.
//
// Whatever a report quotes from outside (PTR names, headers, certificates) is
// hostile text. It is made visible and bounded in one place before any form
// for people sees it, and escaped once more for the form it is written in;
// JSON keeps it exact and escapes what a terminal would obey.
package render

import (
	"io"

	"github.com/whyslow/whyslow/reports"
)

// Options say how to write. The zero Options write plain text 80 columns wide.
type Options struct {
	Color bool // ANSI colours, text only
	Width int  // columns, text only; zero means 80
	// Verbose adds every sample and every hop, where the form shows only what
	// carries the verdict.
	Verbose bool
	// Host is the name of the host that measured, for mtr's form only; empty
	// where that is not known, as of a saved result.
	Host string
}

// FuncOf writes a T in one form. The options that do not concern the form are
// ignored.
type FuncOf[T any] func(w io.Writer, v *T, opt Options) error

// Func writes a report in one form.
type Func = FuncOf[reports.Report]
