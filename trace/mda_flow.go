package trace

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/whyslow/whyslow/internal/netprobe"
	"github.com/whyslow/whyslow/internal/wire"
)

// flow is one connection of a discovery: what it sends keeps one flow.
type flow struct {
	index  int
	conn   netprobe.Conn
	key    uint16
	seq    uint16
	shots  map[uint16]*shot
	sights []sight // by TTL; 0 is this host
	end    int     // the least TTL that the destination or a refusal answered; 0 if none
	gone   bool    // closed, of another method
	out    *shot   // the latest probe while it may be answered

	// Of the sampling.
	chosen  bool
	sent    int
	rtts    []time.Duration
	pending int
	done    chan struct{}
}

// sight is what one flow has seen at one TTL.
type sight struct {
	node    *node // nil while unknown
	waiting *shot // the latest probe while it may be answered
	sent    int
	tries   int // probes that got no answer in time, trials left out
	alone   int // of tries, those that nobody else's probes can have cost the answer
	lastTry time.Time
	repeats int
	rtts    []time.Duration
	latest  probe // the latest answer
}

// shotKind says what a probe is for.
type shotKind uint8

const (
	explore shotKind = iota // to see who is there
	again                   // to see whether it is still the same
	through                 // to the destination: a sample
)

// shot is one probe.
type shot struct {
	flow     *flow
	ttl      int
	kind     shotKind
	at       time.Time
	trial    *node // whose account of errors is spent, though it was sent; else nil
	charged  account
	answered bool
	pending  bool // a sample that still may count
	alone    bool // nobody had asked the TTL for long
}

// account is whose budget of errors pays for an answer: a place on the way, or
// a router (which is zero hops from itself).
type account struct {
	dst netip.Addr
	ttl int
}

// node is an address at a TTL.
type node struct {
	Place
	role      Role
	silent    bool
	perPacket bool
	// Of the account of errors: trials are probes sent though it was spent, in
	// batches that begin at trialAt. earned is when a Linux router would have
	// regained all the errors that this one has sent; one that could not have
	// sent so many is free: it has a wider limit, or none.
	trials, batches int
	trialAt, earned time.Time
	free            bool

	// Of the latest survey.
	flows   []*flow
	tested  int
	waiting int
	next    []*node
	before  []*node
	unsure  bool
}

// flowArrival is what a flow's receiver passes on.
type flowArrival struct {
	flow  *flow
	reply wire.Reply
	err   error
}

// open adds a flow. Sockets that pick an identifier by chance may pick one
// that is taken: that would be the same flow again.
func (d *discovery) open(ctx context.Context) (*flow, error) {
	for range 16 {
		conn, err := d.opt.Network.Open(ctx, d.opt.Dst, d.cfg)
		if err != nil {
			return nil, fmt.Errorf("trace: opening flow %d: %w", len(d.flows), err)
		}
		info, ok := conn.(netprobe.Informer)
		if !ok || !info.Info().FlowStable {
			conn.Close()
			return nil, fmt.Errorf("%w: %v", ErrNoFlows, d.cfg.Method)
		}
		key := info.Info().SourcePort
		if d.keys[key] {
			conn.Close()
			continue
		}
		d.keys[key] = true
		d.socket = info.Info().Socket
		d.serial = d.socket == "connect"
		f := &flow{index: len(d.flows), conn: conn, key: key, shots: make(map[uint16]*shot),
			sights: make([]sight, d.opt.MaxHops+2), done: make(chan struct{})}
		f.sights[0].node = d.root
		d.flows = append(d.flows, f)
		go f.receive(ctx, d.arrivals)
		return f, nil
	}
	return nil, fmt.Errorf("%w: all of one identifier", ErrNoFlows)
}

func (f *flow) receive(ctx context.Context, to chan<- flowArrival) {
	defer close(f.done)
	for {
		r, err := f.conn.Recv(ctx)
		if ctx.Err() != nil {
			return
		}
		select {
		case to <- flowArrival{f, r, err}:
		case <-ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

// at is what a flow saw at a TTL, nil if nothing or if the flow ends before.
func (f *flow) at(ttl int) *node {
	if ttl < 0 || ttl >= len(f.sights) || f.end > 0 && ttl > f.end {
		return nil
	}
	return f.sights[ttl].node
}

// node returns the node of an address at a TTL, a new one if need be; the zero
// address is who does not answer.
func (d *discovery) node(ttl int, addr netip.Addr) *node {
	p := Place{TTL: ttl, Addr: addr}
	n := d.nodes[p]
	if n == nil {
		n = &node{Place: p, role: RoleRouter, silent: !addr.IsValid()}
		d.nodes[p] = n
		d.hops[ttl] = append(d.hops[ttl], n)
		if !n.silent {
			d.budget.Learn(addr, 0, addr, time.Now())
		}
	}
	return n
}

// account is who pays for the next error at a node.
func (d *discovery) account(n *node, ttl int) account {
	if n == nil || n.silent {
		return account{d.opt.Dst, ttl}
	}
	return account{n.Addr, 0}
}

// shoot sends a probe of a flow if the router that will answer it can be
// expected to. If not it says when to ask again. n is that router, nil if
// unknown.
func (d *discovery) shoot(f *flow, ttl int, kind shotKind, n *node) (sent bool, wake time.Time, err error) {
	now := time.Now()
	if d.serial && f.out != nil {
		return false, f.out.at.Add(d.patience()), nil
	}
	s := &shot{flow: f, ttl: ttl, kind: kind, charged: d.account(n, ttl)}
	free := n != nil && d.unlimited(n)
	if !free {
		if wait := d.budget.Take(s.charged.dst, s.charged.ttl, now); wait > 0 {
			d.budget.Return(s.charged.dst, s.charged.ttl)
			if !n.tries(now) {
				return false, now.Add(wait), nil
			}
			s.trial = n
		}
	}
	if s.trial != nil || free {
		s.charged = account{}
	}
	if f.seq == 65000 {
		return false, now.Add(time.Hour), nil // no more numbers; nobody gets here
	}
	f.seq++
	probe := wire.Probe{Seq: f.seq, TTL: ttl}
	if s.at, err = f.conn.Send(probe); err != nil {
		return false, now, fmt.Errorf("trace: probing by %v: %w", d.cfg.Method, err)
	}
	d.probes++
	s.alone = s.at.Sub(d.asked[ttl]) >= aloneAfter
	d.asked[ttl] = s.at
	f.shots[f.seq], f.out = s, s
	d.waiting = append(d.waiting, s)
	if kind == through {
		if s.trial == nil {
			f.sent++
			f.pending++
			s.pending = true
		}
		return true, now, nil
	}
	see := &f.sights[ttl]
	see.sent++
	if kind == again {
		see.repeats++
		return true, now, nil
	}
	see.waiting, see.lastTry = s, s.at
	return true, now, nil
}

const (
	// trialShots is how many probes try whether a router answers more than
	// Linux would, trialBatches how often that is tried. A Linux router loses
	// them, and they are sent again when it is time.
	trialShots   = 3
	trialBatches = 4
	// trialMoment is a time in which no router of Linux regains two errors.
	trialMoment = 50 * time.Millisecond
)

// tries reports whether a probe may go to a router though its account is spent.
func (n *node) tries(now time.Time) bool {
	if n == nil || n.silent {
		return false
	}
	if now.Sub(n.trialAt) > limitedAfter && n.batches < trialBatches {
		n.trials, n.trialAt = 0, now
	}
	if n.trials >= trialShots || now.Sub(n.trialAt) > trialMoment {
		return false
	}
	if n.trials++; n.trials == trialShots {
		n.batches++ // one that was cut short, for want of flows, proves nothing
	}
	return true
}

// earns notes an error that a router sent.
func (n *node) earns(now time.Time, every time.Duration) {
	n.earned = later(n.earned, now).Add(every)
	// Two more than Linux' burst: answers that left one after the other may
	// arrive at once.
	n.free = n.free || n.earned.Sub(now) > 8*every
}

// errorPace is the time in which a Linux router regains an error.
func (d *discovery) errorPace() time.Duration {
	if d.opt.Dst.Is4() {
		return time.Second
	}
	return 100 * time.Millisecond
}

// take records an answer.
func (d *discovery) take(ctx context.Context, a flowArrival) error {
	if a.flow.gone {
		return nil
	}
	if a.err != nil {
		return fmt.Errorf("trace: flow %d: %w", a.flow.index, a.err)
	}
	f := a.flow
	s := f.shots[a.reply.Seq]
	if s == nil || s.answered || a.reply.Unnumbered {
		return nil
	}
	role, words := meaning(a.reply, d.cfg.Method, d.opt.Dst.Is6())
	if role == "" {
		return nil
	}
	s.answered = true
	if f.out == s {
		f.out = nil
	}
	at := s.at
	if !a.reply.Sent.IsZero() {
		at = a.reply.Sent
	}
	rtt := max(a.reply.Received.Sub(at), 0)
	d.maxRTT = max(d.maxRTT, rtt)
	if s.kind == through {
		d.settle(s, a.reply, d.dest)
		d.reached = d.reached || role == RoleDestination
		if s.pending {
			s.pending = false
			f.pending--
			if role == RoleDestination {
				f.rtts = append(f.rtts, rtt)
			}
		}
		return nil
	}
	n := d.node(s.ttl, a.reply.From.Unmap())
	if role == RoleDestination && words == portUnreachable && n.Addr != d.opt.Dst && d.runsOutAt(n.Addr) {
		role = RoleRefusal // see view.judged
	}
	if role != RoleRouter {
		n.role = role
		if f.end == 0 || s.ttl < f.end {
			f.end = s.ttl
		}
		if role == RoleDestination {
			d.reached = true
			d.dest = cmp.Or(d.dest, n)
		}
	}
	d.settle(s, a.reply, n)
	d.names.ask(ctx, n.Addr)
	d.saw(f, s, n, rtt)
	typ, code := typeCode(a.reply)
	f.sights[s.ttl].latest = probe{replyTTL: a.reply.TTL, role: role, answer: words, icmp: [2]*int{typ, code},
		labels: a.reply.Labels, quote: quoteOf(a.reply, d.cfg.Method)}
	return nil
}

// runsOutAt reports whether a probe ran out at an address: a router's.
func (d *discovery) runsOutAt(addr netip.Addr) bool {
	for _, hop := range d.hops {
		for _, n := range hop {
			if n.Addr == addr && n.role == RoleRouter && len(n.flows) > 0 {
				return true
			}
		}
	}
	return false
}

// saw enters what a flow saw. The first answer counts as the flow's way;
// another address later is the mark of a router that does not keep to flows.
func (d *discovery) saw(f *flow, s *shot, n *node, rtt time.Duration) {
	see := &f.sights[s.ttl]
	if see.waiting == s {
		see.waiting = nil
	}
	if see.node == nil || see.node.silent {
		see.node = n
	}
	if see.node == n {
		see.rtts = append(see.rtts, rtt)
		return
	}
	if before := f.at(s.ttl - 1); before != nil {
		before.perPacket = true
	}
}

// settle charges an answer to who sent it.
func (d *discovery) settle(s *shot, r wire.Reply, n *node) {
	limited := r.Kind != wire.EchoReply && !(r.Kind == wire.PortReply && r.Type == 0)
	if limited && n != nil {
		n.earns(time.Now(), d.errorPace())
	}
	if s.trial != nil {
		// The account was wrong, or a refill came just then: it has sent one.
		if limited && n != nil && !n.free {
			d.budget.Take(n.Addr, 0, time.Now())
		}
		return
	}
	d.exempt = d.exempt || !limited
	if s.charged.dst.IsValid() && (!limited || n != nil && s.charged != d.account(n, s.ttl)) {
		d.budget.Return(s.charged.dst, s.charged.ttl)
		if limited && !n.free {
			d.budget.Take(n.Addr, 0, time.Now())
		}
	}
}

// expire gives up probes that were waited for long enough.
func (d *discovery) expire(now time.Time) {
	left := d.waiting[:0]
	for _, s := range d.waiting {
		if s.flow.out == s && now.Sub(s.at) >= d.patience() {
			s.flow.out = nil
		}
		switch {
		case s.answered:
		case now.Sub(s.at) < d.patience():
			left = append(left, s)
		case s.kind == through:
			if s.pending {
				s.pending = false
				s.flow.pending--
			}
		default:
			see := &s.flow.sights[s.ttl]
			if see.waiting == s {
				see.waiting = nil
				if s.trial == nil {
					see.tries++
				}
				if s.trial == nil && s.alone {
					see.alone++
				}
			}
		}
	}
	clear(d.waiting[len(left):])
	d.waiting = left
}

// patience is how long a probe may be under way. Connections of one port
// follow each other, and each may last a second if nobody answers.
func (d *discovery) patience() time.Duration {
	if d.serial {
		return time.Second
	}
	if d.maxRTT == 0 {
		return 2 * unknownPatience
	}
	return max(unknownPatience, d.maxRTT*3/2+settle) + d.idle.late
}
