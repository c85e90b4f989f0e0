package trace

import (
	"context"
	"net/netip"
	"strings"
	"sync"
)

const (
	maxLookups = 16  // at once
	maxName    = 255 // bytes; a DNS name is no longer (RFC 1035 2.3.4)
)

// lookups asks for the names of addresses without ever making the trace wait.
type lookups struct {
	resolve func(context.Context, netip.Addr) string
	found   chan named
	slots   chan struct{}
	asked   map[netip.Addr]bool
	pending int // asked and not received from found; the engine's
	wg      sync.WaitGroup
}

type named struct {
	addr netip.Addr
	name string
}

func newLookups(resolve func(context.Context, netip.Addr) string) *lookups {
	return &lookups{resolve: resolve, found: make(chan named), slots: make(chan struct{}, maxLookups),
		asked: make(map[netip.Addr]bool)}
}

// ask starts the lookup of an address not asked for before. It ends with ctx.
func (l *lookups) ask(ctx context.Context, addr netip.Addr) {
	if l.resolve == nil || l.asked[addr] || !addr.IsValid() {
		return
	}
	l.asked[addr] = true
	l.pending++
	l.wg.Go(func() {
		select {
		case l.slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		name := strings.TrimSuffix(l.resolve(ctx, addr), ".")
		<-l.slots
		select {
		case l.found <- named{addr, name[:min(len(name), maxName)]}:
		case <-ctx.Done():
		}
	})
}

// wait returns when all lookups have; their context must have ended.
func (l *lookups) wait() { l.wg.Wait() }
