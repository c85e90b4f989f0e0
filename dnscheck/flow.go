package dnscheck

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"time"
)

// Flow keeps the UDP sockets of one resolution, one for each server, so that
// queries which a stub sends from one port really do. The zero Flow is ready;
// Close must be called.
type Flow struct {
	mu     sync.Mutex
	closed bool
	conns  map[netip.AddrPort]*udpConn
}

// Close closes the sockets and waits for their readers. Queries that still
// wait on them end.
func (f *Flow) Close() error {
	f.mu.Lock()
	conns := f.conns
	f.conns, f.closed = nil, true
	f.mu.Unlock()
	for _, c := range conns {
		c.close()
	}
	return nil
}

// Drop closes the socket towards one server, so that the next query to it
// leaves from another port.
func (f *Flow) Drop(server netip.AddrPort) {
	f.mu.Lock()
	c := f.conns[server]
	delete(f.conns, server)
	f.mu.Unlock()
	if c != nil {
		c.close()
	}
}

// conn returns the socket towards server, opened by dial if there is none.
func (f *Flow) conn(server netip.AddrPort, dial func() (net.Conn, error)) (*udpConn, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, net.ErrClosed
	}
	if c := f.conns[server]; c != nil {
		return c, nil
	}
	nc, err := dial() // a UDP connect does not block
	if err != nil {
		return nil, err
	}
	c := &udpConn{conn: nc, done: make(chan struct{}), waiting: map[uint16]*waiter{}}
	go c.read()
	if f.conns == nil {
		f.conns = map[netip.AddrPort]*udpConn{}
	}
	f.conns[server] = c
	return c, nil
}

const (
	// maxStash bounds the replies that a socket keeps for a query not yet
	// repeated.
	maxStash = 8
	// maxSocketErrors bounds the ICMP errors that one socket lives through.
	maxSocketErrors = 256
)

// udpConn is one connected UDP socket and the queries that wait on it.
type udpConn struct {
	conn net.Conn
	done chan struct{} // closed when the reader has ended

	mu      sync.Mutex
	waiting map[uint16]*waiter // by message id
	stash   []packet           // replies that nobody waited for at the moment
	dead    error              // set once the reader has ended
}

// packet is one datagram, or the error that came instead.
type packet struct {
	msg []byte
	at  time.Time
	err error
}

// waiter is one query in flight. Its channel holds a few packets, because a
// mismatched one may come first; more than that are dropped, as a full socket
// buffer would.
type waiter struct{ ch chan packet }

func (c *udpConn) close() {
	c.conn.Close()
	<-c.done
}

// read hands every datagram to the query with its id. A datagram with an id
// that nobody waits for goes to all, to be counted, and is kept: a stub that
// asks again with the same id takes a late answer to the first question.
func (c *udpConn) read() {
	defer close(c.done)
	buf := make([]byte, 65535)
	for errs := 0; ; {
		n, err := c.conn.Read(buf)
		p := packet{at: time.Now(), err: err}
		if err == nil {
			p.msg = append([]byte(nil), buf[:n]...)
		}
		c.mu.Lock()
		c.deliver(p)
		// An ICMP error ends the queries that wait, not the socket; but a
		// socket that gives nothing but errors must not spin.
		over := false
		if err != nil {
			errs++
			o := outcomeOf(err)
			over = errs > maxSocketErrors || o != Refused && o != Unreachable
		}
		if over {
			c.dead = err
		}
		c.mu.Unlock()
		if over {
			return
		}
	}
}

func (c *udpConn) deliver(p packet) {
	if p.err == nil && len(p.msg) >= 2 {
		id := uint16(p.msg[0])<<8 | uint16(p.msg[1])
		if w := c.waiting[id]; w != nil {
			w.put(p)
			return
		}
		if len(c.stash) == maxStash {
			c.stash = c.stash[1:]
		}
		c.stash = append(c.stash, p)
	}
	for _, w := range c.waiting {
		w.put(p)
	}
}

func (w *waiter) put(p packet) {
	select {
	case w.ch <- p:
	default:
	}
}

// ask sends msg and returns a function that waits for the next packet that may
// be its answer, and one that ends the waiting.
func (c *udpConn) ask(id uint16, msg []byte) (next func(context.Context) (packet, error), stop func(), err error) {
	w := &waiter{ch: make(chan packet, maxStash+1)}
	c.mu.Lock()
	if c.dead != nil {
		c.mu.Unlock()
		return nil, nil, c.dead
	}
	keep := c.stash[:0]
	for _, p := range c.stash {
		if uint16(p.msg[0])<<8|uint16(p.msg[1]) == id {
			w.put(p)
		} else {
			keep = append(keep, p)
		}
	}
	c.stash = keep
	c.waiting[id] = w
	c.mu.Unlock()
	stop = func() {
		c.mu.Lock()
		if c.waiting[id] == w {
			delete(c.waiting, id)
		}
		c.mu.Unlock()
	}
	if _, err := c.conn.Write(msg); err != nil {
		stop()
		return nil, nil, err
	}
	next = func(ctx context.Context) (packet, error) {
		select {
		case p := <-w.ch:
			return p, p.err
		case <-ctx.Done():
			return packet{}, ctx.Err()
		}
	}
	return next, stop, nil
}
