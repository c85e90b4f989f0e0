package pmtu

import (
	"fmt"
	"strings"
	"testing"

	"github.com/whyslow/whyslow/internal/netprobe/modelnet"
	"github.com/whyslow/whyslow/internal/simnet"
	"github.com/whyslow/whyslow/internal/wire"
)

// Reports about other tools, each a test named for its symptom.

// lance0/ttl#23: a binary search that stops within a few bytes shows less than
// passes.
func TestValueIsSixBytesLow(t *testing.T) {
	for mtu := 1488; mtu <= 1500; mtu++ {
		inLab(t, plan{mtu: map[int]int{5: mtu}, router: policy(simnet.Absent, 0)}, func(t *testing.T, l *lab) {
			if res := measured(t, l, Options{}); show(res.MTU) != fmt.Sprint(mtu) {
				t.Errorf("MTU %s, want %d", show(res.MTU), mtu)
			}
		})
	}
}

// gvisor#12568: "fragmentation needed" with an MTU of 0, as routers sent before
// RFC 1191 and some do today, stops the measurement.
func TestTooBigWithMTUZeroStops(t *testing.T) {
	inLab(t, plan{mtu: map[int]int{5: 1400}, router: policy(simnet.Lying, 0)}, func(t *testing.T, l *lab) {
		res := measured(t, l, Options{})
		if show(res.MTU) != "1400" || show(res.ClaimedMTU) != "0" || !res.Signalled {
			t.Errorf("MTU %s, claimed %s, signalled %v", show(res.MTU), show(res.ClaimedMTU), res.Signalled)
		}
		if len(res.Warnings) != 1 || !strings.Contains(res.Warnings[0], l.router(4).String()) {
			t.Errorf("warnings %q, want one that names %v", res.Warnings, l.router(4))
		}
	})
}

// iputils#448: what the kernel has cached for the path is taken for the path.
func TestCachedMTUContaminates(t *testing.T) {
	for _, cached := range []int{552, 1300, 1400} {
		p := plan{mtu: map[int]int{5: 1400}, host: modelnet.Options{CachedMTU: cached}, router: policy(simnet.Absent, 0)}
		inLab(t, p, func(t *testing.T, l *lab) {
			res := measured(t, l, Options{})
			if show(res.MTU) != "1400" || show(res.CachedMTU) != fmt.Sprint(cached) {
				t.Errorf("MTU %s, cached %s, want 1400 and %d", show(res.MTU), show(res.CachedMTU), cached)
			}
			if warned := len(res.Warnings) > 0; warned != (cached < 1400) {
				t.Errorf("cached %d: warnings %q", cached, res.Warnings)
			}
		})
	}
}

// pscheduler#1540: where ICMP is filtered, the interface's 9000 bytes are
// reported as the path's, as no "too big" came.
func TestClaims9000WhereICMPIsFiltered(t *testing.T) {
	jumbo := map[int]int{1: 9000, 2: 9000}
	for _, udp := range []bool{true, false} {
		p := plan{mtu: jumbo, router: func(ttl int, r *simnet.Router) {
			r.TooBig = simnet.Absent
			if ttl == 2 {
				r.Filters = []simnet.Filter{{Proto: wire.ICMP}}
				if !udp {
					r.Filters = append(r.Filters, simnet.Filter{Proto: wire.UDP})
				}
			}
		}}
		inLab(t, p, func(t *testing.T, l *lab) {
			res := measured(t, l, Options{})
			if res.MTU != nil || res.AtLeast != nil {
				t.Errorf("UDP passes %v: MTU %s, at least %s, though nothing answers", udp, show(res.MTU), show(res.AtLeast))
			}
			if show(res.InterfaceMTU) != "9000" || len(res.Warnings) != 1 || !strings.Contains(res.Warnings[0], "not measured") {
				t.Errorf("UDP passes %v: interface %s, warnings %q", udp, show(res.InterfaceMTU), res.Warnings)
			}
		})
	}
}
