package dnscheck

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"
)

// Host exchanges queries over this host's UDP and TCP. The zero Host is ready
// and safe for concurrent use.
type Host struct {
	// Source is the local address. The zero Addr leaves it to the kernel.
	Source netip.Addr
	// Interface binds the sockets to a network interface (SO_BINDTODEVICE).
	// Linux only; elsewhere every exchange fails with ErrInterface.
	Interface string
}

// ErrInterface says that this platform cannot bind a socket to an interface.
var ErrInterface = errors.New("dnscheck: binding to an interface needs Linux")

// Exchange implements Exchanger. A reply is the answer if its id and its
// question are the query's; others are counted and waited past.
func (h *Host) Exchange(ctx context.Context, q Query) (*Answer, error) {
	w, err := packQuery(&q)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	var a *Answer
	if q.TCP {
		a, err = h.tcp(ctx, q, w)
	} else {
		a, err = h.udp(ctx, q, w)
	}
	if err != nil {
		var oe *OutcomeError
		if !errors.As(err, &oe) {
			oe = &OutcomeError{Outcome: outcomeOf(err), Err: err}
		}
		oe.Server, oe.TCP = q.Server, q.TCP
		oe.Elapsed = time.Since(start)
		return nil, oe
	}
	return a, nil
}

func (h *Host) udp(ctx context.Context, q Query, msg []byte) (*Answer, error) {
	f := q.Flow
	if f == nil {
		f = new(Flow)
		defer f.Close()
	}
	c, err := f.conn(q.Server, func() (net.Conn, error) { return h.dial(ctx, "udp", q.Server) })
	if err != nil {
		return nil, err
	}
	sent := time.Now()
	next, stop, err := c.ask(q.ID, msg)
	if err != nil {
		return nil, err
	}
	defer stop()
	for ignored := 0; ; {
		p, err := next(ctx)
		if err != nil {
			if ignored > 0 && outcomeOf(err) == Timeout {
				return nil, &OutcomeError{Outcome: Mismatch, Err: fmt.Errorf("%d replies to other questions", ignored)}
			}
			return nil, err
		}
		a, err := readReply(q, p.msg)
		if errors.Is(err, errNotOurs) {
			ignored++
			continue
		}
		if err != nil {
			return nil, &OutcomeError{Outcome: Malformed, Err: err}
		}
		a.Elapsed, a.Ignored = max(0, p.at.Sub(sent)), ignored
		return a, nil
	}
}

func (h *Host) tcp(ctx context.Context, q Query, msg []byte) (*Answer, error) {
	start := time.Now()
	c, err := h.dial(ctx, "tcp", q.Server)
	connect := time.Since(start)
	if err != nil {
		o := outcomeOf(err)
		if o != Refused {
			connect = 0
		}
		return nil, &OutcomeError{Outcome: o, Connect: connect, Err: err}
	}
	defer c.Close()
	// Closing is what interrupts a blocked read when ctx ends.
	defer context.AfterFunc(ctx, func() { c.Close() })()
	fail := func(err error) error {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return &OutcomeError{Outcome: outcomeOf(err), Connect: connect, Err: err}
	}
	framed := binary.BigEndian.AppendUint16(make([]byte, 0, len(msg)+2), uint16(len(msg)))
	if _, err := c.Write(append(framed, msg...)); err != nil {
		return nil, fail(err)
	}
	// A peer that streams other answers is given up on soon.
	for ignored := 0; ignored < maxStash; ignored++ {
		var size [2]byte
		if _, err := io.ReadFull(c, size[:]); err != nil {
			return nil, fail(err)
		}
		buf := make([]byte, binary.BigEndian.Uint16(size[:]))
		if _, err := io.ReadFull(c, buf); err != nil {
			return nil, fail(err)
		}
		a, err := readReply(q, buf)
		if errors.Is(err, errNotOurs) {
			continue
		}
		if err != nil {
			return nil, &OutcomeError{Outcome: Malformed, Connect: connect, Err: err}
		}
		a.Elapsed, a.Connect, a.Ignored = time.Since(start), connect, ignored
		return a, nil
	}
	return nil, &OutcomeError{Outcome: Mismatch, Connect: connect}
}

// Dial opens a socket of this host's to a nameserver, "udp" or "tcp", for those
// who exchange messages themselves.
func (h *Host) Dial(ctx context.Context, network string, server netip.AddrPort) (net.Conn, error) {
	return h.dial(ctx, network, server)
}

func (h *Host) dial(ctx context.Context, network string, server netip.AddrPort) (net.Conn, error) {
	d := net.Dialer{Control: h.control, FallbackDelay: -1}
	// A source address speaks only to servers of its family; the others are
	// asked from where the kernel sends.
	if h.Source.IsValid() && h.Source.Unmap().Is4() == server.Addr().Unmap().Is4() {
		if network == "udp" {
			d.LocalAddr = net.UDPAddrFromAddrPort(netip.AddrPortFrom(h.Source, 0))
		} else {
			d.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(h.Source, 0))
		}
	}
	return d.DialContext(ctx, network, server.String())
}

// outcomeOf classes an error of a socket or of a context.
func outcomeOf(err error) Outcome {
	var oe *OutcomeError
	switch {
	case errors.As(err, &oe):
		return oe.Outcome
	case errors.Is(err, context.Canceled):
		return Interrupted
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, syscall.ETIMEDOUT):
		return Timeout
	case errors.Is(err, syscall.ECONNREFUSED):
		return Refused
	case errors.Is(err, net.ErrClosed), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return Closed
	default:
		// No route, host or network unreachable, a filter's EPERM, a source
		// address that is not ours: the query did not reach the server.
		return Unreachable
	}
}
