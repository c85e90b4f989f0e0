package live

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/whyslow/whyslow/internal/millis"
	"github.com/whyslow/whyslow/trace"
)

// Draw returns the screen, height lines none of which is wider than width. A
// size of which nothing is known, or that is absurd, gives what fits.
func (m *Model) Draw(width, height int) []Line {
	width, height = min(max(width, 1), 1000), min(max(height, 1), 1000)
	res := m.result()
	m.remember(res)
	m.shown = res
	m.reselect(res)
	p := plan(height)
	lines := m.headline(res, width)[:p.head]
	if p.gaps {
		lines = append(lines, nil)
	}
	room := height - len(lines) - p.foot
	lines = append(lines, m.body(res, width, room, p.gaps)...)
	for len(lines) < height-p.foot {
		lines = append(lines, nil)
	}
	if p.foot > 0 {
		lines = append(lines, footer(width))
	}
	for i := range lines {
		lines[i] = lines[i].fit(width)
	}
	return lines
}

// layout is how many lines go to what is not the table.
type layout struct {
	head, foot int
	gaps       bool // empty lines between the parts
}

// plan gives way from the least important part on where the screen is low.
func plan(height int) layout {
	switch {
	case height >= 16:
		return layout{2, 1, true}
	case height >= 10:
		return layout{2, 1, false}
	case height >= 6:
		return layout{1, 1, false}
	case height >= 4:
		return layout{1, 0, false}
	}
	return layout{}
}

// reselect gives up a selection that is gone.
func (m *Model) reselect(res *trace.Result) {
	if m.selected != 0 && len(res.Hops) > 0 &&
		!slices.ContainsFunc(res.Hops, func(h trace.Hop) bool { return h.TTL == m.selected }) {
		m.selected = res.Hops[len(res.Hops)-1].TTL
	}
}

// leastBoth is from how many lines on an open panel leaves room for the table.
const leastBoth = 9

// body is the table and what stands below it.
func (m *Model) body(res *trace.Result, width, room int, gap bool) []Line {
	if room <= 0 {
		return nil
	}
	t := m.table(res, width)
	below := m.below(res, width)
	if m.panel != reading && room < leastBoth {
		return m.scrolled(below, room, width)
	}
	heading := 1
	if room < 3 {
		heading = 0
	}
	space := 0
	if gap {
		space = 1
	}
	rows := room - heading
	if len(below) > 0 {
		// An open panel may shrink the table to a few rows around the
		// selected one; the reading takes only what the table leaves.
		least := len(t.rows)
		if m.panel != reading {
			least = min(least, max(3, room/3))
		}
		rows = min(len(t.rows), max(least, room-heading-space-len(below)))
		rows = min(rows, room-heading)
	}
	lines := append(t.heading()[:heading:heading], t.visible(m.selected, rows)...)
	left := room - len(lines) - space
	if left <= 0 || len(below) == 0 {
		return lines
	}
	if gap {
		lines = append(lines, nil)
	}
	return append(lines, m.scrolled(below, left, width)...)
}

// below is what stands below the table, at any length.
func (m *Model) below(res *trace.Result, width int) []Line {
	switch m.panel {
	case details:
		return m.details(res, width)
	case flows:
		return m.flows(res, width)
	case help:
		return helpLines(width)
	}
	var lines []Line
	for _, s := range res.Reading {
		lines = append(lines, wrap(Span{fmt.Sprintf(" %-3s ", s.Rule), Accent}, safe(s.Text), Plain, width)...)
	}
	for _, w := range res.Warnings {
		lines = append(lines, wrap(Span{" !   ", Warn}, safe(w), Plain, width)...)
	}
	return lines
}

// scrolled is the part of a panel that fits, and a note of what does not.
func (m *Model) scrolled(lines []Line, room, width int) []Line {
	m.scroll = min(m.scroll, max(len(lines)-room, 0))
	lines = lines[m.scroll:]
	if len(lines) <= room {
		return lines
	}
	more := len(lines) - room + 1
	lines = slices.Clone(lines[:room])
	lines[room-1] = Line{{cut(fmt.Sprintf(" … %s more, PgDn", counted(more, "line")), width), Dim}}
	return lines
}

// headline is what is traced, and how it goes.
func (m *Model) headline(res *trace.Result, width int) []Line {
	target := safe(res.Target.Name)
	if addr := res.Target.Addr; addr.IsValid() && addr.String() != res.Target.Name {
		target = strings.TrimSpace(target + " (" + addr.String() + ")")
	}
	first := Line{{" whyslow trace ", Bold}, {target, Bold}}
	state := Span{"", Good}
	switch {
	case m.paused:
		state = Span{" paused ", Notice}
	case res.Method == "":
		state = Span{"starting ", Dim}
	}
	if used := columns(first.String()) + columns(state.Text); state.Text != "" {
		if used > width {
			first = first.fit(max(width-columns(state.Text), 0))
			used = columns(first.String()) + columns(state.Text)
		}
		first = append(first, Span{strings.Repeat(" ", max(width-used, 0)), Plain}, state)
	}
	return []Line{first, {{" " + joined(m.facts(res), width-1), Dim}}}
}

// facts are what the second line tells, the most important first.
func (m *Model) facts(res *trace.Result) []string {
	var out []string
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if t := m.best(res); t != nil {
		add("round %d", t.rounds())
	}
	if res.Elapsed.Known() {
		add("%s", clock(res.Elapsed.Duration()))
	}
	switch {
	case res.HopCount != nil:
		add("reached at hop %d", *res.HopCount)
	case res.Method != "" && m.before == nil:
		add("not reached")
	}
	if res.BackCount != nil {
		add("%s back", counted(*res.BackCount, "hop"))
	}
	if res.Method != "" {
		method := res.Method
		if res.Target.Port > 0 && method != "icmp" {
			method += fmt.Sprintf(" port %d", res.Target.Port)
		}
		add("%s", method)
		if res.FlowStable {
			add("one flow")
		} else {
			add("many flows")
		}
	}
	if res.PMTU != nil {
		add("MTU %d", *res.PMTU)
	}
	if res.NAT != nil {
		add("NAT at hop %d", res.NAT.TTL)
	}
	if n := len(res.Epochs); n > 1 {
		add("%s", counted(n-1, "route change"))
	}
	if m.opt.Interval > 0 {
		add("every %s", every(m.opt.Interval))
	}
	return out
}

// joined are as many facts as fit: half a number would be another one.
func joined(facts []string, width int) string {
	text := ""
	for _, f := range facts {
		if text != "" {
			f = text + " · " + f
		}
		if columns(f) > width && text != "" {
			break
		}
		text = f
	}
	return text
}

// keys of the footer, the most important first; "? help" is always kept.
var footerKeys = [][2]string{
	{"q", "quit"}, {"p", "pause"}, {"r", "reset"}, {"↑↓", "hop"}, {"⏎", "details"}, {"c", "columns"}, {"f", "flows"}, {"n", "names"},
}

func footer(width int) Line {
	var line Line
	used := 0
	put := func(k [2]string) {
		line = append(line, Span{k[0], Bold}, Span{" " + k[1] + "  ", Dim})
		used += columns(k[0]) + columns(k[1]) + 3
	}
	for _, k := range footerKeys {
		if used+columns(k[0])+columns(k[1])+3+len("? help") > width {
			break
		}
		put(k)
	}
	return append(line, Span{"?", Bold}, Span{" help", Dim})
}

// clock writes how long something has lasted.
func clock(d time.Duration) string {
	s := int(d / time.Second)
	if s < 3600 {
		return fmt.Sprintf("%d:%02d", s/60, s%60)
	}
	return fmt.Sprintf("%d:%02d:%02d", s/3600, s/60%60, s%60)
}

// every writes an interval as it is typed.
func every(d time.Duration) string {
	if d < time.Second {
		return millis.Of(d).String()
	}
	return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + " s"
}

// counted is a number and what it counts.
func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
