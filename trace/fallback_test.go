package trace

import (
	"testing"
	"time"

	"github.com/whyslow/whyslow/internal/netprobe"
	"github.com/whyslow/whyslow/internal/simnet"
	"github.com/whyslow/whyslow/internal/wire"
)

// Where the destination is deaf to echo, each hop got two probes or fewer in
// place of three: the methods before had spent the routers' errors.
func TestFallingBackLeavesErrorsForEveryProbe(t *testing.T) {
	for _, tt := range []struct {
		name    string
		at      int // the router that filters
		filters []simnet.Filter
		want    string
	}{
		{"echo", 11, nil, "udp"},
		{"echo and udp at the end", 11, []simnet.Filter{{Proto: wire.UDP}}, "tcp"},
		{"echo and udp halfway", 5, []simnet.Filter{{Proto: wire.UDP}, {Proto: wire.ICMP, Echo: true}}, "tcp"},
	} {
		for _, delay := range []time.Duration{500 * time.Microsecond, 2500 * time.Microsecond, 8 * time.Millisecond} {
			for _, v6 := range []bool{false, true} {
				filter := func(ttl int, r *simnet.Router) {
					if ttl == tt.at {
						r.Filters = tt.filters
					}
				}
				p := plan{delay: delay, v6: v6, server: simnet.Host{EchoSilent: true}, router: filter}
				inLab(t, p, func(t *testing.T, l *lab) {
					res, err := Run(t.Context(), Options{Network: budgeted{l.Network, new(netprobe.Budget)}, Dst: l.dst})
					if err != nil {
						t.Fatal(err)
					}
					checkSound(t, l, res)
					if res.Method != tt.want {
						t.Errorf("%s: found by %s, want %s", tt.name, res.Method, tt.want)
					}
					for _, h := range res.Hops {
						if h.Sent != 3 || h.Received != 3 {
							t.Errorf("%s, %v a link, v6=%v: hop %d answered %d of %d, want 3 of 3", tt.name, delay, v6, h.TTL, h.Received, h.Sent)
						}
					}
				})
			}
		}
	}
}
