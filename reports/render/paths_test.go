package render_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/whyslow/whyslow/internal/millis"
	"github.com/whyslow/whyslow/reports/render"
	"github.com/whyslow/whyslow/trace"
)

// forked is a path whose second router spreads flows over two members; one
// spreads them again, the other loses and is shorter by a hop.
func forked(name string) *trace.Result {
	ms := func(f float64) millis.Value { return millis.Of(time.Duration(f * float64(time.Millisecond))) }
	at := func(ttl int, last byte) trace.Place {
		if last == 0 {
			return trace.Place{TTL: ttl}
		}
		return trace.Place{TTL: ttl, Addr: netip.AddrFrom4([4]byte{192, 0, 2, last})}
	}
	node := func(ttl int, last byte, share float64, branches int, lost int) trace.PathNode {
		p := at(ttl, last)
		return trace.PathNode{TTL: ttl, Addr: p.Addr, Name: name, Role: trace.RoleRouter, Silent: last == 0, Share: share, Branches: branches,
			Tested: 12, Confirmed: ttl != 3, Min: ms(float64(ttl)), Median: ms(float64(ttl) + 0.5),
			Passed: &trace.Sampled{Sent: 40, Received: 40 - lost, Loss: float64(lost) / 40}}
	}
	link := func(ttl int, from, to byte, share float64) trace.PathLink {
		l := trace.PathLink{TTL: ttl, From: at(ttl-1, from), To: at(ttl, to), Share: share, Suspect: to == 31}
		if ttl == 1 {
			l.From = trace.Place{}
		}
		return l
	}
	hops := 6
	p := &trace.Paths{
		Method: "tcp", FlowCount: 12, Probes: 240, RouterFailure: 0.05, Failure: 0.2, Elapsed: ms(2100),
		Nodes: []trace.PathNode{
			node(1, 10, 1, 1, 0), node(2, 20, 1, 2, 0), node(3, 31, 0.5, 1, 12), node(3, 32, 0.5, 2, 0),
			node(4, 41, 0.25, 1, 0), node(4, 0, 0.25, 1, 0), node(4, 50, 0.5, 1, 12), node(5, 50, 1, 1, 0), node(6, 60, 1, 0, 0),
		},
		Links: []trace.PathLink{
			link(1, 0, 10, 1), link(2, 10, 20, 1), link(3, 20, 31, 0.5), link(3, 20, 32, 0.5),
			link(4, 32, 41, 0.5), link(4, 32, 0, 0.5), link(4, 31, 50, 1), link(5, 41, 50, 1), link(5, 0, 50, 1), link(6, 50, 60, 1),
		},
		Flows: []trace.FlowPath{{Flow: 0, Key: "port 40001", Reached: true, HopCount: &hops,
			Hops:   []trace.Hop{{TTL: 3, Replies: []trace.Replier{{Addr: at(3, 31).Addr}}}},
			Sample: &trace.Sampled{Sent: 20, Received: 14, Loss: 0.3, Min: ms(6), Median: ms(6.5), P95: ms(9)}}},
		Reading:  []trace.Sentence{{Rule: "R7", Text: "hop 2 (192.0.2.20) spreads flows over 2 next hops"}},
		Warnings: []string{"more branches may begin at hop 3"},
	}
	p.Nodes[8].Role = trace.RoleDestination
	return &trace.Result{Target: trace.Target{Name: "www.example.com", Addr: at(6, 60).Addr}, Method: "icmp", Hops: []trace.Hop{{TTL: 1, Silent: true}}, Paths: p}
}

func TestParallelPathsAreATree(t *testing.T) {
	out := single(t, render.TraceForms(), "text", forked(""))
	_, tree, _ := strings.Cut(out, "median\n")
	tree, _, _ = strings.Cut(tree, "  R7 ")
	got := strings.Split(strings.TrimRight(tree, "\n"), "\n")
	want := []string{
		"    1  192.0.2.10        100 %   0 %  1.00    1.50",
		"    2  192.0.2.20        100 %   0 %  2.00    2.50  spreads over 2",
		"    3  ├─ 192.0.2.31      50 %  30 %  3.00    3.50  suspect, maybe more",
		"    4  │  └─ 192.0.2.50   50 %  30 %  4.00    4.50",
		"    3  └─ 192.0.2.32      50 %   0 %  3.00    3.50  spreads over 2, maybe more",
		"    4     ├─ 192.0.2.41   25 %   0 %  4.00    4.50",
		"    4     └─ *            25 %   0 %  4.00    4.50",
		"    5  192.0.2.50        100 %   0 %  5.00    5.50",
		"    6  192.0.2.60        100 %   0 %  6.00    6.50  arrived",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("tree (-want +got):\n%s\n%s", diff, out)
	}
	for _, part := range []string{"port 40001", "14/20", "more branches may begin"} {
		if !strings.Contains(out, part) {
			t.Errorf("no %q in\n%s", part, out)
		}
	}
}

// dotParser reads the DOT language as its grammar has it, as far as graphs
// without subgraphs go.
type dotParser struct {
	in    string
	nodes map[string]map[string]string
	edges []string
}

func (p *dotParser) space() { p.in = strings.TrimLeft(p.in, " \n") }

func (p *dotParser) accept(s string) bool {
	p.space()
	if !strings.HasPrefix(p.in, s) {
		return false
	}
	p.in = p.in[len(s):]
	return true
}

// id reads an identifier or a quoted string, with its escapes as they are.
func (p *dotParser) id() (string, error) {
	p.space()
	if !strings.HasPrefix(p.in, `"`) {
		n := strings.IndexFunc(p.in, func(r rune) bool {
			return r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
		})
		if n <= 0 {
			return "", fmt.Errorf("no identifier at %.20q", p.in)
		}
		id := p.in[:n]
		p.in = p.in[n:]
		return id, nil
	}
	for i := 1; i < len(p.in); i++ {
		switch p.in[i] {
		case '\\':
			i++
		case '\n':
			return "", fmt.Errorf("a line ends in %.40q", p.in)
		case '"':
			id := p.in[1:i]
			p.in = p.in[i+1:]
			return id, nil
		}
	}
	return "", fmt.Errorf("no end of %.20q", p.in)
}

func (p *dotParser) parse() error {
	if !p.accept("digraph") {
		return fmt.Errorf("no digraph")
	}
	if _, err := p.id(); err != nil {
		return err
	}
	if !p.accept("{") {
		return fmt.Errorf("no brace")
	}
	for !p.accept("}") {
		subject, err := p.id()
		if err != nil {
			return err
		}
		if p.accept("->") {
			to, err := p.id()
			if err != nil {
				return err
			}
			if p.nodes[subject] == nil || p.nodes[to] == nil {
				return fmt.Errorf("edge %s -> %s of a node that is not there", subject, to)
			}
			subject += "->" + to
			p.edges = append(p.edges, subject)
		}
		attrs := map[string]string{}
		if p.accept("[") {
			for !p.accept("]") {
				key, err := p.id()
				if err != nil {
					return err
				}
				if !p.accept("=") {
					return fmt.Errorf("no = behind %s", key)
				}
				if attrs[key], err = p.id(); err != nil {
					return err
				}
				p.accept(",")
			}
		}
		if !p.accept(";") {
			return fmt.Errorf("no ; at %.30q", p.in)
		}
		p.nodes[subject] = attrs
	}
	if p.space(); p.in != "" {
		return fmt.Errorf("%q behind the graph", p.in)
	}
	return nil
}

func parseDot(t *testing.T, in string) *dotParser {
	t.Helper()
	p := &dotParser{in: in, nodes: map[string]map[string]string{}}
	if err := p.parse(); err != nil {
		t.Fatalf("%v in\n%s", err, in)
	}
	return p
}

func TestGraphOfParallelPaths(t *testing.T) {
	g := parseDot(t, single(t, render.TraceForms(), "dot", forked("")))
	// 192.0.2.50 answers at two TTLs and is one router.
	want := []string{"n0->n1", "n1->n2", "n2->n3", "n2->n4", "n4->n5", "n4->n6", "n3->n7", "n5->n7", "n6->n7", "n7->n8"}
	if diff := cmp.Diff(want, g.edges); diff != "" {
		t.Errorf("edges (-want +got):\n%s", diff)
	}
	if got := g.nodes["n7"]["label"]; !strings.Contains(got, `hop 4, 5`) {
		t.Errorf("label %q", got)
	}
	if got := g.nodes["n2->n3"]["color"]; got != "red" {
		t.Errorf("the bad member is %q", got)
	}
}

func TestGraphOfOnePath(t *testing.T) {
	g := parseDot(t, single(t, render.TraceForms(), "dot", labelled()))
	if diff := cmp.Diff([]string{"n0->n1", "n1->n2", "n2->n3", "n2->n4"}, g.edges); diff != "" {
		t.Errorf("edges (-want +got):\n%s", diff)
	}
}

// Names come from strangers: none may end its string or begin an escape.
func TestHostileNamesStayInTheirStringsInGraphs(t *testing.T) {
	for _, name := range []string{`"]; evil [label="x`, `\`, `\"`, "a\nb", `\N \G`, "\x1b]0;x\a", `x"; } digraph y {`, "<b>", "\u202e"} {
		r := forked(name)
		r.Target.Name = name
		g := parseDot(t, single(t, render.TraceForms(), "dot", r))
		if len(g.nodes) != 1+3+8+10 {
			t.Errorf("name %q: %d statements", name, len(g.nodes))
		}
	}
}
