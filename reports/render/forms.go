package render

import (
	"fmt"
	"io"
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
	// More are the forms that only a T has.
	More []Form[T]
}

// Form is a form by name.
type Form[T any] struct {
	Name  string
	Write FuncOf[T]
}

// ReportForms returns the forms of a whole report.
func ReportForms() Forms[reports.Report] {
	return Forms[reports.Report]{Text: Text, JSON: JSON, Markdown: Markdown, HTML: HTML}
}

// TraceForms returns the forms of a path trace on its own.
func TraceForms() Forms[trace.Result] {
	f := single("Path to", func(t *trace.Result) (string, part) { return t.Target.Name, part{trace: t} })
	f.More = []Form[trace.Result]{{"csv", TraceCSV}, {"mtr", MTR}, {"dot", TraceDOT}}
	return f
}

// TraceGroupForms returns the forms of several traces: one after the other, as
// CSV below one head, as JSON an object each.
func TraceGroupForms() Forms[[]*trace.Result] {
	one := TraceForms()
	return Forms[[]*trace.Result]{
		Text: several(one.Text, "\n"), JSON: several(one.JSON, ""), Markdown: several(one.Markdown, "\n"),
		More: []Form[[]*trace.Result]{{"csv", tracesCSV}, {"mtr", several(MTR, "\n")}},
	}
}

// several writes one T after the other.
func several[T any](write FuncOf[T], between string) FuncOf[[]*T] {
	return func(w io.Writer, all *[]*T, opt Options) error {
		for i, v := range *all {
			if i > 0 {
				if _, err := io.WriteString(w, between); err != nil {
					return fmt.Errorf("render: writing several: %w", err)
				}
			}
			if err := write(w, v, opt); err != nil {
				return err
			}
		}
		return nil
	}
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

// extensions are the names of files that stand for a form of another name.
var extensions = map[string]string{"txt": "text", "md": "markdown", "htm": "html", "gv": "dot"}

// ByName returns the form called text, json, markdown or html, or one of More;
// the usual extensions of files are understood too.
func (f Forms[T]) ByName(name string) (FuncOf[T], error) {
	name = strings.ToLower(name)
	if long, ok := extensions[name]; ok {
		name = long
	}
	for _, form := range f.all() {
		if form.Name == name && form.Write != nil {
			return form.Write, nil
		}
	}
	return nil, fmt.Errorf("render: no format %q: want %s", name, oneOf(f.Names(), ""))
}

// ByExtension returns the form that the name of a file asks for: .txt, .json,
// .md, .html, their longer spellings, or the name of one of More.
func (f Forms[T]) ByExtension(path string) (FuncOf[T], error) {
	ext := filepath.Ext(path)
	fn, err := f.ByName(strings.TrimPrefix(ext, "."))
	if err != nil {
		return nil, fmt.Errorf("render: no format for a file named %q: want %s", path, oneOf(f.Extensions(), "."))
	}
	return fn, nil
}

func (f Forms[T]) all() []Form[T] {
	return append([]Form[T]{{"text", f.Text}, {"json", f.JSON}, {"markdown", f.Markdown}, {"html", f.HTML}}, f.More...)
}

// Names returns the names of the forms, for help texts and completion.
func (f Forms[T]) Names() []string {
	var names []string
	for _, form := range f.all() {
		if form.Write != nil {
			names = append(names, form.Name)
		}
	}
	return names
}

// Extensions returns what the names of files end in, without the dot, in the
// order of Names.
func (f Forms[T]) Extensions() []string {
	short := map[string]string{"text": "txt", "markdown": "md"}
	names := f.Names()
	for i, name := range names {
		if ext, ok := short[name]; ok {
			names[i] = ext
		}
	}
	return names
}

// oneOf lists alternatives, each behind a prefix.
func oneOf(names []string, prefix string) string {
	last := len(names) - 1
	return prefix + strings.Join(names[:last], ", "+prefix) + " or " + prefix + names[last]
}

// ByName returns the form of a report called text, json, markdown or html.
func ByName(name string) (Func, error) { return ReportForms().ByName(name) }

// ByExtension returns the form of a report that the name of a file asks for.
func ByExtension(path string) (Func, error) { return ReportForms().ByExtension(path) }

// Names returns the names of the forms of a report.
func Names() []string { return ReportForms().Names() }
