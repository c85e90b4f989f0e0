package render

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/whyslow/whyslow/reports"
)

const (
	// maxMarkdown keeps a report below the 65,536 characters of a GitHub
	// comment, counted in bytes to be safe with anyone's way of counting.
	maxMarkdown = 65_000
	// maxSummary bounds the part before the details, in characters: what still
	// fits a chat message.
	maxSummary = 2_500
	// maxFact bounds each fact of the summary, which has to stay short.
	maxFact = 150
	// markdownWidth is that of a code block nobody has to scroll.
	markdownWidth = 78
)

// Markdown writes the report for a ticket: a summary of at most 2,500
// characters, a rule, and the details, below 65,536 characters in all. Tables
// are code blocks, which GitHub, Slack and Jira all show alike.
func Markdown(w io.Writer, r *reports.Report, opt Options) error {
	r = rewrite(r, visible)
	m := &markdown{}
	m.summary(r)
	m.b.WriteString("\n---\n")
	m.evidence("Evidence", r.Verdict.Evidence, true)
	m.evidence("Counter-evidence", r.Verdict.Evidence, false)
	m.list("Next", r.Verdict.Next)
	m.instruments(partOf(r), opt.Verbose)
	m.list("Ruled out", r.Verdict.RuledOut)
	m.list("Warnings", r.Verdict.Warnings)
	m.section("Reproduce", func(s *sheet) { s.facts(reproduceFacts(r), 0) })
	return m.flush(w)
}

// singleMarkdown writes the sections of one instrument.
func singleMarkdown(w io.Writer, title, name string, p part, opt Options) error {
	m := &markdown{}
	m.line("### " + title + " " + markdownCode(cut(orDash(name), 200)))
	m.line("")
	m.line(markdownProse(capital(p.measured())) + ".")
	m.line("")
	m.block(func(s *sheet) { s.instruments(p, opt.Verbose) })
	return m.flush(w)
}

// markdown collects a document; what no longer fits is counted and left out.
type markdown struct {
	b       strings.Builder
	dropped int // lines
}

// leftOver is the room that the note on dropped lines and the end of a code
// block need.
const leftOver = 200

// line writes a line if it fits.
func (m *markdown) line(s string) {
	if m.dropped > 0 || m.b.Len()+len(s)+1 > maxMarkdown-leftOver {
		m.dropped++
		return
	}
	m.b.WriteString(s)
	m.b.WriteByte('\n')
}

func (m *markdown) flush(w io.Writer) error {
	if m.dropped > 0 {
		fmt.Fprintf(&m.b, "\n%s left out to stay below 65,536 characters; the JSON form has all.\n", count(m.dropped, "line"))
	}
	if _, err := io.WriteString(w, m.b.String()); err != nil {
		return fmt.Errorf("render: writing Markdown: %w", err)
	}
	return nil
}

// heading begins a section.
func (m *markdown) heading(title string) {
	m.line("")
	m.line("### " + title)
	m.line("")
}

// block writes what draw puts on a page as a code block.
func (m *markdown) block(draw func(s *sheet)) {
	s := newSheet(Options{Width: markdownWidth})
	s.untitled = true // the Markdown heading has it
	draw(s)
	text := strings.Trim(s.b.String(), "\n")
	if text == "" || m.dropped > 0 {
		m.dropped += strings.Count(text, "\n")
		return
	}
	m.b.WriteString("```text\n")
	for line := range strings.Lines(text) {
		m.line(markdownBlock(strings.TrimSuffix(line, "\n")))
	}
	m.b.WriteString("```\n")
}

// section writes a heading and a code block.
func (m *markdown) section(title string, draw func(s *sheet)) {
	m.heading(title)
	m.block(draw)
}

// instruments writes one section for each instrument that ran.
func (m *markdown) instruments(p part, verbose bool) {
	if p.http != nil {
		m.section("HTTP phases", func(s *sheet) { s.http(p, verbose) })
	}
	if p.dns != nil {
		m.section("DNS", func(s *sheet) { s.dns(p.dns, verbose) })
	}
	if p.trace != nil {
		m.section("Path", func(s *sheet) { s.path(p.trace, verbose) })
		if p.trace.Paths != nil {
			m.section("Parallel paths", func(s *sheet) { s.paths(p.trace, true) })
		}
	}
	if p.pmtu != nil {
		m.section("Path MTU", func(s *sheet) { s.pmtu(p.pmtu) })
	}
}

// summary writes the verdict, the blame and the first pieces of evidence.
func (m *markdown) summary(r *reports.Report) {
	v := &r.Verdict
	var b strings.Builder
	fmt.Fprintf(&b, "**%s.** %s", layerName(v.Layer), markdownProse(cut(sentence(r), 400)))
	if v.Layer != "" {
		b.WriteString(" " + capital(confidence(v.Confidence)) + ".")
	}
	b.WriteString("\n\n")
	s := newSheet(Options{Width: markdownWidth})
	facts := verdictFacts(r)
	for i := range facts {
		facts[i].value = cut(facts[i].value, maxFact)
	}
	s.facts(facts, 0)
	top := *v
	top.Blame = slices.Clone(top.Blame[:min(len(top.Blame), 5)])
	for i := range top.Blame {
		top.Blame[i].Where = cut(top.Blame[i].Where, markdownWidth-6)
		top.Blame[i].Component = cut(top.Blame[i].Component, 30)
	}
	s.blame(&top)
	b.WriteString("```text\n" + markdownBlock(s.b.String()) + "```\n")

	// What follows is as much as the limit leaves room for.
	room := func(s string) bool {
		return utf8.RuneCountInString(b.String())+utf8.RuneCountInString(s) <= maxSummary
	}
	items := summaryItems(v)
	for i, item := range items {
		if i == 0 {
			item = "\n" + item
		}
		if !room(item) {
			break
		}
		b.WriteString(item)
	}
	m.b.WriteString(b.String())
}

// summaryItems are the strongest lines of the verdict as list items.
func summaryItems(v *reports.Verdict) []string {
	var items []string
	for _, supports := range []bool{true, false} {
		n := 0
		for _, e := range v.Evidence {
			if e.Supports == supports && n < 3 {
				items = append(items, evidenceItem(e, 250))
				n++
			}
		}
	}
	for _, text := range v.Next[:min(len(v.Next), 2)] {
		items = append(items, "- Next: "+markdownProse(cut(text, 250))+"\n")
	}
	return items
}

// evidenceItem writes a piece of evidence as a list item of at most about
// twice limit columns.
func evidenceItem(e reports.Evidence, limit int) string {
	prefix := "- "
	if !e.Supports {
		prefix = "- Against it: "
	}
	text := prefix + markdownProse(cut(e.Claim, limit))
	var held []string
	for _, f := range comparison(e) {
		held = append(held, f.name+": "+f.value)
	}
	if len(held) > 0 {
		text += " (" + markdownProse(cut(strings.Join(held, "; "), limit)) + ")"
	}
	return text + "\n"
}

func (m *markdown) evidence(title string, all []reports.Evidence, supports bool) {
	shown := false
	for _, e := range all {
		if e.Supports != supports {
			continue
		}
		if !shown {
			m.heading(title)
			shown = true
		}
		e.Supports = true // the heading has said it
		item := strings.TrimSuffix(evidenceItem(e, maxText), "\n")
		if e.Rule != "" {
			item += " " + markdownCode(cut(e.Rule, 60))
		}
		m.line(item)
	}
}

func (m *markdown) list(title string, items []string) {
	if len(items) == 0 {
		return
	}
	m.heading(title)
	for _, item := range items {
		m.line("- " + markdownProse(item))
	}
}
