package netprobe

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/whyslow/whyslow/internal/wire"
	"golang.org/x/sys/unix"
)

// onTheWire is the time between the packet of a probe and the first that came
// back, by a capture on the client's interface.
func (c *capture) onTheWire(t *testing.T, proto byte) (rtt time.Duration, ok bool) {
	t.Helper()
	var sent time.Time
	for {
		p, more := c.next(t, true)
		if !more {
			return 0, false
		}
		switch {
		case p.out && sent.IsZero() && protocolOf(p.data) == proto:
			sent = p.at
		case !p.out && !sent.IsZero() && protocolOf(p.data) != 0:
			return p.at.Sub(sent), true
		}
	}
}

// scamper and mtr tell times of when they were woken. Ours are the kernel's
// where there is one: against a capture their error is of microseconds, even
// when the machine is busy.
func TestRTTIsThatOfTheWire(t *testing.T) {
	const routers, probes = 1, 200
	c := newChain(t, routers)
	eachKind(t, c, func(t *testing.T, v6 bool, i int) {
		k := kinds[i]
		conn := open(t, c.server(v6), k.cfg)
		wired := newCapture(t, "r0")
		var errs []time.Duration
		for n := range probes {
			for more := true; more; { // neighbour discovery and the like
				_, more = wired.next(t, true)
			}
			sent := send(t, conn, wire.Probe{Seq: uint16(n), TTL: 1 + n%(routers+1)})
			r := recv(t, conn)
			if !r.Sent.IsZero() {
				sent = r.Sent
			}
			rtt := r.Received.Sub(sent)
			if want, ok := wired.onTheWire(t, numberOf(k.proto, familyOf(c.server(v6)))); ok {
				errs = append(errs, (rtt - want).Abs())
			}
		}
		if len(errs) < probes*9/10 {
			t.Fatalf("%d of %d probes captured", len(errs), probes)
		}
		slices.Sort(errs)
		median, p99 := errs[len(errs)/2], errs[len(errs)*99/100]
		t.Logf("error of the RTT: median %v, p99 %v, largest %v", median, p99, errs[len(errs)-1])
		if k.socket == "connect" {
			return // a connecting socket has no transmit stamp; see the log
		}
		if median > 20*time.Microsecond || p99 > 200*time.Microsecond {
			t.Errorf("error of the RTT: median %v, p99 %v; want at most 20µs and 200µs", median, p99)
		}
	})
}

// Some drivers take no stamp when they hand a packet over; then the RTT was
// timed in user land.
func TestDepartureIsStampedAheadOfDriversThatTakeNoStamp(t *testing.T) {
	c := newChain(t, 0)
	for _, k := range kinds {
		if k.socket == "connect" {
			continue
		}
		for _, v6 := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/v6=%v", k.name, v6), func(t *testing.T) {
				c.here(t)
				rt, err := lookupRoute(c.server(v6), k.cfg)
				must(t, err)
				if rt.departure != unix.SOF_TIMESTAMPING_TX_SOFTWARE {
					t.Errorf("departure %#x of a veth pair", rt.departure)
				}
				rt.departure = unix.SOF_TIMESTAMPING_TX_SCHED
				conn, err := openers(k.cfg)[0](t.Context(), rt, k.cfg)
				must(t, err)
				defer conn.Close()
				send(t, conn, wire.Probe{Seq: 1})
				if r := recv(t, conn); r.Sent.IsZero() || r.Sent.After(r.Received) {
					t.Errorf("got %+v", r)
				}
			})
		}
	}
}
