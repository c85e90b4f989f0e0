package render

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/whyslow/whyslow/internal/millis"
	"github.com/whyslow/whyslow/trace"
)

// TraceCSV writes a path as CSV (RFC 4180), a line for each address that
// answered and for each silent hop. What was not measured is empty.
func TraceCSV(w io.Writer, t *trace.Result, opt Options) error {
	return tracesCSV(w, &[]*trace.Result{t}, opt)
}

// tracesCSV is TraceCSV for several paths, below one head.
func tracesCSV(w io.Writer, all *[]*trace.Result, _ Options) error {
	c := csv.NewWriter(w)
	_ = c.Write([]string{
		"target", "target_addr", "method", "ttl", "addr", "name", "as", "as_name", "sent", "received", "loss",
		"min_ms", "median_ms", "mean_ms", "p95_ms", "max_ms", "stddev_ms", "jitter_ms", "last_ms",
		"reply_ttl", "hops_back", "mtu", "labels", "answer",
	})
	for _, t := range *all {
		csvHops(c, rewrite(t, visible))
	}
	c.Flush()
	if err := c.Error(); err != nil {
		return fmt.Errorf("render: writing CSV: %w", err)
	}
	return nil
}

// csvHops writes the lines of one path; the writer keeps the first error.
func csvHops(c *csv.Writer, t *trace.Result) {
	head := []string{harmless(t.Target.Name), addrText(t.Target.Addr), t.Method}
	for i := range t.Hops {
		h := &t.Hops[i]
		if len(h.Replies) == 0 {
			row := append(head[:3:3], strconv.Itoa(h.TTL), "", "", "", "", strconv.Itoa(h.Sent), "0", number(h.Loss))
			_ = c.Write(append(row, make([]string, 13)...))
		}
		for j := range h.Replies {
			_ = c.Write(append(head[:3:3], csvReplier(h, &h.Replies[j])...))
		}
	}
}

// csvReplier are the fields of one address. Which of several addresses a lost
// probe would have met nobody knows, so the loss is the hop's.
func csvReplier(h *trace.Hop, r *trace.Replier) []string {
	as, asName := "", ""
	if r.AS != nil {
		as, asName = strconv.FormatUint(uint64(r.AS.Number), 10), r.AS.Name
	}
	row := []string{
		strconv.Itoa(h.TTL), addrText(r.Addr), harmless(r.Name), as, harmless(asName),
		strconv.Itoa(r.Sent), strconv.Itoa(r.Received), number(h.Loss),
	}
	for _, v := range []millis.Value{r.Min, r.Median, r.Mean, r.P95, r.Max, r.StdDev, r.Jitter, r.Last} {
		text := ""
		if v.Known() {
			text = strconv.FormatFloat(v.Float(), 'f', 3, 64)
		}
		row = append(row, text)
	}
	back := ""
	if r.HopsBack != nil {
		back = strconv.Itoa(*r.HopsBack)
	}
	ttl := ""
	if r.ReplyTTL > 0 {
		ttl = strconv.Itoa(r.ReplyTTL)
	}
	return append(row, ttl, back, mtuText(h.MTU), labelValues(r), harmless(r.ICMP))
}

// labelValues are the MPLS labels of a hop, top first.
func labelValues(r *trace.Replier) string {
	var values []string
	for _, l := range r.Labels {
		values = append(values, strconv.FormatUint(uint64(l.Value), 10))
	}
	return strings.Join(values, " ")
}

func number(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// harmless keeps a spreadsheet from taking a stranger's text for a formula.
func harmless(s string) string {
	if s != "" && strings.ContainsRune("=+-@\t\r", rune(s[0])) {
		return "'" + s
	}
	return s
}
