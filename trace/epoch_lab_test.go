package trace

import (
	"context"
	"net/netip"
	"testing"

	"github.com/whyslow/whyslow/internal/simnet"
)

// A route that changes while it is traced, in the model: packets go round
// router 3 from the sixth round on, and one link further.
func TestRouteChangesWhileTraced(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		var detour [2]simnet.NodeID
		inLab(t, plan{routers: 5, v6: v6,
			router: func(_ int, r *simnet.Router) { r.ErrorBurst = 1000 },
			after: func(l *lab) {
				for i := range detour {
					detour[i] = l.net.AddRouter(simnet.Router{Addr4: addr4(byte(50 + i)), Addr6: addr6(byte(50 + i)), ErrorBurst: 1000})
				}
				l.net.Connect(l.routers[1], detour[0], simnet.Link{Delay: ms(1)}, simnet.Link{Delay: ms(1)})
				l.net.Connect(detour[0], detour[1], simnet.Link{Delay: ms(1)}, simnet.Link{Delay: ms(1)})
				l.net.Connect(detour[1], l.routers[3], simnet.Link{Delay: ms(1)}, simnet.Link{Delay: ms(1)})
			}}, func(t *testing.T, l *lab) {
			var f Fold
			changed := false
			for ev, err := range Events(context.Background(), Options{Network: l.Network, Dst: l.dst, Queries: 10}) {
				if err != nil {
					t.Fatal(err)
				}
				f.Add(ev)
				if ev.Round == 5 && !changed {
					changed = true
					l.Model(func(n *simnet.Net) {
						n.Route(l.routers[1], netip.PrefixFrom(l.dst, l.dst.BitLen()), detour[0])
					})
				}
			}
			res := f.Result()
			if len(res.Epochs) != 2 || res.Epochs[0].Rounds < 5 || res.Epochs[0].Rounds > 6 {
				t.Fatalf("epochs: %+v", res.Epochs)
			}
			if n := len(res.Epochs[1].Hops); n != 7 || res.HopCount == nil || *res.HopCount != 7 {
				t.Errorf("the new route has %d hops, the trace %v, want 7", n, res.HopCount)
			}
			for _, h := range res.Hops {
				if h.Loss > 0 || len(h.Replies) != 1 {
					t.Errorf("hop %d: loss %v, %d addresses", h.TTL, h.Loss, len(h.Replies))
				}
			}
			if rules(res.Reading)["N1"] != 1 {
				t.Errorf("reading: %q", res.Reading)
			}
		})
	}
}
