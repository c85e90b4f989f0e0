package render

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/whyslow/whyslow/dnscheck"
	"github.com/whyslow/whyslow/internal/millis"
)

// What the tables of a resolution show.
const (
	serversNote = "servers asked directly%s, ms"
	coldNote    = "names no cache holds%s, ms"
	reverseNote = "reverse lookups, ms"

	dnsControlsNote = "what a live server answers by itself%s, ms"
)

// dns writes how long this host's resolver made a program wait, and what each
// server did.
func (s *sheet) dns(d *dnscheck.Result, verbose bool) {
	s.heading("DNS", dnsNote(d))
	for _, f := range d.Findings {
		s.para("  ", "    ", cell{f.Component + ":", bad}, cell{text: findingText(f)})
	}
	if d.Stub != nil {
		s.stub(d.Stub, verbose)
	}
	s.servers(serversNote, d.Servers)
	s.servers(coldNote, d.Cold)
	if verbose {
		s.servers(dnsControlsNote, d.Controls)
	}
	s.reverse(d.Reverse)
	s.delegation(d, verbose)
	if verbose {
		s.para("  ", "    ", cell{configText(&d.Config), dim})
	}
	if d.Stub != nil {
		s.notes(d.Stub.Notes)
	}
	s.notes(d.Warnings)
}

// dnsNote is the outcome of the resolution in one line.
func dnsNote(d *dnscheck.Result) string {
	st := d.Stub
	if st == nil {
		return d.Name
	}
	return fmt.Sprintf("%s: %s, %s after %s", d.Name, orDash(st.Rcode), addrsText(st.Addrs), st.Elapsed)
}

// addrsText names a few addresses and counts the rest.
func addrsText(addrs []netip.Addr) string {
	if len(addrs) == 0 {
		return "no address"
	}
	var out []string
	for i, a := range addrs {
		if i == 3 {
			out = append(out, fmt.Sprintf("%d more", len(addrs)-i))
			break
		}
		out = append(out, addrText(a))
	}
	return strings.Join(out, ", ")
}

// addrText is an address, "" if it is none.
func addrText(a netip.Addr) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}

// findingText is a finding without its component.
func findingText(f dnscheck.Finding) string {
	text := f.Text
	if f.Where != "" && !strings.Contains(text, f.Where) {
		text = f.Where + ": " + text
	}
	var more factCollector
	if f.Line > 0 {
		more.add("line", strconv.Itoa(f.Line)+" of resolv.conf")
	}
	if f.Cost.Known() {
		more.add("cost", f.Cost.String())
	}
	if len(more) > 0 {
		text = strings.TrimSuffix(text, ".") + " (" + more.line() + ")."
	}
	return text
}

// maxSteps is how many steps of a stub are shown unless everything is wanted.
const maxSteps = 12

func (s *sheet) stub(st *dnscheck.Stub, verbose bool) {
	if len(st.CNAME) > 0 {
		s.para("  ", "    ", cell{"CNAME chain: " + strings.Join(st.CNAME, " → "), dim})
	}
	if len(st.Steps) == 0 {
		return
	}
	s.gap()
	s.para("  ", "  ", cell{stubNote(st), dim})
	stubTable(st, verbose).write(s)
	if n := len(st.Steps) - maxSteps; n > 0 && !verbose {
		s.para("  ", "  ", cell{fmt.Sprintf("… and %s more", count(n, "step")), dim})
	}
}

func stubTable(st *dnscheck.Stub, verbose bool) *table {
	t := &table{cols: []column{
		{head: "at", right: true}, {head: "server"}, {head: "type"}, {head: "answer"},
		{head: "took", right: true}, {chart: true, drop: 1}, {head: "name", flex: true},
	}, indent: 2, full: st.Elapsed.Float()}
	steps := st.Steps
	if !verbose && len(steps) > maxSteps {
		steps = steps[:maxSteps]
	}
	several := slices.ContainsFunc(st.Steps, func(step dnscheck.Step) bool { return step.Name != st.Steps[0].Name })
	var all []millis.Value
	for _, step := range steps {
		all = append(all, step.At, step.Elapsed)
	}
	ms := millis.Column(all...)
	for _, step := range steps {
		name := ""
		if several {
			name = bareName(step.Name)
		}
		t.addSpan(span{step.At.Float(), step.Elapsed.Float()},
			cell{text: ms(step.At)}, cell{text: server(step.Server, step.Transport)}, cell{text: step.Type}, rcodeCell(step.Rcode),
			cell{text: ms(step.Elapsed)}, cell{style: accent}, cell{text: name})
	}
	return t
}

// stubNote says what the steps of a stub are.
func stubNote(st *dnscheck.Stub) string {
	return "as a " + orDash(st.Model) + " stub resolver waits for it, ms"
}

// server names a server and, if it is not UDP, the transport.
func server(addr, transport string) string {
	if transport == "" || transport == "udp" {
		return addr
	}
	return addr + " " + transport
}

// rcodeCell colours an outcome.
func rcodeCell(rcode string) cell {
	switch rcode {
	case "NOERROR":
		return cell{rcode, good}
	case "":
		return cell{text: "–"}
	case "NXDOMAIN", "NODATA":
		return cell{rcode, warn}
	}
	return cell{rcode, bad}
}

func (s *sheet) servers(title string, servers []dnscheck.Server) {
	if len(servers) == 0 {
		return
	}
	s.gap()
	s.para("  ", "  ", cell{serversTitle(title, servers), dim})
	serversTable(servers).write(s)
}

// oneName is the name that all were asked for; "" if they were asked for
// several.
func oneName(servers []dnscheck.Server) string {
	for i := range servers {
		if servers[i].Name != servers[0].Name {
			return ""
		}
	}
	return bareName(servers[0].Name)
}

// serversTitle says what a table of servers shows. The name stands here rather
// than in each row: here it is never cut.
func serversTitle(note string, servers []dnscheck.Server) string {
	if name := oneName(servers); name != "" {
		return fmt.Sprintf(note, ": "+name)
	}
	return fmt.Sprintf(note, "")
}

func serversTable(servers []dnscheck.Server) *table {
	t := &table{cols: []column{
		{head: "server"}, {head: "type"}, {head: "answered", right: true}, {head: "answer"},
		{head: "first", right: true}, {head: "median", right: true}, {head: "max", right: true, drop: 1}, {head: "name", flex: true},
	}, indent: 2}
	several := oneName(servers) == ""
	var all []millis.Value
	for i := range servers {
		all = append(all, servers[i].First, servers[i].Median, servers[i].Max)
	}
	ms := millis.Column(all...)
	for i := range servers {
		v := &servers[i]
		name := ""
		if several {
			name = bareName(v.Name)
		}
		answered := cell{text: fmt.Sprintf("%d/%d", v.Answered, v.Sent)}
		if v.Answered < v.Sent {
			answered.style = bad
		}
		t.addRow(cell{text: server(v.Addr, v.Transport)}, cell{text: v.Type}, answered, rcodeCell(v.Rcode),
			cell{text: ms(v.First)}, cell{text: ms(v.Median)}, cell{text: ms(v.Max)}, cell{text: name})
	}
	return t
}

func (s *sheet) reverse(all []dnscheck.Reverse) {
	if len(all) == 0 {
		return
	}
	s.gap()
	s.para("  ", "  ", cell{reverseNote, dim})
	reverseTable(all).write(s)
}

func reverseTable(all []dnscheck.Reverse) *table {
	t := &table{cols: []column{
		{head: "of"}, {head: "address"}, {head: "answer"}, {head: "took", right: true}, {head: "confirmed", drop: 1}, {head: "name", flex: true},
	}, indent: 2}
	var took []millis.Value
	for _, v := range all {
		took = append(took, v.Elapsed)
	}
	ms := millis.Column(took...)
	for _, v := range all {
		t.addRow(cell{text: v.Of}, cell{text: addrText(v.Addr)}, rcodeCell(v.Rcode), cell{text: ms(v.Elapsed)},
			cell{text: yesNo(v.Confirmed)}, cell{text: bareNames(v.Names)})
	}
	return t
}

// bareName is a name without the root's dot, which only makes two spellings of
// one name.
func bareName(s string) string {
	if len(s) > 1 {
		return strings.TrimSuffix(s, ".")
	}
	return s
}

func bareNames(names []string) string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = bareName(n)
	}
	return strings.Join(out, ", ")
}

// yesNo words a truth that may be unknown.
func yesNo(b *bool) string {
	switch {
	case b == nil:
		return "–"
	case *b:
		return "yes"
	}
	return "no"
}

// configText is the resolver configuration in one line.
func configText(c *dnscheck.ConfigView) string {
	parts := []string{orDash(c.File), "nameserver " + orDash(strings.Join(c.Nameservers, ", "))}
	if len(c.Search) > 0 {
		parts = append(parts, "search "+strings.Join(c.Search, " "))
	}
	parts = append(parts, "timeout "+c.Timeout.String(), "attempts "+strconv.Itoa(c.Attempts), "ndots "+strconv.Itoa(c.Ndots))
	if len(c.Options) > 0 {
		parts = append(parts, "options "+strings.Join(c.Options, " "))
	}
	return strings.Join(parts, " · ")
}
