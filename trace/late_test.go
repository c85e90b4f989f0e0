package trace

import (
	"testing"
	"time"

	"github.com/whyslow/whyslow/internal/netprobe"
	"github.com/whyslow/whyslow/internal/simnet"
)

// budgeted is a network with an account of the routers' errors, as the host's.
type budgeted struct {
	netprobe.Network
	budget *netprobe.Budget
}

func (b budgeted) Budget() *netprobe.Budget { return b.budget }

// A router sends six errors and then one a second. What other methods or
// instruments have drawn is not lost on the way: routers that have answered are
// not asked for more than they give.
func TestSpentErrorsAreNoLoss(t *testing.T) {
	inLab(t, plan{}, func(t *testing.T, l *lab) {
		network := budgeted{l.Network, new(netprobe.Budget)}
		for i := range 2 {
			res, err := Run(t.Context(), Options{Network: network, Dst: l.dst, Method: netprobe.ICMP, Queries: 4})
			if err != nil {
				t.Fatal(err)
			}
			for _, h := range res.Hops {
				if h.Sent != h.Received {
					t.Errorf("run %d: hop %d answered %d of %d", i+1, h.TTL, h.Received, h.Sent)
				}
			}
		}
	})
}

// Routers behind a link so slow that they are asked again before they can have
// answered lose nothing: each probe is waited for, or does not count.
func TestHopsBehindASlowLinkLoseNothing(t *testing.T) {
	for _, oneWay := range []time.Duration{60, 110, 160, 207, 400} {
		for _, m := range []netprobe.Method{netprobe.Auto, netprobe.UDP, netprobe.TCP} {
			slow := func(ttl int, there, back *simnet.Link) {
				if ttl == 6 {
					there.Delay, back.Delay = oneWay*time.Millisecond, oneWay*time.Millisecond
				}
			}
			inLab(t, plan{routers: 8, link: slow, router: func(ttl int, r *simnet.Router) {
				if ttl == 4 {
					r.ControlDelay = 515 * time.Millisecond
				}
			}}, func(t *testing.T, l *lab) {
				res, err := Run(t.Context(), Options{Network: budgeted{l.Network, new(netprobe.Budget)}, Dst: l.dst, Method: m})
				if err != nil {
					t.Fatal(err)
				}
				for _, h := range res.Hops[:len(res.Hops)-1] { // a UDP destination has a limit of its own
					if h.Sent != h.Received && !h.Silent {
						t.Errorf("%v, %v ms one way: hop %d answered %d of %d", m, int(oneWay), h.TTL, h.Received, h.Sent)
					}
				}
				if n := rules(res.Reading)["R3"] + rules(res.Reading)["R2"]; n > 0 {
					t.Errorf("%v, %v ms one way: %q", m, int(oneWay), res.Reading)
				}
			})
		}
	}
}
