package netprobe

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/whyslow/whyslow/internal/wire"
)

// The ports probes go to by default: where traceroute begins, and https.
const (
	defaultUDPPort = 33434
	defaultTCPPort = 443
)

// inboxSize is how many replies wait for Recv before the receiving goroutine
// waits too and the kernel's buffer takes over.
const inboxSize = 1024

// core is what every Conn of the host shares: the probes that can be answered
// and the replies on their way to Recv.
type core struct {
	flow wire.Flow
	info Info

	inbox  chan wire.Reply
	closed chan struct{}
	once   sync.Once

	mu     sync.Mutex
	probes map[uint16]*sentProbe
	order  uint64 // of the next probe sent
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
		inbox:  make(chan wire.Reply, inboxSize),
		closed: make(chan struct{}),
		probes: make(map[uint16]*sentProbe),
	}
}

// Info returns what is known of the Conn.
func (c *core) Info() Info { return c.info }

// Recv implements Conn.
func (c *core) Recv(ctx context.Context) (wire.Reply, error) {
	if err := ctx.Err(); err != nil {
		return wire.Reply{}, err
	}
	select {
	case r := <-c.inbox:
		return r, nil
	default:
	}
	select {
	case r := <-c.inbox:
		return r, nil
	case <-ctx.Done():
		return wire.Reply{}, ctx.Err()
	case <-c.closed:
		return wire.Reply{}, fmt.Errorf("netprobe: receiving: %w", net.ErrClosed)
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
	r.Received, r.KernelTime = clock(stamp, now, p.sent)
	if !p.kernel.IsZero() && !p.kernel.After(r.Received) {
		r.Sent = p.kernel
	}
	return true
}

// push hands a reply to Recv.
func (c *core) push(r wire.Reply) {
	select {
	case c.inbox <- r:
	case <-c.closed:
	}
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
	return nil
}
