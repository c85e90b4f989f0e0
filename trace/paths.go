package trace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/whyslow/whyslow/internal/millis"
)

// PathOptions says how far to look for parallel paths. The zero value is
// useful.
type PathOptions struct {
	// Flows is the most flows that are followed. Zero means 128; at most 512.
	// A router of k branches takes about 6·k of them.
	Flows int
	// Failure is the probability, at each router, that one more branch of
	// equal share is missed. Zero means 0.05.
	Failure float64
	// Hops is the number of hops a trace has found already, which saves
	// looking for the end. Zero means unknown.
	Hops int
	// Samples is the number of probes, for each flow sampled, that go the
	// whole way. Zero means 20; negative means none. Where flows differ, five
	// times as many are sent.
	Samples int
	// Budget bounds the whole discovery. Zero means 30 s. Routers that send
	// one error a second, as those of Linux do, make a thorough discovery
	// take long; what was not confirmed by then is named.
	Budget time.Duration
}

// Paths are the parallel paths (ECMP) to a destination as far as flows found
// them.
//
// Limits: addresses are not routers, so two links into one router count as two;
// silent routers at one TTL count as one; a bad member on the way back is seen
// as the flow's, not where it is.
type Paths struct {
	Method  string       `json:"method"`
	Socket  string       `json:"socket"`
	Elapsed millis.Value `json:"elapsed_ms"`
	// RouterFailure is the probability, at each confirmed router, that one
	// more branch of equal share was missed.
	RouterFailure float64 `json:"router_failure"`
	// Failure is the probability, over the whole graph, that a branch of a
	// router that spreads flows evenly was missed: the bound if each of the
	// routers had one more than was found.
	Failure float64 `json:"failure"`
	// Confirmed says that every router was followed by enough flows.
	Confirmed bool `json:"confirmed"`
	Probes    int  `json:"probes"`
	// FlowCount is the number of flows used; Flows has those whose whole path
	// is known, each with statistics of its own.
	FlowCount int `json:"flow_count"`
	// FirstPerPacket says that one flow met several first hops: see
	// PathNode.PerPacket.
	FirstPerPacket bool       `json:"first_per_packet,omitempty"`
	Flows          []FlowPath `json:"flows"`
	// Nodes are the addresses found, by TTL; the zero Addr is who did not
	// answer. Links are the edges between them.
	Nodes    []PathNode `json:"nodes"`
	Links    []PathLink `json:"links"`
	Reading  []Sentence `json:"reading"`
	Warnings []string   `json:"warnings,omitempty"`
}

// FlowPath is the path of one flow.
type FlowPath struct {
	Flow     int    `json:"flow"` // counts from 0
	Key      string `json:"key"`  // what the routers hash: a port, or an echo identifier
	Reached  bool   `json:"reached"`
	HopCount *int   `json:"hop_count"`
	// Hops are the hops of this flow. One that all flows share may not have
	// been asked by this one: its Sent is 0 then.
	Hops []Hop `json:"hops"`
	// Sample is the loss and latency of the flow's probes that went the whole
	// way; null if it was not sampled.
	Sample *Sampled `json:"sample"`
}

// PathNode is an address at one TTL.
type PathNode struct {
	TTL    int        `json:"ttl"`
	Addr   netip.Addr `json:"addr,omitzero"`
	Name   string     `json:"name,omitempty"` // PTR, as it came: escape it when shown
	Role   Role       `json:"role"`
	Silent bool       `json:"silent,omitempty"` // Addr is unknown
	// Flows is how many flows were seen there. Share is the part of all flows
	// that go through it, as far as it is known where they go.
	Flows int     `json:"flows"`
	Share float64 `json:"share"` // 0…1
	// Branches is the number of next hops found, Tested the number of flows
	// that looked for them. Confirmed says that these were enough, Failure is
	// the probability that one more branch of equal share was missed. Of an
	// end all are zero.
	Branches  int     `json:"branches"`
	Tested    int     `json:"tested"`
	Confirmed bool    `json:"confirmed"`
	Failure   float64 `json:"failure"`
	// PerPacket says that a flow met another address behind it on a repeat. Unsure says
	// that this is so of a router before: the links of this one may be false.
	PerPacket bool `json:"per_packet,omitempty"`
	Unsure    bool `json:"unsure,omitempty"`
	// Min, Median and Max are of its answers to the flows.
	Min    millis.Value `json:"min_ms"`
	Median millis.Value `json:"median_ms"`
	Max    millis.Value `json:"max_ms"`
	// Passed are the samples of the flows through it, the whole way to the
	// destination; null if none were.
	Passed *Sampled `json:"passed"`
}

// Place is where the node is in the graph, as links name it.
func (n PathNode) Place() Place { return Place{TTL: n.TTL, Addr: n.Addr} }

// PathLink is one edge: a router at TTL−1 and the one it passes flows on to.
// The first comes from this host, whose Place is zero.
type PathLink struct {
	TTL  int   `json:"ttl"` // of To
	From Place `json:"from"`
	To   Place `json:"to"`
	// Flows is how many of the flows took it, Share their part of those that
	// were followed from From.
	Flows int     `json:"flows"`
	Share float64 `json:"share"` // 0…1
	// Suspect says that the flows that share this link do worse than all
	// others: see Paths.Reading.
	Suspect bool `json:"suspect,omitempty"`
}

// ErrNoFlows says that the host's sockets do not keep a flow, or that it has no
// others to offer.
var ErrNoFlows = errors.New("trace: no sockets that keep one flow each")

// Discover finds the parallel paths to opt.Dst by the Multipath Detection
// Algorithm and samples each path. Of opt it takes where and how to probe, the
// method (Auto: TCP, else UDP, else ICMP, whichever the destination answers),
// MaxHops and Names. When ctx ends it returns what is known so far together
// with ctx's error; the Paths are nil only if nothing was sent.
func Discover(ctx context.Context, opt Options, po PathOptions) (*Paths, error) {
	if err := opt.normalise(); err != nil {
		return nil, err
	}
	if err := po.normalise(&opt); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	d := newDiscovery(opt, po)
	defer d.close(cancel)
	if err := d.choose(ctx); err != nil {
		return nil, err
	}
	err := d.run(ctx)
	return d.result(), err
}

func (po *PathOptions) normalise(o *Options) error {
	if po.Flows < 0 || po.Failure < 0 || po.Failure >= 1 || po.Hops < 0 || po.Budget < 0 {
		return fmt.Errorf("trace: impossible path options %+v", *po)
	}
	po.Flows = min(cmp.Or(po.Flows, 128), 512)
	po.Failure = max(cmp.Or(po.Failure, 0.05), 1e-6)
	po.Hops = min(po.Hops, o.MaxHops)
	po.Samples = min(cmp.Or(po.Samples, 20), 1000)
	po.Budget = cmp.Or(po.Budget, 30*time.Second)
	return nil
}
