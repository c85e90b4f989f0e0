package trace

import (
	"net/netip"
	"time"

	"github.com/whyslow/whyslow/internal/millis"
)

// Segment is the part of a path between two neighbouring hops that answered,
// and what it adds to the way. Silent hops between the two belong to it.
type Segment struct {
	FromTTL int // 0 is this host
	ToTTL   int
	From    netip.Addr // the zero Addr for this host
	To      netip.Addr
	// Delay is what the segment adds to the least round trip to everything
	// behind it. Never negative; the sum over all segments is the least round
	// trip to the last hop.
	Delay time.Duration
	// Typical is the same over medians: Typical − Delay is queueing that
	// shows at every hop behind the segment (R6).
	Typical time.Duration
	// Real says that Delay exceeds both 2 ms and the spread of the round trips
	// behind the segment (R1): a smaller step is noise.
	Real bool
	// ReturnSuspect says that the length of the way back changes here by more
	// than the way there, so the delay may lie on the way back (R5).
	ReturnSuspect bool
}

// Blame applies the suffix-minimum rule to round trips in the order of hops.
// E(h) is the least round trip at hop h or anywhere behind it, and hop h is
// charged E(h) − E(h−1), where E(−1) is 0. A hop that answers later than one
// behind it does not delay what it forwards and gets 0 for the excess; the sum
// is the least round trip of the last hop. Unmeasured hops get 0.
func Blame(rtts []millis.Value) []time.Duration {
	suffix := make([]time.Duration, len(rtts))
	least, known := time.Duration(0), false
	for i := len(rtts) - 1; i >= 0; i-- {
		if d, ok := rtts[i].Get(); ok && (!known || d < least) {
			least, known = d, true
		}
		suffix[i] = least
	}
	blame := make([]time.Duration, len(rtts))
	before := time.Duration(0)
	for i, v := range rtts {
		if !v.Known() {
			continue
		}
		blame[i] = max(suffix[i]-before, 0)
		before = max(before, suffix[i])
	}
	return blame
}
