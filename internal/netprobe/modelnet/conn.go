package modelnet

import (
	"context"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/whyslow/whyslow/internal/netprobe"
	"github.com/whyslow/whyslow/internal/wire"
)

var errClosed = net.ErrClosed

// maxQueued bounds the replies nobody has read, as a socket's buffer does.
const maxQueued = 4096

// conn is a connection of a Network.
type conn struct {
	network *Network
	flow    wire.Flow
	mtu     int
	blind   bool // sees quotes as a host without raw sockets does
	once    sync.Once
	ready   chan struct{} // holds a token when replies wait
	ended   chan struct{}

	mu      sync.Mutex
	replies []wire.Reply
}

var (
	_ netprobe.Conn     = (*conn)(nil)
	_ netprobe.Informer = (*conn)(nil)
)

// Send sends a probe into the model.
func (c *conn) Send(p wire.Probe) (time.Time, error) {
	w := c.network
	now := time.Now()
	if p.Size > c.mtu {
		return now, &netprobe.TooBigError{MTU: c.mtu}
	}
	pkt, err := wire.Build(nil, c.flow, p)
	if err != nil {
		return now, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-c.ended:
		return now, errClosed
	default:
	}
	w.net.Send(w.client, now, pkt)
	w.kick()
	return now, nil
}

// receive queues a reply for Recv.
func (c *conn) receive(now time.Time, r wire.Reply) {
	r.Received = now
	if c.blind {
		r.QuotedTTL, r.QuotedTOS = -1, -1
		if c.flow.Proto == wire.UDP {
			r.Translated = false
		}
		if c.flow.Proto == wire.UDP && r.QuotedLen > 0 && r.QuotedLen < 16 {
			r.Seq, r.Unnumbered = 0, true
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.replies) == maxQueued {
		return
	}
	c.replies = append(c.replies, r)
	select {
	case c.ready <- struct{}{}:
	default:
	}
}

// Recv waits for a reply.
func (c *conn) Recv(ctx context.Context) (wire.Reply, error) {
	for {
		if err := ctx.Err(); err != nil {
			return wire.Reply{}, err
		}
		if r, ok := c.pop(); ok {
			return r, nil
		}
		select {
		case <-ctx.Done():
		case <-c.ready:
		case <-c.ended:
			return wire.Reply{}, errClosed
		}
	}
}

func (c *conn) pop() (wire.Reply, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.replies) == 0 {
		return wire.Reply{}, false
	}
	r := c.replies[0]
	c.replies = c.replies[1:]
	return r, true
}

// Close ends the connection and wakes a waiting Recv.
func (c *conn) Close() error {
	c.once.Do(func() {
		close(c.ended)
		w := c.network
		w.mu.Lock()
		defer w.mu.Unlock()
		w.conns = slices.DeleteFunc(w.conns, func(o *conn) bool { return o == c })
	})
	return nil
}

// Info describes the connection.
func (c *conn) Info() netprobe.Info {
	return netprobe.Info{
		Protocol: c.flow.Proto, Socket: "model", Source: c.flow.Src, SourcePort: c.flow.SrcPort,
		InterfaceMTU: c.mtu, CachedMTU: c.network.opt.CachedMTU,
		FlowStable: true,
	}
}
