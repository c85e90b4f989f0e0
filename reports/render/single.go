package render

import (
	"io"
	"slices"
	"time"

	"github.com/whyslow/whyslow/dnscheck"
	"github.com/whyslow/whyslow/dnscheck/lookups"
	"github.com/whyslow/whyslow/httpcheck"
	"github.com/whyslow/whyslow/internal/millis"
	"github.com/whyslow/whyslow/pmtu"
	"github.com/whyslow/whyslow/reports"
	"github.com/whyslow/whyslow/trace"
)

// part holds the results of the instruments that ran; the others are nil.
type part struct {
	http  *httpcheck.Result
	dns   *dnscheck.Result
	trace *trace.Result
	pmtu  *pmtu.Result
	// lookups stands alone: it is of a log, not of a target.
	lookups *lookups.Result
	// loadNote says why the load of a verdict is not the total of http.
	loadNote string
}

// partOf are the instruments of a report.
func partOf(r *reports.Report) part {
	p := part{http: r.HTTP, dns: r.DNS, trace: r.Trace, pmtu: r.PMTU}
	if r.HTTP != nil {
		second := slices.ContainsFunc(r.Verdict.Evidence, func(e reports.Evidence) bool { return e.Rule == "second-request" })
		p.loadNote = loadNote(r.Verdict.Typical, second, r.HTTP)
	}
	return p
}

// instruments writes the sections of the instruments that ran.
func (s *sheet) instruments(p part, verbose bool) {
	if p.http != nil {
		s.http(p, verbose)
	}
	if p.dns != nil {
		s.dns(p.dns, verbose)
	}
	if p.trace != nil {
		s.path(p.trace, verbose)
		if p.trace.Paths != nil {
			s.paths(p.trace, verbose)
		}
	}
	if p.pmtu != nil {
		s.pmtu(p.pmtu)
	}
	if p.lookups != nil {
		s.lookups(p.lookups)
	}
}

// measured says when an instrument ran, which a result that is passed around
// on its own must say itself.
func (p part) measured() string {
	var started time.Time
	var elapsed millis.Value
	switch {
	case p.http != nil:
		started, elapsed = p.http.Started, p.http.Elapsed
	case p.dns != nil:
		started, elapsed = p.dns.Started, p.dns.Elapsed
	case p.trace != nil:
		started, elapsed = p.trace.Started, p.trace.Elapsed
	case p.pmtu != nil:
		started, elapsed = p.pmtu.Started, p.pmtu.Elapsed
	case p.lookups != nil:
		started, elapsed = p.lookups.Started, p.lookups.Elapsed
	}
	text := "measured " + stamp(started)
	if elapsed.Known() {
		text += ", took " + elapsed.String()
	}
	return text
}

// single returns the forms of one instrument's result; of names it, and puts
// it where the sections of a report would find it.
func single[T any](title string, of func(*T) (name string, p part)) Forms[T] {
	return Forms[T]{
		Text: func(w io.Writer, v *T, opt Options) error {
			_, p := of(rewrite(v, visible))
			s := newSheet(opt)
			s.instruments(p, opt.Verbose)
			s.gap()
			s.para("  ", "  ", cell{p.measured(), dim})
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
