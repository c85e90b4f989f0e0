package netprobe

import (
	"context"
	"errors"

	"github.com/whyslow/whyslow/internal/wire"
	"golang.org/x/sys/unix"
)

// udpDialect sends every probe from one port to one port, so that all of them
// take one path where routers spread flows. What tells them apart is the
// payload, which the error queue returns from behind the UDP header as far as
// the router quoted it.
type udpDialect struct{ *core }

// openUDP opens a UDP socket with an error queue.
func openUDP(ctx context.Context, rt route, cfg Config) (Conn, error) {
	s, local, err := openDatagram(ctx, rt, cfg, unix.IPPROTO_UDP, "udp")
	if err != nil {
		return nil, openError("a udp socket", err)
	}
	flow := wire.Flow{
		Proto: wire.UDP, Src: rt.src, Dst: rt.dst.WithZone(""),
		SrcPort: local.Port(), DstPort: cfg.Port,
	}
	if flow.DstPort == 0 {
		flow.DstPort = defaultUDPPort
	}
	c := newCore(flow, rt.info(flow, "recverr"))
	return newDatagramConn(c, s, rt, udpDialect{c}), nil
}

// udpHeader is the length of a UDP header in bytes, RFC 768.
const udpHeader = 8

func (d udpDialect) port() uint16 { return d.flow.DstPort }

// errForeignPort says that an error is not about where our probes go.
var errForeignPort = errors.New("netprobe: an error about another port")

// match reads a quote from behind its UDP header. So a NAT that changed the
// header goes unseen.
func (d udpDialect) match(quote []byte, m message) (uint16, wire.Quote, error) {
	if m.name.Port() != d.flow.DstPort {
		return 0, wire.Quote{}, errForeignPort
	}
	q := wire.Quote{TTL: -1, TOS: -1, Len: udpHeader + len(quote)}
	seq, err := wire.MatchPayload(quote, d.flow)
	if errors.Is(err, wire.ErrMalformed) {
		err = wire.ErrUnnumbered // RFC 792 asks for no more than 8 bytes
	}
	return seq, q, err
}

func (d udpDialect) answered(m message) (wire.Reply, bool) { return d.dataReply(m) }

// dataReply takes UDP data as the destination's arrival, if it comes from the
// very port the probes went to: a resolver on port 53 answers so.
func (c *core) dataReply(m message) (wire.Reply, bool) {
	if m.name.Addr() != c.flow.Dst || m.name.Port() != c.flow.DstPort {
		return wire.Reply{}, false
	}
	seq, err := wire.MatchPayload(m.data, c.flow) // an echo service returns it
	if err != nil {
		var ok bool
		if seq, ok = c.unansweredFarthest(); !ok {
			return wire.Reply{}, false
		}
	}
	return wire.Reply{Seq: seq, Kind: wire.PortReply, From: m.name.Addr(), TTL: m.ttl, QuotedTTL: -1, QuotedTOS: -1}, true
}
