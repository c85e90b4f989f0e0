package dnscheck

import (
	"io"
	"net/netip"
	"sync"
)

// Flow keeps the sockets of one resolution, one for each server, so that
// queries which a stub sends from one port really do. The zero Flow is ready;
// Close must be called.
type Flow struct {
	mu     sync.Mutex
	closed bool
	conns  map[netip.AddrPort]io.Closer
}

// Close closes the sockets. Queries that still wait on them end.
func (f *Flow) Close() error {
	f.mu.Lock()
	conns := f.conns
	f.conns, f.closed = nil, true
	f.mu.Unlock()
	for _, c := range conns {
		c.Close()
	}
	return nil
}

// drop closes the socket towards one server, so that the next query opens a
// new one from another port.
func (f *Flow) drop(server netip.AddrPort) {
	f.mu.Lock()
	c := f.conns[server]
	delete(f.conns, server)
	f.mu.Unlock()
	if c != nil {
		c.Close()
	}
}
