package render

import (
	"fmt"
	"math"
	"strings"

	"github.com/whyslow/whyslow/internal/millis"
	"github.com/whyslow/whyslow/reports"
)

// reportPage lays out a report: verdict, blame, evidence, what the instruments
// saw, what is ruled out, what to do next, and how to see it again.
func reportPage(r *reports.Report, verbose bool) *page {
	b := newBuilder()
	v := &r.Verdict
	p := &page{
		Title:    "whyslow: " + layerName(v.Layer) + " · " + cut(targetText(r), 120),
		Heading:  b.text(targetText(r)),
		Subtitle: measuredText(r),
		Tone:     tone(v.Layer),
		Verdict:  b.verdict(r),
		Footer:   "Written by " + joined(" ", orName(r.Tool.Name), r.Tool.Version) + ". " + legend,
	}
	p.Sections = append(p.Sections, b.blame(v)...)
	p.Sections = append(p.Sections, b.evidence(v.Evidence)...)
	p.Sections = append(p.Sections, b.list("next", "Next", "steps", v.Next)...)
	p.Sections = append(p.Sections, b.instruments(partOf(r), verbose)...)
	p.Sections = append(p.Sections, b.list("ruled-out", "Ruled out", "list", v.RuledOut)...)
	p.Sections = append(p.Sections, b.list("warnings", "Warnings", "warnings", v.Warnings)...)
	p.Sections = append(p.Sections, b.reproduce(r)...)
	p.LeftOut = b.leftOut()
	return p
}

// orName is the name of the program.
func orName(s string) string {
	if s == "" {
		return "whyslow"
	}
	return s
}

func (b *builder) verdict(r *reports.Report) *verdictView {
	v := &r.Verdict
	out := &verdictView{Layer: layerName(v.Layer), Sentence: b.text(sentence(r))}
	if v.Layer != "" && !math.IsNaN(v.Confidence) {
		out.Confidence = fmt.Sprintf("%.2f", v.Confidence)
		out.Word = confidenceWord(v.Confidence)
		out.Ring = newRing(v.Confidence)
	}
	if c := cause(v); c != "" {
		out.Facts = append(out.Facts, b.facts([]fact{{"Cause", c}})...)
	}
	if v.Where != "" {
		out.Facts = append(out.Facts, b.facts([]fact{{"Where", v.Where}})...)
	}
	if v.Typical.Known() {
		out.Figures = append(out.Figures, factView{"cold load", v.Typical.String()})
	}
	if v.Healthy.Known() && v.Healthy != v.Typical {
		out.Figures = append(out.Figures, factView{"without the faults", v.Healthy.String()})
	}
	if v.Failed {
		out.Notes = append(out.Notes, "The target could not be measured.")
	}
	if v.Mixed {
		out.Notes = append(out.Notes, "More than one large cause: the largest names the verdict.")
	}
	if r.Interrupted {
		out.Notes = append(out.Notes, "The measurement was interrupted: what follows is incomplete.")
	}
	return out
}

// blame draws a healthy load and the faults on top of it as one bar, and
// lists the faults.
func (b *builder) blame(v *reports.Verdict) []section {
	if len(v.Blame) == 0 {
		return nil
	}
	parts := []any{newStack(v)}
	t := &table{cols: []column{
		{}, {head: "Cause"}, {head: "Share", right: true}, {head: "Excess", right: true}, {head: "Saves alone", right: true}, {head: "Where", below: true},
	}}
	for _, bl := range v.Blame {
		t.addRow(cell{text: "■", style: layerStyle(bl.Layer)}, cell{string(bl.Layer) + " / " + bl.Component, bold}, cell{text: percent(bl.Share)},
			cell{text: millis.OfFloat(bl.MS).String()}, cell{text: millis.OfFloat(bl.SavesMS).String()}, cell{text: bl.Where})
	}
	parts = append(parts, b.table("", t))
	return []section{{ID: "blame", Title: "Where the time goes", Note: "a healthy load, and what exceeds it", Parts: parts}}
}

func (b *builder) evidence(all []reports.Evidence) []section {
	out := evidenceView{Kind: "evidence"}
	for _, e := range all {
		if !b.fit(e.Claim, e.Rule, e.Observed, e.Threshold) {
			continue
		}
		item := evidenceItemView{e.Claim, e.Rule, e.Observed, e.Threshold}
		if e.Supports {
			out.For = append(out.For, item)
		} else {
			out.Against = append(out.Against, item)
		}
	}
	if len(out.For)+len(out.Against) == 0 {
		return nil
	}
	return []section{{ID: "evidence", Title: "Evidence", Note: "observations held against the rules of the verdict", Parts: []any{out}}}
}

func (b *builder) reproduce(r *reports.Report) []section {
	facts := reproduceFacts(r)
	command := codeView{Kind: "code", Text: b.text("$ " + facts[0].value)}
	return []section{{ID: "reproduce", Title: "Reproduce", Parts: []any{command, factList{"facts", b.facts(facts[1:])}}}}
}

// table turns a table of the text form into one of HTML.
func (b *builder) table(caption string, t *table) tableView {
	_, place := t.natural()
	out := tableView{Kind: "table", Caption: caption}
	for i, c := range t.cols {
		if place[i] == aligned {
			out.Head = append(out.Head, tdView{Text: c.head, Num: c.right, Chart: c.chart})
		}
	}
	for _, r := range t.rows {
		texts := make([]string, 0, len(r.cells))
		for _, c := range r.cells {
			texts = append(texts, c.text)
		}
		if b.fit(texts...) {
			out.Rows = append(out.Rows, t.htmlRow(r, place))
		}
	}
	return out
}

// htmlRow lays out one row.
func (t *table) htmlRow(r row, place []placement) trView {
	var out trView
	for i, c := range r.cells {
		if t.cols[i].below {
			out.Below = nonEmpty(" · ", out.Below, c.text)
		}
		if place[i] != aligned {
			continue
		}
		td := tdView{Text: strings.TrimSpace(c.text), Num: t.cols[i].right, Chart: t.cols[i].chart, Name: t.cols[i].flex, Class: c.style.class()}
		if td.Chart {
			td.Bar = newBar(r.span, t.full)
		}
		out.Cells = append(out.Cells, td)
	}
	return out
}

// tableView is a table of cells.
type tableView struct {
	Kind, Caption string
	Head          []tdView
	Rows          []trView
}

// Width is how many columns the table has.
func (t tableView) Width() int { return len(t.Head) }

// trView is a row, and the prose that stands below it.
type trView struct {
	Cells []tdView
	Below string
}

type tdView struct {
	Text, Class string
	Num, Chart  bool
	Name        bool // a name or a URL: breaks anywhere, but not into single letters
	Bar         barView
}

// class names a style in the style sheet.
func (s style) class() string {
	switch s {
	case bold:
		return "strong"
	case dim:
		return "dim"
	case good:
		return "none"
	case bad:
		return "server"
	case warn:
		return "client"
	case accent:
		return "network"
	case violet:
		return "dns"
	}
	return ""
}
