package netprobe

import "time"

// clock moves a kernel wall clock stamp onto Go's monotonic clock: it is as
// long before now as their wall clocks say. The result must lie in
// [notBefore, now]; outside, the wall clock was stepped (or the kernel took no
// stamp) and ok is false. So a step of the clock can cost precision, but can
// never make an RTT negative.
func clock(stamp, now, notBefore time.Time) (t time.Time, ok bool) {
	if stamp.IsZero() {
		return now, false
	}
	ago := now.Round(0).Sub(stamp)
	if ago < 0 {
		return now, false
	}
	t = now.Add(-ago)
	if t.Before(notBefore) {
		return now, false
	}
	return t, true
}
