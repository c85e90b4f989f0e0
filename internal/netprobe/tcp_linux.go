package netprobe

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/whyslow/whyslow/internal/wire"
	"golang.org/x/sys/unix"
)

// tcpSpecies connects with a limited TTL. A SYN-ACK or a reset is the
// destination's answer; a router's error comes through the error queue. The
// connection is reset at once and carries no byte.
type tcpSpecies struct{}

// openTCP opens a swarm of connecting TCP sockets.
func openTCP(ctx context.Context, rt route, cfg Config) (Conn, error) {
	if cfg.Port == 0 {
		cfg.Port = defaultTCPPort
	}
	flow := wire.Flow{Proto: wire.TCP, Src: rt.src, Dst: rt.dst.WithZone(""), DstPort: cfg.Port}
	return openSwarm(ctx, rt, cfg, flow, "connect", tcpSpecies{})
}

func (tcpSpecies) events() uint32      { return unix.EPOLLOUT }
func (tcpSpecies) life() time.Duration { return synLife }

func (tcpSpecies) launch(c *swarmConn, m *member, before func()) (err error) {
	// A SYN is as large as the kernel makes it; 40 bytes of options at most.
	if m.probe.Size > c.fam.headerSize+60 {
		return fmt.Errorf("a TCP probe of %d bytes: %w", m.probe.Size, errors.ErrUnsupported)
	}
	if m.fd, err = c.fam.socket(unix.SOCK_STREAM, unix.IPPROTO_TCP); err != nil {
		return err
	}
	opts := append(c.fam.probeOptions(), c.fam.errorOptions()...)
	opts = append(opts, stampOptions(false),
		option{name: "TTL", level: c.fam.level, opt: c.fam.ttl, value: ttlOf(m.probe)},
		option{name: "TCP_SYNCNT", level: unix.SOL_TCP, opt: unix.TCP_SYNCNT, value: 1, mayBeAbsent: true})
	if err := setOptions(m.fd, opts...); err != nil {
		return err
	}
	// Closing resets the connection instead of taking leave.
	if err := unix.SetsockoptLinger(m.fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1}); err != nil {
		return fmt.Errorf("setsockopt SO_LINGER: %w", err)
	}
	if err := bind(m.fd, c.cfg.Interface, c.rt.src.WithZone(c.rt.dst.Zone()), 0); err != nil {
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
	before()
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

func (tcpSpecies) settle(c *swarmConn, r *reader, m *member, now time.Time) ([]wire.Reply, bool) {
	info, err := unix.GetsockoptTCPInfo(m.fd, unix.SOL_TCP, unix.TCP_INFO)
	if err != nil || info.Total_retrans > 0 {
		return nil, true // see synLife
	}
	for {
		msg, err := r.read(m.fd, unix.MSG_ERRQUEUE)
		if err != nil {
			break
		}
		if !msg.queued || msg.origin != c.fam.errOrigin || !quotesSYN(msg.data, m.flow) {
			continue
		}
		if reply, ok := errorReply(m.flow, m.probe, msg); ok {
			if c.stamped(&reply, msg.stamp, time.Now()) {
				return []wire.Reply{reply}, true
			}
		}
	}
	reply := wire.Reply{Seq: m.probe.Seq, Kind: wire.PortReply, From: c.flow.Dst, QuotedTTL: -1, QuotedTOS: -1}
	if !arrived(m, info) || !c.stamped(&reply, time.Time{}, now) {
		return nil, true
	}
	// The kernel times SYN to SYN-ACK itself, to the microsecond and free
	// of when we were woken (mtr once showed the next SYN's time instead).
	if rtt := time.Duration(info.Rtt) * time.Microsecond; rtt > 0 {
		if t := m.born.Add(rtt); t.Before(reply.Received) {
			reply.Received, reply.KernelTime = t, true
		}
	}
	return []wire.Reply{reply}, true
}

// arrived reports whether the destination answered a SYN: it is connected (or
// was, if the peer has already closed) or refused by a reset.
func arrived(m *member, info *unix.TCPInfo) bool {
	const synSent, closed = 2, 7 // net/tcp_states.h
	if info.State != synSent && info.State != closed {
		return true
	}
	err := m.early
	if err == nil {
		if e, gerr := unix.GetsockoptInt(m.fd, unix.SOL_SOCKET, unix.SO_ERROR); gerr == nil && e != 0 {
			err = unix.Errno(e)
		}
	}
	return errors.Is(err, unix.ECONNREFUSED)
}

// quotesSYN reports whether a quote, which begins at the TCP header, has the
// ports of the flow.
func quotesSYN(quote []byte, flow wire.Flow) bool {
	return len(quote) >= 4 &&
		binary.BigEndian.Uint16(quote) == flow.SrcPort &&
		binary.BigEndian.Uint16(quote[2:]) == flow.DstPort
}
