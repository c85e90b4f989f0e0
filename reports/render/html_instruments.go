package render

import (
	"fmt"
	"strings"

	"github.com/whyslow/whyslow/dnscheck"
	"github.com/whyslow/whyslow/pmtu"
	"github.com/whyslow/whyslow/trace"
)

// instruments returns one section for each instrument that ran.
func (b *builder) instruments(p part, verbose bool) []section {
	var out []section
	if p.http != nil {
		out = append(out, b.http(p, verbose))
	}
	if p.dns != nil {
		out = append(out, b.dns(p.dns, verbose))
	}
	if p.trace != nil {
		out = append(out, b.path(p.trace))
		if p.trace.Paths != nil {
			out = append(out, b.paths(p.trace.Paths))
		}
	}
	if p.pmtu != nil {
		out = append(out, b.pmtu(p.pmtu))
	}
	if p.lookups != nil {
		out = append(out, b.lookups(p.lookups))
	}
	return out
}

func (b *builder) http(p part, verbose bool) section {
	h := p.http
	cold, warm, note := shownPhases(h)
	s := section{ID: "http", Title: "HTTP phases", Note: note}
	if f := h.Failure; f != nil {
		s.Parts = append(s.Parts, listView{"warnings", []itemView{{Text: b.text("failed in " + failureText(f))}}})
	}
	if note != "" {
		s.Parts = append(s.Parts, newWaterfall(&cold, &warm))
	}
	if p.loadNote != "" {
		s.Parts = append(s.Parts, listView{"notes", []itemView{{Text: b.text(p.loadNote)}}})
	}
	if facts := b.facts(httpFacts(h)); len(facts) > 0 {
		s.Parts = append(s.Parts, factList{"lines", facts})
	}
	if t := redirectsTable(h); t != nil {
		s.Parts = append(s.Parts, b.table("Redirects: "+redirectsNote, t))
	}
	if t := byRequestTable(h, verbose); t != nil {
		s.Parts = append(s.Parts, b.table("Requests: "+byRequestNote, t))
	}
	if len(h.Controls) > 0 {
		s.Parts = append(s.Parts, b.table("Controls: "+controlsNote, controlsTable(h.Controls)))
	}
	s.Parts = append(s.Parts, b.notes(h.Warnings)...)
	if len(h.Samples) > 0 {
		t := b.table("", samplesTable(h.Samples))
		s.Parts = append(s.Parts, foldView{"fold", fmt.Sprintf("All %s, %s", count(len(h.Samples), "sample"), samplesNote), t})
	}
	return s
}

// foldView hides a table until it is asked for.
type foldView struct {
	Kind, Title string
	Table       tableView
}

func (b *builder) dns(d *dnscheck.Result, verbose bool) section {
	s := section{ID: "dns", Title: "DNS", Note: b.text(dnsNote(d))}
	findings := listView{Kind: "findings"}
	for _, f := range d.Findings {
		if b.fit(f.Component, findingText(f)) {
			findings.Items = append(findings.Items, itemView{Text: findingText(f), Tag: f.Component})
		}
	}
	if len(findings.Items) > 0 {
		s.Parts = append(s.Parts, findings)
	}
	if st := d.Stub; st != nil && len(st.Steps) > 0 {
		t := b.table(capital(stubNote(st)), stubTable(st, verbose))
		s.Parts = append(s.Parts, t)
		if n := len(st.Steps) - maxSteps; n > 0 && !verbose {
			s.Parts = append(s.Parts, listView{"list", []itemView{{Text: "… and " + count(n, "step") + " more"}}})
		}
	}
	if len(d.Servers) > 0 {
		s.Parts = append(s.Parts, b.table(capital(serversTitle(serversNote, d.Servers)), serversTable(d.Servers)))
	}
	if len(d.Cold) > 0 {
		s.Parts = append(s.Parts, b.table(capital(serversTitle(coldNote, d.Cold)), serversTable(d.Cold)))
	}
	if len(d.Controls) > 0 {
		s.Parts = append(s.Parts, b.table(capital(serversTitle(dnsControlsNote, d.Controls)), serversTable(d.Controls)))
	}
	if len(d.Reverse) > 0 {
		s.Parts = append(s.Parts, b.table(capital(reverseNote), reverseTable(d.Reverse)))
	}
	if d.Walk != nil {
		if len(d.Delegation) > 0 {
			s.Parts = append(s.Parts, b.table(capital(walkTitle(d.Walk)), delegationTable(d.Delegation, true)))
		}
		notes := walkNotes(d, true)
		for _, a := range d.Walk.Aliases {
			notes = append(notes, aliasText(a))
		}
		s.Parts = append(s.Parts, b.notes(notes)...)
	}
	facts := []fact{{"configuration", configText(&d.Config)}}
	if d.Stub != nil && len(d.Stub.CNAME) > 0 {
		facts = append(facts, fact{"CNAME chain", strings.Join(d.Stub.CNAME, " → ")})
	}
	s.Parts = append(s.Parts, factList{"lines", b.facts(facts)})
	if d.Stub != nil {
		s.Parts = append(s.Parts, b.notes(d.Stub.Notes)...)
	}
	s.Parts = append(s.Parts, b.notes(d.Warnings)...)
	return s
}

func (b *builder) path(t *trace.Result) section {
	s := section{ID: "path", Title: "Path", Note: b.text(pathNote(t))}
	if len(t.Hops) > 0 {
		s.Parts = append(s.Parts, newHopChart(t), b.table("", pathTable(t, true)))
	}
	reading := listView{Kind: "findings"}
	for _, r := range t.Reading {
		if b.fit(r.Rule, r.Text) {
			reading.Items = append(reading.Items, itemView{Text: r.Text, Tag: r.Rule, Tone: "network"})
		}
	}
	if len(reading.Items) > 0 {
		s.Parts = append(s.Parts, reading)
	}
	s.Parts = append(s.Parts, b.notes(t.Warnings)...)
	return s
}

func (b *builder) pmtu(p *pmtu.Result) section {
	s := section{ID: "pmtu", Title: "Path MTU", Note: b.text(pmtuNote(p))}
	if facts := b.facts(pmtuPlain(p)); len(facts) > 0 {
		s.Parts = append(s.Parts, factList{"lines", facts})
	}
	s.Parts = append(s.Parts, b.notes(p.Warnings)...)
	return s
}
