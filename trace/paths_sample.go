package trace

import (
	"context"
	"time"
)

const (
	// sampledFlows is how many flows are sampled at most, flowsPerLink how
	// many of each link if there are so many: one bad flow alone may be bad on
	// its way back.
	sampledFlows = 48
	flowsPerLink = 3
	// leastFlows is how many are sampled in any case: bundles of links below
	// IP, and ways back, are spread too.
	leastFlows = 8
	// sampleEvery is the least time between two samples of one flow,
	// samplePace that between any two.
	sampleEvery = 100 * time.Millisecond
	samplePace  = 10 * time.Millisecond
	// leastSamples is the number for each flow below which sampling tells
	// nothing.
	leastSamples = 5
)

// way is the node of a flow at a TTL. Where all flows meet one node it need
// not have been asked.
func (d *discovery) way(f *flow, ttl int) *node {
	if n := f.at(ttl); n != nil {
		return n
	}
	if f.end > 0 && ttl > f.end || ttl >= len(d.hops) {
		return nil
	}
	var only *node
	for _, n := range d.hops[ttl] {
		if len(n.flows) == 0 {
			continue
		}
		if only != nil {
			return nil
		}
		only = n
	}
	return only
}

// length is the TTL at which a flow ends as far as is known.
func (d *discovery) length(f *flow) int {
	if f.end > 0 {
		return f.end
	}
	last := d.last
	for ttl := 1; ttl <= last; ttl++ {
		if n := d.way(f, ttl); n != nil && n.end() {
			return ttl
		}
	}
	return last
}

// complete reports whether the whole way of a flow is known.
func (d *discovery) complete(f *flow) bool {
	for ttl := 1; ttl <= d.length(f); ttl++ {
		if d.way(f, ttl) == nil {
			return false
		}
	}
	return true
}

// pick chooses the flows to sample: a few for each link, those first whose way
// is known best.
func (d *discovery) pick() {
	type edge struct{ from, to *node }
	covered := make(map[edge]int)
	chosen := 0
	for unknown := 0; unknown <= d.last && chosen < sampledFlows; unknown++ {
		for _, f := range d.flows {
			var edges []edge
			missing := 0
			for ttl := 1; ttl <= d.length(f); ttl++ {
				a, b := d.way(f, ttl-1), d.way(f, ttl)
				if b == nil {
					missing++
				} else if a != nil {
					edges = append(edges, edge{a, b})
				}
			}
			if missing != unknown || f.chosen || chosen == sampledFlows {
				continue
			}
			f.chosen = chosen < leastFlows && missing == 0
			for _, e := range edges {
				f.chosen = f.chosen || covered[e] < flowsPerLink
			}
			if !f.chosen {
				continue
			}
			chosen++
			for _, e := range edges {
				covered[e]++
			}
		}
	}
}

// fillIn plans what is not known of the ways of the chosen flows.
func (d *discovery) fillIn(_ context.Context, now time.Time, p *agenda) {
	planned := make(map[*sight]bool)
	for _, f := range d.flows {
		if !f.chosen {
			continue
		}
		for ttl := 1; ttl <= d.length(f); ttl++ {
			if d.way(f, ttl) == nil {
				d.want(now, p, planned, f, ttl, ttl)
			}
		}
	}
}

// sample sends probes the whole way, one flow after the other, and more of
// them if some flow loses what others do not.
func (d *discovery) sample(ctx context.Context, end time.Time) error {
	var flows []*flow
	for _, f := range d.flows {
		f.sent, f.rtts = 0, nil
		if f.chosen && d.complete(f) {
			flows = append(flows, f)
		}
	}
	if len(flows) == 0 {
		return nil
	}
	if ok, err := d.samplable(ctx, len(flows), end); err != nil || !ok {
		return err
	}
	every := max(sampleEvery, samplePace*time.Duration(len(flows)))
	start := time.Now()
	count := d.po.Samples
	for round := 0; round < count; round++ {
		for i, f := range flows {
			due := start.Add(time.Duration(round)*every + every*time.Duration(i)/time.Duration(len(flows)))
			if err := d.sampleOne(ctx, f, due, end); err != nil {
				return err
			}
		}
		if (round+1)%d.po.Samples > 0 || round >= 5*d.po.Samples-1 {
			continue
		}
		if err := d.settled(ctx, flows); err != nil {
			return err
		}
		if d.undecided(flows) {
			count = round + 1 + d.po.Samples
			start = time.Now().Add(-time.Duration(round+1) * every)
		}
	}
	return d.settled(ctx, flows)
}

// samplable finds out whether the destination answers often enough: a UDP
// destination may have the limit on errors of Linux.
func (d *discovery) samplable(ctx context.Context, flows int, end time.Time) (bool, error) {
	if d.exempt || d.dest == nil || d.opt.Dst.IsLoopback() {
		return true, nil
	}
	for range burst {
		if sent, _, err := d.shoot(d.flows[0], 0, through, d.dest); err != nil || !sent {
			break // its account is spent, and so are the trials
		}
	}
	if err := d.collect(ctx, time.Now().Add(d.patience()), func() bool { return d.dest.free }); err != nil {
		return false, err
	}
	for _, f := range d.flows {
		f.sent, f.rtts, f.pending = 0, nil, 0
	}
	for _, s := range d.waiting {
		s.pending = false
	}
	if d.dest.free {
		return true, nil
	}
	if can := int(time.Until(end)/d.errorPace()) / flows; can < leastSamples {
		d.unsampled = true
		return false, nil
	}
	return true, nil
}

// sampleOne sends one sample when it is due and the destination can answer.
func (d *discovery) sampleOne(ctx context.Context, f *flow, due, end time.Time) error {
	for {
		if err := d.collect(ctx, due, func() bool { return !time.Now().Before(due) }); err != nil {
			return err
		}
		d.expire(time.Now())
		if !time.Now().Before(end) {
			return errCutOff
		}
		sent, wake, err := d.shoot(f, 0, through, d.dest)
		if sent || err != nil {
			return err
		}
		due = earlier(wake, end)
	}
}

// settled waits for the last samples.
func (d *discovery) settled(ctx context.Context, flows []*flow) error {
	pending := func() bool {
		for _, f := range flows {
			if f.pending > 0 {
				return true
			}
		}
		return false
	}
	for pending() {
		due := time.Now().Add(d.patience() / 8)
		if err := d.collect(ctx, due, func() bool { return !pending() }); err != nil {
			return err
		}
		d.expire(time.Now())
	}
	return nil
}

// undecided reports whether there is loss that no link explains yet.
func (d *discovery) undecided(flows []*flow) bool {
	lost := 0
	for _, f := range flows {
		lost += f.sent - len(f.rtts)
	}
	if lost == 0 {
		return false
	}
	for _, s := range d.result().suspects() {
		if s.lost > 0 && !s.scattered {
			return false
		}
	}
	return true
}
