package netprobe

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/whyslow/whyslow/internal/wire"
	"golang.org/x/sys/unix"
)

const (
	// swarmSize is how many descriptors a swarm holds at most; a process may
	// by default have 1024.
	swarmSize = 128
	// synLife is how long a probe may hold its descriptor against a newer
	// one, and how long a SYN lives at all. The kernel repeats a SYN after one
	// second (RFC 6298 2.1) and cannot be told not to (TCP_SYNCNT counts
	// repeats, and its least is 1). An answer after that would tell nothing,
	// since it may be to either, so the socket is gone before.
	synLife = 950 * time.Millisecond
	// datagramLife is how long a UDP probe may hold its descriptor if nobody
	// needs it.
	datagramLife = 5 * time.Second
)

// swarmConn probes with one descriptor a probe, which is also how replies are
// matched: whatever comes to a descriptor is about its one probe.
type swarmConn struct {
	*core
	species
	fam *family
	rt  route
	cfg Config

	poll     *sock // an epoll descriptor that holds all members
	received chan struct{}

	mu      sync.Mutex
	members map[int32]*member
	next    int32         // id of the next member
	left    chan struct{} // receives when a member has left
}

// member is one probe's descriptor.
type member struct {
	fd    int
	probe wire.Probe
	flow  wire.Flow
	born  time.Time
	early error // what launching it said, for TCP
}

// species is what differs between TCP and UDP members.
type species interface {
	// launch opens m.fd, prepares it and sends the probe. before is called
	// right ahead of each attempt to send.
	launch(c *swarmConn, m *member, before func()) error
	// settle reads what happened on a member. done says that nothing more is
	// expected of it.
	settle(c *swarmConn, r *reader, m *member, now time.Time) (replies []wire.Reply, done bool)
	events() uint32
	life() time.Duration
}

func openSwarm(ctx context.Context, rt route, cfg Config, flow wire.Flow, socket string, s species) (Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, openError("an epoll descriptor", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return nil, openError("an epoll descriptor", err)
	}
	poll, err := newSock(fd, "epoll")
	if err != nil {
		return nil, openError("an epoll descriptor", err)
	}
	c := &swarmConn{
		core: newCore(flow, rt.info(flow, socket)), species: s,
		fam: familyOf(rt.dst), rt: rt, cfg: cfg, poll: poll,
		received: make(chan struct{}), members: make(map[int32]*member),
		left: make(chan struct{}, 1),
	}
	go c.receive()
	return c, nil
}

// Send implements Conn. It waits for a descriptor if too many are in use, no
// longer than synLife.
func (c *swarmConn) Send(p wire.Probe) (time.Time, error) {
	if err := checkProbe(p); err != nil {
		return time.Time{}, err
	}
	if err := c.makeRoom(); err != nil {
		return time.Time{}, err
	}
	m := &member{fd: -1, probe: p, flow: c.flow}
	err := c.launch(c, m, func() {
		m.born = time.Now()
		c.note(p, m.born)
	})
	if err == nil {
		err = c.enlist(m)
	}
	if err != nil {
		c.forget(p.Seq)
		mtu := 0
		if m.fd >= 0 {
			mtu = mtuOf(m.fd, c.rt.ifIndex)
			unix.Close(m.fd)
		}
		return time.Time{}, sendError(err, mtu)
	}
	return m.born, nil
}

// makeRoom waits until the swarm has room for one more. The oldest member is
// let go once it has had synLife.
func (c *swarmConn) makeRoom() error {
	for {
		c.mu.Lock()
		var wait time.Duration
		if len(c.members) >= swarmSize {
			id, oldest := c.oldest()
			if wait = synLife - time.Since(oldest.born); wait <= 0 {
				c.dismiss(id)
			}
		}
		c.mu.Unlock()
		if wait <= 0 {
			return nil
		}
		t := time.NewTimer(wait)
		select {
		case <-c.left:
		case <-t.C:
		case <-c.closed:
			t.Stop()
			return sendError(os.ErrClosed, 0)
		}
		t.Stop()
	}
}

// enlist has a launched member watched. What happened on it before counts.
func (c *swarmConn) enlist(m *member) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isClosed() {
		return os.ErrClosed
	}
	id := c.next
	c.next++
	c.members[id] = m
	err := c.poll.control(func(fd int) error {
		ev := unix.EpollEvent{Events: c.events(), Fd: id}
		return unix.EpollCtl(fd, unix.EPOLL_CTL_ADD, m.fd, &ev)
	})
	if err != nil {
		delete(c.members, id)
		return err
	}
	c.setDeadline()
	return nil
}

// oldest returns the member born first. The caller holds mu.
func (c *swarmConn) oldest() (id int32, m *member) {
	for i, n := range c.members {
		if m == nil || n.born.Before(m.born) {
			id, m = i, n
		}
	}
	return id, m
}

// dismiss closes a member. The caller holds mu.
func (c *swarmConn) dismiss(id int32) {
	m, ok := c.members[id]
	if !ok {
		return
	}
	unix.Close(m.fd) // which also takes it off the epoll descriptor
	delete(c.members, id)
	select {
	case c.left <- struct{}{}:
	default:
	}
}

// setDeadline wakes the receiving goroutine when the oldest member's life
// ends. The caller holds mu.
func (c *swarmConn) setDeadline() {
	var t time.Time
	if _, m := c.oldest(); m != nil {
		t = m.born.Add(c.life())
	}
	_ = c.poll.file.SetReadDeadline(t) // fails only when closing
}

// expire closes the members whose life has ended.
func (c *swarmConn) expire(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, m := range c.members {
		if now.Sub(m.born) >= c.life() {
			c.dismiss(id)
		}
	}
	c.setDeadline()
}

func (c *swarmConn) receive() {
	defer close(c.received)
	r := newReader(c.fam)
	for {
		err := c.poll.raw.Read(func(fd uintptr) bool {
			c.drain(r, int(fd))
			return false
		})
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return // closed
		}
		c.expire(time.Now())
	}
}

// drain handles all events there are.
func (c *swarmConn) drain(r *reader, epfd int) {
	var events [swarmSize]unix.EpollEvent
	for !c.isClosed() {
		n, err := unix.EpollWait(epfd, events[:], 0)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n == 0 {
			return
		}
		now := time.Now()
		for _, ev := range events[:n] {
			for _, reply := range c.settleOne(r, ev.Fd, now) {
				c.push(reply)
			}
		}
	}
}

func (c *swarmConn) settleOne(r *reader, id int32, now time.Time) []wire.Reply {
	c.mu.Lock()
	defer c.mu.Unlock()
	m, ok := c.members[id]
	if !ok {
		return nil // left since the event
	}
	replies, done := c.settle(c, r, m, now)
	if done {
		c.dismiss(id)
		c.setDeadline()
	}
	return replies
}

// Close implements Conn. It waits for the receiving goroutine.
func (c *swarmConn) Close() error {
	if !c.shut() {
		return nil
	}
	err := c.poll.close()
	<-c.received
	c.mu.Lock()
	defer c.mu.Unlock()
	for id := range c.members {
		c.dismiss(id)
	}
	if err != nil {
		return fmt.Errorf("netprobe: closing: %w", err)
	}
	return nil
}
