package render

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/whyslow/whyslow/trace"
)

// hopChartView shows latency and loss hop by hop. The line is not drawn
// through the hops' own times but through the least time of each hop and those
// behind it: a router that only answers slowly stands above the line as a
// hollow dot, and the line itself shows where traffic is delayed.
type hopChartView struct {
	Kind, Title, Desc string
	Height            string
	Ticks             []tick
	Links             []linkView
	Marks             []hopMark
	LossTop           string // where the strip of loss bars begins
	LossBase          string
	LabelY            string
}

type linkView struct {
	X1, Y1, X2, Y2 string
	Gap            bool // over silent hops
}

type hopMark struct {
	X, Hop, Tip               string
	Label                     bool // show the hop's number
	Silent, Above             bool // Above the line
	MinY, MaxY                string
	LossX, LossY, LossH, Loss string
	Lossy, LossLabel          bool
	min, loss                 float64
}

// Heights of the hop chart in pixels, from the top.
const (
	hopTop     = 16.0
	hopBase    = 176.0
	hopLossTop = 190.0
	hopLossEnd = 226.0
	hopBarMax  = 20.0 // leaves room for a label above the bar
	hopLabel   = 244.0
	aboveLine  = 2.0 // ms; less is noise (rule R1)
	maxHops    = 64  // drawn
	fewHops    = 16  // up to which each has its number and its loss in figures
)

func newHopChart(t *trace.Result) hopChartView {
	out := hopChartView{
		Kind: "hops", Title: "Round-trip time and loss at each hop", Height: px(hopLabel + 6),
		LossTop: px(hopLossTop), LossBase: px(hopLossEnd), LabelY: px(hopLabel),
	}
	hops := t.Hops[:min(len(t.Hops), maxHops)]
	scale := newScale(hops)
	for _, v := range scale.ticks {
		out.Ticks = append(out.Ticks, tick{Y: px(scale.y(v)), Label: tickText(v) + " ms"})
	}
	every := 1 + (len(hops)-1)/fewHops
	var desc []string
	for i := range hops {
		m := newHopMark(t, &hops[i], scale)
		x := 0.05 + 0.93*(float64(i)+0.5)/float64(max(len(hops), 1))
		m.X, m.LossX = pct(x), pct(x-0.012)
		m.Label = i%every == 0
		m.LossLabel = m.Lossy && len(hops) <= fewHops
		out.Marks = append(out.Marks, m)
		if i < fewHops {
			desc = append(desc, m.Tip)
		}
	}
	out.link(scale)
	out.scaleLoss()
	out.Desc = strings.Join(desc, "; ")
	return out
}

// newHopMark places one hop vertically.
func newHopMark(t *trace.Result, h *trace.Hop, s scale) hopMark {
	m := hopMark{Hop: strconv.Itoa(h.TTL), Silent: true, MaxY: px(hopBase), min: math.NaN()}
	m.Tip = "hop " + m.Hop + ": silent"
	if len(h.Replies) == 0 || !h.Replies[0].Min.Known() {
		return m
	}
	r := &h.Replies[0]
	m.Silent, m.min = false, r.Min.Float()
	m.MinY, m.MaxY = px(s.y(m.min)), px(s.y(m.min))
	if r.Max.Known() {
		m.MaxY = px(s.y(r.Max.Float()))
	}
	m.Tip = fmt.Sprintf("hop %s: %s %s", m.Hop, addrText(r.Addr), r.Min)
	m.loss = h.Loss
	// A sample of the address itself is better: no router's error limit has a
	// part in it.
	switch {
	case t.Destination != nil && t.HopCount != nil && *t.HopCount == h.TTL:
		m.loss = t.Destination.Loss
	case h.Direct != nil:
		m.loss = h.Direct.Loss
	}
	if m.loss > 0 {
		m.Lossy, m.Loss = true, percent(m.loss)
		m.Tip += ", loss " + m.Loss
	}
	return m
}

// link draws the line, from the destination backwards.
func (c *hopChartView) link(s scale) {
	least, next, gap := math.Inf(1), -1, false
	for i := len(c.Marks) - 1; i >= 0; i-- {
		m := &c.Marks[i]
		if m.Silent {
			gap = true
			continue
		}
		y2 := px(s.y(least))
		m.Above = m.min > least+aboveLine
		least = min(least, m.min)
		if next >= 0 {
			c.Links = append(c.Links, linkView{m.X, px(s.y(least)), c.Marks[next].X, y2, gap})
		}
		next, gap = i, false
	}
}

// scaleLoss makes the bars of loss as high as the strip allows, but no loss
// below a tenth look like a lot.
func (c *hopChartView) scaleLoss() {
	full := 0.1
	for _, m := range c.Marks {
		full = max(full, min(m.loss, 1))
	}
	for i := range c.Marks {
		m := &c.Marks[i]
		height := max(min(m.loss, 1)/full*hopBarMax, 2)
		m.LossY, m.LossH = px(hopLossEnd-height), px(height)
	}
}

// scale maps milliseconds to a height.
type scale struct {
	top   float64
	ticks []float64
}

// newScale makes room for the medians. A lone maximum may leave the chart; else
// one late reply would flatten all the others.
func newScale(hops []trace.Hop) scale {
	var top float64
	for i := range hops {
		for j := range hops[i].Replies {
			r := &hops[i].Replies[j]
			for _, v := range []float64{r.Min.Float(), r.Median.Float()} {
				if !math.IsNaN(v) {
					top = max(top, v)
				}
			}
		}
	}
	if top <= 0 {
		top = 1
	}
	step := niceStep(top / 4)
	s := scale{top: top * 1.08}
	for v := 0.0; v <= s.top && len(s.ticks) < 10; v += step {
		s.ticks = append(s.ticks, v)
	}
	return s
}

// niceStep returns the least of 1, 2 and 5 times a power of ten that is not
// below x.
func niceStep(x float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(x)))
	for _, m := range []float64{1, 2, 5} {
		if m*power >= x {
			return m * power
		}
	}
	return 10 * power
}

func (s scale) y(ms float64) float64 {
	if math.IsNaN(ms) {
		return hopBase
	}
	return hopBase - min(max(ms/s.top, 0), 1)*(hopBase-hopTop)
}
