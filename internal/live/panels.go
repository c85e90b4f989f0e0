package live

import (
	"fmt"
	"slices"
	"strings"

	"github.com/whyslow/whyslow/internal/millis"
	"github.com/whyslow/whyslow/trace"
)

// sideBySide is the width from which facts and histogram stand beside each
// other.
const sideBySide = 76

// details is all that is known of the selected hop.
func (m *Model) details(res *trace.Result, width int) []Line {
	at := slices.IndexFunc(res.Hops, func(h trace.Hop) bool { return h.TTL == m.selected })
	if at < 0 {
		return []Line{{{" No hop is selected: ↑ and ↓ select one.", Dim}}}
	}
	h := &res.Hops[at]
	left := width
	if width >= sideBySide {
		left = max(width*9/20, 38)
	}
	facts := hopFacts(h, left-1)
	var chart []Line
	if times := &m.best(res).at(h.TTL).times; times.Len() > 0 {
		chart = append(chart, Line{{" Round trips, ms", Bold}, {"  of " + counted(times.Len(), "answer"), Dim}})
		room := width
		if left < width {
			room = width - left
		}
		chart = append(chart, histogram(times, 8, min(room-1, 70))...)
	}
	if left == width {
		return append(facts, chart...)
	}
	return beside(facts, chart, left)
}

// beside puts two columns of lines next to each other.
func beside(a, b []Line, width int) []Line {
	var out []Line
	for i := range max(len(a), len(b)) {
		var line Line
		if i < len(a) {
			line = a[i].fit(width - 1)
		}
		if i < len(b) {
			line = append(line, Span{strings.Repeat(" ", width-columns(line.String())), Plain})
			line = append(line, b[i]...)
		}
		out = append(out, line)
	}
	return out
}

// hopFacts lists what a hop told.
func hopFacts(h *trace.Hop, width int) []Line {
	lines := []Line{{{fmt.Sprintf(" Hop %d", h.TTL), Bold}, {fmt.Sprintf("  %d of %s answered", h.Received, counted(h.Sent, "probe")), Dim}}}
	put := func(name, value string) {
		lines = append(lines, wrap(Span{fmt.Sprintf("   %-9s ", name), Dim}, value, Plain, width)...)
	}
	if len(h.Replies) == 0 {
		put("address", "unknown: nobody answers here")
	}
	for i := range h.Replies {
		r := &h.Replies[i]
		lines = append(lines, wrap(Span{" ", Plain}, strings.TrimSpace(r.Addr.String()+" "+safe(r.Name)), Accent, width)...)
		replierFacts(put, h, r)
	}
	if h.Limit != nil {
		put("pace", fmt.Sprintf("%s in a row, then one each %v: it limits its errors", counted(h.Limit.Burst, "answer"), h.Limit.Every))
	}
	if h.MTU != nil {
		put("path MTU", fmt.Sprintf("%d bytes up to here", *h.MTU))
	}
	return lines
}

func replierFacts(put func(name, value string), h *trace.Hop, r *trace.Replier) {
	if r.ICMP != "" {
		text := safe(r.ICMP)
		if r.ICMPType != nil && r.ICMPCode != nil {
			text += fmt.Sprintf(" (type %d, code %d)", *r.ICMPType, *r.ICMPCode)
		}
		put("answers", text)
	}
	if len(h.Replies) > 1 {
		put("times", fmt.Sprintf("%s, median %v, least %v", counted(r.Received, "answer"), r.Median, r.Min))
	}
	if r.Received > 0 {
		put("spread", fmt.Sprintf("mean %v, deviation %v, jitter %v", r.Mean, r.StdDev, r.Jitter))
	}
	if r.AS != nil {
		put("AS", safe(strings.TrimSpace(fmt.Sprintf("AS%d %s %s", r.AS.Number, r.AS.Name, r.AS.Prefix))))
	}
	if r.ReplyTTL > 0 {
		text := fmt.Sprintf("reply TTL %d", r.ReplyTTL)
		if r.HopsBack != nil {
			text += ": " + counted(*r.HopsBack, "hop") + " back"
			switch d := *r.HopsBack - h.TTL; {
			case d > 0:
				text += fmt.Sprintf(", %d more than there", d)
			case d < 0:
				text += fmt.Sprintf(", %d fewer than there", -d)
			}
		}
		put("way back", text)
	}
	for _, l := range r.Labels { // the outermost first
		put("MPLS", fmt.Sprintf("label %d, class %d, TTL %d", l.Value, l.TC, l.TTL))
	}
	if q := r.Quote; q != nil {
		if text := quoted(q); text != "" {
			put("quotes", text)
		}
	}
}

// quoted is how the probe looked when it came there.
func quoted(q *trace.Quote) string {
	var parts []string
	if q.TTL != nil {
		parts = append(parts, fmt.Sprintf("TTL %d", *q.TTL))
	}
	if q.TOS != nil {
		parts = append(parts, fmt.Sprintf("DSCP %d, ECN %d", *q.TOS>>2, *q.TOS&3))
	}
	if q.MSS != nil {
		parts = append(parts, fmt.Sprintf("MSS %d", *q.MSS))
	}
	if q.Translated != nil && *q.Translated {
		parts = append(parts, "translated by a NAT")
	}
	return strings.Join(parts, ", ")
}

// flows compares the flows that were followed.
func (m *Model) flows(res *trace.Result, width int) []Line {
	lines := []Line{{{" Flows", Bold}}}
	say := func(lead Span, text string) { lines = append(lines, wrap(lead, text, Plain, width)...) }
	indent := Span{"   ", Plain}
	p := res.Paths
	switch {
	case p == nil && m.opt.Paths:
		say(indent, "Parallel paths are being looked for. It takes a while where routers limit their errors.")
		return lines
	case p == nil:
		if res.FlowStable {
			say(indent, "All probes are one flow, as one connection is: of several parallel paths (ECMP) they take one, and rounds can be compared.")
		} else {
			say(indent, "Each probe is a flow of its own, since this socket permits no other: behind a router that spreads flows (ECMP) they take different paths.")
		}
		say(indent, "To see what other flows meet, start with --paths N: the flows that were followed are then compared here.")
		return lines
	}
	lines[0] = append(lines[0], Span{fmt.Sprintf("  %d followed by %s, %s", p.FlowCount, p.Method, counted(p.Probes, "probe")), Dim})
	for _, s := range p.Reading {
		say(Span{fmt.Sprintf(" %-3s ", s.Rule), Accent}, safe(s.Text))
	}
	for _, w := range p.Warnings {
		say(Span{" !   ", Warn}, safe(w))
	}
	var all []millis.Value
	key := 3
	for _, f := range p.Flows {
		key = max(key, min(columns(safe(f.Key)), 24))
		if f.Sample != nil {
			all = append(all, f.Sample.Max)
		}
	}
	ms := millis.Column(all...)
	lines = append(lines, Line{{"   flow  " + pad("key", key, false) + "  hops   loss  sent     min  median     p95     max", Dim}})
	for _, f := range p.Flows {
		hops, figures, style := "–", "", Plain
		if f.HopCount != nil {
			hops = fmt.Sprint(*f.HopCount)
		}
		if s := f.Sample; s != nil {
			figures = fmt.Sprintf("  %5s  %4d  %6s  %6s  %6s  %6s", percent(s.Loss), s.Sent, ms(s.Min), ms(s.Median), ms(s.P95), ms(s.Max))
			if s.Loss > 0 {
				style = Warn
			}
		}
		lines = append(lines, Line{{fmt.Sprintf("   %4d  %s  %s", f.Flow, pad(safe(f.Key), key, false), pad(hops, 4, true)), Plain}, {figures, style}})
	}
	return lines
}

// helpLines explain keys and figures.
func helpLines(width int) []Line {
	lines := []Line{{{" Keys", Bold}}}
	for _, k := range [][2]string{
		{"q, Ctrl-C", "quit, and print the table"},
		{"p, space", "pause: no probes are sent until pressed again"},
		{"r", "count anew"},
		{"↑ ↓, k j", "select a hop; Home, End the first, the last; Esc none"},
		{"Enter, d", "details of the hop: addresses, answers, histogram"},
		{"c", "other columns: overview, times, path, course of time"},
		{"f", "flows"},
		{"n", "names or addresses"},
		{"PgUp PgDn", "scroll what is below the table"},
		{"Ctrl-L", "draw the screen again; Ctrl-Z stops, fg goes on"},
	} {
		lines = append(lines, wrap(Span{fmt.Sprintf("   %s ", pad(k[0], 10, false)), Accent}, k[1], Plain, width)...)
	}
	lines = append(lines, Line{{" Figures", Bold}})
	for _, k := range [][2]string{
		{"loss", "dim where only answers are rationed, red where packets are lost on the way"},
		{"min", "coloured behind the link that adds the most"},
		{"recent", "lowest: the hop's least round trip, highest: its greatest; × lost"},
		{"jitter", "mean difference between one answer and the next"},
		{"back", "length of the way back, by the TTL of the answer"},
		{"R1–R10", "how the path reads, by rule; times are in ms"},
	} {
		lines = append(lines, wrap(Span{fmt.Sprintf("   %s ", pad(k[0], 10, false)), Accent}, k[1], Plain, width)...)
	}
	return lines
}
