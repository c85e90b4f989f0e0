package render

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/whyslow/whyslow/internal/millis"
	"github.com/whyslow/whyslow/trace"
)

// MTR writes a path as `mtr --report-wide` does, the form that network
// operators ask for in tickets, and below it, as comments, what it leads to and
// the reading. Unlike there, a time that was not measured is a dash, and a silent
// hop has no times of 0. HOST is the host that measured, as there.
func MTR(w io.Writer, t *trace.Result, opt Options) error {
	t = rewrite(t, visible)
	rows := mtrRows(t)
	head := "HOST: " + cmp.Or(Terminal(opt.Host, 0), "-")
	width := columns(head)
	for _, r := range rows {
		width = max(width, columns(r.host))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Start: %s\n", t.Started.UTC().Format("2006-01-02T15:04:05-0700"))
	fmt.Fprintf(&b, "%s   Loss%%   Snt   Last   Avg  Best  Wrst StDev\n", pad(head, width, false))
	for _, r := range rows {
		b.WriteString(strings.TrimRight(pad(r.host, width, false)+r.numbers, " ") + "\n")
	}
	fmt.Fprintf(&b, "# to %s by %s\n", nonEmpty(" ", t.Target.Name, parenthesised(addrText(t.Target.Addr), t.Target.Name)), t.Method)
	for _, s := range t.Reading {
		fmt.Fprintf(&b, "# %s %s\n", s.Rule, s.Text)
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("render: writing the mtr block: %w", err)
	}
	return nil
}

// parenthesised is an address behind a name, unless it is the name.
func parenthesised(addr, name string) string {
	switch {
	case addr == "" || addr == name:
		return ""
	case name == "":
		return addr
	}
	return "(" + addr + ")"
}

// mtrRow is a line of the block: who, and the numbers of a hop's first line.
type mtrRow struct{ host, numbers string }

func mtrRows(t *trace.Result) []mtrRow {
	var rows []mtrRow
	for i := range t.Hops {
		h := &t.Hops[i]
		lead := fmt.Sprintf("%3d.", h.TTL)
		if len(h.Replies) == 0 {
			rows = append(rows, mtrRow{mtrOrigin(t, nil, lead) + "???", mtrNumbers(h, &trace.Replier{})})
			continue
		}
		for j := range h.Replies {
			r := &h.Replies[j]
			name := nonEmpty(" ", r.Name, parenthesised(addrText(r.Addr), r.Name))
			if j == 0 {
				rows = append(rows, mtrRow{mtrOrigin(t, r, lead) + name, mtrNumbers(h, r)})
			} else {
				rows = append(rows, mtrRow{host: mtrOrigin(t, r, "    ") + name})
			}
			for _, l := range r.Labels {
				rows = append(rows, mtrRow{host: fmt.Sprintf("    |   +-- [MPLS: Lbl %d TC %d S %d TTL %d]", l.Value, l.TC, bit(l.Bottom), l.TTL)})
			}
		}
	}
	return rows
}

// mtrOrigin is what stands between the number of a hop and its name: a line,
// or the AS number where those were asked for.
func mtrOrigin(t *trace.Result, r *trace.Replier, lead string) string {
	if !hasOrigins(t) {
		return lead + "|-- "
	}
	as := "AS???"
	if r != nil && r.AS != nil {
		as = fmt.Sprintf("AS%d", r.AS.Number)
	}
	return fmt.Sprintf("%s %-9s ", lead, as)
}

// mtrNumbers are the columns of one hop. Loss is the hop's.
func mtrNumbers(h *trace.Hop, r *trace.Replier) string {
	return fmt.Sprintf("  %5.1f%% %5d  %s %s %s %s %s", 100*h.Loss, h.Sent,
		mtrTime(r.Last), mtrTime(r.Mean), mtrTime(r.Min), mtrTime(r.Max), mtrTime(r.StdDev))
}

func mtrTime(v millis.Value) string {
	if !v.Known() {
		return "    -"
	}
	return fmt.Sprintf("%5.1f", v.Float())
}

// hasOrigins reports whether any hop has an AS number.
func hasOrigins(t *trace.Result) bool {
	for i := range t.Hops {
		for j := range t.Hops[i].Replies {
			if t.Hops[i].Replies[j].AS != nil {
				return true
			}
		}
	}
	return false
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}
