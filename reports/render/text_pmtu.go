package render

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/whyslow/whyslow/pmtu"
)

// pmtu writes what is known of the path MTU, a line for each question.
func (s *sheet) pmtu(p *pmtu.Result) {
	s.heading("Path MTU", pmtuNote(p))
	const width = 10
	for _, f := range pmtuFacts(p) {
		s.hung(cell{"  " + pad(f.name, width, false), dim}, strings.Repeat(" ", 2+width), f.value...)
	}
	s.notes(p.Warnings)
}

// pmtuNote says what was measured and what it cost.
func pmtuNote(p *pmtu.Result) string {
	to := addrText(p.Target.Addr)
	if to == "" {
		to = p.Target.Name
	}
	parts := []string{orDash(to), orDash(p.Method)}
	if p.Packets > 0 {
		text := count(p.Packets, "packet")
		if p.Locating > 0 {
			text += fmt.Sprintf(", %d of them to find the place", p.Locating)
		}
		parts = append(parts, text)
	}
	if n := len(p.Backward.Fetches); n > 0 {
		parts = append(parts, count(n, "page load"))
	}
	return strings.Join(parts, " · ")
}

// pmtuFact is one line: what it is about, and what was found.
type pmtuFact struct {
	name  string
	value []cell
}

// pmtuFacts are what was found, the path there first, then the way back.
func pmtuFacts(p *pmtu.Result) []pmtuFact {
	var out []pmtuFact
	add := func(name string, cells ...cell) {
		if len(cells) > 0 {
			out = append(out, pmtuFact{name, cells})
		}
	}
	add("there", pmtuThere(p)...)
	add("narrow", pmtuLimiter(p)...)
	if c := p.ClaimedMTU; c != nil && (p.MTU == nil || *c != *p.MTU) && !claimRejected(p) {
		add("claim", cell{text: fmt.Sprintf("a router says that %s", fits(*c))})
	}
	if c := p.CachedMTU; c != nil && (p.MTU == nil || *c != *p.MTU) {
		add("cached", cell{text: fmt.Sprintf("the kernel remembers %s for this path", bytesText(*c))})
	}
	if len(p.Steps) > 1 {
		add("by hop", cell{text: pmtuSteps(p.Steps)})
	}
	if len(p.Tunnel) > 0 {
		add("suggests", cell{text: strings.Join(p.Tunnel, "; or ")})
	}
	add("back", pmtuBack(&p.Backward)...)
	add("segments", pmtuSegments(p)...)
	return out
}

// pmtuPlain is pmtuFacts without styles.
func pmtuPlain(p *pmtu.Result) []fact {
	var out []fact
	for _, f := range pmtuFacts(p) {
		var text strings.Builder
		for i, c := range f.value {
			if i > 0 {
				text.WriteByte(' ')
			}
			text.WriteString(c.text)
		}
		out = append(out, fact{f.name, text.String()})
	}
	return out
}

func bytesText(n int) string { return strconv.Itoa(n) + " bytes" }

// claimRejected reports whether a warning speaks of the claim, and says whose
// it is.
func claimRejected(p *pmtu.Result) bool {
	for _, w := range p.Warnings {
		if strings.Contains(w, fmt.Sprintf("claims an MTU of %d", *p.ClaimedMTU)) || *p.ClaimedMTU == 0 && strings.Contains(w, "without saying what fits") {
			return true
		}
	}
	return false
}

func fits(claim int) string {
	if claim == 0 {
		return "a packet is too big, and not what fits"
	}
	return bytesText(claim) + " fit"
}

func pmtuThere(p *pmtu.Result) []cell {
	of := ""
	if p.InterfaceMTU != nil {
		of = fmt.Sprintf(" of the interface's %d", *p.InterfaceMTU)
		if p.MTU != nil && *p.MTU == *p.InterfaceMTU {
			of = ", all that the interface allows"
		}
	}
	switch {
	case p.MTU != nil:
		return []cell{{bytesText(*p.MTU), bold}, {text: "pass" + of}}
	case p.AtLeast != nil:
		return []cell{{text: "at least"}, {bytesText(*p.AtLeast), bold}, {text: "pass" + of}}
	}
	return []cell{{"not measured", warn}}
}

func pmtuLimiter(p *pmtu.Result) []cell {
	where := ""
	if l := p.Limiter; l != nil {
		at := addrText(l.Addr)
		if at == "" {
			at = "silent"
		}
		where = fmt.Sprintf("behind hop %d (%s)", l.TTL, at)
		if l.TTL == 0 {
			where = "behind this host"
		}
	}
	switch {
	case p.BlackHole && p.Signalled && where != "":
		return []cell{{text: where + ": about the largest packets nobody says so,"}, {"a black hole", bad}, {text: "though a router speaks of smaller ones"}}
	case p.BlackHole:
		if where != "" {
			where += ":"
		}
		return []cell{{text: where + " larger packets vanish and nobody says so,"}, {"a black hole", bad}}
	case where == "":
		return nil
	case p.Signalled:
		return []cell{{text: where + ", and the router there says so"}}
	}
	return []cell{{text: where}}
}

// pmtuSteps is the path MTU by ranges of hops.
func pmtuSteps(steps []pmtu.Step) string {
	var out []string
	for i, st := range steps {
		hops := strconv.Itoa(st.TTL)
		switch {
		case i == len(steps)-1:
			hops += " and on"
		case steps[i+1].TTL-1 > st.TTL:
			hops += "–" + strconv.Itoa(steps[i+1].TTL-1)
		case steps[i+1].TTL <= st.TTL:
			continue // the next one replaces it
		}
		mtu := "not measured"
		if st.MTU != nil {
			mtu = strconv.Itoa(*st.MTU)
		}
		out = append(out, hops+": "+mtu)
	}
	return strings.Join(out, " · ")
}

func pmtuBack(b *pmtu.Backward) []cell {
	var out []cell
	switch {
	case b.BlackHole != nil && *b.BlackHole:
		if b.MTU != nil {
			out = append(out, cell{bytesText(*b.MTU), bold}, cell{text: "come through;"})
		}
		out = append(out, cell{text: "larger packets vanish and nobody tells the server,"}, cell{"a black hole", bad})
		if b.MTU == nil && b.Note != "" {
			out = append(out, cell{text: "(" + b.Note + ")"})
		}
	case b.MTU != nil && b.OurMSS != nil && b.LargestMSS != nil && *b.LargestMSS < *b.OurMSS:
		out = append(out, cell{bytesText(*b.MTU), bold}, cell{text: "come through; the server sends no larger packets"})
	case b.MTU != nil:
		out = append(out, cell{bytesText(*b.MTU), bold}, cell{text: "come through"})
	case b.BlackHole != nil:
		out = append(out, cell{text: "no black hole was found"})
	case b.Note != "":
		out = append(out, cell{"not measured:", warn}, cell{text: b.Note})
	}
	if n := b.EchoLimit; n != nil && (b.MTU == nil || *b.MTU != *n) {
		if len(out) > 0 {
			out[len(out)-1].text += ";"
		}
		out = append(out, cell{text: fmt.Sprintf("echoes come back up to %s only, though larger packets arrive", bytesText(*n))})
	}
	return out
}

// pmtuSegments says what both ends take, and whether somebody lowers it.
func pmtuSegments(p *pmtu.Result) []cell {
	b := &p.Backward
	if b.OurMSS == nil || b.PeerMSS == nil {
		return nil
	}
	header := 40
	if p.Target.Addr.Is6() {
		header = 60
	}
	text := fmt.Sprintf("we take %s, the server takes %d", bytesText(*b.OurMSS), *b.PeerMSS)
	if *b.PeerMSS == *b.OurMSS {
		text = fmt.Sprintf("we and the server take %s each", bytesText(*b.OurMSS))
	}
	if p.MTU != nil && *b.PeerMSS+header < *p.MTU {
		text += fmt.Sprintf(" (packets of %d, though %d pass): a clamp on the way, or its own link", *b.PeerMSS+header, *p.MTU)
	}
	return []cell{{text: text}}
}
