package render

import (
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/whyslow/whyslow/internal/millis"
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
	s.list("Next", r.Verdict.Next)
	s.instruments(partOf(r), opt.Verbose)
	s.list("Ruled out", r.Verdict.RuledOut)
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
	s.facts(verdictFacts(r), 2)
}

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
		if v.Healthy.Known() && v.Healthy != v.Typical {
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
	if r.Target.Addr != "" && !namedBy(r.Target.Addr, r.Target.Host) {
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
		{head: "excess", right: true}, {head: "saves alone", right: true, drop: 1}, {head: "where", below: true},
	}, indent: 2, full: 1}
	for _, b := range v.Blame {
		t.addSpan(span{0, b.Share},
			cell{text: string(b.Layer) + " / " + b.Component}, cell{text: percent(b.Share)}, cell{style: layerStyle(b.Layer)},
			cell{millis.OfFloat(b.MS).String(), bold}, cell{text: millis.OfFloat(b.SavesMS).String()},
			cell{text: b.Where})
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
			for _, f := range comparison(e) {
				s.hung(cell{"    " + f.name + ": ", dim}, "      ", cell{text: f.value})
			}
		}
	}
	side("Evidence", true, cell{"+", good})
	side("Counter-evidence", false, cell{"−", warn})
}

// comparison is an observation and what it is held against: at times what it
// takes for a fault to count, at times what a healthy host shows.
func comparison(e reports.Evidence) []fact {
	var facts factCollector
	facts.add("observed", e.Observed)
	facts.add("held against", e.Threshold)
	return facts
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
	s.facts(reproduceFacts(r), 2)
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
		fact{"to", destination(r)},
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

// destination is the other end by address and by name, once if they are the
// same.
func destination(r *reports.Report) string {
	addr := destinationText(r)
	if host := r.Target.Host; !namedBy(addr, host) {
		return joined(" · ", addr, host)
	}
	return orDash(addr)
}

// namedBy reports whether an address, with or without its port, is all that
// host says.
func namedBy(addr, host string) bool {
	if h, _, err := net.SplitHostPort(addr); err == nil {
		addr = h
	}
	return host != "" && strings.Trim(host, "[]") == strings.Trim(addr, "[]")
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
