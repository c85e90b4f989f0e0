package netprobe

import (
	"context"
	"fmt"
	"maps"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/whyslow/whyslow/internal/wire"
)

// The ports probes go to by default: where traceroute begins, and https.
const (
	defaultUDPPort = 33434
	defaultTCPPort = 443
)

const (
	// inboxSize bounds the replies nobody has read, as a socket's buffer does.
	inboxSize = 4096
	// probesKept is how many probes are remembered before those older than
	// probeLife are forgotten: a trace may run for days.
	probesKept = 4096
	probeLife  = time.Minute
	// soleFor is how long a silent probe may still be what an error is about
	// that names no probe. Routers answer within their round trip, or never.
	soleFor = time.Second
)

// core is what every Conn of the host shares: the probes that can be answered
// and the replies on their way to Recv.
type core struct {
	flow wire.Flow
	info Info

	ready  chan struct{} // holds a token when replies wait
	closed chan struct{}
	once   sync.Once
	// largest is the size in bytes of the largest probe sent, and so about
	// the largest message that can come back.
	largest atomic.Int64

	mu     sync.Mutex
	probes map[uint16]*sentProbe
	order  uint64 // of the next probe sent
	inbox  []wire.Reply
}

// sentProbe is a probe that left, or is about to.
type sentProbe struct {
	wire.Probe
	order    uint64
	sent     time.Time // user-land, before the send
	kernel   time.Time // the kernel's transmit stamp; zero means none
	answered bool
}

func newCore(flow wire.Flow, info Info) *core {
	return &core{
		flow: flow, info: info,
		ready:  make(chan struct{}, 1),
		closed: make(chan struct{}),
		probes: make(map[uint16]*sentProbe),
	}
}

// Info returns what is known of the Conn.
func (c *core) Info() Info { return c.info }

// Recv implements Conn.
func (c *core) Recv(ctx context.Context) (wire.Reply, error) {
	for {
		if err := ctx.Err(); err != nil {
			return wire.Reply{}, err
		}
		if r, ok := c.pop(); ok {
			return r, nil
		}
		select {
		case <-c.ready:
		case <-ctx.Done():
		case <-c.closed:
			return wire.Reply{}, fmt.Errorf("netprobe: receiving: %w", net.ErrClosed)
		}
	}
}

// pop takes the oldest reply.
func (c *core) pop() (wire.Reply, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.inbox) == 0 {
		c.inbox = nil // and with it what grew in a burst
		return wire.Reply{}, false
	}
	r := c.inbox[0]
	c.inbox = c.inbox[1:]
	return r, true
}

// push hands a reply to Recv.
func (c *core) push(r wire.Reply) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.inbox) >= inboxSize {
		return
	}
	c.inbox = append(c.inbox, r)
	select {
	case c.ready <- struct{}{}:
	default:
	}
}

// shut wakes whoever waits in Recv or deliver. It reports whether this call
// was the first.
func (c *core) shut() (first bool) {
	c.once.Do(func() {
		close(c.closed)
		first = true
	})
	return first
}

func (c *core) isClosed() bool {
	select {
	case <-c.closed:
		return true
	default:
		return false
	}
}

// note records that p is about to be sent at sent. It is called again with a
// later time if the send has to be repeated.
func (c *core) note(p wire.Probe, sent time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.largest.Store(max(c.largest.Load(), int64(p.Size)))
	if len(c.probes) >= probesKept {
		maps.DeleteFunc(c.probes, func(_ uint16, old *sentProbe) bool { return sent.Sub(old.sent) > probeLife })
	}
	c.probes[p.Seq] = &sentProbe{Probe: p, order: c.order, sent: sent}
	c.order++
}

// forget takes back note: the probe did not leave.
func (c *core) forget(seq uint16) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.probes, seq)
}

// find returns a copy of the probe seq.
func (c *core) find(seq uint16) (sentProbe, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, ok := c.probes[seq]
	if !ok {
		return sentProbe{}, false
	}
	return *p, true
}

// noteKernel records the kernel's transmit time of a probe, given as a wall
// clock stamp, unless it contradicts ours.
func (c *core) noteKernel(seq uint16, stamp, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, ok := c.probes[seq]
	if !ok || !p.kernel.IsZero() {
		return
	}
	if t, ok := clock(stamp, now, p.sent); ok {
		p.kernel = t
	}
}

// stamped fills in a reply's times. now is the user-land receive time, stamp
// the kernel's (zero if none). It reports false if the probe was never sent.
func (c *core) stamped(r *wire.Reply, stamp, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, ok := c.probes[r.Seq]
	if !ok {
		return false
	}
	p.answered = true
	clip(r, c.flow, p.Probe)
	r.Received, r.KernelTime = clock(stamp, now, p.sent)
	if !p.kernel.IsZero() && !p.kernel.After(r.Received) {
		r.Sent = p.kernel
	}
	return true
}

// deliver hands a reply with its times to Recv, if it is about a probe that was
// sent. A reply that names no probe can only be about one that waits for its
// answer. If that is one alone, it gets the reply; otherwise whoever sent them
// must ask again, one at a time.
func (c *core) deliver(r wire.Reply, stamp, now time.Time) {
	if r.Unnumbered {
		r.Received, r.KernelTime = clock(stamp, now, time.Time{})
		p, waiting, sole := c.sole(r.Received)
		switch {
		case !waiting:
			return // nobody asked
		case sole:
			r.Seq, r.Unnumbered = p.Seq, false
		default:
			c.push(r)
			return
		}
	}
	if c.stamped(&r, stamp, now) {
		c.push(r)
	}
}

// sole returns the one probe that waits for its answer at a time, if it is one
// alone. waiting tells whether any does.
func (c *core) sole(at time.Time) (p sentProbe, waiting, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, q := range c.probes {
		if q.answered || q.sent.After(at) {
			continue
		}
		waiting = true
		if at.Sub(q.sent) < soleFor {
			p = *q
			n++
		}
	}
	return p, waiting, n == 1
}

// unansweredFarthest returns the unanswered probe with the largest TTL, for an
// answer that does not say which probe it is to (UDP data). If several probes
// reached the destination, the one with the most TTL surely did; the answers to
// a whole wave so mark exactly the TTLs that reach it.
func (c *core) unansweredFarthest() (seq uint16, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var best *sentProbe
	for _, p := range c.probes {
		if p.answered {
			continue
		}
		if best == nil || ttlOf(p.Probe) > ttlOf(best.Probe) ||
			ttlOf(p.Probe) == ttlOf(best.Probe) && p.order < best.order {
			best = p
		}
	}
	if best == nil {
		return 0, false
	}
	return best.Seq, true
}

// ttlOf is the TTL a probe leaves with.
func ttlOf(p wire.Probe) int {
	if p.TTL == 0 {
		return 64
	}
	return p.TTL
}

// checkProbe refuses what cannot be sent before the kernel sees it.
func checkProbe(p wire.Probe) error {
	if p.TTL < 0 || p.TTL > 255 {
		return fmt.Errorf("netprobe: sending: TTL %d is not in 1…255", p.TTL)
	}
	if p.TOS < 0 || p.TOS > 255 {
		return fmt.Errorf("netprobe: sending: TOS %d is not in 0…255", p.TOS)
	}
	return nil
}
