package render

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/whyslow/whyslow/internal/millis"
	"github.com/whyslow/whyslow/trace"
)

const (
	// maxTree and maxFlowRows bound what a page shows; JSON has all.
	maxTree     = 300
	maxFlowRows = 64
)

// paths writes the parallel paths as a tree, and how to read them.
func (s *sheet) paths(t *trace.Result, verbose bool) {
	p := t.Paths
	s.heading("Parallel paths", pathsNote(p))
	if len(p.Nodes) > 0 {
		pathsTable(p).write(s)
	}
	for _, r := range p.Reading {
		s.para("  ", "     ", cell{r.Rule, accent}, cell{text: r.Text})
	}
	if rows := flowTable(p); rows != nil && (verbose || slices.ContainsFunc(p.Links, func(l trace.PathLink) bool { return l.Suspect })) {
		s.gap()
		s.para("  ", "  ", cell{"By flow, the whole way · ms", dim})
		rows.write(s)
	}
	s.notes(p.Warnings)
}

// pathsNote says how parallel paths were looked for.
func pathsNote(p *trace.Paths) string {
	parts := []string{orDash(p.Method), count(p.FlowCount, "flow"), count(p.Probes, "probe")}
	if p.Elapsed.Known() {
		parts = append(parts, "took "+p.Elapsed.String())
	}
	return strings.Join(parts, " · ") + " · ms"
}

// pathTree walks the graph from this host, a branch at a time; where all
// branches have met, it goes on at the margin.
type pathTree struct {
	p     *trace.Paths
	nodes map[trace.Place]*trace.PathNode
	next  map[trace.Place][]trace.PathLink
	wide  map[int]int // nodes by TTL
	shown map[trace.Place]bool
	rows  []treeRow
}

// treeRow is a node in the tree, with the lines that lead to it.
type treeRow struct {
	lines   string
	node    *trace.PathNode
	again   bool // it stands above already
	suspect bool
}

func treeOf(p *trace.Paths) []treeRow {
	t := &pathTree{p: p, nodes: map[trace.Place]*trace.PathNode{}, next: map[trace.Place][]trace.PathLink{},
		wide: map[int]int{}, shown: map[trace.Place]bool{}}
	for i := range p.Nodes {
		n := &p.Nodes[i]
		t.nodes[n.Place()] = n
		t.wide[n.TTL]++
	}
	for _, l := range p.Links {
		t.next[l.From] = append(t.next[l.From], l)
	}
	t.branch(trace.Place{}, "")
	// What no link leads to: seen, but from where is not known.
	for i := range p.Nodes {
		if n := &p.Nodes[i]; !t.shown[n.Place()] {
			t.show(trace.PathLink{To: n.Place()}, "")
		}
	}
	slices.SortStableFunc(t.rows, func(a, b treeRow) int { return t.part(a.node.TTL) - t.part(b.node.TTL) })
	return t.rows
}

// part numbers the stretches between the TTLs at which all paths meet.
func (t *pathTree) part(ttl int) int {
	n := 0
	for i := 1; i <= ttl; i++ {
		if t.wide[i] == 1 {
			n++
		}
	}
	return n
}

// branch shows what a node leads to.
func (t *pathTree) branch(from trace.Place, lines string) {
	links := t.next[from]
	for i, l := range links {
		if t.wide[l.To.TTL] <= 1 {
			t.show(l, "") // here all paths meet
			continue
		}
		lead, below := lines+"├─ ", lines+"│  "
		if i == len(links)-1 {
			lead, below = lines+"└─ ", lines+"   "
		}
		t.showAt(l, lead, below)
	}
}

func (t *pathTree) show(l trace.PathLink, lines string) {
	if !t.shown[l.To] {
		t.showAt(l, lines, lines)
	}
}

func (t *pathTree) showAt(l trace.PathLink, lead, below string) {
	n := t.nodes[l.To]
	if n == nil || len(t.rows) >= maxTree {
		return
	}
	again := t.shown[l.To]
	t.rows = append(t.rows, treeRow{lines: lead, node: n, again: again, suspect: l.Suspect})
	if t.shown[l.To] = true; !again {
		t.branch(l.To, below)
	}
}

// pathsTable is the tree with what is known of each node.
func pathsTable(p *trace.Paths) *table {
	out := &table{cols: []column{
		{head: "hop", right: true}, {head: "address"}, {head: "name", flex: true, drop: 4}, {head: "flows", right: true},
		{head: "loss", right: true, drop: 2}, {head: "min", right: true}, {head: "median", right: true, drop: 3}, {head: "", drop: 1},
	}, indent: 2}
	rows := treeOf(p)
	var all []millis.Value
	for _, r := range rows {
		all = append(all, r.node.Median)
	}
	ms := millis.Column(all...)
	for _, r := range rows {
		n := r.node
		addr := cell{text: r.lines + nodeAddr(n)}
		if r.suspect {
			addr.style = bad
		}
		ttl := strconv.Itoa(n.TTL)
		if r.again {
			out.addRow(cell{text: ttl}, addr, cell{}, cell{}, cell{}, cell{}, cell{}, cell{"see above", dim})
			continue
		}
		loss := cell{}
		if n.Passed != nil {
			loss.text = percent(n.Passed.Loss)
			if n.Passed.Loss > 0 {
				loss.style = warn
			}
		}
		out.addRow(cell{text: ttl}, addr, cell{text: n.Name}, cell{text: percent(n.Share)}, loss,
			cell{text: ms(n.Min)}, cell{text: ms(n.Median)}, nodeNote(n, r.suspect))
	}
	if len(rows) >= maxTree {
		out.addRow(cell{}, cell{"… the JSON form has all", dim}, cell{}, cell{}, cell{}, cell{}, cell{}, cell{})
	}
	return out
}

func nodeAddr(n *trace.PathNode) string {
	if !n.Addr.IsValid() {
		return "*"
	}
	return addrText(n.Addr)
}

func nodeNote(n *trace.PathNode, suspect bool) cell {
	var notes []string
	c := cell{style: dim}
	if suspect {
		notes, c.style = append(notes, "suspect"), bad
	}
	if n.Branches > 1 {
		notes = append(notes, fmt.Sprintf("spreads over %d", n.Branches))
	}
	if n.PerPacket {
		notes = append(notes, "by packet")
	}
	if n.Unsure {
		notes = append(notes, "links unsure")
	}
	if !n.Confirmed {
		notes = append(notes, "maybe more")
	}
	switch n.Role {
	case trace.RoleDestination:
		notes = append(notes, "arrived")
	case trace.RoleRefusal:
		notes = append(notes, "refused")
	}
	c.text = strings.Join(notes, ", ")
	return c
}

// flowTable has a line for each flow that was sampled; nil if none was.
func flowTable(p *trace.Paths) *table {
	out := &table{cols: []column{
		{head: "flow"}, {head: "hops", right: true}, {head: "got", right: true}, {head: "loss", right: true},
		{head: "min", right: true}, {head: "median", right: true}, {head: "p95", right: true, drop: 1}, {head: "via", below: true},
	}, indent: 2}
	var all []millis.Value
	for _, f := range p.Flows {
		if f.Sample != nil {
			all = append(all, f.Sample.P95)
		}
	}
	ms := millis.Column(all...)
	for _, f := range p.Flows {
		if f.Sample == nil || len(out.rows) == maxFlowRows {
			continue
		}
		d := f.Sample
		loss := cell{text: percent(d.Loss)}
		if d.Loss > 0 {
			loss.style = bad
		}
		hops := "–"
		if f.HopCount != nil {
			hops = strconv.Itoa(*f.HopCount)
		}
		out.addRow(cell{text: f.Key}, cell{text: hops}, cell{fmt.Sprintf("%d/%d", d.Received, d.Sent), dim}, loss,
			cell{text: ms(d.Min)}, cell{text: ms(d.Median)}, cell{text: ms(d.P95)}, cell{text: via(p, &f)})
	}
	if len(out.rows) == 0 {
		return nil
	}
	return out
}

// via are the addresses that tell a flow's path from others.
func via(p *trace.Paths, f *trace.FlowPath) string {
	wide := map[int]int{}
	for i := range p.Nodes {
		wide[p.Nodes[i].TTL]++
	}
	var own []string
	for i := range f.Hops {
		h := &f.Hops[i]
		switch {
		case wide[h.TTL] < 2:
		case len(h.Replies) == 0:
			own = append(own, "*")
		default:
			own = append(own, addrText(h.Replies[0].Addr))
		}
	}
	return strings.Join(own, " ")
}

// paths are the parallel paths on a page.
func (b *builder) paths(p *trace.Paths) section {
	s := section{ID: "paths", Title: "Parallel paths", Note: b.text(pathsNote(p))}
	if len(p.Nodes) > 0 {
		tree := pathsTable(p)
		for _, r := range tree.rows {
			r.cells[1].text = strings.ReplaceAll(r.cells[1].text, " ", "\u00a0") // a browser would fold them
		}
		s.Parts = append(s.Parts, b.table("", tree))
	}
	reading := listView{Kind: "findings"}
	for _, r := range p.Reading {
		if b.fit(r.Rule, r.Text) {
			reading.Items = append(reading.Items, itemView{Text: r.Text, Tag: r.Rule, Tone: "network"})
		}
	}
	if len(reading.Items) > 0 {
		s.Parts = append(s.Parts, reading)
	}
	if t := flowTable(p); t != nil {
		s.Parts = append(s.Parts, foldView{"fold", "Each flow, the whole way", b.table("", t)})
	}
	s.Parts = append(s.Parts, b.notes(p.Warnings)...)
	return s
}
