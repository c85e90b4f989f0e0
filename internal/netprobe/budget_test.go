package netprobe

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var (
	far4    = netip.MustParseAddr("192.0.2.1")
	near4   = netip.MustParseAddr("198.51.100.1")
	far6    = netip.MustParseAddr("2001:db8::1")
	router4 = netip.MustParseAddr("203.0.113.1")
	start   = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
)

func TestBudgetIsSixThenOneASecond(t *testing.T) {
	for _, tt := range []struct {
		dst   netip.Addr
		every time.Duration
	}{{far4, time.Second}, {far6, 100 * time.Millisecond}} {
		var b Budget
		var got []time.Duration
		for range 8 {
			got = append(got, b.Take(tt.dst, 3, start))
		}
		want := []time.Duration{0, 0, 0, 0, 0, 0, tt.every, 2 * tt.every}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%v: waits (-want +got):\n%s", tt.dst, diff)
		}
		if left := b.Left(tt.dst, 3, start); left != 0 {
			t.Errorf("%v: %d left", tt.dst, left)
		}
		// Eight were drawn, so ten intervals pay back all of them.
		if left := b.Left(tt.dst, 3, start.Add(5*tt.every)); left != 3 {
			t.Errorf("%v: %d left after five intervals, want 3", tt.dst, left)
		}
		if left := b.Left(tt.dst, 3, start.Add(100*tt.every)); left != 6 {
			t.Errorf("%v: %d left after a rest, want no more than the burst of 6", tt.dst, left)
		}
	}
}

func TestBudgetIsOfTheRouterNotOfThePath(t *testing.T) {
	var b Budget
	for range 3 {
		b.Take(far4, 1, start)
		b.Take(near4, 1, start)
	}
	b.Learn(far4, 1, router4, start)
	b.Learn(near4, 1, router4, start) // both paths begin there
	if left := b.Left(near4, 1, start); left != 0 {
		t.Errorf("%d left of a router that two paths have drawn on; want 0", left)
	}
	if got, ok := b.Router(near4, 1); !ok || got != router4 {
		t.Errorf("router %v, %v", got, ok)
	}
	if _, ok := b.Router(near4, 2); ok {
		t.Error("a router nobody has learned")
	}
	if wait := b.Take(far4, 2, start); wait != 0 {
		t.Errorf("another hop waits %v", wait)
	}
}

func TestBudgetReturn(t *testing.T) {
	var b Budget
	for range 6 {
		b.Take(far4, 4, start)
	}
	b.Return(far4, 4)
	if wait := b.Take(far4, 4, start); wait != 0 {
		t.Errorf("waits %v for what was given back", wait)
	}
	// Giving back what was paid back long ago makes no credit.
	for range 20 {
		b.Return(far4, 4)
	}
	if left := b.Left(far4, 4, start); left != 6 {
		t.Errorf("%d left, want 6", left)
	}
}

func TestBudgetOfNoBody(t *testing.T) {
	var b *Budget
	for range 20 {
		if wait := b.Take(far4, 1, start); wait != 0 {
			t.Fatalf("a nil budget waits %v", wait)
		}
	}
	b.Return(far4, 1)
	b.Learn(far4, 1, router4, start)
	if _, ok := b.Router(far4, 1); ok || b.Left(far4, 1, start) != 6 {
		t.Error("a nil budget remembers")
	}
	var h *Host
	if h.Budget() != nil {
		t.Error("a nil host has a budget")
	}
}

func TestBudgetLoopbackIsExempt(t *testing.T) {
	var b Budget
	for range 20 {
		if wait := b.Take(netip.MustParseAddr("127.0.0.1"), 64, start); wait != 0 {
			t.Fatalf("loopback waits %v", wait)
		}
	}
}

func TestBudgetStaysBounded(t *testing.T) {
	var b Budget
	a := netip.MustParseAddr("10.0.0.0")
	for range 3 * budgetMaxKey {
		a = a.Next()
		b.Take(a, 1, start)
		b.Learn(a, 1, a, start)
	}
	if len(b.spent) > budgetMaxKey || len(b.hops) > budgetMaxKey {
		t.Errorf("%d accounts, %d hops", len(b.spent), len(b.hops))
	}
}
