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

// deliver ends the recording with the result, and writes that as the other
// flags ask.
func (r *recorder) deliver(env *Env, c *common, forms render.Forms[trace.Result], res *trace.Result) error {
	if r == nil {
		return deliver(env, c, forms, res)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
	last := trace.Line{Event: trace.Event{Kind: trace.ResultLine, At: time.Now().UTC()}, Result: res}
	forms.More = append(slices.Clone(forms.More), render.Form[trace.Result]{
		Name: formatLines,
		Write: func(w io.Writer, _ *trace.Result, _ render.Options) error {
			if _, err := w.Write(r.kept.Bytes()); err != nil {
				return err
			}
			return render.JSONLine(w, &last)
		},
	})
	if c.format != formatLines {
		return deliver(env, c, forms, res)
	}
	if r.out != nil && r.err == nil {
		r.err = render.JSONLine(r.out, &last)
	}
	if r.err != nil {
		r.err = fmt.Errorf("writing the result to stdout: %w", reason(r.err))
	}
	return unwritten(r.err, save(env, c, forms, res))
}
