package trace

import "time"

const (
	lateWakeup = 5 * time.Millisecond
	latest     = 300 * time.Millisecond
)

// lateness keeps a busy host from being taken for a lossy path. If a timer
// fires late, this process was not running, and the answers that came meanwhile
// wait in the sockets: the receivers get as much time more.
type lateness struct {
	late time.Duration // to add to every deadline
}

// woke notes that a timer due at a time has fired, and reports whether it was
// so late that the wait has been prolonged.
func (l *lateness) woke(due time.Time) bool {
	late := time.Since(due)
	if late < lateWakeup || l.late >= latest {
		return false
	}
	l.late = min(l.late+2*late, latest)
	return true
}
