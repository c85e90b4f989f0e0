package netprobe

import (
	"context"

	"github.com/whyslow/whyslow/internal/wire"
)

// pingDialect speaks ICMP echo through a ping socket (icmp(7)): the kernel
// puts in the identifier and the checksum, and lets only our answers through.
type pingDialect struct{ *core }

// openPing opens a ping socket, which net.ipv4.ping_group_range must permit,
// for IPv6 as well.
func openPing(ctx context.Context, rt route, cfg Config) (Conn, error) {
	f := familyOf(rt.dst)
	s, local, err := openDatagram(ctx, rt, cfg, f.icmp, "ping")
	if err != nil {
		return nil, openError("a ping socket", err)
	}
	flow := wire.Flow{
		Proto: wire.ICMP, Src: rt.src, Dst: rt.dst.WithZone(""),
		SrcPort: local.Port(), // the identifier
	}
	c := newCore(flow, rt.info(flow, "ping"))
	return newDatagramConn(c, s, rt, pingDialect{c}), nil
}

func (pingDialect) port() uint16 { return 0 }

// match reads the quoted echo header, which even the shortest quote holds.
func (d pingDialect) match(quote []byte, _ message) (uint16, wire.Quote, error) {
	return wire.MatchTransport(quote, d.flow)
}

// answered puts the IP header back that the kernel took off, so that the one
// parser judges echo replies whatever socket they come by.
func (d pingDialect) answered(m message) (wire.Reply, bool) {
	r, err := wire.ParseReply(withHeader(m, d.flow.Src, byte(familyOf(d.flow.Dst).icmp)), d.flow)
	return r, err == nil
}
