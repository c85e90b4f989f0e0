package netprobe

import (
	"context"
	"fmt"
	"time"

	"github.com/whyslow/whyslow/internal/wire"
	"golang.org/x/sys/unix"
)

// udpSpecies probes one destination port from a local port for each probe: how
// a given port, such as 53, is reached without privilege.
type udpSpecies struct{}

// openUDPSwarm opens a swarm of UDP sockets for cfg.Port.
func openUDPSwarm(ctx context.Context, rt route, cfg Config) (Conn, error) {
	// One socket is tried now: that it cannot be had belongs to Open.
	s, _, err := openDatagram(ctx, rt, cfg, unix.IPPROTO_UDP, "udp")
	if err != nil {
		return nil, openError("a udp socket", err)
	}
	if err := s.close(); err != nil {
		return nil, openError("a udp socket", err)
	}
	flow := wire.Flow{Proto: wire.UDP, Src: rt.src, Dst: rt.dst.WithZone(""), DstPort: cfg.Port}
	return openSwarm(ctx, rt, cfg, flow, "recverr", udpSpecies{})
}

func (udpSpecies) events() uint32      { return unix.EPOLLIN }
func (udpSpecies) life() time.Duration { return datagramLife }

func (udpSpecies) launch(c *swarmConn, m *member, before func()) (err error) {
	if m.fd, err = c.fam.socket(unix.SOCK_DGRAM, unix.IPPROTO_UDP); err != nil {
		return err
	}
	opts := append(c.fam.probeOptions(), c.fam.errorOptions()...)
	opts = append(opts, stampOptions(true),
		option{name: "TTL", level: c.fam.level, opt: c.fam.ttl, value: ttlOf(m.probe)})
	if err := setOptions(m.fd, opts...); err != nil {
		return err
	}
	if err := bind(m.fd, c.cfg.Interface, c.rt.src.WithZone(c.rt.dst.Zone()), 0); err != nil {
		return err
	}
	to, err := sockaddr(c.rt.dst, m.flow.DstPort)
	if err != nil {
		return err
	}
	if err := unix.Connect(m.fd, to); err != nil {
		return err
	}
	local, err := localOf(m.fd)
	if err != nil {
		return err
	}
	m.flow.SrcPort = local.Port()
	payload, err := wire.BuildPayload(m.flow, m.probe)
	if err != nil {
		return fmt.Errorf("building a probe: %w", err)
	}
	before()
	return unix.Send(m.fd, payload, unix.MSG_DONTWAIT)
}

func (udpSpecies) settle(c *swarmConn, r *reader, m *member, _ time.Time) (replies []wire.Reply, done bool) {
	add := func(reply wire.Reply, stamp time.Time) {
		if c.stamped(&reply, stamp, time.Now()) {
			replies = append(replies, reply)
		}
	}
	for range swarmSize { // bounded; the poller tells again of what is left
		msg, err := r.read(m.fd, unix.MSG_ERRQUEUE)
		if err != nil {
			break
		}
		switch {
		case !msg.queued:
		case msg.origin == unix.SO_EE_ORIGIN_TIMESTAMPING:
			if seq, ok := departed(msg.data, m.flow); ok && seq == m.probe.Seq {
				c.noteKernel(seq, msg.stamp, time.Now())
			}
		case msg.origin == c.fam.errOrigin:
			if !quotesPayload(msg.data, m.flow, m.probe.Seq) {
				continue
			}
			if reply, ok := errorReply(m.flow, m.probe, msg); ok {
				add(reply, msg.stamp)
			}
		}
	}
	for range swarmSize {
		msg, err := r.read(m.fd, 0)
		if maybeQueued(err) {
			continue
		}
		if err != nil {
			break
		}
		// The socket is connected: data is the destination's.
		add(wire.Reply{Seq: m.probe.Seq, Kind: wire.PortReply, From: c.flow.Dst, TTL: msg.ttl, QuotedTTL: -1, QuotedTOS: -1}, msg.stamp)
	}
	return replies, false
}
