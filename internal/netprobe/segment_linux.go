package netprobe

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/whyslow/whyslow/internal/wire"
	"golang.org/x/sys/unix"
)

const (
	// segmentsAtOnce is how many connections a segmentConn has at a time, those
	// that wait for their probe included.
	segmentsAtOnce = 8
	// handshakeLife bounds a handshake: a SYN and one repeat after a second.
	handshakeLife = 3 * time.Second
	// segmentLife is how long a segment is waited for beyond three round
	// trips. The kernel repeats it meanwhile, as a whole.
	segmentLife = time.Second
	// segmentPoll is how often a connection is looked at that reports nothing:
	// "too big" from a router wakes nobody.
	segmentPoll = 10 * time.Millisecond
)

// segmentConn measures sizes by data on TCP connections, one for each probe: a
// path MTU where neither echo nor UDP is answered. A segment that the peer's
// kernel acknowledges has passed. Connections are opened ahead, so that a probe
// takes one round trip, and end with a reset. What they carry is the beginning
// of a request that never becomes whole.
//
// The kernel sets DF only on connections that also obey its route cache
// (IP_PMTUDISC_DO), so a router's claim in that cache, even an absurd one, is
// the end of what can be tried: it is returned as the host's own "too big".
type segmentConn struct {
	*core
	fam   *family
	rt    route
	cfg   Config
	ready chan *segment // established
	room  chan struct{} // holds a token for each connection
	wg    sync.WaitGroup
	// starting is held while goroutines are added, which must not be once
	// Close waits for them.
	starting sync.Mutex
}

// segment is one connection.
type segment struct {
	sock *sock
	// size is the largest packet that the connection can fill, by what was
	// agreed in its handshake; 0 means that only the first link bounds it.
	size    int
	header  int // bytes before the data: IP, TCP, options
	born    time.Time
	rtt     time.Duration   // of the handshake
	probe   chan wire.Probe // receives the probe once it is sent
	payload int             // bytes of data in it
}

// openSegments opens a connection and waits for it.
func openSegments(ctx context.Context, rt route, cfg Config) (Conn, error) {
	if cfg.Port == 0 {
		cfg.Port = defaultTCPPort
	}
	flow := wire.Flow{Proto: wire.TCP, Src: rt.src, Dst: rt.dst.WithZone(""), DstPort: cfg.Port}
	c := &segmentConn{
		core: newCore(flow, rt.info(flow, "connect")),
		fam:  familyOf(rt.dst), rt: rt, cfg: cfg,
		ready: make(chan *segment), room: make(chan struct{}, segmentsAtOnce),
	}
	first, err := c.connect(ctx)
	if err == nil {
		if err = first.established(ctx, c.fam); err != nil {
			first.sock.close()
		}
	}
	if err != nil {
		return nil, openError("a tcp connection", err)
	}
	c.info.Largest = first.size
	c.room <- struct{}{}
	c.wg.Go(func() { c.serve(first) })
	return c, nil
}

// connect begins to open a connection. It is called by Open and Send only, so
// that all connections are of their callers' network namespace.
func (c *segmentConn) connect(ctx context.Context) (*segment, error) {
	s, err := withSocket(ctx, c.fam, unix.SOCK_STREAM, unix.IPPROTO_TCP, "tcp", func(fd int) error {
		if err := setOptions(fd, c.options()...); err != nil {
			return err
		}
		if err := unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1}); err != nil {
			return fmt.Errorf("setsockopt SO_LINGER: %w", err)
		}
		if err := bind(fd, c.cfg.Interface, c.rt.src.WithZone(c.rt.dst.Zone()), 0); err != nil {
			return err
		}
		to, err := sockaddr(c.rt.dst, c.flow.DstPort)
		if err != nil {
			return err
		}
		if err := unix.Connect(fd, to); err != unix.EINPROGRESS {
			return err
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("connecting: %w", err)
	}
	return &segment{sock: s, born: time.Now(), probe: make(chan wire.Probe, 1)}, nil
}

// connectAhead begins to open as many connections as there is room for.
func (c *segmentConn) connectAhead() {
	c.starting.Lock()
	defer c.starting.Unlock()
	for !c.isClosed() {
		select {
		case c.room <- struct{}{}:
		default:
			return
		}
		s, err := c.connect(context.Background())
		c.wg.Go(func() {
			if err == nil {
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				c.wg.Go(func() { // what the peer does not answer ends with Close
					defer cancel()
					select {
					case <-c.closed:
					case <-ctx.Done():
					}
				})
				if err = s.established(ctx, c.fam); err == nil {
					c.serve(s)
					return
				}
				s.sock.close()
			}
			c.rest(segmentLife) // not at full speed: the peer takes no more
			<-c.room
		})
	}
}

// rest waits, but not beyond Close.
func (c *segmentConn) rest(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-c.closed:
	}
}

func (c *segmentConn) options() []option {
	return []option{
		{name: "MTU_DISCOVER", level: c.fam.level, opt: c.fam.discover, value: unix.IP_PMTUDISC_DO}, // the same for IPv6
		{name: "TCP_NODELAY", level: unix.SOL_TCP, opt: unix.TCP_NODELAY, value: 1},
		{name: "SO_TIMESTAMPING", level: unix.SOL_SOCKET, opt: unix.SO_TIMESTAMPING, mayBeAbsent: true,
			value: unix.SOF_TIMESTAMPING_SOFTWARE | c.rt.departure |
				unix.SOF_TIMESTAMPING_TX_ACK | unix.SOF_TIMESTAMPING_OPT_TSONLY},
	}
}

// established waits until the handshake is over, and reads what it agreed on.
func (s *segment) established(ctx context.Context, f *family) error {
	const synSent, optTimestamps = 2, 1 // net/tcp_states.h, TCPI_OPT_TIMESTAMPS
	stop := context.AfterFunc(ctx, func() { _ = s.sock.file.SetWriteDeadline(time.Unix(1, 0)) })
	defer stop()
	if err := s.sock.file.SetWriteDeadline(time.Now().Add(handshakeLife)); err != nil {
		return err
	}
	var info *unix.TCPInfo
	var err error
	mtu := 0
	werr := s.sock.raw.Write(func(fd uintptr) bool {
		if info, err = unix.GetsockoptTCPInfo(int(fd), unix.SOL_TCP, unix.TCP_INFO); err != nil || info.State == synSent {
			return err != nil
		}
		mtu, _ = unix.GetsockoptInt(int(fd), f.level, f.mtu)
		if e, _ := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ERROR); e != 0 {
			err = unix.Errno(e)
		}
		return true
	})
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case werr != nil:
		return fmt.Errorf("connecting: %w", werr)
	case err != nil:
		return fmt.Errorf("connecting: %w", err)
	case info.State != stateEstablished:
		return unix.ECONNRESET
	}
	s.rtt = time.Since(s.born)
	s.header = f.headerSize + 20
	if info.Options&optTimestamps != 0 {
		s.header += 12
	}
	// The kernel's MSS does not count the options that every segment has.
	if size := s.header + int(info.Snd_mss); size < mtu {
		s.size = size
	}
	return nil
}

const stateEstablished = 1 // net/tcp_states.h

// Send implements Conn. It waits for a connection to send on, no longer than a
// handshake may take.
func (c *segmentConn) Send(p wire.Probe) (time.Time, error) {
	if err := checkProbe(p); err != nil {
		return time.Time{}, err
	}
	mtu := c.info.InterfaceMTU
	if c.info.Largest > 0 {
		mtu = c.info.Largest
	}
	if mtu > 0 && p.Size > mtu {
		return time.Time{}, &TooBigError{MTU: mtu}
	}
	limit := time.NewTimer(handshakeLife)
	defer limit.Stop()
	for {
		c.connectAhead()
		select {
		case c.room <- struct{}{}: // somebody left
			<-c.room
		case s := <-c.ready:
			sent, err := c.launch(s, p)
			if err == nil {
				return sent, nil
			}
			c.forget(p.Seq)
			s.sock.close() // and so ends its goroutine
			if !errors.Is(err, unix.EPIPE) && !errors.Is(err, unix.ECONNRESET) {
				return time.Time{}, sendError(err, mtu)
			}
			// The peer did not wait; another connection is fresher.
		case <-limit.C:
			return time.Time{}, fmt.Errorf("netprobe: sending: no connection: %w", os.ErrDeadlineExceeded)
		case <-c.closed:
			return time.Time{}, sendError(os.ErrClosed, 0)
		}
	}
}

// launch writes what makes one packet of the probe's size.
func (c *segmentConn) launch(s *segment, p wire.Probe) (sent time.Time, err error) {
	s.payload = p.Size - s.header
	if p.Size == 0 {
		s.payload = 1
	}
	if s.payload < 1 {
		return time.Time{}, fmt.Errorf("%d bytes of TCP with data: %w", p.Size, wire.ErrSize)
	}
	data := opening(c.flow.Dst, c.flow.DstPort, s.payload)
	cerr := s.sock.control(func(fd int) error {
		err = setOptions(fd,
			option{name: "TTL", level: c.fam.level, opt: c.fam.ttl, value: ttlOf(p)},
			option{name: "TOS", level: c.fam.level, opt: c.fam.tos, value: p.TOS})
		if err != nil {
			return err
		}
		if info, ierr := unix.GetsockoptTCPInfo(fd, unix.SOL_TCP, unix.TCP_INFO); ierr != nil || info.State != stateEstablished {
			return unix.EPIPE
		}
		sent = time.Now()
		c.note(p, sent)
		n, werr := unix.SendmsgN(fd, data, nil, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
		if werr == nil && n < len(data) {
			werr = unix.EMSGSIZE
		}
		return werr
	})
	if cerr != nil {
		return time.Time{}, cerr
	}
	s.probe <- p
	return sent, nil
}

// Close implements Conn. It waits for all connections.
func (c *segmentConn) Close() error {
	c.starting.Lock()
	first := c.shut()
	c.starting.Unlock()
	if first {
		c.wg.Wait()
	}
	return nil
}
