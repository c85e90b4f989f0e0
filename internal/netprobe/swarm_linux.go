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
	// synLife is how long a SYN lives. The kernel repeats it after one second
	// (RFC 6298 2.1) and cannot be told not to (TCP_SYNCNT counts repeats, and
	// its least is 1). An answer after that would tell nothing, since it may be
	// to either, so the socket is gone before.
	synLife = 950 * time.Millisecond
	// descriptorWait is how long a process that has run out of descriptors is
	// given to return one.
	descriptorWait = 10 * time.Millisecond
)

// swarmConn probes by connecting with a limited TTL, one descriptor a probe,
// which is also how replies are matched: whatever comes to a descriptor is
// about its one probe.
type swarmConn struct {
	*core
	fam  *family
	rt   route
	cfg  Config
	size int // how many members at most
	// holder keeps the local port that all members of a serial swarm share.
	// Nil if each has its own.
	holder *sock

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
	early error // what connecting said at once
}

// openTCP opens a swarm of connecting TCP sockets.
func openTCP(ctx context.Context, rt route, cfg Config) (Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if cfg.Port == 0 {
		cfg.Port = defaultTCPPort
	}
	flow := wire.Flow{Proto: wire.TCP, Src: rt.src, Dst: rt.dst.WithZone(""), DstPort: cfg.Port}
	c := &swarmConn{
		fam: familyOf(rt.dst), rt: rt, cfg: cfg, size: swarmSize,
		received: make(chan struct{}), members: make(map[int32]*member),
		left: make(chan struct{}, 1),
	}
	info := rt.info(flow, "connect")
	if cfg.Serial {
		var err error
		if c.holder, flow.SrcPort, err = holdPort(ctx, c.fam, rt, cfg); err != nil {
			return nil, openError("a tcp socket", err)
		}
		c.size, info.FlowStable, info.SourcePort = 1, true, flow.SrcPort
	}
	c.core = newCore(flow, info)
	if err := c.openPoll(); err != nil {
		if c.holder != nil {
			c.holder.close()
		}
		return nil, openError("an epoll descriptor", err)
	}
	go c.receive()
	return c, nil
}

// holdPort reserves a local TCP port that our own sockets can share.
func holdPort(ctx context.Context, f *family, rt route, cfg Config) (s *sock, port uint16, err error) {
	s, err = withSocket(ctx, f, unix.SOCK_STREAM, unix.IPPROTO_TCP, "reserved", func(fd int) error {
		if err := setOptions(fd, shareAddress); err != nil {
			return err
		}
		if err := bind(fd, cfg.Interface, rt.src.WithZone(rt.dst.Zone()), 0); err != nil {
			return err
		}
		local, err := localOf(fd)
		port = local.Port()
		return err
	})
	return s, port, err
}

// shareAddress lets several sockets have one local port, as long as none
// listens and their peers differ, or they follow each other.
var shareAddress = option{name: "SO_REUSEADDR", level: unix.SOL_SOCKET, opt: unix.SO_REUSEADDR, value: 1}

func (c *swarmConn) openPoll() error {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return err
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return err
	}
	c.poll, err = newSock(fd, "epoll")
	return err
}

// Send implements Conn. It waits for a descriptor if too many are in use, no
// longer than synLife; a serial Conn so waits for the probe before.
func (c *swarmConn) Send(p wire.Probe) (time.Time, error) {
	if err := checkProbe(p); err != nil {
		return time.Time{}, err
	}
	if err := c.makeRoom(c.size); err != nil {
		return time.Time{}, err
	}
	m := &member{fd: -1, probe: p, flow: c.flow}
	err := c.launch(m)
	for tries := 0; outOfDescriptors(err) && tries < swarmSize; tries++ {
		// Other connections of this process have them, and return them.
		if werr := c.makeRoom(max(c.count(), 1)); werr != nil {
			return time.Time{}, werr
		}
		time.Sleep(descriptorWait)
		err = c.launch(m)
	}
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

// outOfDescriptors reports whether the process, or the host, has no more.
func outOfDescriptors(err error) bool {
	return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE)
}

func (c *swarmConn) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.members)
}

// makeRoom waits until the swarm has fewer than size members. The oldest member
// is let go once it has had synLife.
func (c *swarmConn) makeRoom(size int) error {
	for {
		c.mu.Lock()
		var wait time.Duration
		if len(c.members) >= size {
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
		ev := unix.EpollEvent{Events: unix.EPOLLOUT, Fd: id}
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
		t = m.born.Add(synLife)
	}
	_ = c.poll.file.SetReadDeadline(t) // fails only when closing
}

// expire closes the members whose life has ended.
func (c *swarmConn) expire(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, m := range c.members {
		if now.Sub(m.born) >= synLife {
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
			if reply, ok := c.settleOne(r, ev.Fd, now); ok {
				c.push(reply)
			}
		}
	}
}

// settleOne takes what happened to a member, which is all that ever will: it
// is let go.
func (c *swarmConn) settleOne(r *reader, id int32, now time.Time) (wire.Reply, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m, ok := c.members[id]
	if !ok {
		return wire.Reply{}, false // left since the event
	}
	reply, ok := c.settle(r, m, now)
	c.dismiss(id)
	c.setDeadline()
	return reply, ok
}

// Close implements Conn. It waits for the receiving goroutine.
func (c *swarmConn) Close() error {
	if !c.shut() {
		return nil
	}
	err := c.poll.close()
	<-c.received
	if c.holder != nil {
		c.holder.close()
	}
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
