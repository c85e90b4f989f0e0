package netprobe

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/whyslow/whyslow/internal/wire"
	"golang.org/x/sys/unix"
)

// dialect is what differs between a UDP socket and a ping socket: how a probe
// is addressed and how what comes back names it.
type dialect interface {
	// port is where all probes go to, 0 for a ping socket.
	port() uint16
	// match returns the probe that an error in the queue quotes. The error
	// wraps wire.ErrUnnumbered if the quote is too short to tell.
	match(quote []byte, m message) (seq uint16, q wire.Quote, err error)
	// answered makes a reply of a message in the receive queue.
	answered(m message) (wire.Reply, bool)
}

// datagramConn probes through one unprivileged datagram socket. Routers'
// errors come through its error queue (IP_RECVERR), the destination's answers
// through its receive queue.
type datagramConn struct {
	*core
	*sock
	dialect
	fam *family
	rt  route
	// received is closed when the receiving goroutine has ended.
	received chan struct{}
}

func newDatagramConn(c *core, s *sock, rt route, d dialect) *datagramConn {
	conn := &datagramConn{
		core: c, sock: s, dialect: d,
		fam: familyOf(c.flow.Dst), rt: rt,
		received: make(chan struct{}),
	}
	go conn.receive()
	return conn
}

// openDatagram opens a socket for datagramConn and binds it to the source the
// route has, but does not connect it: a connected socket would refuse errors
// about its other destination ports.
func openDatagram(ctx context.Context, rt route, cfg Config, proto int, name string) (*sock, netip.AddrPort, error) {
	f := familyOf(rt.dst)
	var local netip.AddrPort
	s, err := withSocket(ctx, f, unix.SOCK_DGRAM, proto, name, func(fd int) error {
		opts := append(f.probeOptions(), f.errorOptions()...)
		if err := setOptions(fd, append(opts, stampOptions(rt.departure))...); err != nil {
			return err
		}
		if err := bind(fd, cfg.Interface, rt.src.WithZone(rt.dst.Zone()), 0); err != nil {
			return err
		}
		var err error
		local, err = localOf(fd)
		return err
	})
	return s, local, err
}

// Send implements Conn.
func (c *datagramConn) Send(p wire.Probe) (time.Time, error) {
	if err := checkProbe(p); err != nil {
		return time.Time{}, err
	}
	payload, err := wire.BuildPayload(c.flow, p)
	if err != nil {
		return time.Time{}, fmt.Errorf("netprobe: building a probe: %w", err)
	}
	to, err := sockaddr(c.rt.dst, c.port())
	if err != nil {
		return time.Time{}, err
	}
	var sent time.Time
	before := func() {
		sent = time.Now()
		c.note(p, sent)
	}
	oob := appendStamp(c.fam.appendTOS(c.fam.appendTTL(nil, ttlOf(p)), p.TOS), len(payload))
	err = c.sock.send(payload, oob, to, before, func() bool {
		return p.Size > c.mtu()
	})
	if err != nil {
		c.forget(p.Seq)
		return time.Time{}, sendError(err, c.mtu())
	}
	return sent, nil
}

// mtu returns the interface's MTU, 0 if unknown.
func (c *datagramConn) mtu() (mtu int) {
	_ = c.control(func(fd int) error {
		mtu = mtuOf(fd, c.rt.ifIndex)
		return nil
	})
	return mtu
}

// Close implements Conn. It waits for the receiving goroutine.
func (c *datagramConn) Close() error {
	if !c.shut() {
		return nil
	}
	err := c.sock.close()
	<-c.received
	return err
}

func (c *datagramConn) receive() {
	defer close(c.received)
	r := newReader(c.fam)
	c.loop(c.closed, func(fd int) { c.drain(r, fd) })
}

// drain empties both queues. The error queue goes first and again after each
// answer: it holds the transmit stamps of what was answered.
func (c *datagramConn) drain(r *reader, fd int) {
	for !c.isClosed() {
		c.drainErrors(r, fd)
		r.fit(c.largest.Load())
		m, err := r.read(fd, 0)
		now := time.Now()
		switch {
		case err == unix.EAGAIN:
			return
		case maybeQueued(err):
			continue // an error that also stands in the error queue
		case err != nil:
			return
		}
		reply, ok := c.answered(m)
		if !ok {
			continue
		}
		c.drainErrors(r, fd)
		c.deliver(reply, m.stamp, now)
	}
}

// drainErrors empties the error queue: ICMP errors, and the transmit stamps of
// our own packets.
func (c *datagramConn) drainErrors(r *reader, fd int) {
	for !c.isClosed() {
		r.fit(c.largest.Load())
		m, err := r.read(fd, unix.MSG_ERRQUEUE)
		if err != nil {
			return
		}
		now := time.Now()
		switch {
		case m.queued && m.origin == unix.SO_EE_ORIGIN_TIMESTAMPING:
			if seq, ok := departed(m.data, c.flow); ok {
				c.noteKernel(seq, m.stamp, now)
			}
		case m.queued && m.origin == c.fam.errOrigin:
			if reply, ok := c.failed(m); ok {
				c.deliver(reply, m.stamp, now)
			}
		}
	}
}

// failed makes a reply of an ICMP error in the queue. The kernel has matched
// our port or identifier only; the destination and the probe are checked here.
func (c *datagramConn) failed(m message) (wire.Reply, bool) {
	if m.name.Addr() != c.flow.Dst {
		return wire.Reply{}, false
	}
	cut := c.fam.headerSize
	if c.flow.Proto == wire.UDP {
		cut += udpHeader
	}
	return errorReply(c.flow, m, cut, c.match)
}

// departed reads the packet that came back with its transmit stamp: with or
// without a link-layer header, whose length the kernel does not tell.
func departed(frame []byte, flow wire.Flow) (seq uint16, ok bool) {
	const maxLinkHeader = 64
	for off := 0; off <= maxLinkHeader && off < len(frame); off++ {
		if !wholePacket(frame[off:], flow.Src.Is4()) {
			continue
		}
		if seq, _, err := wire.MatchQuote(frame[off:], flow); err == nil {
			return seq, true
		}
	}
	return 0, false
}

// wholePacket reports whether b is an IP packet of exactly its own length.
func wholePacket(b []byte, v4 bool) bool {
	switch {
	case v4:
		return len(b) >= 20 && b[0]>>4 == 4 && int(b[2])<<8|int(b[3]) == len(b)
	default:
		return len(b) >= 40 && b[0]>>4 == 6 && int(b[4])<<8|int(b[5]) == len(b)-40
	}
}
