package trace

import (
	"math"
	"net/netip"

	"github.com/whyslow/whyslow/internal/stats"
)

// Loss says where packets are lost. The zero Loss means that no loss of
// forwarded packets was seen.
type Loss struct {
	// Found says that the destination loses packets, beyond what chance
	// explains, and so at least one link does.
	Found bool
	// FromTTL and ToTTL bound the segment that loses: the last hop before it
	// and the first behind it that answered direct samples. FromTTL 0 is this
	// host. Meaningless unless Found.
	FromTTL, ToTTL int
	From, To       netip.Addr
	// Rate is the destination's loss, 0…1, and Low…High its 95 % interval.
	Rate, Low, High float64
	// Confidence is the probability that the segment is one that loses.
	Confidence float64
	// Also is a second segment that loses besides, nil if there is no sure
	// sign of one. FromTTL and ToTTL are then the one that loses more.
	Also *LossySegment
	// Limited are the TTLs of hops that lose answers although what lies
	// behind them loses none, or less: limits on ICMP, not loss (R2, R3).
	Limited []int
}

// LossySegment is a segment that loses packets.
type LossySegment struct {
	FromTTL, ToTTL int // as in Loss
	From, To       netip.Addr
	Rate           float64 // of what enters it, 0…1
	Confidence     float64
}

// The model of LossAt: what chance loses on a sound path, and how often an
// address drops echoes to itself that it would have forwarded.
const (
	soundLoss    = 0.001
	routerLimits = 0.05
	hostLimits   = 0.01
	certainLoss  = 0.9 // probability from which loss counts as found
	leastSample  = 10  // echoes below which a sample says nothing
	manyProbes   = 500 // from which on the binomial is as good as normal
)

// sampledPoint is the direct sample of one address on the path.
type sampledPoint struct {
	ttl        int
	addr       netip.Addr
	sent, lost int
	limits     float64
}

func (p sampledPoint) rate() float64 { return float64(p.lost) / float64(p.sent) }

// LossAt finds the segment where packets are lost. Loss at a hop is real only
// if every later answering hop and the destination lose too (R2).
//
// Each segment between sampled addresses is a hypothesis, and so is each pair
// of them: addresses before the segment lose nothing, all behind it lose the
// same share, all behind the second of a pair a larger one, and any address may
// lose more because it limits its own answers. Confidence is the share of the
// likelihood, integrated over the unknown rates, of the hypotheses that hold
// the segment.
func LossAt(res *Result) Loss {
	var l Loss
	pts := lossPoints(res)
	if d := destinationSample(res); d != nil && d.Sent > 0 {
		l.Rate = float64(d.Sent-d.Received) / float64(d.Sent)
		l.Low, l.High = stats.Wilson(d.Sent-d.Received, d.Sent, stats.Z95)
	}
	l.Limited = limited(res, pts)
	if len(pts) == 0 || pts[len(pts)-1].limits != hostLimits {
		return l // no sample of the destination: nothing to hold hops against
	}
	if pts[len(pts)-1].lost == 0 {
		return l
	}
	m := newLossModel(pts)
	holds := m.single() // the likelihood of all hypotheses with a segment
	total, pairs := 0.0, 0.0
	for _, v := range holds {
		total += v
	}
	pair, both := m.pairs()
	for i := range pair {
		for k, v := range pair[i] {
			holds[i] += v
			holds[k] += v
			pairs += v
		}
	}
	total += pairs
	sound := m.sound()
	if total == 0 || total/(total+sound) < certainLoss {
		return l
	}
	best := 0
	for i, v := range holds {
		if v > holds[best] {
			best = i
		}
	}
	l.Found = true
	if pairs/(total+sound) >= certainLoss {
		first, second := m.segment(both.first), m.segment(both.second)
		first.Rate, second.Rate = both.rate, both.more
		first.Confidence, second.Confidence = holds[both.first]/(total+sound), holds[both.second]/(total+sound)
		best = both.first
		if l.Also = &second; second.Rate > first.Rate {
			best, l.Also = both.second, &first
		}
	}
	at := m.segment(best)
	l.FromTTL, l.ToTTL, l.From, l.To, l.Confidence = at.FromTTL, at.ToTTL, at.From, at.To, holds[best]/(total+sound)
	return l
}

// lossPoints are the addresses with a usable direct sample, in the order of
// the path, the destination last.
func lossPoints(res *Result) []sampledPoint {
	var pts []sampledPoint
	add := func(ttl int, addr netip.Addr, s *Sampled, limits float64) {
		if s != nil && s.Sent >= leastSample && s.Received > 0 {
			pts = append(pts, sampledPoint{ttl, addr, s.Sent, s.Sent - s.Received, limits})
		}
	}
	end := len(res.Hops) + 1
	for _, h := range res.Hops {
		if len(h.Replies) == 0 {
			continue
		}
		if res.HopCount != nil && h.TTL == *res.HopCount {
			end = h.TTL
			continue
		}
		add(h.TTL, h.Replies[0].Addr, h.Direct, routerLimits)
	}
	add(end, res.Target.Addr, destinationSample(res), hostLimits)
	return pts
}

// destinationSample is the sample of the destination or, if none was taken,
// what the trace's own probes tell of it in the long run. The port
// unreachables of a UDP trace do not: they are limited like other errors.
func destinationSample(res *Result) *Sampled {
	if res.Destination != nil || res.HopCount == nil {
		return res.Destination
	}
	for i := range res.Hops {
		h := &res.Hops[i]
		if h.TTL != *res.HopCount || h.Sent < 2*leastSample || len(h.Replies) != 1 || h.Replies[0].ICMP == "port unreachable" {
			continue
		}
		r := &h.Replies[0]
		d := &Sampled{Sent: h.Sent, Received: h.Received, Loss: h.Loss, Method: res.Method, Min: r.Min, Median: r.Median, P95: r.P95, Max: r.Max}
		d.LossLow, d.LossHigh = stats.Wilson(d.Sent-d.Received, d.Sent, stats.Z95)
		return d
	}
	return nil
}

// binomial is the probability of k in n at rate p.
func binomial(k, n int, p float64) float64 {
	lg := func(x int) float64 { v, _ := math.Lgamma(float64(x) + 1); return v }
	return math.Exp(lg(n) - lg(k) - lg(n-k) + float64(k)*math.Log(p) + float64(n-k)*math.Log1p(-p))
}

// limited returns the TTLs of hops that lose more answers than what lies
// behind them loses packets.
func limited(res *Result, pts []sampledPoint) []int {
	var ttls []int
	for _, h := range res.Hops {
		if h.Silent || res.HopCount != nil && h.TTL == *res.HopCount {
			continue
		}
		least, n := 1.0, 0 // the least loss behind the hop, and its sample
		for _, p := range pts {
			if p.ttl > h.TTL && (n == 0 || p.rate() < least) {
				least, n = p.rate(), p.sent
			}
		}
		if n == 0 {
			continue
		}
		_, high := stats.Wilson(int(math.Round(least*float64(n))), n, stats.Z95)
		if exceeds(h.Sent-h.Received, h.Sent, least, high) ||
			h.Direct != nil && h.Direct.Received > 0 && exceeds(h.Direct.Sent-h.Direct.Received, h.Direct.Sent, least, high) {
			ttls = append(ttls, h.TTL)
		}
	}
	return ttls
}

// exceeds reports whether lost of sent is more than a loss of rate, at most
// high, explains.
func exceeds(lost, sent int, rate, high float64) bool {
	if sent == 0 || lost == 0 || float64(lost)/float64(sent) <= high {
		return false
	}
	rate = max(rate, soundLoss)
	if mean := float64(sent) * rate; sent > manyProbes {
		// The normal approximation, and the count need not be summed up.
		return float64(lost)-0.5 > mean+1.645*math.Sqrt(mean*(1-rate))
	}
	tail := 1.0
	for k := 0; k < lost; k++ {
		tail -= binomial(k, sent, rate)
	}
	return tail < 0.05
}
