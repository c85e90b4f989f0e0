package render

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/whyslow/whyslow/dnscheck"
	"github.com/whyslow/whyslow/httpcheck"
	"github.com/whyslow/whyslow/pmtu"
	"github.com/whyslow/whyslow/reports"
	"github.com/whyslow/whyslow/trace"
)

// Forms are the forms in which a T can be written.
type Forms[T any] struct {
	Text, JSON, Markdown, HTML FuncOf[T]
}

// ReportForms returns the forms of a whole report.
func ReportForms() Forms[reports.Report] {
	return Forms[reports.Report]{Text: Text, JSON: JSON, Markdown: Markdown, HTML: HTML}
}

// TraceForms returns the forms of a path trace on its own.
func TraceForms() Forms[trace.Result] {
	return single("Path to", func(t *trace.Result) (string, part) { return t.Target.Name, part{trace: t} })
}

// PMTUForms returns the forms of a path MTU measurement on its own.
func PMTUForms() Forms[pmtu.Result] {
	return single("Path MTU to", func(p *pmtu.Result) (string, part) { return p.Target.Name, part{pmtu: p} })
}

// DNSForms returns the forms of a resolution on its own.
func DNSForms() Forms[dnscheck.Result] {
	return single("Resolution of", func(d *dnscheck.Result) (string, part) { return d.Name, part{dns: d} })
}

// HTTPForms returns the forms of an HTTP timing on its own.
func HTTPForms() Forms[httpcheck.Result] {
	return single("Timing of", func(h *httpcheck.Result) (string, part) { return h.URL, part{http: h} })
}

// ByName returns the form called text, json, markdown or html; txt, md and htm
// are understood too.
func (f Forms[T]) ByName(name string) (FuncOf[T], error) {
	var fn FuncOf[T]
	switch strings.ToLower(name) {
	case "text", "txt":
		fn = f.Text
	case "json":
		fn = f.JSON
	case "markdown", "md":
		fn = f.Markdown
	case "html", "htm":
		fn = f.HTML
	}
	if fn == nil {
		return nil, fmt.Errorf("render: no format %q: want text, json, markdown or html", name)
	}
	return fn, nil
}

// ByExtension returns the form that the name of a file asks for: .txt, .json,
// .md or .html, and their longer spellings.
func (f Forms[T]) ByExtension(path string) (FuncOf[T], error) {
	ext := filepath.Ext(path)
	fn, err := f.ByName(strings.TrimPrefix(ext, "."))
	if err != nil {
		return nil, fmt.Errorf("render: no format for a file named %q: want .txt, .json, .md or .html", path)
	}
	return fn, nil
}

// ByName returns the form of a report called text, json, markdown or html.
func ByName(name string) (Func, error) { return ReportForms().ByName(name) }

// ByExtension returns the form of a report that the name of a file asks for.
func ByExtension(path string) (Func, error) { return ReportForms().ByExtension(path) }

// Names returns the names of the forms, for help texts and completion.
func Names() []string { return []string{"text", "json", "markdown", "html"} }
