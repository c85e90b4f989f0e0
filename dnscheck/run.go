package dnscheck

import (
	"context"
	"iter"
)

// Event is one thing learned. Exactly one field is set.
type Event struct {
	Config  *ConfigView `json:"config,omitempty"`
	Stub    *Stub       `json:"stub,omitempty"`
	Server  *Server     `json:"server,omitempty"`
	Cold    *Server     `json:"cold,omitempty"`
	Control *Server     `json:"control,omitempty"`
	Reverse *Reverse    `json:"reverse,omitempty"`
	Warning string      `json:"warning,omitempty"`
}

// Resolve does the stub's part alone: what a program on this host would wait
// for the name, and the addresses it would get.
func Resolve(ctx context.Context, o Options) (*Stub, error) { return nil, nil }

// Events measures everything Run does and yields what it learns: the
// configuration first, then the stub, then the rest in the order it arrives.
// An error other than of the options does not occur; it ends the sequence.
func Events(ctx context.Context, o Options) iter.Seq2[Event, error] {
	return func(func(Event, error) bool) {}
}

// Run measures the resolution of o.Name and judges it. The error is of the
// options or the resolv.conf alone: a name that does not resolve is a Result.
// When ctx ends the Result holds what is known, and says Interrupted.
func Run(ctx context.Context, o Options) (*Result, error) { return nil, nil }
