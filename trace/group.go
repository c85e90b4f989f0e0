package trace

import (
	"context"
	"iter"
	"sync"
	"time"

	"github.com/whyslow/whyslow/internal/netprobe"
)

// maxAtOnce bounds the traces of a group that run at the same time: each has
// sockets of its own.
const maxAtOnce = 128

// Outcome is how one trace of a group ended. Result is never nil.
type Outcome struct {
	Result *Result
	Err    error
}

// RunGroup traces to several destinations at once, as Group does, and returns
// what was found, in the order of opts. An error of one trace ends no other.
func RunGroup(ctx context.Context, opts []Options) []Outcome {
	return FollowGroup(ctx, opts, func(Event) {})
}

// FollowGroup is RunGroup for a caller that wants to see each event as it
// happens too.
func FollowGroup(ctx context.Context, opts []Options, each func(Event)) []Outcome {
	outcomes, folds := make([]Outcome, len(opts)), make([]Fold, len(opts))
	for i, o := range opts {
		folds[i] = Fold{target: Target{Name: o.Name, Addr: o.Dst.Unmap()}, started: time.Now()}
	}
	for ev, err := range Group(ctx, opts) {
		if err != nil {
			outcomes[ev.Trace].Err = err
			continue
		}
		folds[ev.Trace].Add(ev)
		each(ev)
	}
	for i := range folds {
		outcomes[i].Result = folds[i].Result()
	}
	return outcomes
}

// Group traces to several destinations at once and yields the events of all:
// Event.Trace says which trace one belongs to. With an error only Event.Trace
// is set, and it ends that trace alone.
//
// Paths from one host are a tree, and its routers send few errors: what they
// have in common is asked by two traces, and the others take it over (compare
// Doubletree, Donnet et al. 2005). Each of those begins with the last hop it
// takes over; one that finds another router there asks from the first on.
// Taken-over answers are marked: Hop.Shared.
func Group(ctx context.Context, opts []Options) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		running, cancel := context.WithCancel(ctx)
		defer cancel()
		type element struct {
			ev  Event
			err error
		}
		out := make(chan element)
		slots := make(chan struct{}, maxAtOnce)
		members, order := together(opts)
		var wg sync.WaitGroup
		wg.Go(func() {
			for _, i := range order {
				slots <- struct{}{}
				wg.Go(func() {
					defer func() { <-slots }()
					defer members[i].group.settled(i)
					for ev, err := range Events(running, members[i]) {
						ev.Trace = i
						out <- element{ev, err}
					}
				})
			}
		})
		go func() {
			wg.Wait()
			close(out)
		}()
		left := false
		for e := range out {
			if !left && !yield(e.ev, e.err) {
				left = true
				cancel()
			}
		}
	}
}

// together gives the traces of a group what they share, by address family. In
// the order of starting those that lead come first.
func together(opts []Options) (members []Options, order []int) {
	members = append(members, opts...)
	var host netprobe.Network = &netprobe.Host{}
	families := map[bool][]int{}
	for i := range members {
		m := &members[i]
		if m.Network == nil {
			m.Network = host
		}
		families[m.Dst.Unmap().Is4()] = append(families[m.Dst.Unmap().Is4()], i)
	}
	var followers []int
	for _, family := range families {
		first := members[family[0]]
		g := newCommons(budgetOf(first.Network), errorEvery(first.Dst.Unmap()), len(family))
		for n, i := range family {
			members[i].group, members[i].member = g, i
			// Leaders far apart in the list are likely to be so in the net.
			if n == 0 || n == len(family)/2 {
				g.leads[i] = true
				order = append(order, i)
			} else {
				followers = append(followers, i)
			}
		}
		g.pending = len(g.leads)
	}
	return members, append(order, followers...)
}

// budgetOf is the account of ICMP errors that a network keeps, or a new one.
func budgetOf(n netprobe.Network) *netprobe.Budget {
	if b, ok := n.(interface{ Budget() *netprobe.Budget }); ok && b.Budget() != nil {
		return b.Budget()
	}
	return new(netprobe.Budget)
}
