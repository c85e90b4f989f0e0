package netprobe

import (
	"errors"
	"fmt"
	"time"

	"github.com/whyslow/whyslow/internal/wire"
	"golang.org/x/sys/unix"
)

// launch opens the socket of a member and connects it. A SYN-ACK or a reset is
// the destination's answer; a router's error comes through the error queue. The
// connection is reset at once and carries no byte.
func (c *swarmConn) launch(m *member) (err error) {
	// A SYN is as large as the kernel makes it; 40 bytes of options at most.
	if m.probe.Size > c.fam.headerSize+60 {
		return fmt.Errorf("a TCP probe of %d bytes: %w", m.probe.Size, errors.ErrUnsupported)
	}
	if m.fd, err = c.fam.socket(unix.SOCK_STREAM, unix.IPPROTO_TCP); err != nil {
		return err
	}
	opts := append(c.fam.probeOptions(), c.fam.errorOptions()...)
	opts = append(opts, stampOptions(0),
		option{name: "TTL", level: c.fam.level, opt: c.fam.ttl, value: ttlOf(m.probe)},
		option{name: "TOS", level: c.fam.level, opt: c.fam.tos, value: m.probe.TOS}, // ECN is TCP's own
		option{name: "TCP_SYNCNT", level: unix.SOL_TCP, opt: unix.TCP_SYNCNT, value: 1, mayBeAbsent: true})
	if err := setOptions(m.fd, opts...); err != nil {
		return err
	}
	// Closing resets the connection instead of taking leave.
	if err := unix.SetsockoptLinger(m.fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1}); err != nil {
		return fmt.Errorf("setsockopt SO_LINGER: %w", err)
	}
	// Bound with a port of its own, or with the one that is shared.
	if c.holder != nil {
		if err := setOptions(m.fd, shareAddress); err != nil {
			return err
		}
	}
	if err := bind(m.fd, c.cfg.Interface, c.rt.src.WithZone(c.rt.dst.Zone()), c.flow.SrcPort); err != nil {
		return err
	}
	local, err := localOf(m.fd)
	if err != nil {
		return err
	}
	m.flow.SrcPort = local.Port()
	to, err := sockaddr(c.rt.dst, m.flow.DstPort)
	if err != nil {
		return err
	}
	m.born = time.Now()
	c.note(m.probe, m.born)
	err = unix.Connect(m.fd, to)
	switch err {
	case nil, unix.EINPROGRESS:
		return nil
	case unix.ECONNREFUSED:
		m.early = err
		return nil
	}
	// On a path without delay the error of a router can be there already.
	if maybeQueued(err) && pending(m.fd) {
		m.early = err
		return nil
	}
	return err
}

// pending reports whether something stands in a socket's error queue.
func pending(fd int) bool {
	p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLERR}}
	n, err := unix.Poll(p, 0)
	return err == nil && n > 0 && p[0].Revents&unix.POLLERR != 0
}

// settle reads what happened to a member's socket.
func (c *swarmConn) settle(r *reader, m *member, now time.Time) (wire.Reply, bool) {
	info, err := unix.GetsockoptTCPInfo(m.fd, unix.SOL_TCP, unix.TCP_INFO)
	if err != nil || info.Total_retrans > 0 {
		return wire.Reply{}, false // see synLife
	}
	for {
		msg, err := r.read(m.fd, unix.MSG_ERRQUEUE)
		if err != nil {
			break
		}
		reply, ok := connectError(msg, m, c.fam)
		if ok && c.stamped(&reply, msg.stamp, time.Now()) {
			return reply, true
		}
	}
	ok, reset := arrived(m, info)
	reply := wire.Reply{
		Seq: m.probe.Seq, Kind: wire.PortReply, From: c.flow.Dst, Reset: reset,
		QuotedTTL: -1, QuotedTOS: -1,
	}
	if !ok || !c.stamped(&reply, time.Time{}, now) {
		return wire.Reply{}, false
	}
	// The kernel times SYN to SYN-ACK itself, to the microsecond and free
	// of when we were woken (mtr once showed the next SYN's time instead).
	if rtt := time.Duration(info.Rtt) * time.Microsecond; rtt > 0 {
		if t := m.born.Add(rtt); t.Before(reply.Received) {
			reply.Received, reply.KernelTime = t, true
		}
	}
	return reply, true
}

// arrived reports whether the destination answered a SYN: it is connected (or
// was, if the peer has already closed), or refused by a reset.
func arrived(m *member, info *unix.TCPInfo) (ok, reset bool) {
	const synSent, closed = 2, 7 // net/tcp_states.h
	if info.State != synSent && info.State != closed {
		return true, false
	}
	err := m.early
	if err == nil {
		if e, gerr := unix.GetsockoptInt(m.fd, unix.SOL_SOCKET, unix.SO_ERROR); gerr == nil && e != 0 {
			err = unix.Errno(e)
		}
	}
	reset = errors.Is(err, unix.ECONNREFUSED)
	return reset, reset
}

// connectError makes a reply of an error in the queue of a member.
func connectError(msg message, m *member, f *family) (wire.Reply, bool) {
	if !msg.queued || msg.origin != f.errOrigin {
		return wire.Reply{}, false
	}
	return errorReply(m.flow, msg, f.headerSize, func(quote []byte, _ message) (uint16, wire.Quote, error) {
		q, err := wire.MatchConnect(quote, m.flow)
		return m.probe.Seq, q, err
	})
}
