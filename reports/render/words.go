package render

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/whyslow/whyslow/reports"
)

// confidence says a probability in words and as a number.
func confidence(p float64) string {
	if math.IsNaN(p) {
		return "confidence unknown"
	}
	word := "a guess"
	switch {
	case p >= 0.95:
		word = "almost certain"
	case p >= 0.85:
		word = "very likely"
	case p >= 0.7:
		word = "likely"
	case p >= 0.5:
		word = "more likely than not"
	}
	return fmt.Sprintf("%s (confidence %.2f)", word, p)
}

// layerName names a layer in a badge.
func layerName(l reports.Layer) string {
	switch l {
	case reports.Network:
		return "Network"
	case reports.DNS:
		return "DNS"
	case reports.Server:
		return "Server"
	case reports.Client:
		return "Client"
	case reports.None:
		return "Nothing slow"
	case reports.Inconclusive:
		return "Inconclusive"
	}
	return "No verdict"
}

// layerStyle is the colour that stands for a layer in every chart.
func layerStyle(l reports.Layer) style {
	switch l {
	case reports.Network:
		return accent
	case reports.DNS:
		return violet
	case reports.Server:
		return bad
	case reports.Client:
		return warn
	case reports.None:
		return good
	}
	return dim
}

// cause names what a verdict blames, "network / loss"; "" if it blames nothing.
func cause(v *reports.Verdict) string {
	if v.Component == nil || *v.Component == "" {
		return ""
	}
	switch v.Layer {
	case "":
		return *v.Component
	case reports.None:
		return "none (" + *v.Component + ")"
	}
	return string(v.Layer) + " / " + *v.Component
}

// sentence is the verdict in one sentence, also where the judge had no time to
// write one.
func sentence(r *reports.Report) string {
	v := &r.Verdict
	switch {
	case v.Summary != "":
		return v.Summary
	case v.Layer == "" && r.Interrupted:
		return "Interrupted before there was a verdict."
	case v.Layer == "":
		return "No verdict."
	case cause(v) != "" && v.Where != "":
		return fmt.Sprintf("%s at %s.", cause(v), v.Where)
	case cause(v) != "":
		return cause(v) + "."
	}
	return layerName(v.Layer) + "."
}

// percent writes a share without pretending to know more than it does.
func percent(x float64) string {
	switch {
	case math.IsNaN(x) || math.IsInf(x, 0):
		return "–"
	case x > 0 && x < 0.001:
		return "<0.1 %"
	case x == 0 || x >= 0.0995:
		return fmt.Sprintf("%.0f %%", 100*x)
	}
	return fmt.Sprintf("%.1f %%", 100*x)
}

// size writes bytes for people; counted in thousands as networks are.
func size(n int64) string {
	switch {
	case n < 10_000:
		return fmt.Sprintf("%d B", n)
	case n < 10_000_000:
		return fmt.Sprintf("%.1f kB", float64(n)/1e3)
	}
	return fmt.Sprintf("%.1f MB", float64(n)/1e6)
}

// count writes a number and its noun, which forms its plural with s.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// orDash stands a dash where there is nothing.
func orDash(s string) string {
	if s == "" {
		return "–"
	}
	return s
}

// stamp writes a time in UTC as ISO 8601 with milliseconds; "–" if it is zero.
func stamp(t time.Time) string {
	if t.IsZero() {
		return "–"
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z")
}

// clock writes a time in UTC for a headline.
func clock(t time.Time) string {
	if t.IsZero() {
		return "–"
	}
	return t.UTC().Format("2006-01-02 15:04:05 UTC")
}

// shellQuote writes arguments so that a shell reads the same ones back.
func shellQuote(argv []string) string {
	out := make([]string, len(argv))
	for i, a := range argv {
		if a != "" && strings.Trim(a, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@%+=:,./-_") == "" {
			out[i] = a
			continue
		}
		out[i] = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
	}
	return strings.Join(out, " ")
}

// bar draws value on a scale where full is width columns, in eighths of a
// column. What is not zero shows at least an eighth.
func bar(value, full float64, width int) string {
	if !(value > 0) || !(full > 0) || width <= 0 {
		return ""
	}
	eighths := int(math.Round(min(value/full, 1) * float64(width) * 8))
	eighths = max(eighths, 1)
	out := strings.Repeat("█", eighths/8)
	if part := eighths % 8; part > 0 {
		out += string([]rune("▏▎▍▌▋▊▉")[part-1])
	}
	return out
}

// barAt draws value after a gap that stands for start, on the same scale.
func barAt(start, value, full float64, width int) string {
	if !(value > 0) || !(full > 0) || width <= 0 {
		return ""
	}
	if math.IsNaN(start) {
		start = 0
	}
	at := int(math.Floor(min(max(start/full, 0), 1) * float64(width)))
	at = min(at, width-1)
	return strings.Repeat(" ", at) + bar(value, full*float64(width-at)/float64(width), width-at)
}
