package render

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/whyslow/whyslow/httpcheck"
	"github.com/whyslow/whyslow/internal/millis"
	"github.com/whyslow/whyslow/reports"
)

// The charts are geometry only; their templates turn it into SVG. Positions
// along a chart are shares of its width and heights are pixels, so a chart
// fits any page while its text keeps its size.

// pct writes a share as a percentage of the chart's width.
func pct(x float64) string {
	if math.IsNaN(x) {
		x = 0
	}
	return strconv.FormatFloat(100*min(max(x, 0), 1), 'f', 2, 64) + "%"
}

// px writes a height or a vertical position.
func px(y float64) string { return strconv.FormatFloat(y, 'f', 1, 64) }

// ring is a gauge from 0 to 1: the dash of a circle of circumference 100.
type ring struct{ Dash string }

func newRing(p float64) ring {
	return ring{Dash: fmt.Sprintf("%.1f 100", 100*min(max(p, 0), 1))}
}

// barView is a bar within a table cell.
type barView struct{ X, W string }

func newBar(s span, full float64) barView {
	if !(full > 0) || !(s.value > 0) {
		return barView{}
	}
	return barView{X: pct(s.start / full), W: pct(max(s.value/full, 0.004))}
}

// stackView is one bar of several parts.
type stackView struct {
	Kind, Title, Desc string
	Parts             []stackPart
	Legend            []stackPart
}

type stackPart struct{ X, W, Class, Label string }

// newStack draws a healthy load, if its time is known, and the faults on top of
// it.
func newStack(v *reports.Verdict) stackView {
	out := stackView{Kind: "stack", Title: "A healthy load and what exceeds it"}
	type amount struct {
		ms           float64
		class, label string
	}
	var all []amount
	if v.Healthy.Known() && v.Healthy.Float() > 0 {
		all = append(all, amount{v.Healthy.Float(), "healthy", "healthy " + v.Healthy.String()})
	}
	var sum float64
	for _, b := range v.Blame {
		if b.MS > 0 && !math.IsInf(b.MS, 0) {
			all = append(all, amount{b.MS, tone(b.Layer), fmt.Sprintf("%s %s", b.Component, millis.OfFloat(b.MS))})
		}
	}
	for _, a := range all {
		sum += a.ms
	}
	var at float64
	var desc []string
	for i, a := range all {
		if i == 12 {
			break // slivers
		}
		part := stackPart{X: pct(at / sum), W: pct(a.ms / sum), Class: a.class, Label: cut(a.label, 60)}
		out.Parts = append(out.Parts, part)
		desc = append(desc, part.Label)
		at += a.ms
	}
	out.Legend = out.Parts
	out.Desc = strings.Join(desc, ", ")
	return out
}

// waterfallView is the phases of a load one below the other.
type waterfallView struct {
	Kind, Title, Desc string
	Height            string
	Rows              []waterfallRow
	Total             waterfallRow
	Ticks             []tick
}

type waterfallRow struct {
	Name, Value, Warm, Class string
	TextY, BarY              string
	X, W                     string
	Ran                      bool
}

// tick is a line of the scale and its label.
type tick struct {
	X, Y, Label string
	Last        bool
}

// Pixels of a phase, and of the line below them.
const (
	waterfallStep = 38
	totalStep     = 22
)

func newWaterfall(cold, warm *httpcheck.Phases) waterfallView {
	out := waterfallView{Kind: "waterfall", Title: "Phases of a cold load"}
	full := phaseSum(cold)
	var at float64
	var desc []string
	for i, ph := range phaseList() {
		v, w := ph.of(cold), ph.of(warm)
		y := float64(i * waterfallStep)
		row := waterfallRow{Name: ph.name, Value: v.String(), Class: "ph-" + ph.name, TextY: px(y + 13), BarY: px(y + 18)}
		if w.Known() {
			row.Warm = "warm " + w.String()
		}
		if v.Known() {
			row.Ran = true
			row.X, row.W = pct(at/full), pct(max(v.Float()/full, 0.003))
			at += v.Float()
			desc = append(desc, ph.name+" "+v.String())
		}
		out.Rows = append(out.Rows, row)
	}
	y := float64(len(out.Rows) * waterfallStep)
	out.Total = waterfallRow{Name: "total", Value: cold.Total.String(), TextY: px(y + 13)}
	if warm.Total.Known() {
		out.Total.Warm = "warm " + warm.Total.String()
	}
	bottom := y + totalStep
	for i := range 5 {
		share := float64(i) / 4
		out.Ticks = append(out.Ticks, tick{X: pct(share), Y: px(bottom + 14), Label: tickText(share * full), Last: i == 4})
	}
	out.Height = px(bottom + 20)
	out.Desc = strings.Join(append(desc, "total "+cold.Total.String()), ", ")
	return out
}

// tickText labels a scale in milliseconds.
func tickText(ms float64) string {
	switch {
	case ms == 0:
		return "0"
	case ms >= 10:
		return strconv.FormatFloat(ms, 'f', 0, 64)
	}
	return strconv.FormatFloat(ms, 'g', 2, 64)
}
