package lookups

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/whyslow/whyslow/internal/millis"
)

// PriceOptions say what is known of the server. The zero value is useful.
type PriceOptions struct {
	// Workers is how many requests the server works on at once; 0 is unknown.
	Workers int
	// Seed is of the bootstrap.
	Seed uint64
}

// Price charges the lookups of a log what they cost at this host's resolvers.
// It is a pure function.
func Price(l *Log, fates []Fate, o PriceOptions) *Result {
	r := &Result{Schema: Schema, Requests: l.Requests, Named: l.Named, Special: l.Special, HTTP2: l.HTTP2,
		Addresses: Estimate(l.Addresses()), Fraction: l.Fraction(), Exact: l.Exact, Probed: len(fates), Workers: o.Workers,
		Scenarios: map[string]*Scenario{}, Rcodes: map[string]*Share{}}
	if span := l.Span(); span > 0 {
		r.Span = &span
	}
	if l.Timed > 0 {
		r.Took = millis.Of(l.Took / time.Duration(l.Timed))
	}
	p := pricing{log: l, fates: fates, opt: o, scale: l.scale(fates)}
	r.Scenarios["off"] = &Scenario{}
	r.Scenarios["on"] = p.scenario(false)
	r.Scenarios["double"] = p.scenario(true)
	for _, s := range r.Scenarios {
		s.capacity(r)
	}
	r.Rcodes = p.rcodes()
	r.Networks = p.networks()
	r.Confirmed = p.confirmed()
	r.names = make(map[netip.Addr]string)
	for i := range fates {
		if f := &fates[i]; f.Confirmed {
			r.names[f.Addr.Unmap().WithZone("")] = strings.TrimSuffix(f.Names[0], ".")
		}
	}
	r.warn(l, fates)
	return r
}

// pricing is one run of Price.
type pricing struct {
	log   *Log
	fates []Fate
	opt   PriceOptions
	// scale makes up for lookups that were counted and not kept for the replay,
	// and for addresses that the log's own sample left out.
	scale float64
}

// scale is how many lookups of the log each one replayed stands for, sampling
// of the fates apart.
func (l *Log) scale(fates []Fate) float64 {
	kept := float64(len(l.order))
	if kept == 0 {
		return 0
	}
	return (kept + float64(l.over)) / kept / l.Fraction()
}

// scenario prices On, or Double.
func (p *pricing) scenario(double bool) *Scenario {
	s := &Scenario{}
	order := p.log.lookups()
	costs, high := p.costs(order, false, double)
	_, low := p.costs(order, true, double)
	s.Lookups, s.LookupsLow = Estimate(high.lookups), Estimate(low.lookups)
	s.Queries, s.QueriesLow = Estimate(high.queries), Estimate(low.queries)
	s.Upstream, s.UpstreamLow = Estimate(high.upstream), Estimate(low.upstream)
	if high.lookups > 0 {
		s.HitRatio = 1 - high.misses/high.lookups
	}
	if p.log.Requests > 0 {
		s.Affected = min(high.lookups/float64(p.log.Requests), 1)
		s.AffectedLow = min(low.lookups/float64(p.log.Requests), 1)
	}
	s.AddedMS = costs.quantiles()
	all := weighted{values: slices.Clone(costs.values), total: costs.total}
	all.add(0, max(float64(p.log.Requests)-high.lookups, 0))
	s.AllMS = all.quantiles()
	s.Slow = costs.above(slowLookup)
	if span := p.log.Span().Seconds(); span > 0 {
		busy, least := Estimate(high.seconds/span), Estimate(low.seconds/span)
		s.BusyWorkers, s.BusyWorkersLow = &busy, &least
	}
	s.seconds = high.seconds
	return s
}

// slowLookup is what nobody would call a fast lookup any more: a program that
// waits so long has met a server that is silent.
const slowLookup = time.Second

// totals are sums over lookups.
type totals struct {
	lookups, misses   float64
	queries, upstream float64
	seconds           float64
}

// costs replays the lookups and charges each.
func (p *pricing) costs(order []lookup, sureOnly, double bool) (weighted, totals) {
	var w weighted
	var t totals
	reverse := replay(order, p.fates, sureOnly, func(f *Fate) *Cost { return &f.Reverse })
	var forward []replayed
	if double {
		forward = replay(order, p.fates, sureOnly, func(f *Fate) *Cost { return &f.Forward })
	}
	for i := range p.fates {
		f := &p.fates[i]
		weight := f.Weight * p.scale
		n := float64(reverse[i].misses + reverse[i].hits)
		cold, warm := f.Reverse.Cold, f.Reverse.Warm
		queries, upstream := n, float64(reverse[i].misses)
		if double && len(f.Names) > 0 {
			cold, warm = cold+f.Forward.Cold, warm+f.Forward.Warm
			queries += 2 * n
			upstream += 2 * float64(forward[i].misses)
		}
		misses, hits := float64(reverse[i].misses)*weight, float64(reverse[i].hits)*weight
		w.add(cold, misses)
		w.add(warm, hits)
		t.lookups += n * weight
		t.misses += misses
		t.queries += queries * weight
		t.upstream += upstream * weight
		t.seconds += cold.Seconds()*misses + warm.Seconds()*hits
	}
	return w, t
}

func (w *weighted) add(v time.Duration, weight float64) {
	if weight > 0 {
		w.values = append(w.values, weightedValue{v, weight})
		w.total += weight
	}
}

// above is the share of the values of at least v.
func (w *weighted) above(v time.Duration) float64 {
	if w.total == 0 {
		return 0
	}
	sum := 0.0
	for _, x := range w.values {
		if x.v >= v {
			sum += x.w
		}
	}
	return sum / w.total
}

// quantiles are of the weighted values; the greatest is one that was measured.
func (w *weighted) quantiles() Quantiles {
	if w.total == 0 {
		return Quantiles{}
	}
	slices.SortFunc(w.values, func(a, b weightedValue) int { return cmp.Compare(a.v, b.v) })
	at := func(q float64) millis.Value {
		sum := 0.0
		for _, x := range w.values {
			if sum += x.w; sum >= q*w.total {
				return millis.Of(x.v)
			}
		}
		return millis.Of(w.values[len(w.values)-1].v)
	}
	return Quantiles{P50: at(0.5), P95: at(0.95), P99: at(0.99), Max: millis.Of(w.values[len(w.values)-1].v)}
}

// capacity is what the workers can do with and without (Little's law): each
// request keeps one for as long as it takes.
func (s *Scenario) capacity(r *Result) {
	if r.Workers == 0 || !r.Took.Known() || r.Requests == 0 {
		return
	}
	each := r.Took.Duration().Seconds() + s.seconds/float64(r.Requests)
	if each > 0 {
		c := Estimate(float64(r.Workers) / each)
		s.Capacity = &c
	}
}

// rcodes are the outcomes by requests and by addresses.
func (p *pricing) rcodes() map[string]*Share {
	out := map[string]*Share{}
	requests, addresses := 0.0, 0.0
	for i := range p.fates {
		f := &p.fates[i]
		s := out[f.Outcome]
		if s == nil {
			s = &Share{}
			out[f.Outcome] = s
		}
		s.Requests += float64(f.Requests) * f.Weight
		s.Addresses += f.Weight
		s.Probed++
		requests += float64(f.Requests) * f.Weight
		addresses += f.Weight
	}
	for _, s := range out {
		s.Requests, s.Addresses = s.Requests/requests, s.Addresses/addresses
	}
	return out
}

// confirmed is the part of the addresses with a name whose name leads back.
func (p *pricing) confirmed() *float64 {
	named, good := 0.0, 0.0
	measured := false
	for i := range p.fates {
		f := &p.fates[i]
		if len(f.Names) == 0 {
			continue
		}
		measured = measured || f.Forward != (Cost{})
		named += f.Weight
		if f.Confirmed {
			good += f.Weight
		}
	}
	if !measured || named == 0 {
		return nil
	}
	share := good / named
	return &share
}

// mostNetworks bounds the networks told of.
const mostNetworks = 20

// networks are those whose lookups cost the most time.
func (p *pricing) networks() []NetworkCost {
	byNet := map[string]*NetworkCost{}
	reverse := replay(p.log.lookups(), p.fates, false, func(f *Fate) *Cost { return &f.Reverse })
	total := 0.0
	for i := range p.fates {
		f := &p.fates[i]
		key := Network(f.Addr).String()
		n := byNet[key]
		if n == nil {
			n = &NetworkCost{Network: key, Zone: ReverseZone(f.Addr), Special: Special(f.Addr), addr: f.Addr, outcomes: map[string]float64{}}
			byNet[key] = n
		}
		weight := f.Weight * p.scale
		seconds := (float64(reverse[i].misses)*f.Reverse.Cold.Seconds() + float64(reverse[i].hits)*f.Reverse.Warm.Seconds()) * weight
		n.seconds += seconds
		n.Addresses += Estimate(f.Weight)
		n.Lookups += Estimate(float64(reverse[i].misses+reverse[i].hits) * weight)
		n.outcomes[f.Outcome] += f.Weight
		n.worst = max(n.worst, f.Reverse.Cold)
		total += seconds
	}
	out := make([]NetworkCost, 0, len(byNet))
	for _, n := range byNet {
		n.Seconds = Estimate(n.seconds)
		if total > 0 {
			n.Share = n.seconds / total
		}
		n.Worst = millis.Of(n.worst)
		most := 0.0
		for o, w := range n.outcomes {
			if w > most || w == most && o < n.Outcome {
				n.Outcome, most = o, w
			}
		}
		out = append(out, *n)
	}
	slices.SortFunc(out, func(a, b NetworkCost) int {
		return cmp.Or(cmp.Compare(b.seconds, a.seconds), cmp.Compare(a.Network, b.Network))
	})
	return out[:min(len(out), mostNetworks)]
}
