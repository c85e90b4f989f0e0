package netprobe

import (
	"context"
	"errors"

	"github.com/whyslow/whyslow/internal/wire"
	"golang.org/x/sys/unix"
)

// udpDialect gives each probe a destination port of its own: a router that
// quotes no more than 8 bytes leaves nothing else to tell probes apart, as the
// kernel hands us the quote from behind the UDP header.
type udpDialect struct {
	*core
	rt route
}

// openUDP opens a UDP socket with an error queue.
func openUDP(ctx context.Context, rt route, cfg Config) (Conn, error) {
	if cfg.Port != 0 {
		return openUDPSwarm(ctx, rt, cfg)
	}
	s, local, err := openDatagram(ctx, rt, cfg, unix.IPPROTO_UDP, "udp")
	if err != nil {
		return nil, openError("a udp socket", err)
	}
	flow := wire.Flow{
		Proto: wire.UDP, Src: rt.src, Dst: rt.dst.WithZone(""),
		SrcPort: local.Port(), DstPort: defaultUDPPort, PortPerProbe: true,
	}
	c := newCore(flow, rt.info(flow, "recverr"))
	return newDatagramConn(c, s, rt, udpDialect{core: c, rt: rt}), nil
}

func (d udpDialect) target(p wire.Probe) (unix.Sockaddr, error) {
	return sockaddr(d.rt.dst, d.flow.DstPort+p.Seq) // wire has checked that it is one
}

// seqOf returns the probe sent to a destination port.
func (d udpDialect) seqOf(port uint16) (uint16, bool) {
	if port < d.flow.DstPort {
		return 0, false
	}
	seq := port - d.flow.DstPort
	_, ok := d.find(seq)
	return seq, ok
}

func (d udpDialect) quoted(m message) (uint16, bool) {
	seq, ok := d.seqOf(m.name.Port())
	return seq, ok && quotesPayload(m.data, d.flow, seq)
}

// quotesPayload reports whether a quote from behind the UDP header is of probe
// seq, or too short to tell.
func quotesPayload(quote []byte, flow wire.Flow, seq uint16) bool {
	got, err := wire.MatchPayload(quote, flow)
	if errors.Is(err, wire.ErrMalformed) {
		return true // a router may quote 8 bytes, RFC 792
	}
	return err == nil && got == seq
}

// answered takes UDP data as the destination's arrival, if it comes from the
// very port the probe went to: a resolver on port 53 answers so.
func (d udpDialect) answered(m message) (wire.Reply, bool) {
	if m.name.Addr() != d.flow.Dst {
		return wire.Reply{}, false
	}
	seq, ok := d.seqOf(m.name.Port())
	if !ok {
		return wire.Reply{}, false
	}
	return wire.Reply{Seq: seq, Kind: wire.PortReply, From: m.name.Addr(), TTL: m.ttl, QuotedTTL: -1, QuotedTOS: -1}, true
}
