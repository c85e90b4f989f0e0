package httpcheck

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"time"

	"github.com/whyslow/whyslow/internal/millis"
	"github.com/whyslow/whyslow/internal/stats"
)

// Add folds one event into the result.
func (r *Result) Add(e Event) {
	switch {
	case e.Sample != nil:
		r.Samples = append(r.Samples, *e.Sample)
	case e.Control != nil:
		r.Controls = append(r.Controls, *e.Control)
	case e.Warning != "":
		r.Warnings = append(r.Warnings, e.Warning)
	}
}

// Summarize computes Summary, Body and Failure from the samples.
func (r *Result) Summarize() {
	r.Summary, r.Body, r.Failure = Summary{}, Body{Class: "none"}, nil
	var good []*Sample
	for i := range r.Samples {
		if s := &r.Samples[i]; s.Failure == nil && len(s.Exchanges) > 0 {
			good = append(good, s)
		}
	}
	if len(good) == 0 {
		r.Failure = commonest(r.Samples)
		return
	}
	s := &r.Summary
	var cold, warm, direct []Phases
	var sizes []int64
	for _, g := range good {
		total := g.sum()
		last := g.last()
		sizes = append(sizes, last.Bytes)
		switch {
		case g.Cold:
			cold = append(cold, total)
		case len(g.Exchanges) == 1:
			direct = append(direct, total)
			warm = append(warm, total)
		default:
			warm = append(warm, total)
		}
		if rtt, ok := last.Network.Get(); ok && (!s.MinRTT.Known() || rtt < s.MinRTT.Duration()) {
			s.MinRTT = millis.Of(rtt)
		}
	}
	s.Cold, s.Warm = len(cold), len(warm)
	s.ColdPhases = typical(cold)
	if len(direct) > 0 {
		warm = direct
	}
	s.WarmPhases = typical(warm)
	s.Bytes = stats.Median(sizes)
	s.ByRequest = byRequest(good)
	s.Steps = steps(good)
	s.perConnection(good)
	r.Body = commonestBody(good)
}

// last is the exchange with the final URL. s must have exchanges.
func (s *Sample) last() *Exchange { return &s.Exchanges[len(s.Exchanges)-1] }

// sum adds up the phases of a sample's exchanges. Total is not their sum: it
// includes what lies between them.
func (s *Sample) sum() Phases {
	var t Phases
	for i := range s.Exchanges {
		from := s.Exchanges[i].Phases.all()
		for j, to := range t.all() {
			if d, ok := from[j].Get(); ok {
				*to = millis.Of(to.Duration() + d)
			}
		}
	}
	return t
}

// all lists the phases, for what is done to each of them.
func (p *Phases) all() [7]*millis.Value {
	return [7]*millis.Value{&p.Resolve, &p.Connect, &p.TLS, &p.Send, &p.Wait, &p.Receive, &p.Total}
}

// medians are each phase's median over where it happened.
func medians(ps []Phases) Phases {
	var out Phases
	for i, to := range out.all() {
		var ds []millis.Value
		for j := range ps {
			ds = append(ds, *ps[j].all()[i])
		}
		*to = median(ds)
	}
	return out
}

// typical is medians, but its total has the lookup in it wherever there was
// one: a host is looked up once a run, so most totals lack it, and their median
// would be less than the phases beside it.
func typical(ps []Phases) Phases {
	out := medians(ps)
	var rest []millis.Value
	for i := range ps {
		if total, ok := ps[i].Total.Get(); ok {
			rest = append(rest, millis.Of(total-ps[i].Resolve.Duration()))
		}
	}
	if len(rest) > 0 {
		out.Total = millis.Of(median(rest).Duration() + out.Resolve.Duration())
	}
	return out
}

// median of the values that were measured; unmeasured if there are none.
func median(vs []millis.Value) millis.Value {
	ds := durations(vs)
	if len(ds) == 0 {
		return millis.Value{}
	}
	return millis.Of(stats.Median(ds))
}

func durations(vs []millis.Value) []time.Duration {
	var ds []time.Duration
	for _, v := range vs {
		if d, ok := v.Get(); ok {
			ds = append(ds, d)
		}
	}
	return ds
}

// perConnection fills in what the server took by the request's place on its
// connection, for the connections to the final URL's host.
func (s *Summary) perConnection(good []*Sample) {
	final := originOf(good[len(good)-1].last().URL)
	var first, second, later []millis.Value
	for _, g := range good {
		for i := range g.Exchanges {
			x := &g.Exchanges[i]
			switch {
			case originOf(x.URL) != final:
			case x.Request == 1:
				first = append(first, x.Server)
			case x.Request == 2:
				second = append(second, x.Server)
			default:
				later = append(later, x.Server)
			}
		}
	}
	if len(durations(later)) == 0 {
		later = second
	}
	s.ColdServer, s.SecondServer, s.WarmServer = median(first), median(second), median(later)
}

// originOf is the scheme and authority of a URL in a result.
func originOf(s string) string {
	u, err := url.Parse(s)
	if err != nil {
		return s
	}
	return origin(u)
}

// byRequest groups the exchanges by URL and place on their connection.
func byRequest(good []*Sample) []RequestStat {
	type key struct {
		url     string
		request int
	}
	groups := map[key][]*Exchange{}
	for _, g := range good {
		for i := range g.Exchanges {
			x := &g.Exchanges[i]
			k := key{x.URL, x.Request}
			groups[k] = append(groups[k], x)
		}
	}
	var out []RequestStat
	for _, k := range slices.SortedFunc(maps.Keys(groups), func(a, b key) int {
		return cmp.Or(cmp.Compare(a.url, b.url), cmp.Compare(a.request, b.request))
	}) {
		st := RequestStat{URL: k.url, Request: k.request, Count: len(groups[k])}
		var waits, servers []millis.Value
		for _, x := range groups[k] {
			waits, servers = append(waits, x.Phases.Wait), append(servers, x.Server)
		}
		st.Wait, st.Server = median(waits), median(servers)
		if ds := durations(servers); len(ds) > 0 {
			st.Min, st.Max = millis.Of(slices.Min(ds)), millis.Of(slices.Max(ds))
		}
		out = append(out, st)
	}
	return out
}

// steps are the medians of each exchange of the cold samples that went the
// commonest way: the same URLs in the same order.
func steps(good []*Sample) []Step {
	ways := map[string][]*Sample{}
	var way string
	for _, g := range good {
		if !g.Cold {
			continue
		}
		var k string
		for i := range g.Exchanges {
			k += g.Exchanges[i].URL + "\n"
		}
		ways[k] = append(ways[k], g)
		if len(ways[k]) > len(ways[way]) {
			way = k
		}
	}
	same := ways[way]
	if len(same) == 0 {
		return nil
	}
	var out []Step
	for i := range same[0].Exchanges {
		var phases []Phases
		var network, server []millis.Value
		for _, s := range same {
			x := &s.Exchanges[i]
			phases = append(phases, x.Phases)
			network, server = append(network, x.Network), append(server, x.Server)
		}
		first := &same[0].Exchanges[i]
		out = append(out, Step{
			URL: first.URL, Status: first.Status, Count: len(same),
			Phases: typical(phases), Network: median(network), Server: median(server),
		})
	}
	return out
}

// commonest is the failure of the kind and phase that most samples ended in,
// nil if there was none.
func commonest(samples []Sample) *Failure {
	count := map[string]int{}
	var out *Failure
	most := 0
	for i := range samples {
		f := samples[i].Failure
		if f == nil {
			continue
		}
		k := f.Phase + " " + f.Kind
		if f.Kind == "canceled" { // says nothing of the target
			count[k]--
		}
		count[k]++
		if count[k] > most || out == nil {
			out, most = f, count[k]
		}
	}
	return out
}

// commonestBody classifies each final body and returns the commonest class.
func commonestBody(good []*Sample) Body {
	count := map[string]int{}
	var out Body
	for _, g := range good {
		b := Classify(g.last())
		if count[b.Class]++; count[b.Class] > count[out.Class] {
			out = b
		}
	}
	if n := count[out.Class]; n < len(good) {
		out.Text = fmt.Sprintf("%s (%d of %d transfers)", out.Text, n, len(good))
	}
	return out
}

func sortByAt(xs []Exchange) {
	slices.SortStableFunc(xs, func(a, b Exchange) int { return cmp.Compare(a.At.Duration(), b.At.Duration()) })
}
