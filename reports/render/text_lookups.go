package render

import (
	"fmt"
	"slices"
	"strings"

	"github.com/whyslow/whyslow/dnscheck/lookups"
	"github.com/whyslow/whyslow/internal/apacheconf"
)

// LookupsForms returns the forms of what HostnameLookups would cost.
func LookupsForms() Forms[lookups.Result] {
	return single("HostnameLookups for", func(l *lookups.Result) (string, part) { return strings.Join(l.Sources, ", "), part{lookups: l} })
}

// lookups writes the answer, then what it rests on.
func (s *sheet) lookups(l *lookups.Result) {
	s.heading("HostnameLookups", lookupsNote(l))
	s.para("  ", "  ", cell{capital(l.Summary) + ".", bold})
	s.gap()
	scenariosTable(l).write(s)
	if t := outcomesTable(l); t != nil {
		s.gap()
		s.para("  ", "  ", cell{"What the lookups of addresses give", dim})
		t.write(s)
	}
	if t := networksTable(l); t != nil {
		s.gap()
		s.para("  ", "  ", cell{"Networks whose lookups cost the most", dim})
		t.write(s)
	}
	s.list("Who asks for names", apacheLines(l.Apache))
	s.list("What to do", l.Next)
	s.notes(l.Warnings)
}

// lookupsNote says what was read.
func lookupsNote(l *lookups.Result) string {
	parts := []string{count(l.Requests, "request"), fmt.Sprintf("%.0f addresses", l.Addresses), fmt.Sprintf("%d looked up", l.Probed)}
	if l.Format != "" {
		parts = append(parts, "format "+l.Format)
	}
	if l.Broken > 0 {
		parts = append(parts, count(l.Broken, "broken line"))
	}
	return strings.Join(parts, " · ")
}

// scenariosTable sets Off, On and Double side by side.
func scenariosTable(l *lookups.Result) *table {
	t := &table{cols: []column{{head: ""}, {head: "Off", right: true}, {head: "On", right: true}, {head: "Double", right: true}}, indent: 2}
	off, on, double := l.Scenarios["off"], l.Scenarios["on"], l.Scenarios["double"]
	if off == nil || on == nil || double == nil {
		return t
	}
	row := func(name string, of func(*lookups.Scenario) string) { t.add(name, of(off), of(on), of(double)) }
	row("lookups", func(s *lookups.Scenario) string { return between(s.LookupsLow, s.Lookups) })
	row("queries to the resolver", func(s *lookups.Scenario) string { return between(s.QueriesLow, s.Queries) })
	row("of them fetched upstream", func(s *lookups.Scenario) string { return between(s.UpstreamLow, s.Upstream) })
	row("requests that wait", func(s *lookups.Scenario) string {
		if a, b := percent(s.AffectedLow), percent(s.Affected); a != b {
			return a + " – " + b
		}
		return percent(s.Affected)
	})
	for _, q := range []struct {
		name string
		of   func(lookups.Quantiles) string
	}{
		{"added to these, median", func(q lookups.Quantiles) string { return added(q.P50.Known(), q.P50.String()) }},
		{"  95th percentile", func(q lookups.Quantiles) string { return added(q.P95.Known(), q.P95.String()) }},
		{"  99th percentile", func(q lookups.Quantiles) string { return added(q.P99.Known(), q.P99.String()) }},
		{"  most, as measured", func(q lookups.Quantiles) string { return added(q.Max.Known(), q.Max.String()) }},
	} {
		row(q.name, func(s *lookups.Scenario) string { return q.of(s.AddedMS) })
	}
	row("workers kept busy", func(s *lookups.Scenario) string {
		if s.BusyWorkers == nil || s.BusyWorkersLow == nil {
			return added(false, "")
		}
		return between(*s.BusyWorkersLow, *s.BusyWorkers)
	})
	if off.Capacity != nil {
		row(fmt.Sprintf("requests/s of %d workers", l.Workers), func(s *lookups.Scenario) string {
			if s.Capacity == nil {
				return "–"
			}
			return figure(*s.Capacity)
		})
	}
	return t
}

// added is a time, or 0 where nothing is added.
func added(known bool, text string) string {
	if !known {
		return "0"
	}
	return text
}

// between is a bracket, or one number where both ends are the same.
func between(low, high lookups.Estimate) string {
	if a, b := figure(low), figure(high); a != b {
		return a + " – " + b
	}
	return figure(high)
}

func figure(v lookups.Estimate) string {
	switch {
	case v == 0:
		return "0"
	case v < 0.01:
		return "<0.01"
	case v < 10:
		return fmt.Sprintf("%.2f", v)
	case v < 100:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}

// shownFindings bounds the lines of a configuration; JSON has all.
const shownFindings = 30

// apacheLines are what the configuration says, those that cost first.
func apacheLines(a *apacheconf.Audit) (lines []string) {
	if a == nil {
		return nil
	}
	lines = append(lines, capital(a.Summary)+" ("+a.File+").")
	for i, f := range a.Findings {
		if i == shownFindings {
			lines = append(lines, fmt.Sprintf("and %d more, in the JSON form", len(a.Findings)-i))
			break
		}
		line := fmt.Sprintf("%s, %s: %s. %s.", f.Place, f.Scope, f.What, capital(f.When))
		if f.Double && f.Costs {
			line += " The addresses of the name are looked up too."
		}
		if f.Costs && f.Change != "" {
			line += " Instead: " + f.Change + "."
		}
		lines = append(lines, line)
	}
	for _, w := range a.Warnings[:min(len(a.Warnings), 5)] {
		lines = append(lines, "not understood: "+w)
	}
	return lines
}

// outcomesTable has the rcodes by requests and by addresses.
func outcomesTable(l *lookups.Result) *table {
	if len(l.Rcodes) == 0 {
		return nil
	}
	t := &table{cols: []column{{head: "outcome"}, {head: "of requests", right: true}, {head: "of addresses", right: true}, {head: "looked up", right: true}}, indent: 2}
	var names []string
	for name := range l.Rcodes {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		x, y := l.Rcodes[a], l.Rcodes[b]
		if x.Requests != y.Requests {
			if x.Requests > y.Requests {
				return -1
			}
			return 1
		}
		return strings.Compare(a, b)
	})
	for _, name := range names {
		if s := l.Rcodes[name]; s != nil {
			t.add(name, percent(s.Requests), percent(s.Addresses), fmt.Sprint(s.Probed))
		}
	}
	return t
}

// shownNetworks bounds the rows; JSON has all.
const shownNetworks = 10

func networksTable(l *lookups.Result) *table {
	if len(l.Networks) == 0 {
		return nil
	}
	t := &table{cols: []column{{head: "network"}, {head: "lookups", right: true}, {head: "of the time", right: true}, {head: "worst", right: true},
		{head: "mostly"}, {head: "reverse zone, or who is to blame", flex: true, drop: 1}}, indent: 2}
	for _, n := range l.Networks[:min(len(l.Networks), shownNetworks)] {
		zone := n.Zone
		switch {
		case n.Special:
			zone = "a private or special range"
		case n.Guilty != "":
			zone = n.Guilty
		}
		t.add(n.Network, figure(n.Lookups), percent(n.Share), n.Worst.String(), n.Outcome, zone)
	}
	return t
}

// lookups are the same on a page.
func (b *builder) lookups(l *lookups.Result) section {
	s := section{ID: "lookups", Title: "HostnameLookups", Note: b.text(lookupsNote(l))}
	s.Parts = append(s.Parts, listView{"findings", []itemView{{Text: b.text(capital(l.Summary) + ".")}}},
		b.table("", scenariosTable(l)))
	if t := outcomesTable(l); t != nil {
		s.Parts = append(s.Parts, b.table("What the lookups of addresses give", t))
	}
	if t := networksTable(l); t != nil {
		s.Parts = append(s.Parts, b.table("Networks whose lookups cost the most", t))
	}
	asks := listView{Kind: "notes"}
	for _, line := range apacheLines(l.Apache) {
		asks.Items = append(asks.Items, itemView{Text: b.text(line)})
	}
	if len(asks.Items) > 0 {
		s.Parts = append(s.Parts, asks)
	}
	next := listView{Kind: "notes"}
	for _, n := range l.Next {
		next.Items = append(next.Items, itemView{Text: b.text(n)})
	}
	if len(next.Items) > 0 {
		s.Parts = append(s.Parts, next)
	}
	s.Parts = append(s.Parts, b.notes(l.Warnings)...)
	return s
}
