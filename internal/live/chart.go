package live

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/whyslow/whyslow/internal/millis"
	"github.com/whyslow/whyslow/internal/stats"
)

// steps of a sparkline, from the least round trip to the greatest.
var steps = [...]string{"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"}

const (
	lostMark = "×"
	// leastScale is the smallest range a sparkline shows: below it is noise.
	leastScale = 2 * time.Millisecond
)

// sparkline draws the latest round trips, the newest at the right. The lowest
// step is the least of them and the highest the greatest, but a hop that is
// steady to 2 ms and to half its least round trip does not look agitated.
func sparkline(samples []sample, width int) Line {
	if len(samples) > width {
		samples = samples[len(samples)-width:]
	}
	var least, most time.Duration
	known := false
	for _, s := range samples {
		if !s.answered {
			continue
		}
		if !known {
			least, most, known = s.rtt, s.rtt, true
		}
		least, most = min(least, s.rtt), max(most, s.rtt)
	}
	scale := max(most-least, least/2, leastScale)
	out := Line{{strings.Repeat(" ", width-len(samples)), Plain}}
	for _, s := range samples {
		piece := Span{lostMark, Bad}
		if s.answered {
			at := min(int(float64(len(steps))*float64(s.rtt-least)/float64(scale)), len(steps)-1)
			piece = Span{steps[at], Good}
			if at >= len(steps)/2 {
				piece.Style = Warn
			}
		}
		if last := &out[len(out)-1]; last.Style == piece.Style && len(out) > 1 {
			last.Text += piece.Text
		} else {
			out = append(out, piece)
		}
	}
	return out
}

// histogram draws how round trips are spread: at most rows bins of one width
// from the least on, and what lies far above all others in one more.
func histogram(t *stats.Sketch, rows, width int) []Line {
	if t.Len() == 0 || rows < 1 {
		return nil
	}
	least, top := t.Quantile(0), t.Quantile(1)
	if q := t.Quantile(0.98); top-least > 2*(q-least) {
		top = q // few stragglers would press all others into one bin
	}
	bin := niceStep(max(top-least, 50*time.Microsecond), rows)
	from := least / bin * bin
	var bins []float64
	below := 0
	for upper := from + bin; below < t.Len() && len(bins) <= rows; upper += bin {
		upTo := t.Rank(upper - 1)
		bins = append(bins, float64(upTo-below))
		below = upTo
	}
	beyond := float64(t.Len() - below)
	most := beyond
	for _, n := range bins {
		most = max(most, n)
	}
	edge := millis.Column(millis.Of(from + time.Duration(len(bins))*bin))
	if bin < 100*time.Microsecond {
		edge = func(v millis.Value) string { return fmt.Sprintf("%.2f", v.Float()) }
	}
	wide := columns(edge(millis.Of(from + time.Duration(len(bins))*bin)))
	var lines []Line
	put := func(label string, n float64) {
		number := fmt.Sprintf(" %.0f", n)
		lines = append(lines, Line{{" " + pad(label, 2*wide+1, true) + " ", Dim},
			{bar(n, most, width-2*wide-3-columns(number)), Good}, {number, Plain}})
	}
	for i, n := range bins {
		lo := from + time.Duration(i)*bin
		put(pad(edge(millis.Of(lo)), wide, true)+"–"+pad(edge(millis.Of(lo+bin)), wide, true), n)
	}
	if beyond > 0 {
		put("above", beyond)
	}
	return lines
}

// niceStep divides a range into at most n steps of 1, 2 or 5 times a power of
// ten.
func niceStep(span time.Duration, n int) time.Duration {
	raw := float64(span) / float64(n)
	power := math.Pow(10, math.Floor(math.Log10(raw)))
	for _, f := range []float64{1, 2, 5} {
		if f*power >= raw {
			return time.Duration(f * power)
		}
	}
	return time.Duration(10 * power)
}

// bar draws a share of full in eighths of a column; what is not zero shows.
func bar(value, full float64, width int) string {
	if value <= 0 || full <= 0 || width <= 0 {
		return ""
	}
	eighths := max(int(math.Round(value/full*float64(width)*8)), 1)
	out := strings.Repeat("█", eighths/8)
	if part := eighths % 8; part > 0 {
		out += string([]rune("▏▎▍▌▋▊▉")[part-1])
	}
	return out
}
