package wire

import (
	"encoding/binary"
	"fmt"
)

// Fragment splits pkt into packets of at most mtu bytes and hands each to
// yield, which must copy what it keeps: the buffer is used again. An IPv4
// packet is split as a router does it, its options in every piece; an IPv6
// packet, as its source does, with id in a fragment header, RFC 8200 section
// 4.5. The caller has looked at DF.
func Fragment(pkt []byte, mtu int, id uint32, yield func([]byte)) error {
	p, err := ParsePacket(pkt)
	if err != nil {
		return err
	}
	if p.Len <= mtu {
		yield(pkt[:p.Len])
		return nil
	}
	hlen := p.HeaderLen
	if p.Version == 6 {
		if hlen != ipv6Len {
			return fmt.Errorf("%w: fragmenting behind IPv6 extension headers", ErrMalformed)
		}
		hlen += 8
	}
	if p.FragOffset+len(p.Payload) > 0xffff {
		return fmt.Errorf("%w: fragment beyond 65535 bytes", ErrMalformed)
	}
	step := (mtu - hlen) &^ 7
	if step <= 0 {
		return fmt.Errorf("%w: MTU %d", ErrSize, mtu)
	}
	buf := make([]byte, hlen, hlen+step)
	copy(buf, pkt[:p.HeaderLen])
	for off := 0; off < len(p.Payload); off += step {
		end := min(off+step, len(p.Payload))
		last := end == len(p.Payload)
		buf = append(buf[:hlen], p.Payload[off:end]...)
		if p.Version == 4 {
			putFragment4(buf, p.FragOffset+off, p.MF || !last)
		} else {
			putFragment6(buf, p.Number, off, !last, id)
		}
		yield(buf)
	}
	return nil
}

func putFragment4(b []byte, off int, more bool) {
	flags := uint16(off / 8)
	if more {
		flags |= 0x2000
	}
	binary.BigEndian.PutUint16(b[2:], uint16(len(b)))
	binary.BigEndian.PutUint16(b[6:], flags)
	setHeaderChecksum(b)
}

func putFragment6(b []byte, number uint8, off int, more bool, id uint32) {
	binary.BigEndian.PutUint16(b[4:], uint16(len(b)-ipv6Len))
	b[6] = numFragment
	ext := b[ipv6Len:]
	ext[0], ext[1] = number, 0
	flags := uint16(off)
	if more {
		flags |= 1
	}
	binary.BigEndian.PutUint16(ext[2:], flags)
	binary.BigEndian.PutUint32(ext[4:], id)
}

// Reassembler puts fragments together. It is bounded: it holds a few packets
// at a time, drops the oldest for a new one, and never holds more bytes than a
// packet can have. The zero Reassembler is ready. It is for models and tests;
// the kernel does this for sockets.
type Reassembler struct{ pending []*pieces }

// maxPending bounds the packets being put together.
const maxPending = 16

type pieces struct {
	key    fragKey
	header []byte // of the first fragment
	number uint8
	data   []byte
	have   []bool // per 8 bytes
	total  int    // bytes of payload; 0 means that the last piece is missing
}

type fragKey struct {
	addrs  [32]byte
	id     uint32
	number uint8
}

// Add takes a packet. It returns pkt itself if it is whole, the whole packet
// once its last missing fragment arrives, and nil otherwise.
func (r *Reassembler) Add(pkt []byte) []byte {
	p, err := ParsePacket(pkt)
	if err != nil || !p.Fragment() {
		return pkt
	}
	end := p.FragOffset + len(p.Payload)
	if end > 0xffff-p.HeaderLen || p.MF && len(p.Payload)%8 != 0 || len(p.Payload) == 0 {
		return nil
	}
	s := r.find(fragKey{addrs: pairOf(&p), id: p.ID, number: p.Number})
	s.add(&p, pkt, end)
	if !s.complete() {
		return nil
	}
	r.remove(s)
	return s.packet(p.Version)
}

func pairOf(p *Packet) (k [32]byte) {
	src, dst := p.Src.As16(), p.Dst.As16()
	copy(k[:16], src[:])
	copy(k[16:], dst[:])
	return k
}

func (r *Reassembler) find(k fragKey) *pieces {
	for _, s := range r.pending {
		if s.key == k {
			return s
		}
	}
	if len(r.pending) == maxPending {
		r.pending = append(r.pending[:0], r.pending[1:]...)
	}
	s := &pieces{key: k}
	r.pending = append(r.pending, s)
	return s
}

func (r *Reassembler) remove(s *pieces) {
	for i, t := range r.pending {
		if t == s {
			r.pending = append(r.pending[:i], r.pending[i+1:]...)
			return
		}
	}
}

func (s *pieces) add(p *Packet, pkt []byte, end int) {
	if len(s.data) < end {
		s.data = append(s.data, make([]byte, end-len(s.data))...)
		s.have = append(s.have, make([]bool, (end+7)/8-len(s.have))...)
	}
	copy(s.data[p.FragOffset:], p.Payload)
	for i := p.FragOffset / 8; i < (end+7)/8; i++ {
		s.have[i] = true
	}
	if p.FragOffset == 0 {
		hlen := p.HeaderLen
		if p.fragHdr > 0 {
			hlen = ipv6Len
		}
		s.header, s.number = append([]byte(nil), pkt[:hlen]...), p.Number
	}
	if !p.MF {
		s.total = end
	}
}

func (s *pieces) complete() bool {
	if s.total == 0 || s.header == nil || len(s.data) > s.total {
		return false
	}
	for _, h := range s.have {
		if !h {
			return false
		}
	}
	return true
}

func (s *pieces) packet(version int) []byte {
	b := append(s.header, s.data[:s.total]...)
	if version == 4 {
		binary.BigEndian.PutUint16(b[2:], uint16(len(b)))
		b[6], b[7] = 0, 0
		setHeaderChecksum(b)
		return b
	}
	binary.BigEndian.PutUint16(b[4:], uint16(len(b)-ipv6Len))
	b[6] = s.number
	return b
}
