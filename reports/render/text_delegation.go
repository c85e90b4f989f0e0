package render

import (
	"fmt"
	"slices"
	"strings"

	"github.com/whyslow/whyslow/dnscheck"
	"github.com/whyslow/whyslow/internal/millis"
)

// delegation writes how a name was followed from the root, and what each
// server on the way did.
func (s *sheet) delegation(d *dnscheck.Result, verbose bool) {
	w := d.Walk
	if w == nil {
		return
	}
	s.gap()
	s.para("  ", "  ", cell{walkTitle(w), dim})
	for _, a := range w.Aliases {
		s.para("  ", "    ", cell{aliasText(a), dim})
	}
	if len(d.Delegation) > 0 {
		delegationTable(d.Delegation, verbose).write(s)
	}
	s.notes(walkNotes(d, verbose))
}

// walkTitle says where the walk led.
func walkTitle(w *dnscheck.Walk) string {
	text := fmt.Sprintf("from the root to %s %s, ms: %s", bareName(w.Name), w.Type, orDash(w.Outcome))
	switch n := len(w.Answers); {
	case n > 3:
		text += " " + strings.Join(w.Answers[:3], ", ") + fmt.Sprintf(", %d more", n-3)
	case n > 0:
		text += " " + strings.Join(w.Answers, ", ")
	}
	if w.TTL != nil {
		text += fmt.Sprintf(" (lives %d s)", *w.TTL)
	}
	if w.Wildcard != nil && *w.Wildcard {
		text += ", from a wildcard"
	}
	return text + fmt.Sprintf("; %s in %s", counted(w.Queries, "query", "queries"), w.Elapsed)
}

func aliasText(a dnscheck.Alias) string {
	text := fmt.Sprintf("%s %s %s, in %s", bareName(a.Name), a.Type, bareName(a.Target), bareName(a.Zone))
	if a.TTL != nil {
		text += fmt.Sprintf(", lives %d s", *a.TTL)
	}
	return text
}

// walkNotes are the remarks on a walk and its zones; those of the zones above
// matter to few.
func walkNotes(d *dnscheck.Result, verbose bool) []string {
	var out []string
	w := d.Walk
	if w.Note != "" {
		out = append(out, w.Note)
	}
	switch {
	case w.Reason != "":
		out = append(out, fmt.Sprintf("DNSSEC: %s: %s", w.Security, w.Reason))
	case w.Security != "" && verbose:
		out = append(out, "DNSSEC: "+w.Security)
	}
	for i := range d.Delegation {
		z := &d.Delegation[i]
		if !z.Last && !verbose {
			continue
		}
		for _, r := range z.Remarks {
			out = append(out, bareName(z.Name)+": "+r)
		}
		if z.NegativeTTL != nil && verbose {
			out = append(out, fmt.Sprintf("%s: that a name does not exist is kept %d s", bareName(z.Name), *z.NegativeTTL))
		}
		if e := z.DNSSEC.Expires; e != nil && verbose {
			out = append(out, fmt.Sprintf("%s: its first signature ends %s", bareName(z.Name), stamp(*e)))
		}
	}
	return out
}

func delegationTable(zones []dnscheck.Zone, verbose bool) *table {
	t := &table{cols: []column{
		{head: "zone", flex: true}, {head: "server", flex: true}, {head: "address"}, {head: "state"},
		{head: "median", right: true}, {head: "TCP", right: true, drop: 2}, {head: "serial", right: true, drop: 1}, {head: "signed", drop: 3},
	}, indent: 2}
	var all []millis.Value
	for i := range zones {
		for j := range zones[i].Servers {
			all = append(all, zones[i].Servers[j].UDP.Median, zones[i].Servers[j].TCP.Median)
		}
	}
	ms := millis.Column(all...)
	for i := range zones {
		z := &zones[i]
		whole := z.Last || verbose
		name := cell{text: bareName(z.Name)}
		signed := securityCell(z.DNSSEC.Status)
		if !whole || len(z.Servers) == 0 {
			t.addRow(name, cell{text: count(serverNames(z), "server")}, cell{text: counted(len(z.Servers), "address", "addresses")}, statesCell(z), cell{}, cell{}, cell{}, signed)
			name, signed = cell{}, cell{}
		}
		for j := range z.Servers {
			a := &z.Servers[j]
			if !whole && !faulty(a.Status) {
				continue
			}
			serial := ""
			if a.Serial != nil {
				serial = fmt.Sprint(*a.Serial)
			}
			t.addRow(name, cell{text: bareNames(a.Names)}, cell{text: addrText(a.Addr)}, stateCell(a),
				cell{text: ms(a.UDP.Median)}, cell{text: ms(a.TCP.Median)}, cell{text: serial}, signed)
			name, signed = cell{}, cell{}
		}
	}
	return t
}

func serverNames(z *dnscheck.Zone) int {
	seen := map[string]bool{}
	for i := range z.Servers {
		for _, n := range z.Servers[i].Names {
			seen[n] = true
		}
	}
	return len(seen)
}

// faulty reports whether a state of a server is one to look at.
func faulty(status string) bool {
	switch status {
	case "ok", "unreached", "unasked":
		return false
	}
	return true
}

// statesCell counts the states of a zone's servers.
func statesCell(z *dnscheck.Zone) cell {
	counts, order := map[string]int{}, []string{}
	c := cell{style: good}
	for i := range z.Servers {
		st := orDash(z.Servers[i].Status)
		if counts[st]++; !slices.Contains(order, st) {
			order = append(order, st)
		}
		if faulty(st) {
			c.style = bad
		} else if st != "ok" && c.style == good {
			c.style = plain
		}
	}
	slices.Sort(order)
	if len(order) == 1 {
		c.text = "all " + order[0]
		return c
	}
	for i, st := range order {
		order[i] = fmt.Sprintf("%d %s", counts[st], st)
	}
	c.text = strings.Join(order, ", ")
	return c
}

// stateCell is the state of a server and, where it answers, what else is wrong.
func stateCell(a *dnscheck.Authority) cell {
	c := cell{text: orDash(a.Status), style: bad}
	switch a.Status {
	case "ok":
		c.style = good
		switch {
		case a.Signatures != "":
			c.text, c.style = "bad signature", bad
		case a.TCP.Sent > 0 && a.TCP.Answered == 0 && a.Reason != "":
			c.text, c.style = "no TCP", warn
		case a.EDNS == "refused" || a.EDNS == "dropped":
			c.text, c.style = "no EDNS", warn
		}
	case "unreached", "unasked":
		c.style = dim
	case "lossy":
		c.style = warn
	}
	if a.UDP.Sent > a.UDP.Answered && a.Status != "ok" {
		c.text += fmt.Sprintf(" %d/%d", a.UDP.Answered, a.UDP.Sent)
	}
	return c
}

// securityCell colours how a zone is signed.
func securityCell(status string) cell {
	switch status {
	case "secure":
		return cell{"yes", good}
	case "unsigned":
		return cell{text: "no"}
	case "bogus":
		return cell{"bogus", bad}
	}
	return cell{orDash(status), dim}
}

// counted is count for nouns that take more than an s.
func counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
