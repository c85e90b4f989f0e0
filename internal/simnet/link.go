package simnet

import (
	"time"
)

const (
	defaultMTU = 1500
	// minQueue is the least default queue, in packets.
	minQueue = 10
)

// link is a link direction in use.
type link struct {
	Link
	to    *node
	mtu   int
	queue int // bytes
	// free is when the sender has sent all it has; last is the latest
	// arrival.
	free, last time.Duration
}

func (l *link) set(v Link) {
	l.Link, l.mtu, l.queue = v, v.MTU, v.Queue
	if l.mtu <= 0 {
		l.mtu = defaultMTU
	}
	if l.queue <= 0 {
		l.queue = max(int(v.Rate/8/10), minQueue*l.mtu)
	}
}

// serialise returns how long n bytes take at the link's rate.
func (l *link) serialise(n int) time.Duration {
	return time.Duration(int64(n) * 8 * int64(time.Second) / l.Rate)
}

// backlog returns how many bytes wait at a time, what is being sent included.
func (l *link) backlog(at time.Duration) int {
	wait := l.free - at
	if wait <= 0 {
		return 0
	}
	return int(wait.Seconds() * float64(l.Rate) / 8)
}

// transmit sends a packet that fits on a link. The queue needs no events of
// its own: it is first come, first served, so what is ahead of a packet is
// known when it comes.
func (n *Net) transmit(l *link, at time.Duration, p *packet) {
	depart := at
	if l.Rate > 0 {
		wait := l.backlog(at)
		if wait > 0 && wait+len(p.buf) > l.queue {
			n.stats.QueueDrops++
			n.release(p)
			return
		}
		depart = max(at, l.free) + l.serialise(len(p.buf))
		l.free = depart
	}
	if l.Loss > 0 && n.rng.Float64() < l.Loss {
		n.stats.Lost++ // on the wire: it took its turn in the queue
		n.release(p)
		return
	}
	l.last = max(depart+l.Delay+n.upTo(l.Jitter), l.last)
	n.schedule(l.last, l.to, p, false)
}
