// Package modelnet lets the instruments probe a simnet model instead of the
// world: a netprobe.Network whose packets cross the model in the time of
// package time, which under testing/synctest is virtual.
//
// The bytes are real: probes are built by wire.Build and answers read by
// wire.ParseReply, as they are on the host.
package modelnet

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/whyslow/whyslow/internal/netprobe"
	"github.com/whyslow/whyslow/internal/simnet"
	"github.com/whyslow/whyslow/internal/wire"
)

// Options model the host that probes. The zero Options is a host that permits
// everything.
type Options struct {
	// Deny lists methods that the host refuses.
	Deny []netprobe.Method
	// InterfaceMTU is what larger probes are refused by, in bytes. Zero means
	// the MTU of the client's link in the model.
	InterfaceMTU int
	// CachedMTU is what the host reports as its path MTU cache, in bytes.
	// Zero means nothing.
	CachedMTU int
	// Unprivileged is a host without raw sockets, as if every Config asked
	// for that: the IP header of a quoted probe is not seen, nor the UDP
	// header, so that a quote of 8 bytes does not say which probe it is.
	Unprivileged bool
}

// Network is a netprobe.Network over a model. It owns a goroutine, which
// Close ends.
type Network struct {
	opt    Options
	client simnet.NodeID

	mu     sync.Mutex // guards what follows and all calls of net
	net    *simnet.Net
	conns  []*conn
	pieces wire.Reassembler
	port   uint16
	closed bool

	wake chan struct{}
	stop chan struct{}
	done chan struct{}
}

var _ netprobe.Network = (*Network)(nil)

// New returns a Network that probes from a client host of the model. The
// Network takes over the model until Close: use Model to touch it.
func New(net *simnet.Net, client simnet.NodeID) *Network {
	return NewWith(net, client, Options{})
}

// NewWith is New for a host with limits.
func NewWith(net *simnet.Net, client simnet.NodeID, opt Options) *Network {
	w := &Network{
		opt: opt, client: client, net: net, port: 40000,
		wake: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}),
	}
	net.Attach(client, w.deliver)
	go w.run()
	return w
}

// Close closes the connections and waits for the Network's goroutine.
func (w *Network) Close() error {
	w.mu.Lock()
	first := !w.closed
	w.closed = true
	conns := slices.Clone(w.conns)
	w.mu.Unlock()
	for _, c := range conns {
		_ = c.Close()
	}
	if first {
		close(w.stop)
	}
	<-w.done
	return nil
}

// Model runs f with the model while nothing moves: to change a link, to send a
// packet from elsewhere, or to read the statistics.
func (w *Network) Model(f func(*simnet.Net)) {
	w.mu.Lock()
	f(w.net)
	w.mu.Unlock()
	w.kick()
}

// kick makes the goroutine look at the model again.
func (w *Network) kick() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// run moves packets when they are due.
func (w *Network) run() {
	defer close(w.done)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		w.mu.Lock()
		next, pending := w.net.Run(time.Now())
		w.mu.Unlock()
		var due <-chan time.Time
		if pending {
			timer.Reset(time.Until(next))
			due = timer.C
		}
		select {
		case <-due:
		case <-w.wake:
		case <-w.stop:
			return
		}
	}
}

// deliver takes a packet for the client. It runs under mu, within net.Run.
func (w *Network) deliver(now time.Time, pkt []byte) {
	if pkt = w.pieces.Add(pkt); pkt == nil {
		return
	}
	for _, c := range w.conns {
		r, err := wire.ParseReply(pkt, c.flow)
		if err == nil || r.Unnumbered {
			c.receive(now, r)
		}
	}
}

// Open opens a connection for probing dst.
func (w *Network) Open(ctx context.Context, dst netip.Addr, cfg netprobe.Config) (netprobe.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	dst = dst.Unmap()
	proto, port, err := w.choose(cfg)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil, fmt.Errorf("modelnet: opening %v: %w", dst, errClosed)
	}
	src, err := w.source(dst, cfg.Source.Unmap())
	if err != nil {
		return nil, err
	}
	mtu := w.net.FirstMTU(w.client, dst)
	if mtu == 0 {
		return nil, fmt.Errorf("modelnet: opening %v: %w", dst, netprobe.ErrUnreachable)
	}
	if w.opt.InterfaceMTU > 0 {
		mtu = w.opt.InterfaceMTU
	}
	unprivileged := cfg.Unprivileged || w.opt.Unprivileged
	w.port = max(w.port+1, 32768) // wraps like an ephemeral port
	c := &conn{
		network: w, mtu: mtu, blind: unprivileged,
		flow: wire.Flow{
			Proto: proto, Src: src, Dst: dst, SrcPort: w.port, DstPort: port,
		},
		ready: make(chan struct{}, 1), ended: make(chan struct{}),
	}
	w.conns = append(w.conns, c)
	return c, nil
}

// choose finds the protocol and destination port of a Config.
func (w *Network) choose(cfg netprobe.Config) (wire.Protocol, uint16, error) {
	methods := []netprobe.Method{cfg.Method}
	if cfg.Method == netprobe.Auto {
		methods = []netprobe.Method{netprobe.ICMP, netprobe.UDP, netprobe.TCP}
	}
	for _, m := range methods {
		if slices.Contains(w.opt.Deny, m) {
			continue
		}
		port := cfg.Port
		switch m {
		case netprobe.ICMP:
			return wire.ICMP, 0, nil
		case netprobe.UDP:
			if port == 0 {
				port = 33434
			}
			return wire.UDP, port, nil
		case netprobe.TCP:
			if port == 0 {
				port = 443
			}
			return wire.TCP, port, nil
		}
	}
	return 0, 0, fmt.Errorf("modelnet: opening method %d: %w", cfg.Method, netprobe.ErrNotPermitted)
}

// source finds the client's address for a destination.
func (w *Network) source(dst, want netip.Addr) (netip.Addr, error) {
	for _, a := range w.net.Addrs(w.client) {
		if a.Is4() == dst.Is4() && (!want.IsValid() || a == want) {
			return a, nil
		}
	}
	if want.IsValid() {
		return netip.Addr{}, fmt.Errorf("modelnet: opening %v: %v is not the client's", dst, want)
	}
	return netip.Addr{}, fmt.Errorf("modelnet: opening %v: no address of its family: %w", dst, netprobe.ErrUnreachable)
}
