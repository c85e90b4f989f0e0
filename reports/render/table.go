package render

import "strings"

// column describes one column of a table.
type column struct {
	head  string
	right bool // numbers
	// flex columns give way when the page is narrow.
	flex bool
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
	span  span   // drawn in the chart column
	under string // a line of its own below the row
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
	widths, keep := t.layout(s.width)
	var head []cell
	headed := false
	for i, c := range t.cols {
		if keep[i] {
			headed = headed || c.head != ""
			head = append(head, cell{pad(cut(c.head, widths[i]), widths[i], c.right), dim})
		}
	}
	if headed {
		s.line(t.spaced(head)...)
	}
	for _, r := range t.rows {
		var cells []cell
		for i, c := range r.cells {
			if !keep[i] {
				continue
			}
			if t.cols[i].chart {
				c.text = barAt(r.span.start, r.span.value, t.full, widths[i])
			}
			cells = append(cells, cell{pad(cut(c.text, widths[i]), widths[i], t.cols[i].right), c.style})
		}
		s.line(t.spaced(cells)...)
		if r.under != "" {
			lead := strings.Repeat(" ", t.indent+2)
			s.para(lead, lead+"  ", cell{r.under, dim})
		}
	}
}

// spaced puts the indent and the gaps between cells.
func (t *table) spaced(cells []cell) []cell {
	out := []cell{{text: strings.Repeat(" ", t.indent)}}
	for i, c := range cells {
		if i > 0 {
			out = append(out, cell{text: strings.Repeat(" ", tableGap)})
		}
		out = append(out, c)
	}
	return out
}

// layout returns the width of each column on a page and whether it is shown.
func (t *table) layout(page int) (widths []int, keep []bool) {
	natural, keep := t.natural()
	for {
		widths = append(widths[:0], natural...)
		over := t.indent - tableGap - page
		for i, w := range widths {
			if keep[i] {
				over += w + tableGap
			}
		}
		over = t.shrink(widths, keep, over, func(c column) bool { return c.chart }, chartMin)
		over = t.shrink(widths, keep, over, func(c column) bool { return c.flex }, flexSoft)
		if over <= 0 {
			return widths, keep
		}
		victim := -1
		for i, c := range t.cols {
			if keep[i] && c.drop > 0 && (victim < 0 || c.drop < t.cols[victim].drop) {
				victim = i
			}
		}
		if victim < 0 {
			t.shrink(widths, keep, over, func(c column) bool { return c.flex }, flexHard)
			return widths, keep
		}
		keep[victim] = false
	}
}

// natural returns the width each column would like and whether it has content.
func (t *table) natural() (widths []int, keep []bool) {
	widths, keep = make([]int, len(t.cols)), make([]bool, len(t.cols))
	for _, r := range t.rows {
		for i, c := range r.cells {
			widths[i] = max(widths[i], columns(c.text))
			keep[i] = keep[i] || c.text != "" || t.cols[i].chart && t.full > 0
		}
	}
	for i, c := range t.cols {
		widths[i] = max(widths[i], columns(c.head))
		if c.chart {
			widths[i] = chartMax
		}
	}
	return widths, keep
}

// shrink takes up to over columns from those that match and returns what it
// could not take.
func (t *table) shrink(widths []int, keep []bool, over int, match func(column) bool, least int) int {
	for i, c := range t.cols {
		if give := min(over, widths[i]-least); keep[i] && match(c) && give > 0 {
			widths[i] -= give
			over -= give
		}
	}
	return over
}
