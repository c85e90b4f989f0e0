package netprobe

import (
	"errors"

	"github.com/whyslow/whyslow/internal/wire"
)

// errorReply makes a reply, less its times, of an ICMP error in an error
// queue. cut is how many bytes of the quoted packet the kernel has taken off
// the front, and match finds the probe in what is left.
func errorReply(flow wire.Flow, m message, cut int, match func(quote []byte, m message) (uint16, wire.Quote, error)) (wire.Reply, bool) {
	if !m.offender.IsValid() {
		return wire.Reply{}, false
	}
	r, ok := wire.ErrorReply(flow, m.offender, m.typ, m.code, int(m.info))
	if !ok {
		return wire.Reply{}, false
	}
	quote, labels := wire.SplitExtensions(m.data, m.extension, cut)
	seq, q, err := match(quote, m)
	if err != nil && !errors.Is(err, wire.ErrUnnumbered) {
		return wire.Reply{}, false
	}
	r.SetQuote(q)
	r.Seq, r.Unnumbered = seq, err != nil
	r.TTL, r.Labels = m.ttl, labels
	return r, true
}

// clip takes the padding that RFC 4884 puts behind a short probe out of the
// length that was quoted.
func clip(r *wire.Reply, flow wire.Flow, p wire.Probe) {
	behindIP := max(p.Size, flow.MinSize()) - familyOf(flow.Dst).headerSize
	r.QuotedLen = min(r.QuotedLen, behindIP)
}
