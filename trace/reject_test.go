package trace

import (
	"fmt"
	"strings"
	"testing"

	"github.com/whyslow/whyslow/internal/netprobe"
	"github.com/whyslow/whyslow/internal/simnet"
	"github.com/whyslow/whyslow/internal/wire"
)

// A firewall on the way that rejects, by default with port unreachable, is not
// the destination, though it answers UDP as that would.
func TestRejectingFirewallIsNotTheDestination(t *testing.T) {
	for _, m := range []netprobe.Method{netprobe.UDP, netprobe.TCP, netprobe.ICMP, netprobe.Auto} {
		for _, v6 := range []bool{false, true} {
			for seed := range uint64(10) {
				t.Run(fmt.Sprint(m, " v6=", v6, " ", seed), func(t *testing.T) {
					p := plan{seed: seed, v6: v6, routers: 6, link: func(_ int, there, back *simnet.Link) { there.Loss = float64(seed) / 200 }}
					p.router = func(ttl int, r *simnet.Router) {
						if ttl == 4 {
							r.Filters = []simnet.Filter{{Proto: wire.UDP, Reject: true}, {Proto: wire.TCP, Reject: true}, {Proto: wire.ICMP, Echo: true, Reject: true}}
						}
					}
					inLab(t, p, func(t *testing.T, l *lab) {
						res := traced(t, l, Options{Method: m})
						if res.Reached || res.HopCount != nil {
							t.Fatalf("reached at %v", *res.HopCount)
						}
						if last := res.Hops[len(res.Hops)-1]; last.TTL < 5 || last.Silent || last.Replies[0].ICMP != portUnreachable {
							t.Errorf("the path ends with %+v", last)
						}
						if text := fmt.Sprint(res.Reading); !strings.Contains(text, "port unreachable") {
							t.Errorf("nobody says who rejects: %s", text)
						}
					})
				})
			}
		}
	}
}
