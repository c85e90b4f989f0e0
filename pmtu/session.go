package pmtu

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/whyslow/whyslow/internal/netprobe"
	"github.com/whyslow/whyslow/internal/wire"
)

// settle is added to 1.5 round trips when waiting for an answer that may be
// lost: the host's and the router's own delays.
const settle = 30 * time.Millisecond

// overdue is added to one round trip when the next round may begin.
const overdue = 10 * time.Millisecond

const (
	lateWakeup = 5 * time.Millisecond
	latest     = 300 * time.Millisecond
)

// errSpent says that MaxPackets probes have been sent.
var errSpent = errors.New("pmtu: packet bound reached")

// shot is one probe and what came of it.
type shot struct {
	size    int
	ttl     int // 0: enough to reach the destination
	at      time.Time
	passed  bool       // the destination answered
	expired bool       // a router reported the end of its TTL
	from    netip.Addr // who did either
	tooBig  bool       // somebody called it too big
	claim   int        // what MTU he claimed, as it came
	who     netip.Addr // who he is
	refused string     // somebody called the destination unreachable: who
	backTTL int        // TTL of the destination's answer on arrival
}

// arrived reports whether the probe got as far as its TTL allows.
func (s *shot) arrived() bool { return s.passed || s.expired }

// session sends probes by one method. It belongs to one goroutine.
type session struct {
	method   netprobe.Method
	dst      netip.Addr
	conn     netprobe.Conn
	info     netprobe.Info
	replies  chan wire.Reply
	failed   chan error // the receiver's end
	stop     context.CancelFunc
	wg       sync.WaitGroup
	shots    []*shot
	bySeq    map[uint16]*shot
	maxRTT   time.Duration
	lastSend time.Time
	answers  int           // to sizes, when they were last counted
	wait     time.Duration // before anybody has answered
	asked    bool          // the destination has answered others of this run: its errors may be spent
	left     *int          // probes that may still be sent
	local    int           // least size the host itself refused, 0 if none
	localMTU int           // what the host said then
	kernel   int           // what the kernel goes by and sends no larger; 0 if it has not said
}

func open(ctx context.Context, o *Options, m netprobe.Method, left *int) (*session, error) {
	conn, err := o.Network.Open(ctx, o.Dst, o.config(m))
	if err != nil {
		return nil, fmt.Errorf("pmtu: opening %v: %w", m, err)
	}
	s := &session{method: m, dst: o.Dst, conn: conn, replies: make(chan wire.Reply, 256), failed: make(chan error, 1),
		bySeq: make(map[uint16]*shot), wait: o.Wait, left: left,
		asked: o.HopCount > 0}
	if i, ok := conn.(netprobe.Informer); ok {
		s.info = i.Info()
	}
	receiving, stop := context.WithCancel(ctx)
	s.stop = stop
	s.wg.Go(func() { s.receive(receiving) })
	return s, nil
}

func (s *session) close() {
	s.stop()
	s.wg.Wait()
	s.conn.Close()
}

// receive passes replies on until ctx ends or the connection fails.
func (s *session) receive(ctx context.Context) {
	for {
		r, err := s.conn.Recv(ctx)
		if err != nil {
			s.failed <- err
			return
		}
		select {
		case s.replies <- r:
		case <-ctx.Done():
			return
		}
	}
}

// fire sends one probe. A probe that the host itself refuses as too big is
// noted in local and is no error.
func (s *session) fire(size, ttl int) (*shot, error) {
	if s.local > 0 && size >= s.local {
		return nil, nil
	}
	if *s.left <= 0 {
		return nil, errSpent
	}
	seq := uint16(len(s.shots) + 1)
	at, err := s.conn.Send(wire.Probe{Seq: seq, TTL: ttl, Size: size})
	if tooBig, ok := errors.AsType[*netprobe.TooBigError](err); ok {
		s.local, s.localMTU = size, tooBig.MTU
		// Believed only as far as it fits what it refused.
		if s.localMTU >= size || s.localMTU < 0 {
			s.localMTU = 0
		}
		if s.localMTU > 0 {
			s.local = s.localMTU + 1
		}
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("pmtu: sending %d bytes: %w", size, err)
	}
	*s.left--
	sh := &shot{size: size, ttl: ttl, at: at}
	s.shots = append(s.shots, sh)
	s.bySeq[seq] = sh
	s.lastSend = at
	return sh, nil
}

// patience is how long a probe may be under way.
func (s *session) patience() time.Duration {
	if s.maxRTT == 0 {
		return s.wait
	}
	return s.maxRTT*3/2 + settle
}

// soon is when an answer is overdue, though it may still come.
func (s *session) soon() time.Duration {
	if s.maxRTT == 0 {
		return s.wait
	}
	return s.maxRTT + max(s.maxRTT/8, overdue)
}

// pause takes replies for d.
func (s *session) pause(ctx context.Context, d time.Duration) error {
	end := time.Now().Add(d)
	return s.until(ctx, func() time.Time { return end }, func() bool { return false })
}

func (s *session) until(ctx context.Context, end func() time.Time, done func() bool) error {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	grace := time.Duration(0)
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		if done() {
			return nil
		}
		due := end().Add(grace)
		timer.Reset(time.Until(due))
		select {
		case <-ctx.Done():
			return ctx.Err()
		case r := <-s.replies:
			s.take(r)
		case err := <-s.failed:
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return fmt.Errorf("pmtu: receiving: %w", err)
		case <-timer.C:
			// Woken late, the process was not running, and answers wait in
			// the socket: a busy host is no lossy path.
			late := time.Since(due)
			if late < lateWakeup || grace >= latest {
				return nil
			}
			grace = min(grace+2*late, latest)
		}
	}
}

// take records a reply. "Too big" proves nothing and so replaces nothing: a
// probe that was also answered has passed.
func (s *session) take(r wire.Reply) {
	sh := s.bySeq[r.Seq]
	if sh == nil {
		return
	}
	switch r.Kind {
	case wire.EchoReply, wire.PortReply:
		if r.Kind == wire.PortReply && r.Type != 0 && r.From.Unmap() != s.dst {
			// It may be a host behind a NAT, or a firewall on the way that
			// rejects: then the size has not passed the links behind it.
			sh.refused = r.From.Unmap().String()
			return
		}
		sh.passed, sh.from, sh.backTTL = true, r.From.Unmap(), r.TTL
	case wire.TimeExceeded:
		sh.expired, sh.from = true, r.From.Unmap()
	case wire.TooBig:
		if s.method == netprobe.TCP && r.From == s.info.Source { // the host's own word, see netprobe.Config.Segments
			if r.MTU < sh.size && (s.kernel == 0 || r.MTU < s.kernel) {
				s.kernel = r.MTU
			}
			return
		}
		if !sh.tooBig {
			sh.tooBig, sh.claim, sh.who = true, r.MTU, r.From.Unmap()
		}
		return // generated by a control plane: its time says nothing of the path
	case wire.Unreachable:
		sh.refused = r.From.Unmap().String()
		return
	default:
		return
	}
	if rtt := r.Received.Sub(sh.at); r.Sent.IsZero() && rtt > s.maxRTT {
		s.maxRTT = rtt
	} else if !r.Sent.IsZero() {
		s.maxRTT = max(s.maxRTT, r.Received.Sub(r.Sent))
	}
}
