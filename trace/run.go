package trace

import (
	"context"
	"iter"
)

// Run traces the path and returns what it found. When ctx ends it returns what
// is known so far together with ctx's error.
func Run(ctx context.Context, opt Options) (*Result, error) {
	var f Fold
	var failed error
	for ev, err := range Events(ctx, opt) {
		if err != nil {
			failed = err
			break
		}
		f.Add(ev)
	}
	return f.Result(), failed
}

// Events traces the path and yields what happens. A non-nil error is the last
// element; the events before it still fold into a valid Result.
func Events(ctx context.Context, opt Options) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		if !opt.Dst.IsValid() {
			yield(Event{}, ErrNoDestination)
		}
	}
}

// Sample asks the destination of res, and each router that answered, by direct
// echoes, which limits on ICMP errors do not touch. It fills res.Destination
// and Hop.Direct and reads the result again. A destination that answers no
// echo is asked by TCP connects. When ctx ends it fills in what is known and
// returns ctx's error.
func Sample(ctx context.Context, res *Result, opt SampleOptions) error { return ctx.Err() }

// Event is something that happened in a trace.
type Event struct{}

// Fold makes a Result of events. The zero Fold is ready; Result may be called
// at any time, for a live view.
type Fold struct{}

// Add takes the next event.
func (f *Fold) Add(Event) {}

// Result returns the trace so far, its reading included.
func (f *Fold) Result() *Result { return &Result{Schema: Schema} }
