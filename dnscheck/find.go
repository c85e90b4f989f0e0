package dnscheck

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/whyslow/whyslow/internal/millis"
)

// The components that a Finding can name, as the verdict contract spells them.
const (
	ResolverDown  = "resolver-down"
	ResolverSlow  = "resolver-slow"
	ResolverLoss  = "resolver-loss"
	AuthoritySlow = "authority-slow"
	AuthorityDown = "authority-down"
	Lame          = "lame"
	AAAABlocked   = "aaaa-blocked"
	SearchList    = "search-list"
	Truncation    = "truncation"
	EDNS          = "edns"
	Servfail      = "servfail"
	NXDomain      = "nxdomain"
	CNAMEChain    = "cname-chain"
	Validation    = "validation"
	TTLZero       = "ttl-zero"
	// Delegation is a fault of a zone or of its parent that costs some lookups.
	Delegation = "delegation"
)

const (
	// slack is what an answer may take beyond twice the round trip before it
	// is called slow.
	slack = 20 * time.Millisecond
	// slowUnseen is how slow an authority must be to be worth a word although
	// it cost the stub nothing this time.
	slowUnseen = 200 * time.Millisecond
	// longChain is the number of CNAMEs worth a word in itself.
	longChain = 4
	// giveUp is how long a resolver seeks before its SERVFAIL means that the
	// authorities were silent; one that refuses or fails by itself is quicker.
	giveUp = time.Second
)

// Find judges the observations of r: pure, no clock, no I/O. The time of the
// stub is cut into its waits, and each wait is charged to the party whose
// repair would have saved it, so the costs add up to no more than the stub's
// elapsed time less one round trip to a healthy resolver. Findings without a
// cost are faults that were seen but did not delay this resolution. The
// costliest comes first.
func Find(r *Result) []Finding {
	j := newJudge(r)
	if r.Stub != nil && r.Stub.Source != "hosts" {
		for _, rd := range rounds(r.Stub) {
			j.charge(&rd)
		}
		j.cap()
		j.outcome()
	}
	j.servers()
	j.authority()
	return j.findings()
}

// entry is a finding in the making.
type entry struct {
	component, where string
	line             int
	cost             time.Duration
	charged          bool
	confirmed        bool
	text             string
	// total, where set, makes the text when the whole cost is known.
	total func(time.Duration) string
}

// judge holds the evidence and the findings so far.
type judge struct {
	r       *Result
	facts   []*serverFacts
	main    string // the name that matters, whatever candidates were tried
	zone    string // whose authority answers for it
	healthy time.Duration
	// deducted says that the one healthy round trip was left uncharged.
	deducted bool
	entries  []*entry
}

func newJudge(r *Result) *judge {
	j := &judge{r: r, facts: gather(r)}
	j.main, _ = toASCII(r.Name)
	if r.Stub != nil && r.Stub.Name != "" {
		j.main = r.Stub.Name
	}
	j.main = strings.TrimSuffix(j.main, ".")
	j.zone = j.main
	// The longest zone seen that the name lies in.
	best := ""
	for _, c := range r.Cold {
		z := strings.TrimSuffix(c.Zone, ".")
		if z != "" && within(j.main, z) && len(z) > len(best) {
			best = z
		}
	}
	if best != "" {
		j.zone = best
	}
	first := true
	for _, f := range j.facts {
		if f.base.Known() && (first || f.network() < j.healthy) {
			j.healthy, first = f.network(), false
		}
	}
	return j
}

// within reports whether name is zone or lies below it.
func within(name, zone string) bool {
	name, zone = strings.ToLower(name), strings.ToLower(zone)
	return name == zone || strings.HasSuffix(name, "."+zone)
}

func (j *judge) server(addr string) *serverFacts {
	for _, f := range j.facts {
		if f.addr == addr {
			return f
		}
	}
	return &serverFacts{addr: addr, where: whereOf(addr)}
}

// add charges d to a party. Further charges to the same party add up; the
// first text stands.
func (j *judge) add(component, where string, line int, d time.Duration, confirmed bool, text string) *entry {
	for _, e := range j.entries {
		if e.component == component && e.where == where {
			e.cost += d
			e.charged = true
			e.confirmed = e.confirmed || confirmed
			return e
		}
	}
	e := &entry{component: component, where: where, line: line, cost: d, charged: true, confirmed: confirmed, text: text}
	j.entries = append(j.entries, e)
	return e
}

// note adds a finding that cost nothing this time, unless it is known already.
func (j *judge) note(component, where string, line int, text string) {
	if !j.has(component, where) {
		j.entries = append(j.entries, &entry{component: component, where: where, line: line, confirmed: true, text: text})
	}
}

func (j *judge) has(component, where string) bool {
	return slices.ContainsFunc(j.entries, func(e *entry) bool { return e.component == component && e.where == where })
}

// hasComponent reports whether any finding is of the component.
func (j *judge) hasComponent(c string) bool {
	return slices.ContainsFunc(j.entries, func(e *entry) bool { return e.component == c })
}

// cap keeps the sum of costs within what a healthy resolution would have
// saved. The waits add up exactly; only a stub cut short can exceed it.
func (j *judge) cap() {
	limit := max(0, j.r.Stub.Elapsed.Duration()-j.healthy)
	var sum time.Duration
	for _, e := range j.entries {
		sum += e.cost
	}
	over := sum - limit
	slices.SortStableFunc(j.entries, func(a, b *entry) int { return cmp.Compare(b.cost, a.cost) })
	for _, e := range j.entries {
		if over <= 0 {
			return
		}
		cut := min(over, e.cost)
		e.cost -= cut
		over -= cut
	}
}

func (j *judge) findings() []Finding {
	slices.SortStableFunc(j.entries, func(a, b *entry) int { return cmp.Compare(b.cost, a.cost) })
	out := []Finding{}
	for _, e := range j.entries {
		f := Finding{Component: e.component, Where: e.where, Line: e.line, Text: e.text, Confirmed: e.confirmed}
		if e.total != nil {
			f.Text = e.total(e.cost)
		}
		if e.charged {
			f.Cost = millis.Of(e.cost)
		}
		out = append(out, f)
	}
	return out
}

// outcome adds what the stub's result means in itself.
func (j *judge) outcome() {
	st := j.r.Stub
	switch st.Rcode {
	case "NXDOMAIN":
		j.note(NXDomain, j.main, 0, fmt.Sprintf("%s does not exist", j.main))
	case "NODATA":
		j.note(NXDomain, j.main, 0, fmt.Sprintf("%s exists, but has no address of the wanted family", j.main))
	}
	if n := len(st.CNAME); n >= longChain && !j.hasComponent(CNAMEChain) {
		j.note(CNAMEChain, j.main, 0, fmt.Sprintf("%s is an alias through %d names before an address", j.main, n))
	}
	for _, s := range st.Steps {
		if s.TTL != nil && *s.TTL == 0 && s.Answers > 0 && same(s.Name, j.main) {
			j.note(TTLZero, j.main, 0, fmt.Sprintf("%s has a lifetime of 0 s, so that every lookup goes to its authority", j.main))
		}
	}
}

func ms(d time.Duration) string { return millis.Of(d).String() }
