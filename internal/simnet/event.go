package simnet

import (
	"time"

	"github.com/whyslow/whyslow/internal/wire"
)

// packet is a packet in the network. Packets are used again: whoever ends a
// packet's way releases it.
type packet struct {
	buf  []byte
	view wire.Packet // of buf
	dst  NodeID      // owner of view.Dst, Nowhere if there is none
	marks
}

// marks are what routers know of a packet beside its bytes.
type marks struct {
	lsp   *LSP    // the label-switched path it is on
	nat   tracked // between a NAT's two halves
	split int     // size of the fragments that a NAT put together; 0: none
}

const (
	// maxFree and maxFreeSize bound the memory kept for packets to come.
	maxFree     = 4096
	maxFreeSize = 16 << 10
)

// packet returns a packet with an undefined content.
func (n *Net) packet() *packet {
	if last := len(n.free) - 1; last >= 0 {
		p := n.free[last]
		n.free = n.free[:last]
		return p
	}
	return &packet{buf: make([]byte, 0, 1536)}
}

func (n *Net) release(p *packet) {
	if len(n.free) < maxFree && cap(p.buf) <= maxFreeSize {
		p.marks = marks{}
		n.free = append(n.free, p)
	}
}

// view reads the header of p.buf and reports whether it is an IP packet.
func (n *Net) view(p *packet) bool {
	v, err := wire.ParsePacket(p.buf)
	if err != nil {
		return false
	}
	p.buf = p.buf[:v.Len] // what follows is padding
	p.view, p.dst = v, n.ownerOf(v.Dst)
	return true
}

// event is a packet's arrival at a node, or a node's emission of one.
type event struct {
	at   time.Duration // since Net.base
	seq  uint64        // order of creation: equal times keep it
	node *node
	pkt  *packet
	emit bool
}

func (e *event) before(f *event) bool {
	return e.at < f.at || e.at == f.at && e.seq < f.seq
}

// eventHeap is a binary heap with the earliest event first. container/heap
// would allocate for every event.
type eventHeap []event

func (h *eventHeap) push(e event) {
	s := append(*h, e)
	*h = s
	i := len(s) - 1
	for i > 0 {
		up := (i - 1) / 2
		if !e.before(&s[up]) {
			break
		}
		s[i] = s[up]
		i = up
	}
	s[i] = e
}

func (h *eventHeap) pop() event {
	s := *h
	first, last := s[0], s[len(s)-1]
	s[len(s)-1] = event{} // lets go of the packet
	s = s[:len(s)-1]
	*h = s
	for i := 0; len(s) > 0; {
		kid := 2*i + 1
		if kid+1 < len(s) && s[kid+1].before(&s[kid]) {
			kid++
		}
		if kid >= len(s) || !s[kid].before(&last) {
			s[i] = last
			break
		}
		s[i] = s[kid]
		i = kid
	}
	return first
}

// schedule puts an event in line.
func (n *Net) schedule(at time.Duration, to *node, p *packet, emit bool) {
	n.sequence++
	n.events.push(event{at: at, seq: n.sequence, node: to, pkt: p, emit: emit})
}
