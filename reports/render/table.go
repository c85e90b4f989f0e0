package render

import (
	"slices"
	"strings"
)

// column describes one column of a table.
type column struct {
	head  string
	right bool // numbers
	// flex columns hold names, and give way when the page is narrow: they are
	// shortened in the middle, since either end tells names apart.
	flex bool
	// below columns hold prose, which is never shortened: it is written on lines
	// of its own below the row.
	below bool
	// chart columns hold bars and take what the others leave.
	chart bool
	// drop is the order in which columns are left out of a page that is too
	// narrow still: 1 goes first. Zero never goes.
	drop int
}

// span is a bar in a chart column: value after a gap of start.
type span struct{ start, value float64 }

// row is one line of a table.
type row struct {
	cells []cell
	span  span // drawn in the chart column
}

// table is laid out by the width of what is in it.
type table struct {
	cols   []column
	rows   []row
	indent int
	full   float64 // what the whole width of the chart column stands for
}

// How columns share a narrow page.
const (
	tableGap = 2
	closeGap = 1  // where the alternative is to fold
	flexSoft = 12 // flex columns shrink to this before any column is dropped
	flexHard = 8  // and to this when none is left to drop
	chartMin = 10
	chartMax = 48
)

// add appends a row of plain cells.
func (t *table) add(texts ...string) {
	cells := make([]cell, len(texts))
	for i, text := range texts {
		cells[i] = cell{text: text}
	}
	t.rows = append(t.rows, row{cells: cells})
}

// addRow appends a row of cells.
func (t *table) addRow(cells ...cell) { t.rows = append(t.rows, row{cells: cells}) }

// addSpan appends a row whose chart cell, which keeps only its style, shows a bar.
func (t *table) addSpan(s span, cells ...cell) { t.rows = append(t.rows, row{cells: cells, span: s}) }

// write puts the table on the page. A column without content is left out.
func (t *table) write(s *sheet) {
	widths, place, gap := t.layout(s.width)
	var head []cell
	headed := false
	for i, c := range t.cols {
		if place[i] == aligned {
			headed = headed || c.head != ""
			head = append(head, cell{pad(cut(c.head, widths[i]), widths[i], c.right), dim})
		}
	}
	if headed {
		s.line(t.spaced(head, gap)...)
	}
	for _, r := range t.rows {
		var cells []cell
		for i, c := range r.cells {
			if place[i] != aligned {
				continue
			}
			if t.cols[i].chart {
				c.text = barAt(r.span.start, r.span.value, t.full, widths[i])
			}
			if t.cols[i].flex {
				c.text = cutMiddle(c.text, widths[i])
			}
			cells = append(cells, cell{pad(cut(c.text, widths[i]), widths[i], t.cols[i].right), c.style})
		}
		s.line(t.spaced(cells, gap)...)
		t.writeBelow(s, r, place)
	}
}

// writeBelow writes what has no place in the line of a row: what never had one,
// and the columns that a narrow page has no room for.
func (t *table) writeBelow(s *sheet, r row, place []placement) {
	lead := strings.Repeat(" ", t.indent+2)
	var rest factCollector
	for i, c := range r.cells {
		if place[i] == folded && c.text != "" && c.text != "–" {
			rest.add(t.cols[i].head, c.text)
		}
	}
	if len(rest) > 0 {
		s.para(lead, lead+"  ", cell{rest.line(), plain})
	}
	for i, c := range r.cells {
		if t.cols[i].below && c.text != "" {
			s.para(lead, lead+"  ", cell{c.text, dim})
		}
	}
}

// spaced puts the indent and the gaps between cells.
func (t *table) spaced(cells []cell, gap int) []cell {
	out := []cell{{text: strings.Repeat(" ", t.indent)}}
	for i, c := range cells {
		if i > 0 {
			out = append(out, cell{text: strings.Repeat(" ", gap)})
		}
		out = append(out, c)
	}
	return out
}

// placement is where a column of a table goes.
type placement uint8

const (
	aligned placement = iota
	folded            // named and written below its row
	left              // out
)

// layout returns the width of each column on a page and where it goes, and the
// gap between them.
func (t *table) layout(page int) (widths []int, place []placement, gap int) {
	natural, place := t.natural()
	gap, least := tableGap, flexSoft
	for {
		widths = append(widths[:0], natural...)
		over := t.indent - gap - page
		for i, w := range widths {
			if place[i] == aligned {
				over += w + gap
			}
		}
		over = t.shrink(widths, place, over, func(c column) bool { return c.chart }, chartMin)
		if over > 0 && t.dropChart(place) {
			continue
		}
		over = t.shrink(widths, place, over, func(c column) bool { return c.flex }, least)
		switch victim := t.victim(place); {
		case over <= 0:
			return widths, place, gap
		case victim >= 0:
			place[victim] = left
		case least > flexHard:
			least = flexHard
		case gap > closeGap:
			gap = closeGap
		case !t.fold(place):
			return widths, place, gap
		}
	}
}

// dropChart leaves a chart out that may go, for names to keep their length, and
// reports whether there was one.
func (t *table) dropChart(place []placement) bool {
	names := slices.ContainsFunc(t.cols, func(c column) bool { return c.flex })
	for i, c := range t.cols {
		if names && c.chart && c.drop > 0 && place[i] == aligned {
			place[i] = left
			return true
		}
	}
	return false
}

// victim is the next column to leave out of a narrow page, −1 if none may go.
func (t *table) victim(place []placement) int {
	victim := -1
	for i, c := range t.cols {
		if place[i] == aligned && c.drop > 0 && (victim < 0 || c.drop < t.cols[victim].drop) {
			victim = i
		}
	}
	return victim
}

// fold takes the last column out of the line of its row, and reports whether
// there was one to take beside the first.
func (t *table) fold(place []placement) bool {
	for i := len(place) - 1; i > 0; i-- {
		if place[i] == aligned {
			place[i] = folded
			return true
		}
	}
	return false
}

// natural returns the width each column would like and where it goes: a column
// in which no row has anything is left out.
func (t *table) natural() (widths []int, place []placement) {
	widths, place = make([]int, len(t.cols)), make([]placement, len(t.cols))
	for i, c := range t.cols {
		place[i] = left
		if c.chart && t.full > 0 && len(t.rows) > 0 {
			place[i] = aligned
		}
	}
	for _, r := range t.rows {
		for i, c := range r.cells {
			widths[i] = max(widths[i], columns(c.text))
			if c.text != "" && (c.text != "–" || !t.cols[i].right) && !t.cols[i].below {
				place[i] = aligned
			}
		}
	}
	for i, c := range t.cols {
		widths[i] = max(widths[i], columns(c.head))
		if c.chart {
			widths[i] = chartMax
		}
	}
	return widths, place
}

// shrink takes up to over columns from those that match and returns what it
// could not take.
func (t *table) shrink(widths []int, place []placement, over int, match func(column) bool, least int) int {
	for i, c := range t.cols {
		if give := min(over, widths[i]-least); place[i] == aligned && match(c) && give > 0 {
			widths[i] -= give
			over -= give
		}
	}
	return over
}
