package trace

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/whyslow/whyslow/internal/netprobe"
	"github.com/whyslow/whyslow/internal/netprobe/modelnet"
	"github.com/whyslow/whyslow/internal/simnet"
)

// What router 3 does to packets shows at hop 4, by every method that can see
// it, and is null by the others.
func TestChangesOnTheWay(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		for _, m := range []netprobe.Method{netprobe.ICMP, netprobe.UDP, netprobe.TCP} {
			for _, unprivileged := range []bool{false, true} {
				t.Run(fmt.Sprintf("v6=%v %v unprivileged=%v", v6, m, unprivileged), func(t *testing.T) {
					inLab(t, plan{routers: 6, v6: v6, host: modelnet.Options{Unprivileged: unprivileged}, router: func(ttl int, r *simnet.Router) {
						if ttl == 3 {
							r.ClampMSS, r.Remark = 1300, simnet.Remark{Mask: 0xfc, Value: 10 << 2}
							r.NAT = &simnet.NAT{Inside: []netip.Prefix{netip.PrefixFrom(addr4(100), 32), netip.PrefixFrom(addr6(100), 128)},
								Quote: simnet.QuoteStale, PortBase: 20000}
						}
					}}, func(t *testing.T, l *lab) {
						res := traced(t, l, Options{Method: m})
						want := router(l, 4)
						if res.NAT != nil && (res.NAT.TTL != 4 || res.NAT.Addr != want) || res.NAT == nil && (!unprivileged || m == netprobe.TCP) {
							t.Errorf("NAT at %v, want hop 4", res.NAT)
						}
						if c := res.MSSClamp; (c != nil) != (m == netprobe.TCP) || c != nil && (c.TTL != 4 || c.To != 1300) {
							t.Errorf("clamp at %v, want it at hop 4 by TCP", c)
						}
						if c := res.TOSChange; c == nil && !unprivileged || c != nil && (c.TTL != 4 || c.To != 10<<2 || c.Addr != want) {
							t.Errorf("TOS change at %v, want hop 4", c)
						}
						n := rules(res.Reading)
						if (n["N2"] == 1) != (res.NAT != nil) || (n["N3"] == 1) != (res.MSSClamp != nil) || (n["N4"] == 1) != (res.TOSChange != nil) || n["N5"] > 0 {
							t.Errorf("reading: %q", res.Reading)
						}
					})
				})
			}
		}
	}
}

// The routers of a label-switched path answer from its end (R8), and charge
// their way there to nobody.
func TestLabelSwitchedPath(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		inLab(t, plan{routers: 7, v6: v6, after: func(l *lab) { l.net.AddLSP(simnet.LSP{Path: l.routers[1:6]}) }}, func(t *testing.T, l *lab) {
			res := traced(t, l, Options{})
			for _, h := range res.Hops {
				inside := h.TTL > 2 && h.TTL < 6
				if got := len(h.Replies[0].Labels) > 0; got != inside {
					t.Errorf("hop %d: labels %v", h.TTL, h.Replies[0].Labels)
				}
			}
			reads(t, res, "R8: hops 3 to 5 are one MPLS path and answer after nearly the same time")
			sum := ms(0)
			for _, s := range Segments(res) {
				sum += s.Delay
			}
			if want := res.Hops[len(res.Hops)-1].Replies[0].Min.Duration(); (sum - want).Abs() > ms(0.1) {
				t.Errorf("segments sum to %v, want %v", sum, want)
			}
		})
	}
}
