// Package servers holds the servers at the ends of a lab: small ones in Go
// whose faults can be programmed, and Apache httpd, nginx, unbound and nsd as
// configured processes.
//
// The Go servers need no lab: a Place says where their sockets are opened, and
// the zero one is this process's own network. The real ones run in a
// netlab.Namespace.
package servers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"
)

// Place is where a server's sockets are opened. *netlab.Namespace is one.
type Place interface {
	Listen(network, address string) (net.Listener, error)
	ListenPacket(network, address string) (net.PacketConn, error)
	Dial(ctx context.Context, network, address string) (net.Conn, error)
}

// Host is this process's own network.
type Host struct{}

// Listen is net.Listen.
func (Host) Listen(network, address string) (net.Listener, error) {
	return net.Listen(network, address)
}

// ListenPacket is net.ListenPacket.
func (Host) ListenPacket(network, address string) (net.PacketConn, error) {
	return net.ListenPacket(network, address)
}

// Dial is Dialer.DialContext.
func (Host) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, network, address)
}

// NotInstalledError says that a program is missing on this host.
type NotInstalledError struct {
	Program string
	Err     error
}

func (e *NotInstalledError) Error() string {
	return fmt.Sprintf("servers: %s is not installed", e.Program)
}

func (e *NotInstalledError) Unwrap() error { return e.Err }

// pause waits for d or until ctx ends, and reports whether it was d.
func pause(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// listenTCP listens on all addresses or on none.
func listenTCP(p Place, addrs []netip.AddrPort) ([]net.Listener, error) {
	var ls []net.Listener
	for _, a := range addrs {
		l, err := p.Listen("tcp", a.String())
		if err != nil {
			for _, l := range ls {
				err = errors.Join(err, l.Close())
			}
			return nil, fmt.Errorf("servers: listening on %s: %w", a, err)
		}
		ls = append(ls, l)
	}
	return ls, nil
}

// addrPorts are the addresses of listeners, with the ports that the kernel
// chose where 0 was asked for.
func addrPorts(ls []net.Listener) []netip.AddrPort {
	var out []netip.AddrPort
	for _, l := range ls {
		if a, ok := l.Addr().(*net.TCPAddr); ok {
			out = append(out, a.AddrPort())
		}
	}
	return out
}
