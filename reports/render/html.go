package render

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"strings"

	"github.com/whyslow/whyslow/reports"
)

//go:embed templates/page.html
var pageTemplate string

//go:embed templates/sections.html
var sectionsTemplate string

//go:embed templates/charts.html
var chartsTemplate string

//go:embed templates/page.css
var pageCSS string

// htmlBudget bounds the text of an HTML file in bytes, after escaping; with
// its markup the file stays below 1 MB, which every tracker takes.
const htmlBudget = 250_000

// legend explains what every page leaves unsaid.
const legend = "Times are UTC, durations milliseconds, a dash is a value that was not measured."

// HTML writes the report as one self-contained file: no script, nothing loaded
// from elsewhere, and a content security policy that would not allow either.
func HTML(w io.Writer, r *reports.Report, opt Options) error {
	r = rewrite(r, visible)
	return writeHTML(w, reportPage(r, opt.Verbose))
}

// singleHTML writes the sections of one instrument as a file of its own.
func singleHTML(w io.Writer, title, name string, p part, opt Options) error {
	b := newBuilder()
	page := &page{Title: title + " " + name, Heading: b.text(title + " " + name), Subtitle: p.measured(), Tone: "idle", Footer: legend}
	page.Sections = b.instruments(p, opt.Verbose)
	page.LeftOut = b.leftOut()
	return writeHTML(w, page)
}

func writeHTML(w io.Writer, p *page) error {
	t, err := template.New("page").Parse(pageTemplate)
	if err == nil {
		t, err = t.Parse(sectionsTemplate)
	}
	if err == nil {
		t, err = t.Parse(chartsTemplate)
	}
	if err != nil {
		return fmt.Errorf("render: parsing HTML template: %w", err)
	}
	// The policy allows this style sheet by its hash and no other. It is our
	// own text; everything else in the page is escaped by its place.
	p.CSS = template.CSS(pageCSS)
	sum := sha256.Sum256([]byte(pageCSS))
	p.StyleHash = "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
	var out bytes.Buffer
	if err := t.Execute(&out, p); err != nil {
		return fmt.Errorf("render: writing HTML: %w", err)
	}
	if _, err := w.Write(out.Bytes()); err != nil {
		return fmt.Errorf("render: writing HTML: %w", err)
	}
	return nil
}

// page is what the template shows. Every string in it is visible text.
type page struct {
	CSS       template.CSS
	StyleHash string
	Title     string
	Heading   string
	Subtitle  string // under the heading
	Tone      string // class of the layer's colour
	Verdict   *verdictView
	Sections  []section
	LeftOut   string
	Footer    string
}

// verdictView is the card at the top.
type verdictView struct {
	Layer, Sentence, Confidence string
	Word                        string // the confidence in words
	Ring                        ring
	Facts                       []factView
	Figures                     []factView // the numbers worth large type
	Notes                       []string
}

type factView struct{ Name, Value string }

// section is a heading and what stands under it, top to bottom.
type section struct {
	ID, Title, Note string
	Parts           []any // the part views below; the template knows each by its Kind
}

// The parts a section is made of.
type (
	listView struct {
		Kind  string // "list", "steps" or "warnings"
		Items []itemView
	}
	itemView struct{ Text, Tag, Tone string }
	factList struct {
		Kind  string // "facts" side by side, "lines" one below the other
		Facts []factView
	}
	evidenceView struct {
		Kind         string
		For, Against []evidenceItemView
	}
	evidenceItemView struct{ Claim, Rule, Observed, Threshold string }
	codeView         struct {
		Kind string
		Text string
	}
)

// builder turns a report into a page within a budget of text.
type builder struct {
	left    int
	dropped int
}

func newBuilder() *builder { return &builder{left: htmlBudget} }

// fit reports whether texts still fit and takes their room.
func (b *builder) fit(texts ...string) bool {
	cost := 0
	for _, t := range texts {
		cost += len(template.HTMLEscapeString(t)) + 24 // markup around it
	}
	if cost > b.left {
		b.dropped++
		return false
	}
	b.left -= cost
	return true
}

// text returns s if it fits.
func (b *builder) text(s string) string {
	if !b.fit(s) {
		return ellipsis
	}
	return s
}

func (b *builder) leftOut() string {
	if b.dropped == 0 {
		return ""
	}
	return count(b.dropped, "item") + " left out to keep this file small; the JSON form has all."
}

// facts keeps the facts that fit.
func (b *builder) facts(all []fact) []factView {
	var out []factView
	for _, f := range all {
		if b.fit(f.name, f.value) {
			out = append(out, factView{f.name, f.value})
		}
	}
	return out
}

// list returns a section of sentences; nothing for an empty one.
func (b *builder) list(id, title, kind string, items []string) []section {
	v := listView{Kind: kind}
	for _, text := range items {
		if b.fit(text) {
			v.Items = append(v.Items, itemView{Text: text})
		}
	}
	if len(v.Items) == 0 {
		return nil
	}
	return []section{{ID: id, Title: title, Parts: []any{v}}}
}

// notes returns the warnings of an instrument as a part, nil if it has none.
func (b *builder) notes(warnings []string) []any {
	var parts []any
	for _, s := range b.list("", "", "warnings", warnings) {
		parts = append(parts, s.Parts...)
	}
	return parts
}

// tone names the class of a layer's colour; a layer nobody knows gets none.
func tone(l reports.Layer) string {
	switch l {
	case reports.Network, reports.DNS, reports.Server, reports.Client, reports.None, reports.Inconclusive:
		return string(l)
	}
	return "idle"
}

// confidenceWord is the part of a confidence that is words.
func confidenceWord(p float64) string {
	word, _, _ := strings.Cut(confidence(p), " (")
	return word
}
