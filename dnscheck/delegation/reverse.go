package delegation

import (
	"context"
	"fmt"
	"net/netip"
	"strings"

	"github.com/miekg/dns"

	"github.com/whyslow/whyslow/dnscheck"
)

// ReverseResult says who answers for an address's name, and who fails to.
type ReverseResult struct {
	Addr netip.Addr
	// Zone is the zone that holds, or should hold, the PTR record, without
	// trailing dot; where the walk got stuck, the zone it got stuck at.
	Zone    string
	Outcome string   // as dnscheck.Walk.Outcome
	Names   []string // the PTR records
	// Guilty is the server or zone at fault, as in "ns2.example.net
	// (192.0.2.53)", Text the finding on it in one sentence. Both are empty
	// where nothing is wrong, or where the address merely has no name.
	Guilty, Text string
	Findings     []dnscheck.Finding
	Walk         dnscheck.Walk
	Zones        []dnscheck.Zone
}

// Reverse walks for the PTR records of an address. Walks for many addresses
// share what the Walker knows: a zone's servers are asked once. When the
// Walker has met its bound of zones or queries the Outcome is "limit" for what
// is not known yet.
func (w *Walker) Reverse(ctx context.Context, addr netip.Addr) (*ReverseResult, error) {
	if !addr.IsValid() {
		return nil, fmt.Errorf("delegation: no address given")
	}
	r, err := w.Walk(ctx, addr.WithZone("").Unmap().String(), dns.TypePTR)
	if err != nil {
		return nil, err
	}
	out := &ReverseResult{
		Addr: addr, Zone: r.Walk.Zone, Outcome: r.Walk.Outcome, Names: r.Walk.Answers,
		Findings: r.Findings, Walk: r.Walk, Zones: r.Zones,
	}
	if f := worst(r.Findings); f != nil {
		out.Guilty, out.Text = f.Where, f.Text
	}
	return out, nil
}

// worst is the finding that says most of why a lookup fails or waits: a server
// before its zone, both before what is only untidy.
func worst(all []dnscheck.Finding) *dnscheck.Finding {
	best, at := 0, -1
	for i, f := range all {
		weight := 0
		switch f.Component {
		case dnscheck.NXDomain, dnscheck.TTLZero:
			continue
		case dnscheck.Delegation:
			weight = 1
		case dnscheck.Truncation, dnscheck.EDNS, dnscheck.AuthoritySlow:
			weight = 2
		default:
			weight = 3
			if strings.HasSuffix(f.Where, ")") {
				weight = 4
			}
		}
		if weight > best {
			best, at = weight, i
		}
	}
	if at < 0 {
		return nil
	}
	return &all[at]
}

// Reverse walks for one address; see Walker.Reverse.
func Reverse(ctx context.Context, addr netip.Addr, o Options) (*ReverseResult, error) {
	w, err := NewWalker(o)
	if err != nil {
		return nil, err
	}
	return w.Reverse(ctx, addr)
}
