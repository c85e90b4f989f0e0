package netprobe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Retries of a send that fails with what may be another packet's error. Every
// ICMP error that reaches a socket with an error queue makes the *next* call
// on it fail once, whatever its destination; each failure uses up one such
// error, so the bound only matters to an attacker who sends errors faster than
// we send packets.
const sendRetries = 128

// fullRetries is how many milliseconds a send waits for room in the queue of
// the interface. With an error queue the kernel tells of a packet that it drops
// there (ip(7)); without, the drop would look like loss in the network.
const fullRetries = 50

// sock is a descriptor in the runtime's poller.
type sock struct {
	file *os.File
	raw  syscall.RawConn
}

// newSock takes over fd.
func newSock(fd int, name string) (*sock, error) {
	f := os.NewFile(uintptr(fd), name)
	if f == nil {
		unix.Close(fd)
		return nil, fmt.Errorf("descriptor %d: %w", fd, unix.EBADF)
	}
	raw, err := f.SyscallConn()
	if err != nil {
		f.Close()
		return nil, err
	}
	return &sock{file: f, raw: raw}, nil
}

func (s *sock) close() error { return s.file.Close() }

// control calls f with the descriptor.
func (s *sock) control(f func(fd int) error) error {
	var inner error
	if err := s.raw.Control(func(fd uintptr) { inner = f(int(fd)) }); err != nil {
		return err
	}
	return inner
}

// send sends one packet. An error that another packet left behind is skipped
// and the send repeated: the probe is not lost, and the error stays in the
// queue for the receiving goroutine. before is called ahead of each attempt.
// tooBig tells whether the packet exceeds the interface's MTU, to tell our own
// EMSGSIZE from one a router caused.
func (s *sock) send(b, oob []byte, to unix.Sockaddr, before func(), tooBig func() bool) error {
	var err error
	full := 0
	for range sendRetries {
		werr := s.raw.Write(func(fd uintptr) bool {
			before()
			err = unix.Sendmsg(int(fd), b, oob, to, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
			return err != unix.EAGAIN
		})
		if werr != nil {
			return fmt.Errorf("%w (%v)", os.ErrClosed, werr) // nothing else fails here
		}
		if err == unix.EMSGSIZE && tooBig() {
			return err
		}
		if err == unix.ENOBUFS && full < fullRetries {
			full++
			time.Sleep(time.Millisecond)
			continue
		}
		if !maybeQueued(err) {
			break
		}
	}
	return err
}

// maybeQueued reports whether a failed send may have reported an earlier
// packet's ICMP error (the values of icmp_err_convert, net/ipv4/icmp.c, and
// icmpv6_err_convert) rather than its own.
func maybeQueued(err error) bool {
	switch err {
	case unix.ENETUNREACH, unix.EHOSTUNREACH, unix.ENOPROTOOPT, unix.ECONNREFUSED,
		unix.EMSGSIZE, unix.EOPNOTSUPP, unix.EHOSTDOWN, unix.ENONET, unix.EPROTO,
		unix.EACCES, unix.EINTR:
		return true
	}
	return false
}

// sendError makes the error of Send from the kernel's.
func sendError(err error, mtu int) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.EMSGSIZE):
		return &TooBigError{MTU: mtu}
	case errors.Is(err, unix.ENETUNREACH), errors.Is(err, unix.EHOSTUNREACH):
		return fmt.Errorf("netprobe: sending: %w (%w)", ErrUnreachable, err)
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return fmt.Errorf("netprobe: sending: %w (%w)", ErrNotPermitted, err)
	case errors.Is(err, os.ErrClosed):
		return fmt.Errorf("netprobe: sending: %w", net.ErrClosed)
	}
	return fmt.Errorf("netprobe: sending: %w", err)
}

// openError makes the error of Open from the kernel's.
func openError(doing string, err error) error {
	switch {
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES),
		errors.Is(err, unix.EPROTONOSUPPORT), errors.Is(err, unix.EAFNOSUPPORT), errors.Is(err, unix.ESOCKTNOSUPPORT):
		return fmt.Errorf("netprobe: opening %s: %w (%w)", doing, ErrNotPermitted, err)
	}
	return fmt.Errorf("netprobe: opening %s: %w", doing, err)
}

// loop calls drain whenever something may be in one of the socket's queues,
// until the socket is closed. drain must empty both queues: the poller tells
// of changes only.
func (s *sock) loop(closed <-chan struct{}, drain func(fd int)) {
	for {
		_ = s.raw.Read(func(fd uintptr) bool {
			drain(int(fd))
			return false
		})
		// Closed; or the poller refuses to wait on a socket that reports
		// nothing but an error, which it does while its send buffer is full.
		t := time.NewTimer(2 * time.Millisecond)
		select {
		case <-closed:
			t.Stop()
			return
		case <-t.C:
		}
	}
}

// withSocket opens a socket, prepares it, and closes it if that fails.
func withSocket(ctx context.Context, f *family, typ, proto int, name string, prepare func(fd int) error) (*sock, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	fd, err := f.socket(typ, proto)
	if err != nil {
		return nil, err
	}
	if err := prepare(fd); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return newSock(fd, name)
}
