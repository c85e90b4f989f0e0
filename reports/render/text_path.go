package render

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/whyslow/whyslow/internal/millis"
	"github.com/whyslow/whyslow/pmtu"
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

// hopRow is one line of a path: a hop, or one more address that answered at it.
type hopRow struct {
	ttl, addr, name, loss, direct string
	min, median, max, mtu, sent   string
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
			row.min, row.median, row.max = ms(r.Min), ms(r.Median), ms(r.Max)
			row.minMS, row.medianMS, row.maxMS = r.Min.Float(), r.Median.Float(), r.Max.Float()
			if !expected(t, h, r.ICMP) {
				row.note = r.ICMP
			}
			if len(r.Labels) > 0 {
				row.note = nonEmpty(", ", row.note, fmt.Sprintf("MPLS %d", r.Labels[0].Value))
			}
			rows = append(rows, row)
		}
	}
	return rows
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
	case "echo reply", "port unreachable", "tcp reply", "udp reply", "syn-ack":
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
		{head: "hop", right: true}, {head: "address"}, {head: "name", flex: true, drop: 5}, {head: "loss", right: true},
		{head: "direct", right: true, drop: 6}, {head: "min", right: true}, {head: "median", right: true},
		{head: "max", right: true, drop: 3}, {head: "MTU", right: true, drop: 4}, {head: "got", right: true, drop: 2}, {head: "answer", drop: 1},
	}, indent: 2}
	narrows := narrows(t)
	for _, r := range hopRows(t) {
		if !narrows && !verbose {
			r.mtu = ""
		}
		loss := cell{text: r.loss}
		if r.silent {
			loss.style = dim
		} else if r.lossy {
			loss.style = warn
		}
		if !verbose {
			r.sent = ""
		}
		out.addRow(cell{text: r.ttl}, cell{text: r.addr}, cell{text: r.name}, loss, cell{text: r.direct}, cell{text: r.min},
			cell{text: r.median}, cell{text: r.max}, cell{text: r.mtu}, cell{r.sent, dim}, cell{r.note, dim})
	}
	out.addSampled(t.Destination, "", pathColumn(t))
	out.addSampled(t.Loaded, "loaded", pathColumn(t))
	return out
}

// addSampled appends a sample of the destination itself, if it was taken.
func (t *table) addSampled(d *trace.Sampled, note string, ms func(millis.Value) string) {
	if d == nil {
		return
	}
	loss := cell{text: percent(d.Loss)}
	if d.Loss > 0 {
		loss.style = bad
	}
	t.addRow(cell{text: "→"}, cell{nonEmpty(" ", fmt.Sprintf("%d × %s", d.Sent, d.Method), note), dim}, cell{}, loss, cell{},
		cell{text: ms(d.Min)}, cell{text: ms(d.Median)}, cell{text: ms(d.Max)}, cell{}, cell{}, cell{})
}

// pmtu writes the path MTU in sentences.
func (s *sheet) pmtu(p *pmtu.Result) {
	s.heading("Path MTU", "")
	for _, f := range pmtuFacts(p) {
		s.para("  ", "    ", cell{text: f})
	}
	s.notes(p.Warnings)
}

// pmtuFacts are what was found about the path MTU, most important first.
func pmtuFacts(p *pmtu.Result) []string {
	var facts []string
	head := "Not measured."
	if p.MTU != nil {
		head = fmt.Sprintf("%d bytes pass to %s", *p.MTU, joined(" ", addrText(p.Target.Addr)))
		if p.InterfaceMTU != nil {
			head += fmt.Sprintf("; the interface allows %d", *p.InterfaceMTU)
		}
		head += "."
	}
	facts = append(facts, head)
	if l := p.Limiter; l != nil {
		at := addrText(l.Addr)
		if at == "" {
			at = "a silent hop"
		}
		how := "and nobody says so: a black hole"
		if p.Signalled {
			how = "and the router says so"
		} else if !p.BlackHole {
			how = "unsignalled"
		}
		facts = append(facts, fmt.Sprintf("It narrows behind hop %d (%s), %s.", l.TTL, at, how))
	} else if p.BlackHole {
		facts = append(facts, "Larger packets vanish and nobody says so: a black hole.")
	}
	if p.ClaimedMTU != nil && (p.MTU == nil || *p.ClaimedMTU != *p.MTU) {
		facts = append(facts, fmt.Sprintf("A router claims %d.", *p.ClaimedMTU))
	}
	if p.CachedMTU != nil && (p.MTU == nil || *p.CachedMTU != *p.MTU) {
		facts = append(facts, fmt.Sprintf("The kernel had cached %d.", *p.CachedMTU))
	}
	if p.MTU == nil && p.AtLeast != nil {
		facts[0] = fmt.Sprintf("At least %d bytes pass.", *p.AtLeast)
	}
	if n := p.Backward.EchoLimit; n != nil {
		facts = append(facts, fmt.Sprintf("Echoes come back up to %d bytes only, though larger packets arrive.", *n))
	}
	if b := p.Backward; b.BlackHole != nil || b.MTU != nil {
		text := "On the way back no black hole was found"
		if b.BlackHole != nil && *b.BlackHole {
			text = "On the way back large packets vanish: a black hole"
		}
		if b.MTU != nil {
			text += fmt.Sprintf("; %d bytes pass", *b.MTU)
		}
		facts = append(facts, text+".")
	}
	return facts
}
