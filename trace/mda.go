package trace

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	"slices"
	"time"

	"github.com/whyslow/whyslow/internal/netprobe"
)

// discovery runs the Multipath Detection Algorithm. All its state belongs to
// one goroutine; receivers and name lookups only send on channels.
//
// Every pass asks of each router found so far how many more flows have to be
// followed through it, and of all those probes it sends what the routers'
// accounts of errors permit: so all TTLs are worked on at once, and one that
// must wait holds up no other.
type discovery struct {
	opt    Options
	po     PathOptions
	rule   *stopRule
	budget *netprobe.Budget
	cfg    netprobe.Config
	socket string
	serial bool // a flow can have one probe under way at a time

	flows    []*flow
	keys     map[uint16]bool
	root     *node // this host
	nodes    map[Place]*node
	last     int          // the largest TTL that anybody answered: of the latest survey
	darkness map[int]bool // see dark: of the latest survey
	hops     [][]*node    // by TTL
	arrivals chan flowArrival
	waiting  []*shot
	asked    []time.Time // when a TTL was last asked
	names    *lookups
	named    map[netip.Addr]string
	idle     lateness

	start     time.Time
	probes    int
	maxRTT    time.Duration
	reached   bool
	dest      *node // one at which the destination answered
	unsampled bool  // the destination answers too seldom
	exempt    bool  // no limit covers the destination's answers
	scouted   bool  // the end of the path is known as far as it can be
	window    int
	full      bool // no further flow can be had
	cutOff    bool // the time was over before all was confirmed
	broken    error
}

func newDiscovery(opt Options, po PathOptions) *discovery {
	d := &discovery{opt: opt, po: po, rule: newStopRule(po.Failure), start: time.Now(), window: pathWindow,
		keys: make(map[uint16]bool), darkness: make(map[int]bool), nodes: make(map[Place]*node), hops: make([][]*node, opt.MaxHops+2), asked: make([]time.Time, opt.MaxHops+2),
		arrivals: make(chan flowArrival, 1024), names: newLookups(opt.Names, nil), named: make(map[netip.Addr]string)}
	d.budget = &netprobe.Budget{}
	if b, ok := opt.Network.(interface{ Budget() *netprobe.Budget }); ok && b.Budget() != nil {
		d.budget = b.Budget()
	}
	d.root = &node{role: RoleRouter}
	d.hops[0] = []*node{d.root}
	return d
}

// pathWindow is how many TTLs beyond the last answer the first flow is ahead.
const pathWindow = 6

func (d *discovery) close(cancel context.CancelFunc) {
	cancel()
	for _, f := range d.flows {
		<-f.done
		f.conn.Close()
	}
	d.names.wait()
}

// choose finds the method: the first that the host permits and the destination
// answers. TCP goes first because its answers are under no limit, and because
// a service's own port is what matters.
func (d *discovery) choose(ctx context.Context) error {
	methods := []netprobe.Method{netprobe.TCP, netprobe.UDP, netprobe.ICMP}
	if d.opt.Method != netprobe.Auto {
		methods = []netprobe.Method{d.opt.Method}
	}
	var failed error
	var usable []netprobe.Method
	for _, m := range methods {
		d.use(m)
		f, err := d.open(ctx)
		if err != nil {
			failed = cmp.Or(failed, err)
			continue
		}
		usable = append(usable, m)
		if len(methods) == 1 {
			return nil
		}
		for range 2 { // one may be lost
			if _, _, err = d.shoot(f, 0, through, nil); err != nil {
				break
			}
			due := time.Now().Add(2 * unknownPatience)
			if err := d.collect(ctx, due, func() bool { return d.reached }); err != nil {
				return err
			}
			if d.reached {
				d.forgetSamples(f)
				return nil
			}
		}
		d.drop(f)
	}
	if len(usable) == 0 {
		return failed
	}
	d.use(usable[0])
	_, err := d.open(ctx)
	return err
}

func (d *discovery) use(m netprobe.Method) {
	o := d.opt
	o.Method = m
	d.cfg = o.config(m)
	d.cfg.Serial = true
	if d.opt.Method == netprobe.Auto && m == netprobe.UDP {
		d.cfg.Port = 0 // the port that the host's sockets know best
	}
}

// drop takes back the only flow.
func (d *discovery) drop(f *flow) {
	f.gone = true
	f.conn.Close()
	<-f.done
	d.flows, d.waiting = nil, nil
	clear(d.keys)
}

func (d *discovery) forgetSamples(f *flow) {
	f.sent, f.pending, f.rtts = 0, 0, nil
	clear(f.shots)
	d.waiting = nil
}

// run is the whole discovery.
func (d *discovery) run(ctx context.Context) error {
	end := d.start.Add(d.po.Budget)
	// Sampling the flows is worth some of the time.
	explored := d.start.Add(d.po.Budget * 3 / 4)
	err := d.loop(ctx, explored, d.explore)
	d.cutOff = errors.Is(err, errCutOff)
	if err == nil {
		err = d.loop(ctx, explored, d.repeat)
	}
	if err == nil || errors.Is(err, errCutOff) {
		if d.po.Samples > 0 {
			d.pick()
			err = d.loop(ctx, explored.Add(d.po.Budget/12), d.fillIn)
		}
	}
	if (err == nil || errors.Is(err, errCutOff)) && d.po.Samples > 0 && d.reached {
		err = d.sample(ctx, end)
	}
	if errors.Is(err, errCutOff) {
		err = nil
	}
	d.survey()
	if err == nil {
		grace := time.Now().Add(d.opt.NamesGrace)
		err = d.collect(ctx, grace, func() bool { return d.names.pending == 0 })
	}
	return err
}

// silence is the address of who does not answer.
var silence netip.Addr

var errCutOff = errors.New("trace: the time for finding parallel paths is over")

// agenda is what a pass wants to send, and when to look again though nothing
// arrives; the zero time is never.
type agenda struct {
	wants []want
	wake  time.Time
	err   error
}

// want is a probe worth sending; the lowest rank goes first.
type want struct {
	flow *flow
	ttl  int
	kind shotKind
	rank int
	who  *node // whose answer is expected, nil if unknown
}

func (p *agenda) at(t time.Time) {
	if p.wake.IsZero() || t.Before(p.wake) {
		p.wake = t
	}
}

// loop makes plans and carries them out until one wants nothing more.
func (d *discovery) loop(ctx context.Context, until time.Time, make func(context.Context, time.Time, *agenda)) error {
	for {
		now := time.Now()
		d.expire(now)
		d.survey()
		var p agenda
		make(ctx, now, &p)
		d.fire(&p)
		if p.err != nil {
			d.broken = p.err
			return p.err
		}
		if len(p.wants) == 0 && p.wake.IsZero() && len(d.waiting) == 0 {
			return ctx.Err()
		}
		if !now.Before(until) {
			return errCutOff
		}
		due := earlier(until, now.Add(time.Second))
		if !p.wake.IsZero() {
			due = earlier(due, later(p.wake, now.Add(time.Millisecond)))
		}
		for _, s := range d.waiting {
			due = earlier(due, later(s.at.Add(d.patience()), now.Add(time.Millisecond)))
		}
		arrived := false
		if err := d.collect(ctx, due, func() bool { was := arrived; arrived = true; return was }); err != nil {
			return err
		}
	}
}

// burst is how many probes leave at one time at most, so that no queue of this
// host or of the first link drops them.
const burst = 32

// fire sends what a plan wants, the most urgent first.
func (d *discovery) fire(p *agenda) {
	slices.SortStableFunc(p.wants, func(a, b want) int { return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.ttl, b.ttl)) })
	sent := 0
	for _, w := range p.wants {
		if sent == burst {
			p.at(time.Now().Add(5 * time.Millisecond))
			return
		}
		ok, wake, err := d.shoot(w.flow, w.ttl, w.kind, w.who)
		switch {
		case err != nil:
			p.err = err
			return
		case ok:
			sent++
		default:
			p.at(wake)
		}
	}
}

// collect takes what arrives until done says so or due passes. After the first
// arrival it takes all that are there before it asks done again.
func (d *discovery) collect(ctx context.Context, due time.Time, done func() bool) error {
	timer := time.NewTimer(time.Until(due))
	defer timer.Stop()
	for !done() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
			d.idle.woke(due)
			return nil
		case n := <-d.names.found:
			d.names.pending--
			d.named[n.addr] = n.name
			continue
		case a := <-d.arrivals:
			if err := d.take(ctx, a); err != nil {
				return err
			}
		}
		for more := true; more; {
			select {
			case a := <-d.arrivals:
				if err := d.take(ctx, a); err != nil {
					return err
				}
			default:
				more = false
			}
		}
	}
	return ctx.Err()
}
