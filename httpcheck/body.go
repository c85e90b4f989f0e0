package httpcheck

import (
	"fmt"
	"strings"
	"time"

	"github.com/whyslow/whyslow/internal/millis"
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
// A steady flow that is slow without such a mark, be it a link with a queue of
// its own for each flow or a sender that holds itself back in small steps, is
// "undetermined"; a canary may tell.
func Classify(x *Exchange) Body {
	switch {
	case x.Truncated == "stream":
		return Body{"none", "a stream: its pace is not the time of a load"}
	case x.Bytes == 0 || x.Gaps == nil:
		return Body{Class: "none"}
	}
	f := featuresOf(x)
	switch {
	case f.slow <= max(50*time.Millisecond, f.rtt, f.receive/4):
		return Body{"clean", fmt.Sprintf("%s for %s, no longer than round trips of %s explain", ms(f.receive), byteCount(x.Bytes), ms(f.rtt))}
	case f.disorder && f.paused >= f.receive/3:
		return Body{"loss", fmt.Sprintf("segments arrived out of order; the body took %s, %s of it waiting", ms(f.receive), ms(f.paused))}
	case f.queued && f.excess < f.receive/2:
		return Body{"link-limited", fmt.Sprintf("the round trip grew from %s to %s during the transfer: a queue", ms(f.rtt), ms(f.rcvRTT))}
	case f.queued || f.disorder || !f.measured:
		// Marks of several causes, or none to be had on this platform.
	case f.excess >= f.receive/2 && (x.Gaps.Pauses >= manyPauses || f.longest >= longPause):
		return Body{"drip", fmt.Sprintf("%d pauses up to %s, in all %s of %s, with no sign of loss or a queue",
			x.Gaps.Pauses, ms(f.longest), ms(f.paused), ms(f.receive))}
	}
	return Body{"undetermined", fmt.Sprintf("%.3g Mbit/s, %s of %s in pauses; no mark tells why",
		float64(x.Bytes)*8/f.receive.Seconds()/1e6, ms(f.paused), ms(f.receive))}
}

// streamTime is how long a body that is meant not to end is read.
const streamTime = 500 * time.Millisecond

// isStream says whether a body of this type is meant not to end: server-sent
// events (HTML Standard 9.2), and pictures that replace each other.
func isStream(contentType string) bool {
	kind, _, _ := strings.Cut(contentType, ";")
	switch strings.ToLower(strings.TrimSpace(kind)) {
	case "text/event-stream", "multipart/x-mixed-replace":
		return true
	}
	return false
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

// last adds the wait between the last byte and the end of the connection, where
// that end is the end of the body (RFC 9112 6.3).
func (g *Gaps) last(wait, at, least time.Duration) {
	if g == nil || wait <= least {
		return
	}
	g.Pauses++
	g.PausedTotal = millis.Of(g.PausedTotal.Duration() + wait)
	if wait > g.LongestPause.Duration() {
		g.LongestPause, g.LongestAt = millis.Of(wait), millis.Of(at)
	}
}

// features are what Classify decides on.
type features struct {
	rtt, rcvRTT, receive time.Duration
	paused, longest      time.Duration
	// slow is what the body took beyond slow start, excess the part of the
	// pauses beyond it.
	slow, excess     time.Duration
	disorder, queued bool
	measured         bool // the platform has TCP_INFO
}

func featuresOf(x *Exchange) features {
	f := features{
		receive: x.Phases.Receive.Duration(),
		paused:  x.Gaps.PausedTotal.Duration(),
		longest: x.Gaps.LongestPause.Duration(),
	}
	mss, earlier := 1448, int64(0)
	if end, start := x.TCP, x.TCPStart; end != nil && start != nil {
		f.measured = true
		f.rtt, f.rcvRTT = end.MinRTT.Duration(), end.RcvRTT.Duration()
		f.disorder = end.OutOfOrder > start.OutOfOrder
		f.queued = f.rtt > 0 && f.rcvRTT > 2*f.rtt && f.rcvRTT-f.rtt > 15*time.Millisecond
		if end.RcvMSS > 0 {
			mss = end.RcvMSS
		}
		earlier = start.BytesIn
	}
	// The window that earlier responses opened is open still. A quarter more:
	// bursts are not instant.
	rounds := roundsFrom(x.Bytes, int64(initialWindow*mss)+earlier)
	physics := time.Duration(rounds) * f.rtt * 5 / 4
	f.slow = max(0, f.receive-physics)
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
	return roundsFrom(bytes, initialWindow*int64(mss))
}

// roundsFrom is SlowStartRounds for a first burst of so many bytes.
func roundsFrom(bytes, burst int64) int {
	rounds := 0
	for ; bytes > burst && rounds < 40; burst *= 2 {
		bytes -= burst
		rounds++
	}
	return rounds
}

func byteCount(n int64) string {
	if n == 1 {
		return "1 byte"
	}
	return fmt.Sprintf("%d bytes", n)
}

func ms(d time.Duration) string { return millis.Of(d).String() }
