package reports

import (
	"fmt"
	"net/url"
	"strings"
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
	loss := v.lookupLoss()
	for _, f := range d.Findings {
		cost := f.Cost.Duration()
		lossy := f.Component == dnscheck.ResolverLoss && loss.cost > cost
		if cost < minDNSCost && !lossy || v.farAuthority(f, cost) {
			continue
		}
		p, known := dnsConfidence[f.Component]
		if !known {
			p = 0.7
		}
		c := cause{
			layer: DNS, component: f.Component, where: f.Where, extra: cost, p: p,
			phrase: lowerFirst(trimStop(f.Text)),
			evidence: []Evidence{fact("dns-"+f.Component, trimStop(f.Text),
				fmt.Sprintf("%s of the lookup's %s", ms(cost), d.Stub.Elapsed),
				"counts from "+ms(minDNSCost))},
		}
		if !f.Confirmed {
			c.p = min(c.p, 0.75)
		}
		if lossy {
			loss.raise(&c)
			loss = lookupLoss{} // once
		}
		causes = append(causes, c)
	}
	return v.chargeRedirectLookup(capDNS(causes, v.firstLookup()))
}

// redirectLookup is the longest lookup of another host that a redirect led to.
// Only the first visit pays it, as only the first pays the page's own.
func (v *view) redirectLookup() (host string, took time.Duration) {
	for _, one := range v.visits {
		for i, e := range one.sample.Exchanges {
			if i == 0 {
				continue // the page's own host
			}
			u, err := url.Parse(e.URL)
			if d := e.Phases.Resolve.Duration(); err == nil && d > took && u.Hostname() != v.r.Target.Host {
				host, took = u.Hostname(), d
			}
		}
	}
	return host, took
}

// chargeRedirectLookup charges a slow lookup of another host to the resolver,
// if that is known to be at fault, else to that host's authority.
func (v *view) chargeRedirectLookup(causes []cause) []cause {
	host, took := v.redirectLookup()
	if took < 100*time.Millisecond {
		return causes
	}
	for i := range causes {
		if strings.HasPrefix(causes[i].component, "resolver-") || causes[i].component == "aaaa-blocked" {
			causes[i].extra += took
			return causes
		}
	}
	if took <= v.rtt*5/4+minDNSCost {
		return causes // far, as the server is
	}
	return append(causes, cause{layer: DNS, component: "authority-slow", where: host, extra: took, p: 0.8,
		phrase: fmt.Sprintf("the redirect leads to %s, and looking that up takes %s", host, ms(took)),
		evidence: []Evidence{fact("redirect-lookup", "the resolver is quick for the first host and slow for the one that a redirect leads to",
			ms(took)+" for "+host, "counts from 100 ms")},
		next: []string{"whyslow dns " + host}})
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

// resolution is the time the lookups of a visit took, 0 if there were none.
func (v *view) resolution() time.Duration {
	if v.r.DNS == nil || v.r.DNS.Stub == nil {
		return 0
	}
	_, more := v.redirectLookup()
	return v.firstLookup() + more
}

// firstLookup is the time of the page's own lookup: as it was measured, and
// where queries are lost, as long as they make it on average at least.
func (v *view) firstLookup() time.Duration {
	return max(v.r.DNS.Stub.Elapsed.Duration(), v.lookupLoss().cost)
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
