package render

import "strings"

// column describes one column of a table.
type column struct {
	head  string
	right bool // numbers
	// flex columns give way first when the page is narrow, down to 8 columns.
	flex bool
	// drop is the order in which columns are left out of a page that is still
	// too narrow: 1 goes first. Zero never goes.
	drop int
}

// table is laid out by the width of what is in it.
type table struct {
	cols   []column
	rows   [][]cell
	indent int
}

const (
	tableGap = 2
	flexMin  = 8
)

// add appends a row of plain cells.
func (t *table) add(texts ...string) {
	row := make([]cell, len(texts))
	for i, text := range texts {
		row[i] = cell{text: text}
	}
	t.rows = append(t.rows, row)
}

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
	for _, row := range t.rows {
		var cells []cell
		for i, c := range row {
			if keep[i] {
				cells = append(cells, cell{pad(cut(c.text, widths[i]), widths[i], t.cols[i].right), c.style})
			}
		}
		s.line(t.spaced(cells)...)
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
	widths, keep = make([]int, len(t.cols)), make([]bool, len(t.cols))
	for _, row := range t.rows {
		for i, c := range row {
			widths[i] = max(widths[i], columns(c.text))
			keep[i] = keep[i] || c.text != ""
		}
	}
	for i, c := range t.cols {
		widths[i] = max(widths[i], columns(c.head))
	}
	for {
		over := t.indent - tableGap - page
		for i, w := range widths {
			if keep[i] {
				over += w + tableGap
			}
		}
		for i, c := range t.cols {
			if give := min(over, widths[i]-flexMin); c.flex && keep[i] && give > 0 {
				widths[i] -= give
				over -= give
			}
		}
		victim := -1
		for i, c := range t.cols {
			if keep[i] && c.drop > 0 && (victim < 0 || c.drop < t.cols[victim].drop) {
				victim = i
			}
		}
		if over <= 0 || victim < 0 {
			return widths, keep
		}
		keep[victim] = false
	}
}
