package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/whyslow/whyslow/internal/demo"
	"github.com/whyslow/whyslow/reports"
	"github.com/whyslow/whyslow/reports/render"
)

// table shows outcomes one by one.
type table interface {
	begin()
	row(demo.Outcome) error
	end() error
}

// demoTable is the table for people.
type demoTable struct {
	w                      io.Writer
	ran, layers, right, no int
}

// writeRow writes one row, without the spaces that an empty end leaves.
func (t *demoTable) writeRow(cells ...any) error {
	row := fmt.Sprintf("%-17s %-32s %-32s %4s %7s  %s", cells...)
	_, err := fmt.Fprintln(t.w, strings.TrimRight(row, " "))
	return err
}

func (t *demoTable) begin() {
	_ = t.writeRow("SCENARIO", "TRUTH", "VERDICT", "CONF", "SECONDS", "")
}

func (t *demoTable) row(o demo.Outcome) error {
	truth := brief(o.Truth.Layer, o.Truth.Component, o.Truth.Where)
	if o.NotRunnable != "" {
		t.no++
		return t.writeRow(o.Scenario, truth, "not runnable here", "", "", "")
	}
	t.ran++
	layer, component := o.Right()
	if layer {
		t.layers++
	}
	if component {
		t.right++
	}
	v := &o.Report.Verdict
	return t.writeRow(o.Scenario, truth, brief(v.Layer, componentOf(v), v.Where),
		fmt.Sprintf("%.2f", v.Confidence), fmt.Sprintf("%.1f", o.Seconds), mark(o))
}

// brief fits a cause and its place into a column.
func brief(layer reports.Layer, component, where string) string {
	s := string(layer)
	if component != "" {
		s += "/" + component
	}
	switch i := strings.LastIndex(where, "link "); {
	case layer == reports.None || layer == reports.Inconclusive:
		where = ""
	case i >= 0:
		where = where[i:]
	}
	return render.Terminal(strings.TrimSpace(s+" "+where), 32)
}

func (t *demoTable) end() error {
	_, err := fmt.Fprintf(t.w, "\n%d run: layer right in %d, layer and component in %d\n", t.ran, t.layers, t.right)
	if err == nil && t.no > 0 {
		_, err = fmt.Fprintf(t.w, "%d not runnable: this host permits no network namespaces; whyslow doctor tells the remedy\n", t.no)
	}
	return err
}

// demoArray is one JSON array, written as it grows.
type demoArray struct {
	w     io.Writer
	write func(io.Writer, demo.Outcome) error
	n     int
}

func (a *demoArray) begin() { fmt.Fprint(a.w, "[") }

func (a *demoArray) row(o demo.Outcome) error {
	if a.n++; a.n > 1 {
		fmt.Fprint(a.w, ",")
	}
	fmt.Fprint(a.w, "\n")
	return a.write(a.w, o)
}

func (a *demoArray) end() error {
	_, err := fmt.Fprint(a.w, "]\n")
	return err
}
