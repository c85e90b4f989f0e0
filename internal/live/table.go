package live

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/whyslow/whyslow/internal/millis"
	"github.com/whyslow/whyslow/trace"
)

// field is a column of the table.
type field uint8

const (
	fHop field = iota
	fAddr
	fAS
	fLoss
	fSent
	fGot
	fLast
	fMin
	fMean
	fMedian
	fP95
	fMax
	fJitter
	fStdDev
	fBack
	fMTU
	fLabels
	fAnswer
	fRecent
	fields // how many there are
)

// heads of the columns, and the least width of their cells, so that a table
// does not shift with every new figure.
var heads = [fields]struct {
	text  string
	least int
	left  bool
}{
	fHop: {"hop", 3, false}, fAddr: {"address", 12, true}, fAS: {"AS", 7, true}, fLoss: {"loss", 5, false},
	fSent: {"sent", 4, false}, fGot: {"got", 4, false}, fLast: {"last", 6, false}, fMin: {"min", 6, false},
	fMean: {"avg", 6, false}, fMedian: {"median", 6, false}, fP95: {"p95", 6, false}, fMax: {"max", 6, false},
	fJitter: {"jitter", 6, false}, fStdDev: {"stddev", 6, false}, fBack: {"back", 4, false}, fMTU: {"MTU", 5, false},
	fLabels: {"MPLS", 6, true}, fAnswer: {"answer", 13, true}, fRecent: {"recent", 8, true},
}

// columnSet is what the table shows, and in which order columns give way where
// they do not fit.
type columnSet struct {
	show, drop []field
	// chart is the most columns of recent round trips.
	chart int
}

var columnSets = [...]columnSet{
	{ // everything that fits
		show:  []field{fHop, fAddr, fAS, fLoss, fSent, fLast, fMin, fMedian, fP95, fMax, fJitter, fLabels, fRecent},
		drop:  []field{fLabels, fAS, fJitter, fP95, fSent, fMax, fRecent, fMin, fMedian, fLoss},
		chart: 60,
	},
	{ // times, as mtr has them
		show: []field{fHop, fAddr, fLoss, fSent, fGot, fLast, fMin, fMean, fMedian, fP95, fMax, fJitter, fStdDev},
		drop: []field{fGot, fMedian, fP95, fJitter, fSent, fStdDev, fMax, fMean, fMin, fLoss},
	},
	{ // the path itself
		show: []field{fHop, fAddr, fAS, fLoss, fMin, fBack, fMTU, fLabels, fAnswer},
		drop: []field{fAnswer, fMin, fLabels, fMTU, fAS, fBack, fLoss},
	},
	{ // the course of time
		show:  []field{fHop, fAddr, fLoss, fLast, fRecent},
		drop:  []field{fLast, fLoss, fRecent},
		chart: keep,
	},
}

// Widths below which columns are dropped rather than cut.
const (
	addrLeast  = 15
	addrMost   = 48
	chartLeast = 8
)

// row is one line of the table: a hop, or one more address at it.
type row struct {
	ttl   int
	text  [fields]string
	style [fields]Style
	chart []sample
}

// table is laid out for one width.
type table struct {
	rows   []row
	cols   []field
	widths [fields]int
	gap    int
}

func (m *Model) table(res *trace.Result, width int) *table {
	t := &table{gap: 1}
	look := newLook(res)
	for i := range res.Hops {
		h := &res.Hops[i]
		t.rows = append(t.rows, m.hopRows(h, look, m.best(res).recent(h.TTL, width, m.latest))...)
	}
	t.fit(columnSets[m.columns], width)
	return t
}

// look is what the whole path says about how its hops are shown.
type look struct {
	ms      func(millis.Value) string
	loss    trace.Loss
	limited []int
	step    int // TTL behind the largest real step, 0 if none
}

func newLook(res *trace.Result) look {
	var all []millis.Value
	for i := range res.Hops {
		for j := range res.Hops[i].Replies {
			all = append(all, res.Hops[i].Replies[j].Max)
		}
	}
	lk := look{ms: millis.Column(all...), loss: trace.LossAt(res)}
	lk.limited = lk.loss.Limited
	var largest time.Duration
	for _, s := range trace.Segments(res) {
		if s.Real && s.Delay > largest {
			largest, lk.step = s.Delay, s.ToTTL
		}
	}
	return lk
}

// lossStyle tells loss of what is forwarded from answers that are only rationed.
func (lk *look) lossStyle(h *trace.Hop) Style {
	switch {
	case h.Loss == 0 || h.Sent == 0 || h.Silent || slices.Contains(lk.limited, h.TTL):
		return Dim
	case lk.loss.Found && h.TTL >= lk.loss.ToTTL:
		return Bad
	}
	return Warn
}

func (m *Model) hopRows(h *trace.Hop, lk look, recent []sample) []row {
	first := row{ttl: h.TTL, chart: recent}
	first.text[fHop] = strconv.Itoa(h.TTL)
	first.text[fLoss], first.style[fLoss] = "–", lk.lossStyle(h)
	if h.Sent > 0 {
		first.text[fLoss] = percent(h.Loss)
	}
	first.text[fSent], first.text[fGot] = strconv.Itoa(h.Sent), strconv.Itoa(h.Received)
	if h.MTU != nil {
		first.text[fMTU] = strconv.Itoa(*h.MTU)
	}
	if len(h.Replies) == 0 {
		first.text[fAddr] = "(no answer)"
		for i := range first.style {
			first.style[i] = Dim
		}
		return []row{first}
	}
	var rows []row
	for i := range h.Replies {
		r := row{ttl: h.TTL}
		if i == 0 {
			r = first
		}
		m.replierRow(&r, &h.Replies[i], lk)
		rows = append(rows, r)
	}
	return rows
}

// replierRow fills in what one address answered.
func (m *Model) replierRow(r *row, rep *trace.Replier, lk look) {
	r.text[fAddr] = m.name(rep)
	if rep.AS != nil {
		r.text[fAS] = "AS" + strconv.FormatUint(uint64(rep.AS.Number), 10)
	}
	for f, v := range map[field]millis.Value{fLast: rep.Last, fMin: rep.Min, fMean: rep.Mean, fMedian: rep.Median,
		fP95: rep.P95, fMax: rep.Max, fJitter: rep.Jitter, fStdDev: rep.StdDev} {
		r.text[f] = lk.ms(v)
	}
	if r.ttl == lk.step && r.text[fHop] != "" {
		r.style[fMin] = Accent
	}
	if rep.HopsBack != nil {
		r.text[fBack] = strconv.Itoa(*rep.HopsBack)
		if *rep.HopsBack != r.ttl {
			r.style[fBack] = Warn
		}
	}
	var labels []string
	for _, l := range rep.Labels {
		labels = append(labels, fmt.Sprint(l.Value))
	}
	r.text[fLabels] = strings.Join(labels, "/")
	r.text[fAnswer], r.style[fAnswer] = safe(rep.ICMP), Dim
}

// name is how the table calls an address.
func (m *Model) name(rep *trace.Replier) string {
	if rep.Name == "" || m.numeric {
		return rep.Addr.String()
	}
	return safe(rep.Name)
}

// has reports whether any row has something in a column.
func (t *table) has(f field) bool {
	return f == fRecent || f == fHop || f == fAddr || slices.ContainsFunc(t.rows, func(r row) bool { return r.text[f] != "" })
}

// fit chooses the columns and their widths.
func (t *table) fit(set columnSet, width int) {
	natural := 0
	for f := range fields {
		t.widths[f] = max(columns(heads[f].text), heads[f].least)
		for i := range t.rows {
			t.widths[f] = max(t.widths[f], columns(t.rows[i].text[f]))
		}
	}
	natural = min(t.widths[fAddr], addrMost)
	for _, f := range set.show {
		if t.has(f) {
			t.cols = append(t.cols, f)
		}
	}
	drop := set.drop
	left := 0 // what the other columns leave to the address and the chart
	for {
		fixed := 1 // the mark of the selected row
		for _, f := range t.cols {
			fixed += t.gap
			if f != fAddr && f != fRecent {
				fixed += t.widths[f]
			}
		}
		left = width - fixed
		need := min(natural, addrLeast)
		if slices.Contains(t.cols, fRecent) {
			need += chartLeast
		}
		if need <= left || len(drop) == 0 {
			break
		}
		out := drop[0]
		drop = drop[1:]
		t.cols = slices.DeleteFunc(t.cols, func(f field) bool { return f == out })
	}
	t.widths[fAddr] = max(min(natural, left), 1)
	if slices.Contains(t.cols, fRecent) {
		t.widths[fAddr] = min(natural, max(left*3/5, left-2*chartLeast))
		t.widths[fRecent] = min(left-t.widths[fAddr], set.chart)
	}
	// Where there is room to spare, it goes between the columns.
	if spare := left - t.widths[fAddr] - t.widths[fRecent]*count(t.cols, fRecent); spare >= len(t.cols) {
		t.gap = 2
	}
}

func count(cols []field, f field) int {
	if slices.Contains(cols, f) {
		return 1
	}
	return 0
}

// heading is the line above the rows.
func (t *table) heading() []Line {
	var b strings.Builder
	b.WriteByte(' ')
	for i, f := range t.cols {
		if i > 0 {
			b.WriteString(strings.Repeat(" ", t.gap))
		}
		b.WriteString(pad(heads[f].text, t.widths[f], !heads[f].left))
	}
	return []Line{{{b.String(), Dim}}}
}

// line draws one row.
func (t *table) line(r row, selected bool) Line {
	mark := " "
	if selected && r.text[fHop] != "" {
		mark = "▸"
	}
	out := Line{{mark, Plain}}
	for i, f := range t.cols {
		if i > 0 {
			out = append(out, Span{strings.Repeat(" ", t.gap), Plain})
		}
		if f == fRecent {
			out = append(out, sparkline(r.chart, t.widths[f])...)
			continue
		}
		text := r.text[f]
		if f == fAddr {
			text = cutMiddle(text, t.widths[f])
		}
		out = append(out, Span{pad(text, t.widths[f], !heads[f].left), r.style[f]})
	}
	if selected {
		for i := range out {
			out[i].Style = Chosen
		}
	}
	return out
}

// visible are the rows that fit, the selected among them.
func (t *table) visible(selected, room int) []Line {
	room = max(room, 0)
	from := 0
	if len(t.rows) > room {
		at := slices.IndexFunc(t.rows, func(r row) bool { return r.ttl == selected })
		from = min(max(at-room/2, 0), len(t.rows)-room)
	}
	var lines []Line
	for i := from; i < min(from+room, len(t.rows)); i++ {
		lines = append(lines, t.line(t.rows[i], t.rows[i].ttl == selected))
	}
	if hidden := len(t.rows) - from - room; hidden > 0 && room > 2 {
		lines[room-1] = Line{{fmt.Sprintf("     … %s more below", counted(hidden+1, "row")), Dim}}
	}
	return lines
}

// cutMiddle shortens visible text and keeps both its ends: names differ at
// either.
func cutMiddle(s string, width int) string {
	total := columns(s)
	if total <= width || width < 8 {
		return cut(s, width)
	}
	head := cut(s, width*2/3) // ends in the ellipsis
	drop := total - (width - columns(head))
	tail := s
	characters(s, func(c string, w int) bool {
		if drop <= 0 {
			return false
		}
		drop -= w
		tail = tail[len(c):]
		return true
	})
	return head + tail
}

func percent(share float64) string {
	switch p := 100 * share; {
	case p > 0 && p < 9.95:
		return fmt.Sprintf("%.1f %%", p)
	case p > 99 && p < 100:
		return "99 %"
	default:
		return fmt.Sprintf("%.0f %%", math.Round(p))
	}
}
