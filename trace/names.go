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

// lookups asks for the names and origins of addresses without ever making the
// trace wait.
type lookups struct {
	resolve func(context.Context, netip.Addr) string
	origin  func(context.Context, netip.Addr) *AS
	found   chan named
	slots   chan struct{} // of resolve
	places  chan struct{} // of origin
	asked   map[netip.Addr]bool
	pending int // asked and not received from found; the engine's
	wg      sync.WaitGroup
}

type named struct {
	addr netip.Addr
	name string
	as   *AS
}

func newLookups(resolve func(context.Context, netip.Addr) string, origin func(context.Context, netip.Addr) *AS) *lookups {
	return &lookups{resolve: resolve, origin: origin, found: make(chan named), asked: make(map[netip.Addr]bool),
		slots: make(chan struct{}, maxLookups), places: make(chan struct{}, maxLookups)}
}

// ask starts the lookups of an address not asked for before. They end with ctx.
func (l *lookups) ask(ctx context.Context, addr netip.Addr) {
	if l.asked[addr] || !addr.IsValid() {
		return
	}
	l.asked[addr] = true
	if l.resolve != nil {
		l.start(ctx, l.slots, func() named {
			name := strings.TrimSuffix(l.resolve(ctx, addr), ".")
			return named{addr: addr, name: name[:min(len(name), maxName)]}
		})
	}
	if l.origin != nil {
		l.start(ctx, l.places, func() named {
			as := l.origin(ctx, addr)
			if as != nil && len(as.Name) > maxName {
				short := *as
				short.Name = short.Name[:maxName]
				as = &short
			}
			return named{addr: addr, as: as}
		})
	}
}

func (l *lookups) start(ctx context.Context, slots chan struct{}, look func() named) {
	l.pending++
	l.wg.Go(func() {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		n := look()
		<-slots
		select {
		case l.found <- n:
		case <-ctx.Done():
		}
	})
}

// wait returns when all lookups have; their context must have ended.
func (l *lookups) wait() { l.wg.Wait() }
