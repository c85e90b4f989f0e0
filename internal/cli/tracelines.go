package cli

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/whyslow/whyslow/reports/render"
	"github.com/whyslow/whyslow/trace"
)

// recorder writes the events of a trace as JSON lines while it runs: to stdout,
// and into memory for -o.
type recorder struct {
	mu   sync.Mutex // a trace that was interrupted may still be ending
	over bool
	out  io.Writer     // nil: not to stdout
	kept *bytes.Buffer // nil: for no file
	err  error         // of stdout; the trace goes on
}

// newRecorder returns the recorder that the flags ask for, nil if none does.
func newRecorder(env *Env, c *common) *recorder {
	r := &recorder{}
	if c.format == formatLines && !(c.quiet && len(c.outputs) > 0) {
		r.out = env.Out
	}
	if slices.ContainsFunc(c.outputs, func(o output) bool { return o.format == formatLines }) {
		r.kept = &bytes.Buffer{}
	}
	if r.out == nil && r.kept == nil {
		return nil
	}
	return r
}

func (r *recorder) event(ev trace.Event) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return
	}
	if r.kept != nil {
		_ = render.JSONLine(r.kept, &ev) // a buffer takes everything
	}
	if r.out != nil && r.err == nil {
		r.err = render.JSONLine(r.out, &ev)
	}
}

// deliverRecorded ends a recording with the results, and writes v, which holds
// them, as the other flags ask.
func deliverRecorded[T any](r *recorder, env *Env, c *common, forms render.Forms[T], v *T, results ...*trace.Result) error {
	if r == nil {
		return deliver(env, c, forms, v)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
	var last bytes.Buffer
	for i, res := range results {
		ev := trace.Event{Kind: trace.ResultLine, At: time.Now().UTC(), Trace: i}
		if err := render.JSONLine(&last, &trace.Line{Event: ev, Result: res}); err != nil {
			return err
		}
	}
	forms.More = append(slices.Clone(forms.More), render.Form[T]{
		Name: formatLines,
		Write: func(w io.Writer, _ *T, _ render.Options) error {
			_, err := w.Write(append(slices.Clone(r.kept.Bytes()), last.Bytes()...))
			return err
		},
	})
	if c.format != formatLines {
		return deliver(env, c, forms, v)
	}
	if r.out != nil && r.err == nil {
		_, r.err = r.out.Write(last.Bytes())
	}
	if r.err != nil {
		r.err = fmt.Errorf("writing the result to stdout: %w", reason(r.err))
	}
	return unwritten(r.err, save(env, c, forms, v))
}
