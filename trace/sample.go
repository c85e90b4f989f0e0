package trace

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/whyslow/whyslow/internal/millis"
	"github.com/whyslow/whyslow/internal/netprobe"
	"github.com/whyslow/whyslow/internal/stats"
	"github.com/whyslow/whyslow/internal/wire"
)

const (
	// mute is the least wait for a first echo reply before an address counts
	// as answering none.
	mute = 400 * time.Millisecond
	// lastWait is the least wait for the last answers while some are missing.
	// It costs nothing on a sound path, and on a busy host an answer may lie
	// in the socket's buffer for long before anybody reads it.
	lastWait = 250 * time.Millisecond
)

// Sample asks the destination of res, and each router that answered, by direct
// echoes, which limits on ICMP errors do not touch. It fills res.Destination
// and Hop.Direct and reads the result again. A destination that answers no
// echo is asked by TCP connects, far fewer of them; one that was traced by TCP,
// or whose echoes get lost, is asked by them too (res.Service). When ctx ends it fills in
// what is known and returns ctx's error.
func Sample(ctx context.Context, res *Result, opt SampleOptions) error {
	opt.normalise(res)
	if !res.Target.Addr.IsValid() {
		return ErrNoDestination
	}
	type routed struct {
		hop *Hop
		run sampling
	}
	routers := []routed{}
	if !opt.DestinationOnly {
		for i := range res.Hops {
			if h := &res.Hops[i]; opt.samples(res, h) {
				routers = append(routers, routed{h, sampling{addr: h.Replies[0].Addr, rtt: h.Replies[0].Max.Duration()}})
			}
		}
	}
	var wg sync.WaitGroup
	for i := range routers {
		wg.Go(func() {
			// Neighbours' echoes are spread over the interval, not bunched.
			lag := opt.Interval * time.Duration(i+1) / time.Duration(len(routers)+1)
			routers[i].run.run(ctx, opt, netprobe.ICMP, opt.Count, opt.Interval, lag)
		})
	}
	if res.Method == netprobe.TCP.String() {
		wg.Go(func() { res.Service = opt.service(ctx, res) })
	}
	dest, warning := opt.destination(ctx, res)
	wg.Wait()
	if dest != nil && dest.Method == netprobe.ICMP.String() && dest.Received < dest.Sent && res.Service == nil && ctx.Err() == nil {
		res.Service = opt.service(ctx, res)
	}

	res.Destination = dest
	if warning != "" {
		res.Warnings = append(res.Warnings, warning)
	}
	for _, r := range routers {
		// A router that answers no echo is as good as not asked.
		if len(r.run.rtts) > 0 {
			r.hop.Direct = r.run.summary(netprobe.ICMP)
		}
	}
	res.Reading = Read(res)
	return ctx.Err()
}

func (o *SampleOptions) normalise(res *Result) {
	if o.Network == nil {
		o.Network = &netprobe.Host{}
	}
	if o.Port == 0 && res.Method == netprobe.TCP.String() {
		o.Port = res.Target.Port
	}
	if o.Port == 0 {
		o.Port = 443
	}
	o.Count = min(cmp.Or(max(o.Count, 0), 100), 10000)
	o.Interval = max(cmp.Or(o.Interval, 10*time.Millisecond), time.Millisecond)
	o.TCPCount = min(cmp.Or(max(o.TCPCount, 0), 20), 1000)
	o.TCPInterval = max(cmp.Or(o.TCPInterval, 50*time.Millisecond), time.Millisecond)
}

// samples reports whether a hop is a router with an address of its own.
func (o *SampleOptions) samples(res *Result, h *Hop) bool {
	if len(h.Replies) == 0 || res.HopCount != nil && h.TTL >= *res.HopCount {
		return false
	}
	a := h.Replies[0].Addr
	return a != res.Target.Addr && !a.IsUnspecified() && !a.IsMulticast()
}

// destination samples the destination, by TCP if echoes stay unanswered. The
// result is nil if nothing could be sent.
func (o *SampleOptions) destination(ctx context.Context, res *Result) (*Sampled, string) {
	rtt := endRTT(res)
	echo := sampling{addr: res.Target.Addr, rtt: rtt}
	failed := echo.run(ctx, *o, netprobe.ICMP, o.Count, o.Interval, 0)
	if len(echo.rtts) > 0 || ctx.Err() != nil {
		return echo.summary(netprobe.ICMP), ""
	}
	tcp := sampling{addr: res.Target.Addr, rtt: rtt}
	if err := tcp.run(ctx, *o, netprobe.TCP, o.TCPCount, o.TCPInterval, 0); err != nil {
		if failed == nil {
			failed = err
		}
	}
	if len(tcp.rtts) > 0 {
		return tcp.summary(netprobe.TCP), ""
	}
	if tcp.sent+echo.sent == 0 {
		return nil, fmt.Sprintf("the destination was not sampled: %v", failed)
	}
	if tcp.sent > 0 {
		return tcp.summary(netprobe.TCP), ""
	}
	return echo.summary(netprobe.ICMP), ""
}

// service samples the destination by TCP connects; nil if it answers none.
func (o *SampleOptions) service(ctx context.Context, res *Result) *Sampled {
	s := sampling{addr: res.Target.Addr, rtt: endRTT(res)}
	each := *o
	each.Unprivileged = true                                         // the kernel's own connects, from a port each: raw SYNs keep one flow
	_ = s.run(ctx, each, netprobe.TCP, o.TCPCount, o.TCPInterval, 0) // no sample is no failure
	if len(s.rtts) == 0 {
		return nil
	}
	return s.summary(netprobe.TCP)
}

// endRTT is the round trip to the end of the path, 0 if unknown.
func endRTT(res *Result) time.Duration {
	if n := len(res.Hops); n > 0 && len(res.Hops[n-1].Replies) > 0 {
		return res.Hops[n-1].Replies[0].Max.Duration()
	}
	return 0
}

// sampling is a run of probes to one address. It belongs to one goroutine.
type sampling struct {
	addr   netip.Addr
	rtt    time.Duration // its round trip as the trace saw it, 0 if unknown
	sentAt map[uint16]time.Time
	rtts   []time.Duration
	max    time.Duration
	sent   int // probes that had time to be answered
}

// run sends count probes, one an interval, and waits for the last answers. It
// gives up an address that answers nothing. The error says why nothing more
// could be sent.
func (s *sampling) run(ctx context.Context, o SampleOptions, m netprobe.Method, count int, every, lag time.Duration) error {
	cfg := netprobe.Config{Method: m, Source: o.Source, Interface: o.Interface, Unprivileged: o.Unprivileged}
	if m == netprobe.TCP {
		cfg.Port = o.Port
	}
	conn, err := o.Network.Open(ctx, s.addr, cfg)
	if err != nil {
		return err
	}
	defer conn.Close()
	receiving, stop := context.WithCancel(ctx)
	replies := make(chan wire.Reply, 64)
	var wg sync.WaitGroup
	wg.Go(func() { receive(receiving, conn, replies) })
	defer wg.Wait()
	defer stop()

	return s.exchange(ctx, conn, replies, schedule{start: time.Now().Add(lag), every: every, count: count})
}

// schedule says when the probes of a sampling leave.
type schedule struct {
	start time.Time
	every time.Duration
	count int
}

// exchange sends the probes and takes the answers.
func (s *sampling) exchange(ctx context.Context, conn netprobe.Conn, replies <-chan wire.Reply, plan schedule) (err error) {
	s.sentAt = make(map[uint16]time.Time)
	patience := max(mute, 3*s.rtt)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	next, last, idle := 0, plan.start, lateness{}
	for ctx.Err() == nil {
		// A host that was too busy to send in time does not catch up: a burst
		// would measure its own queue.
		due := plan.start.Add(time.Duration(next) * plan.every)
		if next > 0 {
			due = later(due, last.Add(plan.every/2))
		}
		switch {
		case len(s.rtts) == 0 && next > 0 && time.Since(plan.start) >= patience:
			s.sent = next
			return err
		case next >= plan.count || err != nil:
			due = last.Add(max(max(s.max, s.rtt)*3/2+settle, lastWait) + idle.late)
			if len(s.rtts) == 0 {
				due = plan.start.Add(patience)
			}
			if len(s.rtts) >= next || !time.Now().Before(due) {
				s.sent = next
				return err
			}
		case !time.Now().Before(due):
			next++
			last, err = conn.Send(wire.Probe{Seq: uint16(next)})
			if err != nil {
				next--
				last = time.Now()
				continue
			}
			s.sentAt[uint16(next)] = last
			continue
		}
		timer.Reset(time.Until(due))
		select {
		case <-ctx.Done():
		case r := <-replies:
			s.take(r)
		case <-timer.C:
			idle.woke(due)
		}
	}
	s.interrupted(next)
	return ctx.Err()
}

// receive passes replies on until ctx ends or the connection fails.
func receive(ctx context.Context, conn netprobe.Conn, to chan<- wire.Reply) {
	for {
		r, err := conn.Recv(ctx)
		if err != nil {
			return
		}
		select {
		case to <- r:
		case <-ctx.Done():
			return
		}
	}
}

// take counts the first answer to a probe if it comes from where the probe
// arrived: errors of routers are no answers.
func (s *sampling) take(r wire.Reply) {
	at, ok := s.sentAt[r.Seq]
	if !ok || r.Kind != wire.EchoReply && r.Kind != wire.PortReply {
		return
	}
	delete(s.sentAt, r.Seq)
	if !r.Sent.IsZero() {
		at = r.Sent
	}
	rtt := max(r.Received.Sub(at), 0)
	s.rtts = append(s.rtts, rtt)
	s.max = max(s.max, rtt)
}

// interrupted counts only the probes that had time to be answered.
func (s *sampling) interrupted(sent int) {
	s.sent = sent
	for _, at := range s.sentAt {
		if time.Since(at) < max(s.max, s.rtt)*3/2+settle {
			s.sent--
		}
	}
}

func (s *sampling) summary(m netprobe.Method) *Sampled {
	if s.sent == 0 {
		return nil
	}
	r := &Sampled{Sent: s.sent, Received: len(s.rtts), Method: m.String()}
	r.Loss = float64(r.Sent-r.Received) / float64(r.Sent)
	r.LossLow, r.LossHigh = stats.Wilson(r.Sent-r.Received, r.Sent, stats.Z95)
	if len(s.rtts) > 0 {
		q := stats.Quantiles(s.rtts, 0, 0.5, 0.95, 1)
		r.Min, r.Median, r.P95, r.Max = millis.Of(q[0]), millis.Of(q[1]), millis.Of(q[2]), millis.Of(q[3])
	}
	return r
}
