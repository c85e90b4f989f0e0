package trace

import (
	"math"
	"slices"
	"time"

	"github.com/whyslow/whyslow/internal/millis"
)

const (
	firstOutcomes  = 16 // where a burst shows
	latestOutcomes = 64
)

// pace remembers which probes of a TTL were answered, the first few and the
// latest: a limit on ICMP errors shows in when it lets one through.
type pace struct{ first, latest []outcome }

type outcome struct {
	at       time.Time
	answered bool
}

func (p *pace) add(pr probe) {
	o := outcome{pr.at, pr.answered}
	if len(p.first) < firstOutcomes {
		p.first = append(p.first, o)
		return
	}
	if len(p.latest) == latestOutcomes {
		p.latest = slices.Delete(p.latest, 0, 1)
	}
	p.latest = append(p.latest, o)
}

func (p *pace) clone() pace { return pace{slices.Clone(p.first), slices.Clone(p.latest)} }

// The evidence a limit must give: of three lost in four the pattern comes up
// by chance in fewer than one path of a hundred.
const (
	pacedGaps  = 4                     // answers at one pace
	pacedLost  = 4                     // probes that came too early
	pacedSlack = 50 * time.Millisecond // jitter of the probes' own way
)

// limit recognises a limit on errors: after the first probe that was lost, no
// answer comes within a certain time of the one before, and every probe after
// that time is answered (R3). Chance loses probes at any distance. Nil is no
// such pattern.
func (p *pace) limit() *Limit {
	for _, run := range [][]outcome{slices.Concat(p.first, p.latest), p.latest} {
		if l := limitOf(run); l != nil {
			l.Burst = p.burst()
			return l
		}
		if len(p.latest) < latestOutcomes {
			break // the two are one run without a gap
		}
	}
	return p.spaced()
}

// burst is how many of the first probes were answered in a row, 0 if it is not
// known where that ended.
func (p *pace) burst() int {
	n := slices.IndexFunc(p.first, func(o outcome) bool { return !o.answered })
	return max(n, 0)
}

// ebbed reports whether the answers stopped: every probe that was answered left
// before every one that was not. False unless there are both, and few.
func (p *pace) ebbed() bool {
	n := p.burst()
	lost := p.first[n:]
	return n > 0 && len(lost) > 0 && len(p.latest) == 0 && !slices.ContainsFunc(lost, func(o outcome) bool { return o.answered })
}

// spaced recognises loss that is gone where probes are far enough apart. Every
// is then the least distance at which all were answered.
func (p *pace) spaced() *Limit {
	runs := [][]outcome{slices.Concat(p.first, p.latest)}
	if len(p.latest) == latestOutcomes {
		runs = [][]outcome{p.first, p.latest} // with a gap between
	}
	late := time.Duration(0) // how far behind another a probe was lost still
	for _, run := range runs {
		for i := 1; i < len(run); i++ {
			if !run[i].answered {
				late = max(late, run[i].at.Sub(run[i-1].at))
			}
		}
	}
	hurried, lost, apart, every := 0, 0, 0, time.Duration(0)
	for _, run := range runs {
		for i := 1; i < len(run); i++ {
			switch d := run[i].at.Sub(run[i-1].at); {
			case d > 2*late+pacedSlack:
				if apart++; apart == 1 || d < every {
					every = d
				}
			case !run[i].answered:
				lost++
				hurried++
			default:
				hurried++
			}
		}
	}
	if lost < pacedLost || math.Pow(1-float64(lost)/float64(hurried), float64(apart)) > 0.01 {
		return nil
	}
	return &Limit{Every: millis.Of(every)}
}

func limitOf(run []outcome) *Limit {
	var last time.Time
	var every, widest time.Duration
	lost, gaps := 0, 0
	for _, o := range run {
		switch {
		case o.answered && lost == 0: // the burst
		case !o.answered:
			lost++
			if !last.IsZero() {
				widest = max(widest, o.at.Sub(last))
			}
		case last.IsZero():
			last = o.at
		default:
			if d := o.at.Sub(last); gaps == 0 || d < every {
				every = d
			}
			gaps++
			last = o.at
		}
	}
	// widest is how late after an answer a probe was lost still.
	if gaps < pacedGaps || lost < pacedLost || lost < gaps || widest > every+pacedSlack {
		return nil
	}
	return &Limit{Every: millis.Of(every)}
}
