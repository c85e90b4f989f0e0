package main

import (
	"encoding/binary"
	"net/netip"
	"time"
)

// exchange is one probe and its answer as a capture saw them.
type exchange struct {
	ttl      int
	sent     time.Time
	answered time.Time
	from     netip.Addr
}

func (e exchange) rtt() time.Duration { return e.answered.Sub(e.sent) }

// pairing finds the answers to probes in a capture. It reads packets on its
// own: what it is to check must not be its source.
type pairing struct {
	src, dst netip.Addr
	open     map[probeKey]exchange
	done     []exchange
}

// probeKey is what a probe and the quote or the echo of it share.
type probeKey struct {
	proto byte
	id    [8]byte // of TCP and UDP the first eight bytes, of an echo identifier and sequence
}

const (
	protoICMP  = 1
	protoTCP   = 6
	protoUDP   = 17
	protoICMP6 = 58
)

func newPairing(src, dst netip.Addr) *pairing {
	return &pairing{src: src, dst: dst, open: map[probeKey]exchange{}}
}

// header is what is read of an IP header.
type header struct {
	src, dst netip.Addr
	ttl      int
	proto    byte
	payload  []byte
}

func readHeader(b []byte) (header, bool) {
	switch {
	case len(b) >= 20 && b[0]>>4 == 4:
		n := int(b[0]&15) * 4
		if n < 20 || len(b) < n {
			return header{}, false
		}
		return header{netip.AddrFrom4([4]byte(b[12:16])), netip.AddrFrom4([4]byte(b[16:20])), int(b[8]), b[9], b[n:]}, true
	case len(b) >= 40 && b[0]>>4 == 6:
		return header{netip.AddrFrom16([16]byte(b[8:24])), netip.AddrFrom16([16]byte(b[24:40])), int(b[7]), b[6], b[40:]}, true
	}
	return header{}, false
}

// keyOf is the key of a probe, from its transport header.
func keyOf(h header) (k probeKey, ok bool) {
	k.proto = h.proto
	switch {
	case len(h.payload) < 8:
		return k, false
	case h.proto == protoICMP || h.proto == protoICMP6:
		copy(k.id[:], h.payload[4:8])
	default:
		copy(k.id[:], h.payload[:8])
	}
	return k, true
}

// drain takes all packets that a capture holds.
func (p *pairing) drain(c *capture) error {
	for {
		seen, ok, err := c.next()
		if err != nil || !ok {
			return err
		}
		p.add(seen)
	}
}

// add takes a packet of the capture.
func (p *pairing) add(c captured) {
	h, ok := readHeader(c.data)
	if !ok {
		return
	}
	if c.outgoing {
		if k, ok := keyOf(h); ok && h.dst == p.dst {
			p.open[k] = exchange{ttl: h.ttl, sent: c.at}
		}
		return
	}
	k, ok := p.answerKey(h)
	if !ok {
		return
	}
	if e, known := p.open[k]; known {
		delete(p.open, k) // the first answer counts
		e.answered, e.from = c.at, h.src
		p.done = append(p.done, e)
	}
}

// answerKey is the key of the probe that a packet answers.
func (p *pairing) answerKey(h header) (k probeKey, ok bool) {
	switch h.proto {
	case protoTCP:
		return p.segmentKey(h)
	case protoUDP:
		return k, false // a real answer to a datagram: none is expected
	case protoICMP, protoICMP6:
	default:
		return k, false
	}
	if len(h.payload) < 8 {
		return k, false
	}
	echo, errors := byte(0), map[byte]bool{3: true, 11: true}
	if h.proto == protoICMP6 {
		echo, errors = 129, map[byte]bool{1: true, 3: true}
	}
	switch {
	case h.payload[0] == echo:
		return keyOf(h)
	case errors[h.payload[0]]:
		if quoted, ok := readHeader(h.payload[8:]); ok && quoted.dst == p.dst {
			return keyOf(quoted)
		}
	}
	return k, false
}

// segmentKey is the key of the SYN that a segment answers: its ports the other
// way, and a sequence number one below what it acknowledges.
func (p *pairing) segmentKey(h header) (k probeKey, ok bool) {
	if len(h.payload) < 20 || h.src != p.dst {
		return k, false
	}
	k.proto = protoTCP
	copy(k.id[0:2], h.payload[2:4])
	copy(k.id[2:4], h.payload[0:2])
	binary.BigEndian.PutUint32(k.id[4:], binary.BigEndian.Uint32(h.payload[8:12])-1)
	return k, true
}

// errors returns by how much each round trip that was printed differs from
// the capture's for the same hop, in the order of sending; of several probes
// the nearest, since what a program leaves out of its output it does not say.
func (p *pairing) errors(said path) (errs []time.Duration, unmatched int) {
	for _, h := range said.hops {
		for _, rtt := range h.rtts {
			best := time.Duration(-1)
			for _, e := range p.done {
				if d := (rtt - e.rtt()).Abs(); e.ttl == h.ttl && (best < 0 || d < best) {
					best = d
				}
			}
			if best < 0 {
				unmatched++
				continue
			}
			errs = append(errs, best)
		}
	}
	return errs, unmatched
}
