package httpcheck

import (
	"context"
	"io"
	"net"
	"sync"
	"time"
)

// meter is a TCP connection that stamps what passes and that no read or write
// can hang on. One goroutine reads and writes; abort and the end of the
// watched context may come from others.
type meter struct {
	conn net.Conn

	lastRead time.Time // when the last read that brought bytes returned
	in       int64     // bytes read

	// stall bounds each read, until all of them. Zero means no bound.
	stall time.Duration
	until time.Time

	gaps *gapMeter // nil unless a body is being received

	mu       sync.Mutex
	cause    error     // why the connection was aborted
	progress time.Time // when a byte last moved either way
}

// past is a deadline that has always passed.
var past = time.Unix(1, 0)

// watch aborts the connection when ctx ends. The returned function ends the
// watch.
func (m *meter) watch(ctx context.Context) func() bool {
	return context.AfterFunc(ctx, func() { m.abort(context.Cause(ctx)) })
}

// abort makes all reads and writes fail with cause, at once.
func (m *meter) abort(cause error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cause == nil {
		m.cause = cause
		_ = m.conn.SetDeadline(past)
	}
}

// idle tells since when nothing moved on the connection.
func (m *meter) idle() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.progress
}

func (m *meter) moved(t time.Time) {
	m.mu.Lock()
	m.progress = t
	m.mu.Unlock()
}

// bound sets the limits of the reads that follow.
func (m *meter) bound(stall time.Duration, until time.Time) { m.stall, m.until = stall, until }

// arm sets one direction's deadline, unless the connection was aborted: a
// deadline set late must not revive it.
func (m *meter) arm(set func(time.Time) error, now time.Time) {
	d := m.until
	if m.stall > 0 {
		if s := now.Add(m.stall); d.IsZero() || s.Before(d) {
			d = s
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cause == nil {
		_ = set(d)
	}
}

func (m *meter) Read(p []byte) (int, error) {
	begin := time.Now()
	m.arm(m.conn.SetReadDeadline, begin)
	n, err := m.conn.Read(p)
	if n > 0 {
		now := time.Now()
		m.lastRead = now
		m.in += int64(n)
		m.moved(now)
		if m.gaps != nil {
			m.gaps.read(begin, now)
		}
	}
	return n, m.why(err)
}

func (m *meter) Write(p []byte) (int, error) {
	m.arm(m.conn.SetWriteDeadline, time.Now())
	n, err := m.conn.Write(p)
	m.moved(time.Now())
	return n, m.why(err)
}

// why replaces the deadline error of an aborted connection by its cause.
func (m *meter) why(err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cause != nil {
		return m.cause
	}
	return err
}

func (m *meter) Close() error         { return m.conn.Close() }
func (m *meter) LocalAddr() net.Addr  { return m.conn.LocalAddr() }
func (m *meter) RemoteAddr() net.Addr { return m.conn.RemoteAddr() }

// SetDeadline and its like are there for crypto/tls, which sets a write
// deadline when it closes. Deadlines are ours.
func (m *meter) SetDeadline(time.Time) error      { return nil }
func (m *meter) SetReadDeadline(time.Time) error  { return nil }
func (m *meter) SetWriteDeadline(time.Time) error { return nil }

// gapMeter counts the pauses of a body. Only the time spent blocked in a read
// counts, so a pause is never our own slowness.
type gapMeter struct {
	first   time.Time // of the body's response
	min     time.Duration
	reads   int
	pauses  int
	longest time.Duration
	at      time.Duration
	total   time.Duration
}

func (g *gapMeter) read(begin, end time.Time) {
	g.reads++
	d := end.Sub(begin)
	if d <= g.min {
		return
	}
	g.pauses++
	g.total += d
	if d > g.longest {
		g.longest, g.at = d, begin.Sub(g.first)
	}
}

// records hands a TLS connection its input no further than to the end of the
// record being read, and remembers when the first byte of that record came.
//
// Without it the first byte of a response could only be stamped when its whole
// record has arrived, up to 16 kB later; and session tickets, which TLS 1.3
// sends after the handshake in records that look the same from outside
// (RFC 8446 §4.6.1, §5.2), would pass for it.
type records struct {
	*meter
	buf     []byte
	r, w    int       // buf[r:w] is unread
	arrived time.Time // when buf[r:w] came
	header  int       // bytes of the record header that were handed out, 0–5
	length  [2]byte
	left    int       // bytes of the record's body not yet handed out
	start   time.Time // arrival of the current record's first byte
}

func newRecords(m *meter) *records { return &records{meter: m, buf: make([]byte, 16<<10)} }

// recordHeader is type, version and length, RFC 8446 §5.1.
const recordHeader = 5

func (r *records) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if r.r == r.w {
		n, err := r.meter.Read(r.buf)
		if n == 0 {
			return 0, err
		}
		// An error that came with bytes comes again with the next read.
		r.r, r.w, r.arrived = 0, n, r.lastRead
	}
	if r.header == 0 {
		r.start = r.arrived
	}
	if r.header < recordHeader {
		n := copy(p[:min(len(p), recordHeader-r.header)], r.buf[r.r:r.w])
		for _, b := range p[:n] {
			if r.header >= 3 {
				r.length[r.header-3] = b
			}
			r.header++
		}
		r.r += n
		r.left = int(r.length[0])<<8 | int(r.length[1])
		r.ended()
		return n, nil
	}
	n := copy(p[:min(len(p), r.left)], r.buf[r.r:r.w])
	r.r += n
	r.left -= n
	r.ended()
	return n, nil
}

// ended prepares for the next header once the record is over.
func (r *records) ended() {
	if r.header == recordHeader && r.left == 0 {
		r.header = 0
	}
}

// limiter bounds the bytes of a response's header.
type limiter struct {
	r    io.Reader
	left int64
}

func (l *limiter) Read(p []byte) (int, error) {
	if l.left <= 0 {
		return 0, errHeaderSize
	}
	if int64(len(p)) > l.left {
		p = p[:l.left]
	}
	n, err := l.r.Read(p)
	l.left -= int64(n)
	return n, err
}
