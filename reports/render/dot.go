package render

import (
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/whyslow/whyslow/trace"
)

// TraceDOT writes a path, or the parallel paths if they were looked for, as a
// graph for Graphviz. A router that answers at several TTLs is one node.
func TraceDOT(w io.Writer, t *trace.Result, _ Options) error {
	t = rewrite(t, visible)
	p := t.Paths
	if p == nil || len(p.Nodes) == 0 {
		p = pathsOfHops(t)
	}
	g := graph{p: p, ids: map[string]int{}}
	g.write(t)
	if _, err := io.WriteString(w, g.b.String()); err != nil {
		return fmt.Errorf("render: writing the graph: %w", err)
	}
	return nil
}

// pathsOfHops takes a trace of one flow for a graph. Where several addresses
// answered at one TTL their links are not known, and all are drawn.
func pathsOfHops(t *trace.Result) *trace.Paths {
	p := &trace.Paths{Method: t.Method}
	before := []trace.Place{{}}
	for i := range t.Hops {
		h := &t.Hops[i]
		replies := h.Replies
		if len(replies) == 0 {
			replies = []trace.Replier{{}}
		}
		var here []trace.Place
		for j := range replies {
			r := &replies[j]
			n := trace.PathNode{TTL: h.TTL, Addr: r.Addr, Name: r.Name, Min: r.Min, Share: 1 / float64(len(replies)), Unsure: len(replies) > 1,
				Silent: !r.Addr.IsValid(), Confirmed: true, Role: trace.RoleRouter}
			if t.HopCount != nil && *t.HopCount == h.TTL {
				n.Role = trace.RoleDestination
			}
			p.Nodes = append(p.Nodes, n)
			here = append(here, n.Place())
			for _, from := range before {
				p.Links = append(p.Links, trace.PathLink{TTL: h.TTL, From: from, To: n.Place(), Share: 1 / float64(len(before))})
			}
		}
		before = here
	}
	return p
}

// graph writes the statements of a digraph in the DOT language.
type graph struct {
	b   strings.Builder
	p   *trace.Paths
	ids map[string]int
}

// id numbers a router: by address, or by TTL if it is silent.
func (g *graph) id(p trace.Place) (id int, fresh bool) {
	key := "silent " + strconv.Itoa(p.TTL)
	if p.Addr.IsValid() {
		key = p.Addr.String()
	}
	if id, ok := g.ids[key]; ok {
		return id, false
	}
	g.ids[key] = len(g.ids) + 1
	return g.ids[key], true
}

func (g *graph) write(t *trace.Result) {
	target := joined(" ", t.Target.Name, parenthesised(addrText(t.Target.Addr), t.Target.Name))
	g.b.WriteString("digraph path {\n")
	g.statement("graph", "rankdir", "LR", "label", "path to "+target+", "+orDash(g.p.Method), "fontname", "sans-serif")
	g.statement("node", "shape", "box", "style", "rounded", "fontname", "sans-serif", "fontsize", "10")
	g.statement("edge", "fontname", "sans-serif", "fontsize", "9")
	g.statement("n0", "label", "this host", "shape", "circle")
	unsure := map[trace.Place]bool{}
	for i := range g.p.Nodes {
		n := &g.p.Nodes[i]
		unsure[n.Place()] = n.Unsure
		if id, fresh := g.id(n.Place()); fresh {
			g.node(id, n)
		}
	}
	drawn := map[[2]int]bool{}
	for _, l := range g.p.Links {
		g.link(l, unsure[l.From] || unsure[l.To], drawn)
	}
	g.b.WriteString("}\n")
}

// node writes one router with all its TTLs.
func (g *graph) node(id int, n *trace.PathNode) {
	ttls := []string{}
	for i := range g.p.Nodes {
		if m := &g.p.Nodes[i]; m.Addr == n.Addr && (n.Addr != netip.Addr{} || m.TTL == n.TTL) {
			ttls = append(ttls, strconv.Itoa(m.TTL))
		}
	}
	lines := []string{nodeAddr(n)}
	if n.Name != "" && n.Name != lines[0] {
		lines = append(lines, n.Name)
	}
	hop := "hop " + strings.Join(ttls, ", ")
	if n.Silent {
		hop += ", silent"
	}
	if n.Min.Known() {
		hop += ", " + n.Min.String()
	}
	if n.Passed != nil && n.Passed.Loss > 0 {
		hop += ", loss " + percent(n.Passed.Loss)
	}
	lines = append(lines, hop)
	if note := nodeNote(n, false).text; note != "" && note != "arrived" {
		lines = append(lines, note)
	}
	attrs := []string{"label", strings.Join(lines, "\n")}
	switch {
	case n.Role == trace.RoleDestination:
		attrs = append(attrs, "style", "rounded,bold")
	case n.Silent:
		attrs = append(attrs, "style", "rounded,dashed")
	}
	g.statement("n"+strconv.Itoa(id), attrs...)
}

// link writes an edge, once between two routers.
func (g *graph) link(l trace.PathLink, unsure bool, drawn map[[2]int]bool) {
	from, to := 0, 0
	if l.From.TTL > 0 {
		from, _ = g.id(l.From)
	}
	to, _ = g.id(l.To)
	if drawn[[2]int{from, to}] {
		return
	}
	drawn[[2]int{from, to}] = true
	var attrs []string
	if share := g.share(l); share < 1 {
		attrs = append(attrs, "label", percent(share))
	}
	if l.Suspect {
		attrs = append(attrs, "color", "red", "penwidth", "2")
	}
	if unsure {
		attrs = append(attrs, "style", "dashed")
	}
	g.statement(fmt.Sprintf("n%d -> n%d", from, to), attrs...)
}

// share is the part of all flows that take a link: of those that the tree shows
// at its end.
func (g *graph) share(l trace.PathLink) float64 {
	in := 0
	for _, m := range g.p.Links {
		if m.To == l.To {
			in += m.Flows
		}
	}
	for i := range g.p.Nodes {
		if n := &g.p.Nodes[i]; n.Place() == l.To && in > 0 {
			return n.Share * float64(l.Flows) / float64(in)
		}
	}
	return l.Share
}

// statement writes a subject and its attributes.
func (g *graph) statement(subject string, attrs ...string) {
	g.b.WriteString("  " + subject)
	if len(attrs) > 0 {
		var list []string
		for pair := range slices.Chunk(attrs, 2) {
			list = append(list, pair[0]+"="+dotQuote(pair[1]))
		}
		g.b.WriteString(" [" + strings.Join(list, ", ") + "]")
	}
	g.b.WriteString(";\n")
}

// dotQuote writes a string of the DOT language. In a label a backslash begins
// an escape (\N is the node's name), so one that is meant stands twice.
func dotQuote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch r {
		case '"':
			b.WriteString(`\"`)
		case '\\':
			b.WriteString(`\\`)
		case '\n':
			b.WriteString(`\n`)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
