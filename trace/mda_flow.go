package trace

import (
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
