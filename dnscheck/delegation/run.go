package delegation

import (
	"context"
	"iter"

	"github.com/whyslow/whyslow/dnscheck"
)

// Run walks for one name; see Walker.
func Run(ctx context.Context, name string, qtype uint16, o Options) (*Result, error) {
	w, err := NewWalker(o)
	if err != nil {
		return nil, err
	}
	return w.Walk(ctx, name, qtype)
}

// Events walks for one name and yields what it learned: the zones, the root
// first, warnings, and how the walk ended. Folding them into a
// dnscheck.Result and calling Find gives the findings. The one possible error,
// of the options or the name, comes first and alone.
func Events(ctx context.Context, name string, qtype uint16, o Options) iter.Seq2[dnscheck.Event, error] {
	return func(yield func(dnscheck.Event, error) bool) {
		r, err := Run(ctx, name, qtype, o)
		if err != nil {
			yield(dnscheck.Event{}, err)
			return
		}
		for i := range r.Zones {
			if !yield(dnscheck.Event{Zone: &r.Zones[i]}, nil) {
				return
			}
		}
		for _, s := range r.Warnings {
			if !yield(dnscheck.Event{Warning: s}, nil) {
				return
			}
		}
		yield(dnscheck.Event{Walk: &r.Walk}, nil)
	}
}
