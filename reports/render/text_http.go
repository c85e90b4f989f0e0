package render

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/whyslow/whyslow/httpcheck"
	"github.com/whyslow/whyslow/internal/millis"
)

// phase is a named phase of an exchange.
type phase struct {
	name string
	of   func(p *httpcheck.Phases) millis.Value
}

// phaseList are the phases in order of time.
func phaseList() []phase {
	return []phase{
		{"resolve", func(p *httpcheck.Phases) millis.Value { return p.Resolve }},
		{"connect", func(p *httpcheck.Phases) millis.Value { return p.Connect }},
		{"tls", func(p *httpcheck.Phases) millis.Value { return p.TLS }},
		{"send", func(p *httpcheck.Phases) millis.Value { return p.Send }},
		{"wait", func(p *httpcheck.Phases) millis.Value { return p.Wait }},
		{"receive", func(p *httpcheck.Phases) millis.Value { return p.Receive }},
	}
}

// phaseSum is the length of the waterfall of p, ms.
func phaseSum(p *httpcheck.Phases) float64 {
	var sum float64
	for _, ph := range phaseList() {
		if v := ph.of(p); v.Known() {
			sum += v.Float()
		}
	}
	return sum
}

// shownPhases returns the phases of a load to draw, what they are, and those of
// a warm load beside them: medians if there are any, else how far the last
// attempt came.
func shownPhases(h *httpcheck.Result) (cold, warm httpcheck.Phases, note string) {
	s := &h.Summary
	if s.Cold > 0 || s.Warm > 0 {
		return s.ColdPhases, s.WarmPhases, loadsText(h) + ", ms"
	}
	if ex := lastExchange(h); ex != nil && phaseSum(&ex.Phases) > 0 {
		return ex.Phases, httpcheck.Phases{}, "the last attempt, ms"
	}
	return cold, warm, ""
}

// loadsText counts the loads of each kind that the phases are medians of, and
// those that failed and so are not among them.
func loadsText(h *httpcheck.Result) string {
	s := &h.Summary
	text := fmt.Sprintf("medians of %d cold and %s", s.Cold, count(s.Warm, "warm load"))
	switch {
	case s.Cold+s.Warm == 1:
		text = "of the only load that succeeded"
	case s.Warm == 0:
		text = "medians of " + count(s.Cold, "cold load")
	case s.Cold == 0:
		text = "medians of " + count(s.Warm, "warm load")
	}
	failed := 0
	for i := range h.Samples {
		if h.Samples[i].Failure != nil {
			failed++
		}
	}
	if failed > 0 {
		text += fmt.Sprintf(" (%d more failed)", failed)
	}
	return text
}

// lastExchange returns the last exchange that was tried; nil if none was.
func lastExchange(h *httpcheck.Result) *httpcheck.Exchange {
	if h == nil {
		return nil
	}
	for _, s := range slices.Backward(h.Samples) {
		if n := len(s.Exchanges); n > 0 {
			return &s.Exchanges[n-1]
		}
	}
	return nil
}

// sampleTotal is the time of a sample over its redirects, ms.
func sampleTotal(s *httpcheck.Sample) float64 {
	var sum float64
	for i := range s.Exchanges {
		if t := s.Exchanges[i].Phases.Total; t.Known() {
			sum += t.Float()
		}
	}
	return sum
}

// typicalSample returns the cold sample in the middle of those that succeeded;
// if none did, the last one; nil without samples.
func typicalSample(h *httpcheck.Result) *httpcheck.Sample {
	var ok []*httpcheck.Sample
	for i := range h.Samples {
		if s := &h.Samples[i]; s.Cold && s.Failure == nil && len(s.Exchanges) > 0 {
			ok = append(ok, s)
		}
	}
	if len(ok) == 0 {
		if len(h.Samples) == 0 {
			return nil
		}
		return &h.Samples[len(h.Samples)-1]
	}
	slices.SortStableFunc(ok, func(a, b *httpcheck.Sample) int { return cmp.Compare(sampleTotal(a), sampleTotal(b)) })
	return ok[(len(ok)-1)/2]
}

// What the tables of an HTTP timing show.
const (
	byRequestNote = "the server's time, by the place of a request on its connection, ms"
	redirectsNote = "medians over the cold loads, ms"
	controlsNote  = "the same with one thing changed, ms"
	samplesNote   = "in order of time, ms"
)

// mainExchange returns the exchange that stands for the others: the last one of
// the typical sample.
func mainExchange(h *httpcheck.Result) *httpcheck.Exchange {
	if h == nil {
		return nil
	}
	if s := typicalSample(h); s != nil && len(s.Exchanges) > 0 {
		return &s.Exchanges[len(s.Exchanges)-1]
	}
	return lastExchange(h)
}

// http writes the phases of a load, its redirects and its controls.
func (s *sheet) http(p part, verbose bool) {
	h := p.http
	cold, warm, note := shownPhases(h)
	s.heading("HTTP phases", note)
	if f := h.Failure; f != nil {
		s.para("  ", "  ", cell{"failed in " + failureText(f), bad})
	}
	if note != "" {
		s.waterfall(&cold, &warm)
	}
	if p.loadNote != "" {
		s.para("  ", "  ", cell{p.loadNote, dim})
	}
	if t := redirectsTable(h); t != nil {
		s.heading("Redirects", redirectsNote)
		t.write(s)
	}
	if facts := httpFacts(h); len(facts) > 0 {
		s.gap()
		s.facts(facts, 2)
	}
	if t := byRequestTable(h, verbose); t != nil {
		s.heading("Requests", byRequestNote)
		t.write(s)
	}
	if len(h.Controls) > 0 {
		s.heading("Controls", controlsNote)
		controlsTable(h.Controls).write(s)
	}
	if verbose && len(h.Samples) > 0 {
		s.heading("Samples", samplesNote)
		samplesTable(h.Samples).write(s)
	}
	s.notes(h.Warnings)
}

// failureText says where an exchange ended and why.
func failureText(f *httpcheck.Failure) string {
	text := fmt.Sprintf("%s (%s): %s", orDash(f.Phase), orDash(f.Kind), orDash(f.Text))
	if f.After.Known() {
		text += ", after " + f.After.String()
	}
	return text
}

func (s *sheet) waterfall(cold, warm *httpcheck.Phases) {
	t := table{cols: []column{
		{head: "phase"}, {head: "cold", right: true}, {head: "warm", right: true}, {chart: true},
	}, indent: 2, full: phaseSum(cold)}
	var at float64
	ms := phaseColumn(cold, warm)
	for _, ph := range phaseList() {
		c := ph.of(cold)
		t.addSpan(span{at, c.Float()}, cell{text: ph.name}, cell{text: ms(c)}, cell{text: ms(ph.of(warm))}, cell{style: accent})
		if c.Known() {
			at += c.Float()
		}
	}
	t.addRow(cell{"total", bold}, cell{ms(cold.Total), bold}, cell{ms(warm.Total), bold}, cell{})
	t.write(s)
}

// phaseColumn formats the phases of several exchanges for one table.
func phaseColumn(ps ...*httpcheck.Phases) func(millis.Value) string {
	var all []millis.Value
	for _, p := range ps {
		all = append(all, p.Total)
		for _, ph := range phaseList() {
			all = append(all, ph.of(p))
		}
	}
	return millis.Column(all...)
}

// redirectsTable shows the steps of a load; nil if there is only one.
func redirectsTable(h *httpcheck.Result) *table {
	steps := h.Summary.Steps
	if sample := typicalSample(h); len(steps) == 0 && sample != nil {
		for i := range sample.Exchanges { // cut short before there were medians
			e := &sample.Exchanges[i]
			steps = append(steps, httpcheck.Step{URL: e.URL, Status: e.Status, Phases: e.Phases})
		}
	}
	if len(steps) < 2 {
		return nil
	}
	t := &table{cols: []column{
		{head: "#", right: true}, {head: "status", right: true}, {head: "total", right: true}, {head: "wait", right: true},
		{head: "resolve", right: true, drop: 4}, {head: "connect", right: true, drop: 4}, {head: "tls", right: true, drop: 4},
		{head: "url", flex: true},
	}, indent: 2}
	var phases []*httpcheck.Phases
	for i := range steps {
		phases = append(phases, &steps[i].Phases)
	}
	ms := phaseColumn(phases...)
	for i, p := range phases {
		status := "–"
		if steps[i].Status > 0 {
			status = strconv.Itoa(steps[i].Status)
		}
		t.add(strconv.Itoa(i+1), status, ms(p.Total), ms(p.Wait), ms(p.Resolve), ms(p.Connect), ms(p.TLS), steps[i].URL)
	}
	return t
}

// byRequestTable compares the requests of a connection for the page itself,
// and for what redirects to it if everything is wanted; nil if there is but one.
func byRequestTable(h *httpcheck.Result, verbose bool) *table {
	stats := h.Summary.ByRequest
	several := slices.ContainsFunc(stats, func(r httpcheck.RequestStat) bool { return r.URL != stats[0].URL })
	if ex := mainExchange(h); ex != nil && !verbose {
		stats = slices.DeleteFunc(slices.Clone(stats), func(r httpcheck.RequestStat) bool { return r.URL != ex.URL })
	}
	if len(stats) < 2 {
		return nil
	}
	t := &table{cols: []column{
		{head: "request", right: true}, {head: "count", right: true}, {head: "median", right: true}, {head: "min", right: true},
		{head: "max", right: true}, {head: "url", flex: true, drop: 1},
	}, indent: 2}
	var all []millis.Value
	for i := range stats {
		all = append(all, stats[i].Server, stats[i].Min, stats[i].Max)
	}
	ms := millis.Column(all...)
	for i := range stats {
		r := &stats[i]
		url := ""
		if several {
			url = r.URL
		}
		t.add(strconv.Itoa(r.Request), strconv.Itoa(r.Count), ms(r.Server), ms(r.Min), ms(r.Max), url)
	}
	return t
}

// statusText is the status code, or what came instead of one.
func statusText(e *httpcheck.Exchange) string {
	switch {
	case e.Status > 0:
		return strconv.Itoa(e.Status)
	case e.Failure != nil:
		return orDash(e.Failure.Kind)
	}
	return "–"
}

func controlsTable(controls []httpcheck.Control) *table {
	t := &table{cols: []column{
		{head: "control"}, {head: "status", right: true}, {head: "connect", right: true, drop: 2},
		{head: "wait", right: true}, {head: "total", right: true}, {head: "decides", below: true},
	}, indent: 2}
	var phases []*httpcheck.Phases
	for i := range controls {
		phases = append(phases, &controls[i].Exchange.Phases)
	}
	ms := phaseColumn(phases...)
	for i := range controls {
		c := &controls[i]
		p := phases[i]
		t.add(c.Name, statusText(&c.Exchange), ms(p.Connect), ms(p.Wait), ms(p.Total), c.Why)
	}
	return t
}

func samplesTable(samples []httpcheck.Sample) *table {
	t := &table{cols: []column{
		{head: "load"}, {head: "conn", right: true, drop: 2}, {head: "req", right: true, drop: 2}, {head: "status", right: true},
		{head: "resolve", right: true, drop: 1}, {head: "connect", right: true}, {head: "tls", right: true},
		{head: "wait", right: true}, {head: "receive", right: true, drop: 1}, {head: "total", right: true},
	}, indent: 2}
	var phases []*httpcheck.Phases
	for i := range samples {
		for j := range samples[i].Exchanges {
			phases = append(phases, &samples[i].Exchanges[j].Phases)
		}
	}
	ms := phaseColumn(phases...)
	for i := range samples {
		sample := &samples[i]
		load := "warm"
		if sample.Cold {
			load = "cold"
		}
		for j := range sample.Exchanges {
			e := &sample.Exchanges[j]
			p := &e.Phases
			t.add(load, strconv.Itoa(sample.Connection), strconv.Itoa(sample.Request), statusText(e), ms(p.Resolve),
				ms(p.Connect), ms(p.TLS), ms(p.Wait), ms(p.Receive), ms(p.Total))
			load = " └"
		}
	}
	return t
}

// notes writes the warnings of an instrument.
func (s *sheet) notes(warnings []string) {
	for _, text := range warnings {
		s.para("  ", "    ", cell{"!", warn}, cell{text: text})
	}
}
