package main

import (
	"encoding/binary"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/whyslow/whyslow/internal/netlab"
	"github.com/whyslow/whyslow/internal/simnet"
	"github.com/whyslow/whyslow/internal/wire"
)

// forge makes somebody beside the path, who sees every probe but cannot stop
// one, answer those larger than claim with a "fragmentation needed" of it. The
// function returned stops him.
func forge(w *world, lab *netlab.Lab, claim int) (stop func(), err error) {
	c, err := openCapture("lab0")
	if err != nil {
		return nil, err
	}
	var wg sync.WaitGroup
	var stopping atomic.Bool
	wg.Go(func() {
		defer c.close()
		for !stopping.Load() {
			c.wait(10 * time.Millisecond)
			p, ok, err := c.next()
			if err != nil {
				return
			}
			if !ok || !p.outgoing || len(p.data) <= claim || !toward(p.data, w.dst) {
				continue
			}
			lie := tooBig(p.data, w.forger, w.src, claim)
			if lab.Model(func(n *simnet.Net) { n.Send(w.forgerNode, time.Now(), lie) }) != nil {
				return
			}
		}
	})
	return func() { stopping.Store(true); wg.Wait() }, nil
}

// toward reports whether an IPv4 packet is for an address.
func toward(pkt []byte, dst netip.Addr) bool {
	return len(pkt) >= 20 && pkt[0]>>4 == 4 && netip.AddrFrom4([4]byte(pkt[16:20])) == dst
}

// tooBig is an IPv4 "fragmentation needed" (RFC 792, RFC 1191) that quotes the
// first bytes of a packet.
func tooBig(about []byte, from, to netip.Addr, mtu int) []byte {
	quote := about[:min(len(about), 28)]
	b := make([]byte, 28, 28+len(quote))
	b[0], b[8], b[9] = 0x45, 64, 1
	binary.BigEndian.PutUint16(b[2:], uint16(28+len(quote)))
	src, dst := from.As4(), to.As4()
	copy(b[12:], src[:])
	copy(b[16:], dst[:])
	b[20], b[21] = 3, 4
	binary.BigEndian.PutUint16(b[26:], uint16(mtu))
	b = append(b, quote...)
	binary.BigEndian.PutUint16(b[10:], wire.Checksum(b[:20]))
	binary.BigEndian.PutUint16(b[22:], wire.Checksum(b[20:]))
	return b
}
