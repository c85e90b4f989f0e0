// Package render writes a report for people and for programs. It never
// computes: what a report means was decided before it came here.
//
// Whatever a report quotes from outside (PTR names, headers, certificates) is
// hostile text and is escaped here for the form it is written in.
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
}

// Func writes r in one form.
type Func func(w io.Writer, r *reports.Report, opt Options) error
