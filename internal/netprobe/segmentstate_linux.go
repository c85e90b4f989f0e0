package netprobe

import (
	"errors"
	"os"
	"time"

	"github.com/whyslow/whyslow/internal/wire"
	"golang.org/x/sys/unix"
)

// serve offers a connection and, once it has a probe, waits for the outcome.
func (c *segmentConn) serve(s *segment) {
	defer func() {
		s.sock.close()
		<-c.room
	}()
	select {
	case c.ready <- s:
	case <-c.closed:
		return
	}
	r := newReader(c.fam)
	life := segmentLife + 3*s.rtt
	for began := time.Now(); time.Since(began) < life && !c.isClosed(); {
		if err := s.sock.file.SetReadDeadline(time.Now().Add(segmentPoll)); err != nil {
			return // closed by Send: not sent
		}
		done := false
		rerr := s.sock.raw.Read(func(fd uintptr) bool {
			done = c.look(r, s, int(fd))
			return done
		})
		switch {
		case done:
			return
		case errors.Is(rerr, os.ErrDeadlineExceeded):
		case errors.Is(rerr, os.ErrClosed):
			return
		default:
			c.rest(segmentPoll) // see sock.loop
		}
	}
}

// look reads the state of a connection. It reports true when nothing more is
// expected of it.
func (c *segmentConn) look(r *reader, s *segment, fd int) (done bool) {
	var p wire.Probe
	select {
	case p = <-s.probe:
		s.probe <- p // for the next look; it has room
	default:
		return false
	}
	var acked time.Time
	for {
		m, err := r.read(fd, unix.MSG_ERRQUEUE)
		if err != nil {
			break
		}
		if !m.queued || m.origin != unix.SO_EE_ORIGIN_TIMESTAMPING {
			continue
		}
		switch m.info {
		case unix.SCM_TSTAMP_SND, unix.SCM_TSTAMP_SCHED:
			c.noteKernel(p.Seq, m.stamp, time.Now())
		case unix.SCM_TSTAMP_ACK:
			acked = m.stamp
		}
	}
	now := time.Now()
	info, err := unix.GetsockoptTCPInfo(fd, unix.SOL_TCP, unix.TCP_INFO)
	if err != nil {
		return true
	}
	reply := wire.Reply{Seq: p.Seq, From: c.flow.Dst, Kind: wire.PortReply, QuotedTTL: -1, QuotedTOS: -1}
	switch verdictOf(info, s.payload) {
	case segmentPassed:
		c.deliver(reply, acked, now)
	case segmentSplit:
		mtu, _ := unix.GetsockoptInt(fd, c.fam.level, c.fam.mtu)
		if mtu >= s.header+s.payload {
			// Not the cache: the peer's window, or a full queue here.
			return info.Data_segs_out > 1
		}
		reply.Kind, reply.From, reply.MTU = wire.TooBig, c.flow.Src, mtu
		c.deliver(reply, time.Time{}, now)
	case segmentLost:
	default:
		return false
	}
	return true
}

// segmentVerdict is what a connection's state says of its only segment.
type segmentVerdict uint8

const (
	segmentWaits segmentVerdict = iota
	segmentPassed
	segmentSplit // it went in pieces, or will: too big by the kernel's route cache
	segmentLost  // the connection ended before the acknowledgement
)

// verdictOf judges a segment of n bytes of data. An acknowledgement proves that
// the size passes only if the data never went in pieces: the first time it was
// one segment, and no repeat was smaller. Repeats of the whole prove as much.
func verdictOf(info *unix.TCPInfo, n int) segmentVerdict {
	const closed = 7 // net/tcp_states.h
	switch {
	case int(info.Snd_mss) < n, info.Data_segs_out > info.Total_retrans+1:
		return segmentSplit
	case info.Data_segs_out > 0 && info.Unacked == 0 && info.Notsent_bytes > 0:
		return segmentSplit // IPv6 learned of the MTU between making and sending it
	case info.Data_segs_out > 0 && info.Unacked == 0 && info.Bytes_acked >= uint64(n):
		return segmentPassed
	case info.State == closed:
		return segmentLost
	}
	return segmentWaits
}
