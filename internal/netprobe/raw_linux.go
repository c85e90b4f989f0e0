package netprobe

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/whyslow/whyslow/internal/wire"
	"golang.org/x/sys/unix"
)

// rawConn writes whole packets and reads the answers off raw sockets, which
// takes CAP_NET_RAW. It buys one flow for all probes of every protocol, and
// sight of the quoted IP header.
type rawConn struct {
	*core
	fam *family
	rt  route
	out *sock
	// holder keeps our port from others: a UDP socket, which also receives
	// data, or a TCP socket that is never used, so that the kernel resets
	// what our SYNs would open.
	holder *sock
	in     []*sock
	wg     sync.WaitGroup

	stampMu sync.Mutex
	stamps  *reader
}

// openRaw opens the raw sockets for a protocol.
func openRaw(ctx context.Context, rt route, cfg Config, proto wire.Protocol) (Conn, error) {
	c := &rawConn{fam: familyOf(rt.dst), rt: rt}
	c.stamps = newReader(c.fam)
	if err := c.open(ctx, cfg, proto); err != nil {
		c.closeSockets()
		return nil, openError("raw sockets", err)
	}
	for i, s := range c.in {
		c.wg.Go(func() {
			r := newReader(c.fam)
			s.loop(c.closed, func(fd int) { c.drain(r, fd, i == 0) })
		})
	}
	return c, nil
}

func (c *rawConn) open(ctx context.Context, cfg Config, proto wire.Protocol) (err error) {
	opts := append(c.fam.probeOptions(), stampOptions(c.rt.departure),
		// Not for routers' errors, but see fullRetries.
		option{name: "RECVERR", level: c.fam.level, opt: c.fam.recvErr, value: 1, mayBeAbsent: true})
	c.out, err = withSocket(ctx, c.fam, unix.SOCK_RAW, unix.IPPROTO_RAW, "raw", func(fd int) error {
		if err := bind(fd, cfg.Interface, c.rt.src.WithZone(c.rt.dst.Zone()), 0); err != nil {
			return err
		}
		return setOptions(fd, opts...)
	})
	if err != nil {
		return err
	}
	flow := wire.Flow{Proto: proto, Src: c.rt.src, Dst: c.rt.dst.WithZone(""), DstPort: cfg.Port}
	if flow.SrcPort, err = c.reserve(ctx, cfg, proto); err != nil {
		return err
	}
	if proto == wire.UDP && flow.DstPort == 0 {
		flow.DstPort = defaultUDPPort
	}
	if proto == wire.TCP && flow.DstPort == 0 {
		flow.DstPort = defaultTCPPort
	}
	c.core = newCore(flow, c.rt.info(flow, "raw"))
	return c.listen(ctx, cfg)
}

// reserve takes a local port for the flow. ICMP has one too, of UDP, and uses
// its number as the identifier: so no two connections of this host, in whatever
// process, have one in common (mtr#344, mtr#278).
func (c *rawConn) reserve(ctx context.Context, cfg Config, proto wire.Protocol) (port uint16, err error) {
	typ, num := unix.SOCK_DGRAM, unix.IPPROTO_UDP
	if proto == wire.TCP {
		typ, num = unix.SOCK_STREAM, unix.IPPROTO_TCP
	}
	c.holder, err = withSocket(ctx, c.fam, typ, num, "reserved", func(fd int) error {
		if err := setOptions(fd, c.arrivalOptions()...); err != nil {
			return err
		}
		if err := bind(fd, cfg.Interface, c.rt.src.WithZone(c.rt.dst.Zone()), 0); err != nil {
			return err
		}
		local, err := localOf(fd)
		port = local.Port()
		return err
	})
	return port, err
}

func (c *rawConn) arrivalOptions() []option {
	return []option{
		{name: "SO_RCVBUF", level: unix.SOL_SOCKET, opt: unix.SO_RCVBUF, value: receiveBuffer, mayBeAbsent: true},
		{name: "RECVTTL", level: c.fam.level, opt: c.fam.recvTTL, value: 1, mayBeAbsent: true},
		stampOptions(0),
	}
}

// listen opens what answers come by: ICMP always, and the probes' own protocol.
func (c *rawConn) listen(ctx context.Context, cfg Config) error {
	icmp, err := withSocket(ctx, c.fam, unix.SOCK_RAW, c.fam.icmp, "raw-icmp", func(fd int) error {
		// The filters come before the rest, so that little of what is
		// others' is queued meanwhile.
		if err := errors.Join(filterICMP(fd, c.fam), filterQuotes(fd, c.fam, c.flow)); err != nil {
			return err
		}
		if err := setOptions(fd, c.arrivalOptions()...); err != nil {
			return err
		}
		return bindDevice(fd, cfg.Interface)
	})
	if err != nil {
		return err
	}
	c.in = append(c.in, icmp)
	switch c.flow.Proto {
	case wire.UDP:
		c.in = append(c.in, c.holder)
	case wire.TCP:
		tcp, err := withSocket(ctx, c.fam, unix.SOCK_RAW, unix.IPPROTO_TCP, "raw-tcp", func(fd int) error {
			if err := filterPort(fd, c.fam, c.flow.SrcPort); err != nil {
				return err
			}
			if err := setOptions(fd, c.arrivalOptions()...); err != nil {
				return err
			}
			return bindDevice(fd, cfg.Interface)
		})
		if err != nil {
			return err
		}
		c.in = append(c.in, tcp)
	}
	return nil
}

// Send implements Conn.
func (c *rawConn) Send(p wire.Probe) (time.Time, error) {
	if err := checkProbe(p); err != nil {
		return time.Time{}, err
	}
	pkt, err := wire.Build(nil, c.flow, p)
	if err != nil {
		return time.Time{}, fmt.Errorf("netprobe: building a probe: %w", err)
	}
	to, err := sockaddr(c.rt.dst, 0)
	if err != nil {
		return time.Time{}, err
	}
	var sent time.Time
	before := func() {
		sent = time.Now()
		c.note(p, sent)
	}
	err = c.out.send(pkt, appendStamp(nil, len(pkt)), to, before, func() bool { return len(pkt) > c.mtu() })
	if err != nil {
		c.forget(p.Seq)
		return time.Time{}, sendError(err, c.mtu())
	}
	c.takeStamps()
	return sent, nil
}

func (c *rawConn) mtu() (mtu int) {
	_ = c.out.control(func(fd int) error {
		mtu = mtuOf(fd, c.rt.ifIndex)
		return nil
	})
	return mtu
}

// takeStamps reads the transmit stamps that have come back.
func (c *rawConn) takeStamps() {
	c.stampMu.Lock()
	defer c.stampMu.Unlock()
	_ = c.out.control(func(fd int) error {
		for {
			c.stamps.fit(c.largest.Load())
			m, err := c.stamps.read(fd, unix.MSG_ERRQUEUE)
			if err != nil {
				return nil
			}
			if m.origin != unix.SO_EE_ORIGIN_TIMESTAMPING {
				continue
			}
			if seq, ok := departed(m.data, c.flow); ok {
				c.noteKernel(seq, m.stamp, time.Now())
			}
		}
	})
}

// drain empties a receive queue; icmp tells which of the sockets it is.
func (c *rawConn) drain(r *reader, fd int, icmp bool) {
	for !c.isClosed() {
		r.fit(c.largest.Load())
		m, err := r.read(fd, 0)
		now := time.Now()
		if maybeQueued(err) {
			continue // UDP without an error queue: ECONNREFUSED and the like
		}
		if err != nil {
			return
		}
		reply, ok := c.parse(m, icmp)
		if !ok {
			continue
		}
		if p, found := c.find(reply.Seq); found && p.kernel.IsZero() {
			c.takeStamps()
		}
		c.deliver(reply, m.stamp, now)
	}
}

func (c *rawConn) parse(m message, icmp bool) (wire.Reply, bool) {
	if !icmp && c.flow.Proto == wire.UDP {
		return c.dataReply(m)
	}
	pkt := m.data
	if c.fam == family6 { // raw IPv6 sockets give no header (RFC 3542 3)
		proto := byte(c.fam.icmp)
		if !icmp {
			proto = unix.IPPROTO_TCP
		}
		pkt = withHeader(m, c.flow.Src, proto)
	}
	r, err := wire.ParseReply(pkt, c.flow)
	return r, err == nil || errors.Is(err, wire.ErrUnnumbered) && r.Unnumbered
}

// Close implements Conn. It waits for the receiving goroutines.
func (c *rawConn) Close() error {
	if !c.shut() {
		return nil
	}
	c.closeSockets()
	c.wg.Wait()
	return nil
}

func (c *rawConn) closeSockets() {
	for _, s := range append([]*sock{c.out, c.holder}, c.in...) {
		if s != nil {
			s.close() // a second close of holder is refused, harmlessly
		}
	}
}
