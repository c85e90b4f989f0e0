package reports

import (
	"fmt"
	"time"

	"github.com/whyslow/whyslow/dnscheck"
)

// minDNSCost is the least a finding must have cost a lookup to be a suspect.
// One more query to a nearby resolver costs less.
const minDNSCost = 20 * time.Millisecond

// dnsConfidence is how often a dns finding of a kind, with a measured cost,
// turned out to be what it says. Kinds that rest on the configured servers'
// direct answers are surer than those that infer what lies behind a resolver.
var dnsConfidence = map[string]float64{
	"resolver-down":  0.96,
	"resolver-slow":  0.88,
	"resolver-loss":  0.80,
	"authority-slow": 0.92,
	"authority-down": 0.85,
	"lame":           0.85,
	"aaaa-blocked":   0.94,
	"search-list":    0.92,
	"truncation":     0.85,
	"edns":           0.80,
	"servfail":       0.90,
	"cname-chain":    0.80,
	"validation":     0.80,
	"ttl-zero":       0.75,
}

// dnsCauses turns the findings that cost the lookup time into suspects.
func (v *view) dnsCauses() []cause {
	d := v.r.DNS
	if d == nil || d.Stub == nil {
		return nil
	}
	var causes []cause
	for _, f := range d.Findings {
		cost, ok := f.Cost.Get()
		if !ok || cost < minDNSCost || v.farAuthority(f, cost) {
			continue
		}
		p, known := dnsConfidence[f.Component]
		if !known {
			p = 0.7
		}
		causes = append(causes, cause{
			layer: DNS, component: f.Component, where: f.Where, extra: cost, p: p,
			phrase: lowerFirst(trimStop(f.Text)),
			evidence: []Evidence{fact("dns-"+f.Component, trimStop(f.Text),
				fmt.Sprintf("%s of the lookup's %s", ms(cost), d.Stub.Elapsed),
				"≥ "+ms(minDNSCost))},
		})
	}
	return capDNS(causes, d.Stub.Elapsed.Duration())
}

// farAuthority reports an authority that is no slower than the way to the
// page's own server is long: far, as that one is, and not slow.
func (v *view) farAuthority(f dnscheck.Finding, cost time.Duration) bool {
	return f.Component == "authority-slow" && v.rttKnown && cost <= v.rtt*5/4+minDNSCost
}

// capDNS makes sure that findings do not claim more than the lookup took: the
// surest keep what they claim.
func capDNS(causes []cause, elapsed time.Duration) []cause {
	left := elapsed
	for i := range causes {
		causes[i].extra = min(causes[i].extra, left)
		left -= causes[i].extra
	}
	return causes
}

// resolution is the time one lookup took, 0 if there was none.
func (v *view) resolution() time.Duration {
	if v.r.DNS == nil || v.r.DNS.Stub == nil {
		return 0
	}
	return v.r.DNS.Stub.Elapsed.Duration()
}

// slowReverse returns the costliest reverse lookup of the client's own address
// as the local resolver saw it: what a server that looks visitors up may be
// waiting for. ok is false if it was not measured or was quick.
func (v *view) slowReverse() (rev dnscheck.Reverse, ok bool) {
	if v.r.DNS == nil {
		return rev, false
	}
	for _, one := range v.r.DNS.Reverse {
		if one.Of != "client" {
			continue
		}
		slow := one.Elapsed.Duration() >= 100*time.Millisecond
		if slow && one.Elapsed.Duration() >= rev.Elapsed.Duration() {
			rev, ok = one, true
		}
	}
	return rev, ok
}
