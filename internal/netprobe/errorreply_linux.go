package netprobe

import (
	"encoding/binary"

	"github.com/whyslow/whyslow/internal/wire"
)

// errorReply makes a reply, less its times, of an ICMP error in an error queue
// that was found to be about p. The kernel takes such an error apart; it is put
// together again around our own probe, so that wire alone decides what an
// error means.
func errorReply(flow wire.Flow, p wire.Probe, m message) (wire.Reply, bool) {
	const header, quoted = 8, 8
	quote, err := wire.Build(nil, flow, wire.Probe{Seq: p.Seq, TTL: 1})
	if err != nil || !m.offender.IsValid() {
		return wire.Reply{}, false
	}
	ipLen := ipHeader(flow)
	msg := make([]byte, header, header+len(quote))
	msg[0], msg[1] = m.typ, m.code
	if tooBig(flow, m) { // other types have other things there
		binary.BigEndian.PutUint32(msg[4:], m.info)
	}
	msg = append(msg, quote[:ipLen+quoted]...)
	if flow.Src.Is4() {
		binary.BigEndian.PutUint16(msg[2:], wire.Checksum(msg))
	}
	r, err := wire.ParseICMP(msg, m.offender, flow)
	if err != nil || r.Seq != p.Seq {
		return wire.Reply{}, false
	}
	r.TTL, r.QuotedTTL, r.QuotedTOS = m.ttl, -1, -1
	r.QuotedLen = len(m.data)
	if flow.Proto == wire.UDP {
		r.QuotedLen += 8 // the kernel cuts the UDP header off
	}
	size := max(p.Size, flow.MinSize())
	r.QuotedLen = min(r.QuotedLen, size-ipLen) // behind it comes padding
	return r, true
}

func ipHeader(flow wire.Flow) int {
	if flow.Src.Is4() {
		return 20
	}
	return 40
}

// tooBig reports whether the error is one that carries an MTU.
func tooBig(flow wire.Flow, m message) bool {
	if flow.Src.Is4() {
		return m.typ == 3 && m.code == 4 // RFC 1191
	}
	return m.typ == 2 // RFC 8201
}
