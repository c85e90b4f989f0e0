package trace

import "math"

const (
	// rateSteps is how many rates of loss are tried: from 0.5 % to 95 %,
	// equally likely in the logarithm. Of a pair every second one is.
	rateSteps = 60
	pairStep  = 2
	// twoLossy is how likely two lossy segments are, against one.
	twoLossy = 0.1
)

// lossModel holds the logarithms of the likelihoods of direct samples, summed
// so that a hypothesis is a few additions.
type lossModel struct {
	pts   []sampledPoint
	rates [rateSteps]float64
	// sound[i] is that of the points before i if nothing is lost there;
	// lossy[r][i] that of point i and all behind it if rates[r] is lost.
	sounds []float64
	lossy  [rateSteps][]float64
	most   float64 // what the likelihoods are scaled by
}

func newLossModel(pts []sampledPoint) *lossModel {
	m := &lossModel{pts: pts, sounds: make([]float64, len(pts)+1)}
	for r := range m.rates {
		m.rates[r] = 0.005 * math.Pow(190, float64(r)/(rateSteps-1))
		m.lossy[r] = make([]float64, len(pts)+1)
	}
	for i := range pts {
		p := &pts[i]
		own := p.limits / float64(p.sent+1) // limits of its own: any number as likely as any other
		m.sounds[i+1] = m.sounds[i] + logOf((1-p.limits)*binomial(p.lost, p.sent, soundLoss)+own)
	}
	for i := len(pts) - 1; i >= 0; i-- {
		p := &pts[i]
		more := 0.0 // it limits its answers on top of what is lost
		for r := rateSteps - 1; r >= 0; r-- {
			b := binomial(p.lost, p.sent, m.rates[r])
			more += b
			m.lossy[r][i] = m.lossy[r][i+1] + logOf((1-p.limits)*b+p.limits*more/float64(rateSteps-r))
		}
	}
	m.scale()
	return m
}

// scale finds the likelihood of the best hypothesis.
func (m *lossModel) scale() {
	m.most = m.sounds[len(m.pts)]
	for i := range m.pts {
		for r := range m.rates {
			m.most = max(m.most, m.sounds[i]+m.lossy[r][i])
		}
		for k := i + 1; k < len(m.pts); k++ {
			for r := 0; r < rateSteps; r += pairStep {
				before := m.sounds[i] + m.lossy[r][i] - m.lossy[r][k]
				for q := r + pairStep; q < rateSteps; q += pairStep {
					m.most = max(m.most, before+m.lossy[q][k])
				}
			}
		}
	}
}

// logOf keeps what is next to impossible comparable.
func logOf(v float64) float64 { return math.Log(max(v, 1e-300)) }

// sound is the likelihood that no segment loses.
func (m *lossModel) sound() float64 { return math.Exp(m.sounds[len(m.pts)] - m.most) }

// single are the likelihoods that the segment before each point loses, and no
// other.
func (m *lossModel) single() []float64 {
	at := make([]float64, len(m.pts))
	for i := range at {
		for r := range m.rates {
			at[i] += math.Exp(m.sounds[i]+m.lossy[r][i]-m.most) / rateSteps / float64(len(at))
		}
	}
	return at
}

// twoLinks is the likeliest pair of lossy segments: before points first and
// second, with the rate of the first and what the second loses of the rest.
type twoLinks struct {
	first, second int
	rate, more    float64
}

// pairs are the likelihoods that the segments before two points lose, in
// [first][second], and the likeliest pair.
func (m *lossModel) pairs() (likely [][]float64, best twoLinks) {
	n := len(m.pts)
	likely = make([][]float64, n)
	steps := float64(rateSteps / pairStep)
	prior := twoLossy / max(float64(n*(n-1)/2), 1) / (steps * (steps - 1) / 2)
	most := math.Inf(-1)
	for i := range likely {
		likely[i] = make([]float64, n)
		for k := i + 1; k < n; k++ {
			pairMost := math.Inf(-1)
			var at twoLinks
			for r := 0; r < rateSteps; r += pairStep {
				before := m.sounds[i] + m.lossy[r][i] - m.lossy[r][k] - m.most
				for q := r + pairStep; q < rateSteps; q += pairStep {
					v := before + m.lossy[q][k]
					likely[i][k] += math.Exp(v) * prior
					if v > pairMost {
						pairMost = v
						at = twoLinks{i, k, m.rates[r], (m.rates[q] - m.rates[r]) / (1 - m.rates[r])}
					}
				}
			}
			if likely[i][k] > most {
				most, best = likely[i][k], at
			}
		}
	}
	return likely, best
}

// segment is the one before a point.
func (m *lossModel) segment(i int) LossySegment {
	s := LossySegment{ToTTL: m.pts[i].ttl, To: m.pts[i].addr}
	if i > 0 {
		s.FromTTL, s.From = m.pts[i-1].ttl, m.pts[i-1].addr
	}
	return s
}
