package trace

import (
	"context"
	"hash/fnv"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/whyslow/whyslow/internal/netprobe"
	"github.com/whyslow/whyslow/internal/wire"
)

// fakeNet is a graph of routers by name that flows cross: the least that the
// detection of parallel paths can be tested on, without a packet.
type fakeNet struct {
	next   map[string][]string // of each router, "" being the host; "dst" is the end
	seed   uint64
	limit  bool            // Linux's limit on errors
	silent map[string]bool // routers that never answer
	packet map[string]bool // routers that spread packets, not flows
	loss   map[string]float64
	slow   map[string]time.Duration
	rate   float64            // share of answers lost anywhere
	bundle map[uint16]float64 // loss of single flows, by port
	alias  map[string]bool    // routers that answer from either of two addresses

	mu    sync.Mutex
	port  uint16
	paid  map[string]time.Time
	rng   *rand.Rand
	sent  int
	asked map[string]int
	turn  map[string]int
}

func (n *fakeNet) Open(_ context.Context, dst netip.Addr, cfg netprobe.Config) (netprobe.Conn, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.rng == nil {
		n.rng = rand.New(rand.NewPCG(n.seed, 7))
		n.paid, n.asked, n.turn = map[string]time.Time{}, map[string]int{}, map[string]int{}
	}
	n.port++
	return &fakeConn{net: n, dst: dst, port: 40000 + n.port, method: cfg.Method,
		in: make(chan wire.Reply, 1024), closed: make(chan struct{})}, nil
}

type fakeConn struct {
	net    *fakeNet
	dst    netip.Addr
	port   uint16
	method netprobe.Method
	in     chan wire.Reply
	closed chan struct{}
}

// addrOf makes an address of a name.
func (n *fakeNet) addrOf(name string, dst netip.Addr) netip.Addr {
	if name == "dst" {
		return dst
	}
	h := fnv.New32a()
	h.Write([]byte(name))
	s := h.Sum32()
	return netip.AddrFrom4([4]byte{10, byte(s >> 16), byte(s >> 8), byte(s)})
}

// choose is the next hop of a flow.
func (n *fakeNet) choose(at string, port uint16) string {
	next := n.next[at]
	if n.packet[at] {
		return next[n.rng.IntN(len(next))]
	}
	h := fnv.New64a()
	h.Write([]byte{byte(port), byte(port >> 8), byte(n.seed), byte(n.seed >> 8)})
	h.Write([]byte(at))
	x := h.Sum64()
	x ^= x >> 31
	x *= 0x9e3779b97f4a7c15
	return next[(x>>33)%uint64(len(next))]
}

func (c *fakeConn) Send(p wire.Probe) (time.Time, error) {
	n := c.net
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	n.sent++
	ttl := p.TTL
	if ttl == 0 {
		ttl = 64
	}
	at, delay := "", time.Duration(0)
	for at != "dst" && ttl > 0 {
		at = n.choose(at, c.port)
		ttl--
		delay += 2*time.Millisecond + n.slow[at]
		if n.rng.Float64() < n.loss[at] && ttl > 0 {
			return now, nil
		}
	}
	n.asked[at]++
	if n.silent[at] || n.rng.Float64() < n.rate+n.bundle[c.port] {
		return now, nil
	}
	r := wire.Reply{Seq: p.Seq, Kind: wire.TimeExceeded, From: n.addrOf(at, c.dst), Type: 11, TTL: 60}
	if n.alias[at] && n.rng.IntN(2) == 0 {
		r.From = n.addrOf(at+"'", c.dst)
	}
	if at == "dst" {
		r.Kind, r.Type = wire.PortReply, 0
		if c.method == netprobe.UDP {
			r.Type, r.Code = 3, 3
		}
		if c.method == netprobe.ICMP {
			r.Kind = wire.EchoReply
		}
	}
	if n.limit && r.Type != 0 {
		paid := n.paid[at]
		if paid.Before(now) {
			paid = now
		}
		if paid.Sub(now) > 5*time.Second {
			return now, nil
		}
		n.paid[at] = paid.Add(time.Second)
	}
	time.AfterFunc(delay, func() {
		r.Received = time.Now()
		select {
		case c.in <- r:
		case <-c.closed:
		}
	})
	return now, nil
}

func (c *fakeConn) Recv(ctx context.Context) (wire.Reply, error) {
	select {
	case r := <-c.in:
		return r, nil
	case <-ctx.Done():
		return wire.Reply{}, ctx.Err()
	case <-c.closed:
		return wire.Reply{}, net.ErrClosed
	}
}

func (c *fakeConn) Close() error {
	close(c.closed)
	return nil
}

func (c *fakeConn) Info() netprobe.Info {
	return netprobe.Info{Socket: "fake", SourcePort: c.port, FlowStable: true}
}

// fan is a graph: a chain of routers, each name a hop; "a*4" stands for four
// parallel ones.
func fan(widths ...int) map[string][]string {
	next := map[string][]string{}
	layer := []string{""}
	for i, w := range widths {
		var names []string
		for j := range w {
			names = append(names, string(rune('a'+i))+string(rune('0'+j/10))+string(rune('0'+j%10)))
		}
		for _, at := range layer {
			next[at] = names
		}
		layer = names
	}
	for _, at := range layer {
		next[at] = []string{"dst"}
	}
	return next
}
