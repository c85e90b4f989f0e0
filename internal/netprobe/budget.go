package netprobe

import (
	"net/netip"
	"sync"
	"time"
)

// The error limit of a Linux router towards one prober: a token bucket of
// XRLIM_BURST_FACTOR errors that gains one every icmp_ratelimit (net/ipv4/icmp.c,
// net/ipv6/icmp.c). Time exceeded and port unreachable draw on it; echo
// replies, "fragmentation needed" and the loopback interface do not. Other
// makers limit by other rules, mostly no harder.
const (
	errorBurst   = 6
	errorEvery4  = time.Second
	errorEvery6  = 100 * time.Millisecond
	budgetMaxKey = 4096 // accounts and learned hops held before idle ones are dropped
)

// Budget is the account of the ICMP errors that the routers on our paths can
// still be expected to send us. A router that has spent its errors on one
// instrument is silent towards the next, and that silence looks like loss; so
// all instruments of a run draw on one Budget.
//
// An account belongs to a router once Learn has told which router it is, and
// until then to a place on a path (destination and TTL). The zero Budget is
// ready for use; a nil *Budget never asks anyone to wait. Methods may be called
// by several goroutines.
type Budget struct {
	mu    sync.Mutex
	hops  map[hopKey]netip.Addr
	spent map[accountKey]debt
}

// debt is what was drawn: since when, and when the last error is paid back.
type debt struct{ since, paid time.Time }

// draw adds errors, drawn from a time on, that take a while to be paid back.
func (d debt) draw(since time.Time, cost time.Duration) debt {
	if d.paid.Before(since) {
		d = debt{since, since}
	}
	d.paid = d.paid.Add(cost)
	return d
}

// hopKey is a place on a path.
type hopKey struct {
	dst netip.Addr
	ttl int
}

// accountKey names an account: a router, or a hopKey while the router is
// unknown.
type accountKey struct {
	router netip.Addr
	hop    hopKey
}

// Take draws one error from the router ttl hops on the way to dst, and returns
// how long after now the probe should leave so that the router can answer it.
// The error counts as drawn at once; a caller that decides not to send gives
// it back with Return.
func (b *Budget) Take(dst netip.Addr, ttl int, now time.Time) (wait time.Duration) {
	if b == nil || exemptFromBudget(dst) {
		return 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	key := b.account(hopKey{dst.Unmap(), ttl})
	every := errorEvery(dst)
	d := b.spent[key].draw(now, every)
	b.setSpent(key, d, now)
	return max(0, d.paid.Sub(now)-errorBurst*every)
}

// Return gives back one error drawn by Take: the probe was not sent, or drew
// an answer that no limit covers (an echo reply, "too big").
func (b *Budget) Return(dst netip.Addr, ttl int) {
	if b == nil || exemptFromBudget(dst) {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	key := b.account(hopKey{dst.Unmap(), ttl})
	if d, ok := b.spent[key]; ok {
		d.paid = d.paid.Add(-errorEvery(dst))
		b.spent[key] = d
	}
}

// Left returns how many errors can be drawn at now without waiting. It draws
// none. A nil Budget has a full account.
func (b *Budget) Left(dst netip.Addr, ttl int, now time.Time) int {
	if b == nil || exemptFromBudget(dst) {
		return errorBurst
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	owed := b.spent[b.account(hopKey{dst.Unmap(), ttl})].paid.Sub(now)
	every := errorEvery(dst)
	left := errorBurst - int((owed+every-1)/every)
	return min(max(left, 0), errorBurst)
}

// Learn records which router answered at a place on a path. What was drawn at
// the place so far is charged to the router.
func (b *Budget) Learn(dst netip.Addr, ttl int, router netip.Addr, now time.Time) {
	router = router.Unmap()
	if b == nil || !router.IsValid() || exemptFromBudget(dst) {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	hop := hopKey{dst.Unmap(), ttl}
	old := b.account(hop)
	if old.router == router {
		return
	}
	if b.hops == nil {
		b.hops = make(map[hopKey]netip.Addr)
	}
	if len(b.hops) >= budgetMaxKey {
		clear(b.hops)
	}
	b.hops[hop] = router
	// What another router (of another ECMP path) was charged stays with it.
	if old.router.IsValid() {
		return
	}
	if d, ok := b.spent[old]; ok {
		// Places pay back side by side, a router one error after the other:
		// what several places have paid meanwhile it still owes.
		delete(b.spent, old)
		key := accountKey{router: router}
		b.setSpent(key, b.spent[key].draw(d.since, d.paid.Sub(d.since)), now)
	}
}

// Router returns the router last learned at a place on a path, so that one
// instrument need not ask again for what another already knows.
func (b *Budget) Router(dst netip.Addr, ttl int) (netip.Addr, bool) {
	if b == nil {
		return netip.Addr{}, false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	a, ok := b.hops[hopKey{dst.Unmap(), ttl}]
	return a, ok
}

// account returns the key of the account that pays for a place on a path.
func (b *Budget) account(hop hopKey) accountKey {
	if r, ok := b.hops[hop]; ok {
		return accountKey{router: r}
	}
	return accountKey{hop: hop}
}

// setSpent stores an account and, when there are too many, drops those that
// are full again; if all are in debt, it drops them all rather than grow.
func (b *Budget) setSpent(key accountKey, d debt, now time.Time) {
	if b.spent == nil {
		b.spent = make(map[accountKey]debt)
	}
	if len(b.spent) >= budgetMaxKey {
		for k, d := range b.spent {
			if d.paid.Before(now) {
				delete(b.spent, k)
			}
		}
		if len(b.spent) >= budgetMaxKey {
			clear(b.spent)
		}
	}
	b.spent[key] = d
}

// errorEvery is the time in which a router's account gains one error.
func errorEvery(dst netip.Addr) time.Duration {
	if dst.Unmap().Is4() {
		return errorEvery4
	}
	return errorEvery6
}

// exemptFromBudget says that no error limit applies: the kernel does not limit
// errors on the loopback interface.
func exemptFromBudget(dst netip.Addr) bool {
	return !dst.IsValid() || dst.Unmap().IsLoopback()
}
