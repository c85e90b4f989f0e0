package render

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/whyslow/whyslow/internal/millis"
	"github.com/whyslow/whyslow/internal/wire"
	"github.com/whyslow/whyslow/trace"
)

// path writes the hops and how to read them.
func (s *sheet) path(t *trace.Result, verbose bool) {
	s.heading("Path", pathNote(t))
	hops := pathTable(t, verbose)
	if len(t.Hops) > 0 {
		hops.write(s)
	}
	for _, r := range t.Reading {
		s.para("  ", "     ", cell{r.Rule, accent}, cell{text: r.Text})
	}
	s.notes(t.Warnings)
}

// pathNote says what was traced, how and how far it came.
func pathNote(t *trace.Result) string {
	to := addrText(t.Target.Addr)
	if to == "" {
		to = t.Target.Name
	}
	parts := []string{orDash(to), orDash(t.Method)}
	if t.Target.Port > 0 && t.Method != "icmp" {
		parts[1] += " port " + strconv.Itoa(int(t.Target.Port))
	}
	switch {
	case t.Reached && t.HopCount != nil:
		parts = append(parts, "reached at hop "+strconv.Itoa(*t.HopCount))
	case t.Reached:
		parts = append(parts, "reached")
	default:
		parts = append(parts, "not reached")
	}
	if t.BackCount != nil {
		parts = append(parts, count(*t.BackCount, "hop")+" back")
	}
	if t.PMTU != nil {
		parts = append(parts, "MTU "+strconv.Itoa(*t.PMTU))
	}
	return strings.Join(parts, " · ") + " · ms"
}

// leastP95 is how many answers a 95th percentile takes; of fewer it is the
// largest under another name.
const leastP95 = 20

// hopRow is one line of a path: a hop, or one more address that answered at it.
type hopRow struct {
	ttl, addr, name, loss, direct string
	as, min, median, p95, max     string
	jitter, back, mtu, sent       string
	note                          string
	lossy, silent                 bool
	minMS, medianMS, maxMS        float64 // NaN if unmeasured
}

// hopRows lays a trace out line by line; the destination's own sample comes last.
func hopRows(t *trace.Result) []hopRow {
	var rows []hopRow
	ms := pathColumn(t)
	for i := range t.Hops {
		h := &t.Hops[i]
		first := hopRow{ttl: strconv.Itoa(h.TTL), mtu: mtuText(h.MTU), loss: percent(h.Loss), lossy: h.Loss > 0}
		if h.Direct != nil {
			first.direct = percent(h.Direct.Loss)
		}
		if h.Silent || len(h.Replies) == 0 {
			first.addr, first.silent, first.loss = "*", true, "silent"
			rows = append(rows, first)
			continue
		}
		for j := range h.Replies {
			r := &h.Replies[j]
			row := hopRow{}
			if j == 0 {
				row = first
			}
			row.addr, row.name = addrText(r.Addr), r.Name
			row.sent = fmt.Sprintf("%d/%d", r.Received, r.Sent)
			row.min, row.median, row.max, row.jitter = ms(r.Min), ms(r.Median), ms(r.Max), ms(r.Jitter)
			if r.Received >= leastP95 {
				row.p95 = ms(r.P95)
			}
			row.as, row.back = asText(r.AS), mtuText(r.HopsBack)
			row.minMS, row.medianMS, row.maxMS = r.Min.Float(), r.Median.Float(), r.Max.Float()
			if !expected(t, h, r.ICMP) {
				row.note = r.ICMP
			}
			row.note = nonEmpty(", ", row.note, labelsText(r.Labels), quoteText(t, h, r))
			rows = append(rows, row)
		}
	}
	return rows
}

// labelsText are the MPLS labels an answer carried, top first.
func labelsText(labels []wire.Label) string {
	if len(labels) == 0 {
		return ""
	}
	var values []string
	for _, l := range labels {
		values = append(values, strconv.FormatUint(uint64(l.Value), 10))
	}
	return "MPLS " + strings.Join(values, "/")
}

// asText is an autonomous system: its number, and the name where one is known.
func asText(as *trace.AS) string {
	if as == nil {
		return ""
	}
	return nonEmpty(" ", "AS"+strconv.FormatUint(uint64(as.Number), 10), as.Name)
}

// quoteText says what had happened to the probes on the way to the hop that
// first saw it.
func quoteText(t *trace.Result, h *trace.Hop, r *trace.Replier) string {
	var texts []string
	if t.NAT != nil && t.NAT.TTL == h.TTL {
		texts = append(texts, "behind NAT")
	}
	if c := t.MSSClamp; c != nil && c.TTL == h.TTL {
		texts = append(texts, fmt.Sprintf("MSS clamped %d→%d", c.From, c.To))
	}
	if c := t.TOSChange; c != nil && c.TTL == h.TTL {
		if c.From>>2 != c.To>>2 {
			texts = append(texts, fmt.Sprintf("DSCP %d→%d", c.From>>2, c.To>>2))
		}
		if c.From&3 != c.To&3 {
			texts = append(texts, fmt.Sprintf("ECN %d→%d", c.From&3, c.To&3))
		}
	}
	if q := r.Quote; q != nil && q.TTL != nil && *q.TTL > 1 {
		texts = append(texts, fmt.Sprintf("TTL %d left", *q.TTL))
	}
	return strings.Join(texts, ", ")
}

// narrows reports whether the path has more than one MTU; the heading has the
// only one.
func narrows(t *trace.Result) bool {
	for i := range t.Hops {
		if mtu := t.Hops[i].MTU; mtu != nil && (t.PMTU == nil || *mtu != *t.PMTU) {
			return true
		}
	}
	return false
}

// pathColumn formats the times of a path.
func pathColumn(t *trace.Result) func(millis.Value) string {
	var all []millis.Value
	for i := range t.Hops {
		for j := range t.Hops[i].Replies {
			all = append(all, t.Hops[i].Replies[j].Max)
		}
	}
	for _, d := range []*trace.Sampled{t.Destination, t.Loaded} {
		if d != nil {
			all = append(all, d.Max)
		}
	}
	return millis.Column(all...)
}

// expected reports whether an answer is the one any hop at this place gives; it
// is news only where it is another.
func expected(t *trace.Result, h *trace.Hop, icmp string) bool {
	switch icmp {
	case "":
		return true
	case "echo reply", "port unreachable", "udp reply", "syn-ack", "reset", "tcp reply":
		return t.Reached && t.HopCount != nil && *t.HopCount == h.TTL
	}
	return icmp == "time exceeded"
}

// mtuText is an MTU column: empty rather than a dash, as most hops have none.
func mtuText(n *int) string {
	if n == nil {
		return ""
	}
	return strconv.Itoa(*n)
}

func pathTable(t *trace.Result, verbose bool) *table {
	out := &table{cols: []column{
		{head: "hop", right: true}, {head: "address"}, {head: "name", flex: true, drop: 9}, {head: "AS", flex: true, drop: 8},
		{head: "loss", right: true}, {head: "direct", right: true, drop: 10}, {head: "min", right: true}, {head: "median", right: true},
		{head: "p95", right: true, drop: 5}, {head: "max", right: true, drop: 6}, {head: "jitter", right: true, drop: 4},
		{head: "MTU", right: true, drop: 7}, {head: "back", right: true, drop: 3}, {head: "got", right: true, drop: 2}, {head: "answer", drop: 1},
	}, indent: 2}
	narrows := narrows(t)
	for _, r := range hopRows(t) {
		if !verbose {
			r.sent, r.p95, r.jitter, r.back = "", "", "", ""
			if !narrows {
				r.mtu = ""
			}
		}
		loss := cell{text: r.loss}
		if r.silent {
			loss.style = dim
		} else if r.lossy {
			loss.style = warn
		}
		out.addRow(cell{text: r.ttl}, cell{text: r.addr}, cell{text: r.name}, cell{r.as, dim}, loss, cell{text: r.direct}, cell{text: r.min},
			cell{text: r.median}, cell{text: r.p95}, cell{text: r.max}, cell{text: r.jitter}, cell{text: r.mtu}, cell{text: r.back},
			cell{r.sent, dim}, cell{r.note, dim})
	}
	out.addSampled(t.Destination, "", verbose, pathColumn(t))
	out.addSampled(t.Loaded, "loaded", verbose, pathColumn(t))
	return out
}

// addSampled appends a sample of the destination itself, if it was taken.
func (t *table) addSampled(d *trace.Sampled, note string, verbose bool, ms func(millis.Value) string) {
	if d == nil {
		return
	}
	p95 := ""
	if verbose && d.Received >= leastP95 {
		p95 = ms(d.P95)
	}
	loss := cell{text: percent(d.Loss)}
	if d.Loss > 0 {
		loss.style = bad
	}
	t.addRow(cell{text: "→"}, cell{nonEmpty(" ", fmt.Sprintf("%d × %s", d.Sent, d.Method), note), dim}, cell{}, cell{}, loss, cell{},
		cell{text: ms(d.Min)}, cell{text: ms(d.Median)}, cell{text: p95}, cell{text: ms(d.Max)}, cell{}, cell{}, cell{}, cell{}, cell{})
}
