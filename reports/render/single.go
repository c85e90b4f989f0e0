package render

import (
	"io"

	"github.com/whyslow/whyslow/dnscheck"
	"github.com/whyslow/whyslow/httpcheck"
	"github.com/whyslow/whyslow/pmtu"
	"github.com/whyslow/whyslow/trace"
)

// part holds the results of the instruments that ran; the others are nil.
type part struct {
	http  *httpcheck.Result
	dns   *dnscheck.Result
	trace *trace.Result
	pmtu  *pmtu.Result
}

// instruments writes the sections of the instruments that ran.
func (s *sheet) instruments(p part, verbose bool) {
	if p.http != nil {
		s.http(p.http, verbose)
	}
	if p.dns != nil {
		s.dns(p.dns, verbose)
	}
	if p.trace != nil {
		s.path(p.trace, verbose)
	}
	if p.pmtu != nil {
		s.pmtu(p.pmtu)
	}
}

// single returns the forms of one instrument's result; of names it, and puts
// it where the sections of a report would find it.
func single[T any](title string, of func(*T) (name string, p part)) Forms[T] {
	return Forms[T]{
		Text: func(w io.Writer, v *T, opt Options) error {
			_, p := of(rewrite(v, visible))
			s := newSheet(opt)
			s.instruments(p, opt.Verbose)
			return s.flush(w)
		},
		JSON: func(w io.Writer, v *T, _ Options) error { return writeJSON(w, v) },
		Markdown: func(w io.Writer, v *T, opt Options) error {
			name, p := of(rewrite(v, visible))
			return singleMarkdown(w, title, name, p, opt)
		},
		HTML: func(w io.Writer, v *T, opt Options) error {
			name, p := of(rewrite(v, visible))
			return singleHTML(w, title, name, p, opt)
		},
	}
}
