package render

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

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
		return s.ColdPhases, s.WarmPhases, fmt.Sprintf("medians of %d cold and %d warm loads, ms", s.Cold, s.Warm)
	}
	if ex := lastExchange(h); ex != nil {
		return ex.Phases, httpcheck.Phases{}, "the last attempt, ms"
	}
	return cold, warm, ""
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

// http writes the phases of a load, its redirects and its controls.
func (s *sheet) http(h *httpcheck.Result, verbose bool) {
	cold, warm, note := shownPhases(h)
	s.heading("HTTP phases", note)
	if f := h.Failure; f != nil {
		s.para("  ", "  ", cell{"failed in " + failureText(f), bad})
	}
	if note != "" {
		s.waterfall(&cold, &warm)
	}
	if sample := typicalSample(h); sample != nil && len(sample.Exchanges) > 1 {
		s.redirects(sample)
	}
	if facts := httpFacts(h); facts != "" {
		s.gap()
		s.para("  ", "  ", cell{facts, dim})
	}
	s.controls(h.Controls)
	if verbose {
		s.samples(h.Samples)
	}
	s.notes(h.Warnings)
}

// failureText says where an exchange ended and why.
func failureText(f *httpcheck.Failure) string {
	return fmt.Sprintf("%s (%s): %s", orDash(f.Phase), orDash(f.Kind), orDash(f.Text))
}

func (s *sheet) waterfall(cold, warm *httpcheck.Phases) {
	t := table{cols: []column{{head: "phase"}, {head: "cold", right: true}, {head: "warm", right: true}, {}}, indent: 2}
	full := phaseSum(cold)
	width := s.width - 34
	var at float64
	for _, ph := range phaseList() {
		c := ph.of(cold)
		row := []cell{{text: ph.name}, {text: number(c)}, {text: number(ph.of(warm))}, {}}
		if c.Known() {
			row[3] = cell{barAt(at, c.Float(), full, width), accent}
			at += c.Float()
		}
		t.rows = append(t.rows, row)
	}
	t.rows = append(t.rows, []cell{{"total", bold}, {number(cold.Total), bold}, {number(warm.Total), bold}, {}})
	t.write(s)
}

func (s *sheet) redirects(sample *httpcheck.Sample) {
	s.heading("Redirects", "a cold load in the middle of the field, ms")
	t := table{cols: []column{
		{head: "#", right: true}, {head: "status", right: true}, {head: "total", right: true}, {head: "wait", right: true},
		{head: "resolve", right: true, drop: 4}, {head: "connect", right: true, drop: 4}, {head: "tls", right: true, drop: 4},
		{head: "url", flex: true},
	}, indent: 2}
	for i := range sample.Exchanges {
		e := &sample.Exchanges[i]
		p := &e.Phases
		t.add(strconv.Itoa(i+1), statusText(e), number(p.Total), number(p.Wait), number(p.Resolve), number(p.Connect), number(p.TLS), e.URL)
	}
	t.write(s)
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

// httpFacts names what was talked to and how.
func httpFacts(h *httpcheck.Result) string {
	var parts []string
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	if ex := lastExchange(h); ex != nil {
		if ex.Status > 0 {
			add("status %d", ex.Status)
		}
		if ex.Protocol != "" {
			add("%s", ex.Protocol)
		}
		if ex.TLS != nil && ex.TLS.Version != "" {
			add("%s", ex.TLS.Version)
		}
		if ex.Remote != "" {
			add("from %s", ex.Remote)
		}
		if ex.ServerHeader != "" {
			add("server %s", Terminal(ex.ServerHeader, 80))
		}
	}
	s := &h.Summary
	if s.MinRTT.Known() {
		add("least RTT %s", s.MinRTT)
	}
	if s.ColdServer.Known() {
		add("server's part %s cold, %s warm", s.ColdServer, s.WarmServer)
	}
	if s.SecondServer.Known() {
		add("second request %s", s.SecondServer)
	}
	if h.Body.Class != "" && h.Body.Class != "none" {
		add("body %s %s", size(s.Bytes), h.Body.Class)
	}
	if h.Body.Text != "" {
		add("%s", h.Body.Text)
	}
	if h.Requests > 0 {
		add("%s", count(h.Requests, "request"))
	}
	return strings.Join(parts, " · ")
}

func (s *sheet) controls(controls []httpcheck.Control) {
	if len(controls) == 0 {
		return
	}
	s.heading("Controls", "the same with one thing changed, ms")
	t := table{cols: []column{
		{head: "control"}, {head: "status", right: true}, {head: "connect", right: true, drop: 2},
		{head: "wait", right: true}, {head: "total", right: true}, {head: "decides", flex: true, drop: 1},
	}, indent: 2}
	for i := range controls {
		c := &controls[i]
		p := &c.Exchange.Phases
		t.add(c.Name, statusText(&c.Exchange), number(p.Connect), number(p.Wait), number(p.Total), c.Why)
	}
	t.write(s)
}

func (s *sheet) samples(samples []httpcheck.Sample) {
	if len(samples) == 0 {
		return
	}
	s.heading("Samples", "in order of time, ms")
	t := table{cols: []column{
		{head: "load"}, {head: "conn", right: true, drop: 2}, {head: "req", right: true, drop: 2}, {head: "status", right: true},
		{head: "resolve", right: true, drop: 1}, {head: "connect", right: true}, {head: "tls", right: true},
		{head: "wait", right: true}, {head: "receive", right: true, drop: 1}, {head: "total", right: true},
	}, indent: 2}
	for i := range samples {
		sample := &samples[i]
		load := "warm"
		if sample.Cold {
			load = "cold"
		}
		for j := range sample.Exchanges {
			e := &sample.Exchanges[j]
			p := &e.Phases
			t.add(load, strconv.Itoa(sample.Connection), strconv.Itoa(sample.Request), statusText(e), number(p.Resolve),
				number(p.Connect), number(p.TLS), number(p.Wait), number(p.Receive), number(p.Total))
			load = " └"
		}
	}
	t.write(s)
}

// notes writes the warnings of an instrument.
func (s *sheet) notes(warnings []string) {
	for _, text := range warnings {
		s.para("  ", "    ", cell{"!", warn}, cell{text: text})
	}
}
