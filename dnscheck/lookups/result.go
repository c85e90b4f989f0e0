package lookups

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/miekg/dns"

	"github.com/whyslow/whyslow/internal/apacheconf"
	"github.com/whyslow/whyslow/internal/millis"
)

// Schema names the JSON form of a Result.
const Schema = "whyslow/lookups/1"

// Result is what HostnameLookups would cost. Numbers of requests, addresses and
// lookups are estimates where Fraction is below 1 or fewer addresses were probed
// than there are.
type Result struct {
	Schema string `json:"schema"`
	// Sources are the logs read, Format is how.
	Sources []string `json:"sources"`
	Format  string   `json:"format,omitempty"`
	Lines   int      `json:"lines"`
	Broken  int      `json:"broken_lines"`

	// Summary is the answer in one sentence, Next what to do.
	Summary string   `json:"summary"`
	Next    []string `json:"next"`

	Started time.Time    `json:"started"`
	Elapsed millis.Value `json:"elapsed_ms"`

	// Requests are those with an address. Named hold a name already: the
	// server looked up when it wrote the log. Special come from private and
	// special ranges, HTTP2 over HTTP/2, which looks up for each request.
	Requests int `json:"requests"`
	Named    int `json:"named"`
	Special  int `json:"special"`
	HTTP2    int `json:"http2"`
	// Addresses are the distinct ones, Fraction the part of them that was kept,
	// Probed how many of these were looked up.
	Addresses Estimate `json:"addresses"`
	Fraction  float64  `json:"fraction"`
	Probed    int      `json:"probed"`
	// Exact says that the log tells which requests came first on a connection:
	// else the numbers of lookups are a bracket, from *_low on.
	Exact bool `json:"exact"`
	// Span is from the first request to the last; null without times in the log.
	Span *time.Duration `json:"-"`
	// SpanS is Span in seconds.
	SpanS *Estimate `json:"span_s"`
	// Took is how long a request takes now, on average; null if the log has no
	// durations. Workers is how many the server has; 0 is unknown.
	Took    millis.Value `json:"request_ms"`
	Workers int          `json:"workers"`

	// Scenarios are "off" (what is), "on" and "double". Their times are added
	// to the first byte where something asks for the name before the response
	// (CGI, SSI, mod_rewrite, Require host); where only the log does, they keep
	// the worker, and the next request of the connection waits.
	Scenarios map[string]*Scenario `json:"scenarios"`
	// Rcodes are the outcomes of the first lookup of an address.
	Rcodes map[string]*Share `json:"rcodes"`
	// Confirmed is the part of the addresses with a name whose name leads back
	// to them; null if that was not looked up.
	Confirmed *float64 `json:"forward_confirmed"`
	// Networks are those whose lookups cost the most, /24 and /48.
	Networks []NetworkCost `json:"networks"`
	// Resolvers are whom this host asks, Stub the model by whose waits lookups
	// are charged.
	Resolvers []string `json:"resolvers"`
	Stub      string   `json:"stub"`
	// Apache is what the server's configuration says of lookups; nil if none
	// was given.
	Apache *apacheconf.Audit `json:"apache,omitempty"`
	// Interrupted says that not all was measured.
	Interrupted bool     `json:"interrupted,omitempty"`
	Warnings    []string `json:"warnings,omitempty"`

	names map[netip.Addr]string
}

// NameOf is the name of an address that was looked up and leads back to it;
// false if there is none. Names are not in the JSON form.
func (r *Result) NameOf(a netip.Addr) (string, bool) {
	name, ok := r.names[a.Unmap().WithZone("")]
	return name, ok
}

// Estimate is a number of things or of seconds that is not known to the last one.
// It is never negative.
type Estimate float64

// Scenario is what one setting of HostnameLookups adds.
type Scenario struct {
	// Lookups are the calls of the resolver library, Queries what it sends,
	// Upstream what the resolver has to fetch because it is not in its cache.
	Lookups     Estimate `json:"lookups"`
	LookupsLow  Estimate `json:"lookups_low"`
	Queries     Estimate `json:"queries"`
	QueriesLow  Estimate `json:"queries_low"`
	Upstream    Estimate `json:"upstream"`
	UpstreamLow Estimate `json:"upstream_low"`
	// HitRatio is the part of the lookups whose answer is cached.
	HitRatio float64 `json:"hit_ratio"`
	// Affected is the part of the requests that wait for a lookup.
	Affected    float64 `json:"affected"`
	AffectedLow float64 `json:"affected_low"`
	// AddedMS is what is added to these, AllMS what to all requests. Slow is
	// the part of the lookups of a second or more.
	AddedMS Quantiles `json:"added_ms"`
	AllMS   Quantiles `json:"all_ms"`
	Slow    float64   `json:"slow"`
	// BusyWorkers is how many workers are kept waiting on average; null without
	// times in the log. Capacity is how many requests a second the workers can
	// serve; null if their number or the time of a request is unknown.
	BusyWorkers    *Estimate `json:"busy_workers"`
	BusyWorkersLow *Estimate `json:"busy_workers_low"`
	Capacity       *Estimate `json:"capacity"`

	seconds float64
}

// Quantiles of times; null without lookups. Max is the greatest that was
// measured.
type Quantiles struct {
	P50 millis.Value `json:"p50"`
	P95 millis.Value `json:"p95"`
	P99 millis.Value `json:"p99"`
	Max millis.Value `json:"max"`
}

// Share is how much an outcome has, 0…1, and how many addresses that rests on.
type Share struct {
	Requests  float64 `json:"requests"`
	Addresses float64 `json:"addresses"`
	Probed    int     `json:"probed"`
}

// NetworkCost is a network and what its lookups cost.
type NetworkCost struct {
	Network   string   `json:"network"`
	Zone      string   `json:"zone"`
	Special   bool     `json:"special,omitempty"`
	Addresses Estimate `json:"addresses"`
	Lookups   Estimate `json:"lookups"`
	Seconds   Estimate `json:"seconds"`
	Share     float64  `json:"share"` // of the seconds of all
	// Outcome is the most frequent, Worst the longest lookup.
	Outcome string       `json:"outcome"`
	Worst   millis.Value `json:"worst_ms"`
	// Guilty is the name server that makes them fail, Why the evidence; empty
	// if that was not looked for, or all is well.
	Guilty string `json:"guilty,omitempty"`
	Why    string `json:"why,omitempty"`

	addr     netip.Addr
	seconds  float64
	worst    time.Duration
	outcomes map[string]float64
}

// ReverseZone is the reverse zone of an address's network.
func ReverseZone(a netip.Addr) string {
	arpa, err := dns.ReverseAddr(a.Unmap().WithZone("").String())
	if err != nil {
		return ""
	}
	labels := dns.SplitDomainName(arpa)
	skip := 1 // /24
	if a.Unmap().Is6() {
		skip = 20 // /48
	}
	out := ""
	for _, l := range labels[skip:] {
		out += l + "."
	}
	return out
}

// warn says what limits the result.
func (r *Result) warn(l *Log, fates []Fate) {
	add := func(format string, args ...any) { r.Warnings = append(r.Warnings, fmt.Sprintf(format, args...)) }
	if r.Span != nil {
		s := Estimate(r.Span.Seconds())
		r.SpanS = &s
	} else if l.Requests > 0 {
		add("the log has no times: without them caching and busy workers are not known, and each lookup is charged as the first")
	}
	if l.Named > 0 {
		add("%d lines hold a name in place of the address: the server looks names up already when it writes the log, and these are not priced", l.Named)
	}
	if l.Fraction() < 1 {
		add("more addresses than can be counted one by one: 1 in %.0f was kept, with all its requests", 1/l.Fraction())
	}
	if l.over > 0 {
		add("%d lookups were counted but not replayed one by one", l.over)
	}
	cached := 0
	for i := range fates {
		if fates[i].Cached {
			cached++
		}
	}
	if cached*10 > len(fates) && cached > 0 {
		add("%d of %d names were in the resolver's cache already: what their first lookup costs was not seen, and the added times are a lower bound", cached, len(fates))
	}
}
