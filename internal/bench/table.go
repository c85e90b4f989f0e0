package main

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"
)

// table is one result to print.
type table struct {
	title   string
	columns []string // the first is aligned left, the others right
	rows    [][]string
	goals   []goal
	notes   []string
}

// goal is a promise held against a figure.
type goal struct {
	promise string
	figure  string
	met     bool
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

func (t *table) promise(met bool, figure, format string, args ...any) {
	t.goals = append(t.goals, goal{fmt.Sprintf(format, args...), figure, met})
}

func (t *table) note(format string, args ...any) {
	t.notes = append(t.notes, fmt.Sprintf(format, args...))
}

func verdict(met bool) string {
	if met {
		return "met"
	}
	return "MISSED"
}

// write prints the table, as aligned text or as Markdown.
func (t *table) write(w io.Writer, markdown bool) error {
	var b strings.Builder
	if markdown {
		t.markdown(&b)
	} else {
		t.text(&b)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (t *table) text(b *strings.Builder) {
	fmt.Fprintf(b, "\n%s\n", t.title)
	widths := make([]int, len(t.columns))
	for _, r := range append([][]string{t.columns}, t.rows...) {
		for i, c := range r {
			widths[i] = max(widths[i], utf8.RuneCountInString(c))
		}
	}
	for _, r := range append([][]string{t.columns}, t.rows...) {
		line := ""
		for i, c := range r {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c))
			if i == 0 {
				line += "  " + c + pad
			} else {
				line += "  " + pad + c
			}
		}
		fmt.Fprintln(b, strings.TrimRight(line, " "))
	}
	for _, g := range t.goals {
		fmt.Fprintf(b, "  %-6s  %s: %s\n", verdict(g.met), g.promise, g.figure)
	}
	for _, n := range t.notes {
		fmt.Fprintf(b, "  %s\n", n)
	}
}

func (t *table) markdown(b *strings.Builder) {
	escape := strings.NewReplacer("|", `\|`).Replace
	line := func(cells []string) {
		for _, c := range cells {
			fmt.Fprintf(b, "| %s ", escape(c))
		}
		b.WriteString("|\n")
	}
	fmt.Fprintf(b, "\n### %s\n\n", t.title)
	if len(t.columns) > 0 {
		line(t.columns)
		b.WriteString("|---" + strings.Repeat("|---:", len(t.columns)-1) + "|\n")
	}
	for _, r := range t.rows {
		line(r)
	}
	if len(t.goals)+len(t.notes) > 0 {
		b.WriteString("\n")
	}
	for _, g := range t.goals {
		fmt.Fprintf(b, "- %s: %s: **%s**\n", g.promise, g.figure, verdict(g.met))
	}
	for _, n := range t.notes {
		fmt.Fprintf(b, "- %s\n", n)
	}
}

// millis prints a duration with three significant digits or so.
func millis(d time.Duration) string {
	switch {
	case d >= 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d >= time.Second:
		return fmt.Sprintf("%.2f s", d.Seconds())
	case d >= 10*time.Millisecond:
		return fmt.Sprintf("%.1f ms", d.Seconds()*1e3)
	case d >= time.Millisecond:
		return fmt.Sprintf("%.2f ms", d.Seconds()*1e3)
	}
	return fmt.Sprintf("%.1f µs", d.Seconds()*1e6)
}

func ratio(a, b time.Duration) string {
	if b <= 0 {
		return "–"
	}
	return fmt.Sprintf("%.2f", float64(a)/float64(b))
}
