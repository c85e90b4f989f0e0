package render

import (
	"fmt"
	"io"
	"strings"

	"github.com/whyslow/whyslow/reports"
)

// Text writes the report for a terminal: the verdict first, then what it rests
// on, then what would be needed to see it again.
func Text(w io.Writer, r *reports.Report, opt Options) error {
	r = rewrite(r, visible)
	s := newSheet(opt)
	s.verdict(r)
	s.blame(&r.Verdict)
	s.evidence(r.Verdict.Evidence)
	s.instruments(part{r.HTTP, r.DNS, r.Trace, r.PMTU}, opt.Verbose)
	s.list("Ruled out", r.Verdict.RuledOut)
	s.list("Next", r.Verdict.Next)
	s.list("Warnings", r.Verdict.Warnings)
	s.reproduce(r)
	return s.flush(w)
}

// flush writes the page out.
func (s *sheet) flush(w io.Writer) error {
	if _, err := io.WriteString(w, s.b.String()); err != nil {
		return fmt.Errorf("render: writing text: %w", err)
	}
	return nil
}

// verdict writes the sentence that matters and what it is about.
func (s *sheet) verdict(r *reports.Report) {
	v := &r.Verdict
	cells := []cell{
		{strings.ToUpper(layerName(v.Layer)) + ":", layerStyle(v.Layer)},
		{sentence(r), bold},
	}
	if v.Layer != "" {
		cells = append(cells, cell{capital(confidence(v.Confidence)) + ".", plain})
	}
	s.para("", "", cells...)
	s.gap()
	facts := table{cols: []column{{}, {flex: true}}, indent: 2}
	for _, f := range verdictFacts(r) {
		facts.addRow(cell{f.name, dim}, cell{text: f.value})
	}
	facts.write(s)
}

// fact is a named value of a report.
type fact struct{ name, value string }

// verdictFacts are what a reader asks right after the verdict.
func verdictFacts(r *reports.Report) []fact {
	v := &r.Verdict
	facts := []fact{{"target", targetText(r)}}
	if c := cause(v); c != "" {
		facts = append(facts, fact{"cause", c})
	}
	if v.Where != "" {
		facts = append(facts, fact{"where", v.Where})
	}
	if v.Failed {
		facts = append(facts, fact{"outcome", "the target could not be measured"})
	}
	if v.Mixed {
		facts = append(facts, fact{"mixed", "more than one large cause; the largest names the verdict"})
	}
	if v.Typical.Known() {
		load := v.Typical.String()
		if v.Healthy.Known() {
			load += ", without the faults " + v.Healthy.String()
		}
		facts = append(facts, fact{"cold load", load})
	}
	facts = append(facts, fact{"measured", measuredText(r)})
	return facts
}

// targetText names the target and the address that was measured.
func targetText(r *reports.Report) string {
	t := r.Target.URL
	if t == "" {
		t = r.Target.Host
	}
	if r.Target.Addr != "" && !strings.Contains(t, r.Target.Addr) {
		t += " (" + r.Target.Addr + ")"
	}
	return orDash(t)
}

// measuredText says when and for how long was measured.
func measuredText(r *reports.Report) string {
	t := clock(r.Started)
	if r.Elapsed.Known() {
		t += ", took " + r.Elapsed.String()
	}
	if r.Interrupted {
		t += ", interrupted: what follows is incomplete"
	}
	return t
}

// blame draws what exceeds a healthy response, cause by cause.
func (s *sheet) blame(v *reports.Verdict) {
	if len(v.Blame) == 0 {
		return
	}
	s.heading("Blame", "what exceeds a healthy response")
	blameTable(v).write(s)
}

func blameTable(v *reports.Verdict) *table {
	t := &table{cols: []column{
		{head: "cause"}, {head: "share", right: true}, {chart: true, drop: 2},
		{head: "excess", right: true}, {head: "saves alone", right: true, drop: 1},
	}, indent: 2, full: 1}
	for _, b := range v.Blame {
		t.addSpan(span{0, b.Share},
			cell{text: string(b.Layer) + " / " + b.Component}, cell{text: percent(b.Share)}, cell{style: layerStyle(b.Layer)},
			cell{msText(b.MS), bold}, cell{text: msText(b.SavesMS)})
		t.rows[len(t.rows)-1].under = b.Where
	}
	return t
}

// evidence lists what speaks for the verdict, then what speaks against it.
func (s *sheet) evidence(all []reports.Evidence) {
	side := func(title string, supports bool, mark cell) {
		shown := false
		for _, e := range all {
			if e.Supports != supports {
				continue
			}
			if !shown {
				s.heading(title, "")
				shown = true
			}
			s.para("  ", "    ", mark, cell{text: e.Claim}, cell{"[" + e.Rule + "]", dim})
			if o := observedText(e); o != "" {
				s.para("    ", "    ", cell{o, dim})
			}
		}
	}
	side("Evidence", true, cell{"+", good})
	side("Counter-evidence", false, cell{"−", warn})
}

// observedText holds an observation against its threshold.
func observedText(e reports.Evidence) string {
	var parts []string
	if e.Observed != "" {
		parts = append(parts, "observed "+e.Observed)
	}
	if e.Threshold != "" {
		parts = append(parts, "threshold "+e.Threshold)
	}
	return strings.Join(parts, " · ")
}

// list writes a section of sentences; none if there are none.
func (s *sheet) list(title string, items []string) {
	if len(items) == 0 {
		return
	}
	s.heading(title, "")
	for _, item := range items {
		s.para("  • ", "    ", cell{text: item})
	}
}

// reproduce writes what someone at the other end needs to see the same.
func (s *sheet) reproduce(r *reports.Report) {
	s.heading("Reproduce", "")
	for _, f := range reproduceFacts(r) {
		s.hung(cell{"  " + pad(f.name, 9, false) + " ", dim}, "            ", cell{text: f.value})
	}
}

// reproduceFacts are the method, the times and the two ends of a report.
func reproduceFacts(r *reports.Report) []fact {
	facts := []fact{{"command", orDash(shellQuote(r.Tool.Argv))}}
	name := r.Tool.Name
	if name == "" {
		name = "whyslow"
	}
	facts = append(facts, fact{"version", strings.TrimSpace(name + " " + r.Tool.Version)}, fact{"started", stamp(r.Started)})
	if d, ok := r.Elapsed.Get(); ok && !r.Started.IsZero() {
		facts = append(facts, fact{"ended", stamp(r.Started.Add(d)) + " (" + r.Elapsed.String() + ")"})
	}
	env := r.Environment
	facts = append(facts,
		fact{"from", joined(" · ", sourceText(r), env.Hostname)},
		fact{"to", joined(" · ", destinationText(r), r.Target.Host)},
		fact{"resolver", orDash(resolverText(r))},
		fact{"host", joined(" ", env.OS, env.Kernel)},
	)
	for _, note := range env.Notes {
		facts = append(facts, fact{"note", note})
	}
	return facts
}

// joined joins what is not empty; "–" if nothing is left.
func joined(sep string, parts ...string) string { return orDash(nonEmpty(sep, parts...)) }

// nonEmpty joins what is not empty.
func nonEmpty(sep string, parts ...string) string {
	var out []string
	for _, p := range parts {
		if p != "" {
			out = append(out, p)
		}
	}
	return strings.Join(out, sep)
}

// sourceText is the local address, with its port where one connection is known.
func sourceText(r *reports.Report) string {
	if ex := mainExchange(r.HTTP); ex != nil && ex.Local != "" {
		return ex.Local
	}
	return r.Environment.Source
}

// destinationText is the remote address and port.
func destinationText(r *reports.Report) string {
	if ex := mainExchange(r.HTTP); ex != nil && ex.Remote != "" {
		return ex.Remote
	}
	if r.Target.Addr == "" {
		return ""
	}
	if r.Target.Port == 0 {
		return r.Target.Addr
	}
	if strings.Contains(r.Target.Addr, ":") {
		return fmt.Sprintf("[%s]:%d", r.Target.Addr, r.Target.Port)
	}
	return fmt.Sprintf("%s:%d", r.Target.Addr, r.Target.Port)
}

// resolverText is the resolver that was used.
func resolverText(r *reports.Report) string {
	if r.Environment.Resolver != "" || r.DNS == nil {
		return r.Environment.Resolver
	}
	return strings.Join(r.DNS.Config.Nameservers, ", ")
}

// capital writes the first letter large.
func capital(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}
