package httpcheck

import (
	"fmt"
	"time"
)

// Classify says from one exchange what governed its body's arrival. It claims
// a cause only where another would have left a different mark:
//
//   - lost or reordered segments arrive out of order (rcv_ooopack);
//   - a slow link fills its queue, so the receiver's own round trip estimate
//     (rcv_rtt) grows far above the least one; a slow sender leaves it alone;
//   - a slow sender leaves pauses beyond those of slow start, in which a
//     sender waits a round trip between bursts that double (RFC 6928: 10
//     segments at first).
//
// A sender that pauses for less than a round trip looks like a link, and is
// "undetermined".
func Classify(x *Exchange) Body {
	if x.Bytes == 0 || x.Gaps == nil {
		return Body{Class: "none"}
	}
	f := featuresOf(x)
	switch {
	case f.disorder && f.excess > max(50*time.Millisecond, f.rtt):
		return Body{"loss", fmt.Sprintf("segments arrived out of order; the body took %s, %s of it waiting", ms(f.receive), ms(f.paused))}
	case f.excess <= max(30*time.Millisecond, f.receive/4) && !f.queued:
		return Body{"clean", fmt.Sprintf("no pauses beyond what %s round trips explain", ms(f.rtt))}
	case f.queued && f.excess < f.receive/2:
		return Body{"link-limited", fmt.Sprintf("the round trip grew from %s to %s during the transfer: a queue", ms(f.rtt), ms(f.rcvRTT))}
	case f.queued || f.disorder || !f.measured:
		// Marks of both, or none to be had on this platform.
	case x.Gaps.Pauses >= manyPauses && f.excess >= f.receive/2:
		return Body{"drip", fmt.Sprintf("%d pauses, %s of %s, with no sign of loss or a queue", x.Gaps.Pauses, ms(f.paused), ms(f.receive))}
	case f.longest >= longPause && f.excess >= f.receive/2:
		return Body{"server-limited", fmt.Sprintf("a pause of %s with no sign of loss or a queue", ms(f.longest))}
	}
	return Body{"undetermined", fmt.Sprintf("%s of %s were pauses; no mark tells whose", ms(f.paused), ms(f.receive))}
}

const (
	// manyPauses are too many to be retransmissions that left no other trace.
	manyPauses = 5
	// longPause exceeds what the first retransmission timeouts of a lost tail
	// explain (RFC 6298: 200 ms on Linux, doubling); shorter ones are ambiguous.
	longPause = 700 * time.Millisecond
	// initialWindow is the segments a sender may send at first, RFC 6928.
	initialWindow = 10
)

// features are what Classify decides on.
type features struct {
	rtt, rcvRTT, receive    time.Duration
	paused, longest, excess time.Duration
	disorder, queued        bool
	measured                bool // the platform has TCP_INFO
}

func featuresOf(x *Exchange) features {
	f := features{
		receive: x.Phases.Receive.Duration(),
		paused:  x.Gaps.PausedTotal.Duration(),
		longest: x.Gaps.LongestPause.Duration(),
	}
	mss := 1448
	if end, start := x.TCP, x.TCPStart; end != nil && start != nil {
		f.measured = true
		f.rtt, f.rcvRTT = end.MinRTT.Duration(), end.RcvRTT.Duration()
		f.disorder = end.OutOfOrder > start.OutOfOrder
		f.queued = f.rtt > 0 && f.rcvRTT > 2*f.rtt && f.rcvRTT-f.rtt > 15*time.Millisecond
		if end.RcvMSS > 0 {
			mss = end.RcvMSS
		}
	}
	// A quarter more: bursts are not instant.
	physics := time.Duration(SlowStartRounds(x.Bytes, mss)) * f.rtt * 5 / 4
	f.excess = max(0, f.paused-physics)
	return f
}

// SlowStartRounds is how many round trips a sender waits between its first
// byte and its last if nothing but slow start holds it back: bursts of 10
// segments (RFC 6928), 20, 40 … of mss bytes. Zero for a body of one burst.
func SlowStartRounds(bytes int64, mss int) int {
	if bytes <= 0 || mss <= 0 {
		return 0
	}
	rounds := 0
	for burst := int64(initialWindow) * int64(mss); bytes > burst; burst *= 2 {
		bytes -= burst
		rounds++
		if rounds == 40 {
			break
		}
	}
	return rounds
}

func ms(d time.Duration) string {
	return fmt.Sprintf("%.4g ms", float64(d)/float64(time.Millisecond))
}
