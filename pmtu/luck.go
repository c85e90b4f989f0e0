package pmtu

import (
	"math"
	"time"

	"github.com/whyslow/whyslow/internal/netprobe"
)

const (
	// What may be left to chance (see byChance): little where nothing of the
	// sizes that pass was lost, and next to nothing where something was, as it
	// gets many chances there.
	chance      = 0.006
	chanceLossy = 0.00003
	hopeless    = 60 // failures that can never be had: the path loses too much to tell
)

// needed is how many failures make a limit: so many that a path which just
// loses packets, of sizes that pass as well, would hardly show them.
func (s *session) needed(passed int) int {
	answered, lost := s.luck(passed)
	chance := chance
	if lost > 0 {
		chance = chanceLossy
	}
	for n := confirms; n < hopeless; n++ {
		if byChance(n, answered, lost) <= chance {
			return n
		}
	}
	return hopeless
}

// luck counts what became of the probes of sizes that pass.
func (s *session) luck(passed int) (answered, lost int) {
	if s.method == netprobe.UDP {
		return s.luckUDP(passed)
	}
	patience := s.patience()
	for _, sh := range s.shots {
		switch {
		case sh.ttl > 0 || sh.size > passed:
		case sh.passed:
			answered++
		case time.Since(sh.at) >= patience:
			lost++
		}
	}
	return answered, lost
}

// luckUDP does the same for answers that are limited: a silence counts as loss
// only where by Linux's rule, which is the strictest known, an answer was due.
func (s *session) luckUDP(passed int) (answered, lost int) {
	const burst = 6
	due := float64(burst)
	if s.asked {
		due = 0
	}
	patience, every := s.patience(), s.errorEvery()
	for i, sh := range s.shots {
		if i > 0 {
			due = min(burst, due+float64(sh.at.Sub(s.shots[i-1].at))/float64(every))
		}
		switch {
		case sh.passed:
			due = max(0, due-1)
			if sh.ttl == 0 && sh.size <= passed {
				answered++
			}
		case sh.ttl == 0 && sh.size <= passed && due >= 1 && time.Since(sh.at) >= patience:
			lost++
		}
	}
	return answered, lost
}

// errorEvery is how often Linux sends an asker an ICMP error in the long run.
func (s *session) errorEvery() time.Duration {
	if s.info.Source.Is6() {
		return 100 * time.Millisecond
	}
	return time.Second
}

// byChance is how much better a limit explains that n probes of a size failed
// than a path does that carries it and loses some packets of any size: the ratio
// of the likelihoods, each with the rate of loss that suits it best.
func byChance(n, answered, lost int) float64 {
	return math.Exp(likelihood(n+lost, answered) - likelihood(lost, answered))
}

// likelihood is the logarithm of the greatest likelihood of so many losses
// among so many probes (the binomial at its maximum).
func likelihood(lost, answered int) float64 {
	total := float64(lost + answered)
	part := func(k int) float64 {
		if k == 0 {
			return 0
		}
		return float64(k) * math.Log(float64(k)/total)
	}
	return part(lost) + part(answered)
}
