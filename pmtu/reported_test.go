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
	for _, tcp := range []bool{false, true} {
		p := plan{mtu: map[int]int{1: 9000, 2: 9000}, router: func(ttl int, r *simnet.Router) {
			r.TooBig = simnet.Absent
			switch {
			case ttl == 2 && tcp:
				r.Filters = []simnet.Filter{{Proto: wire.ICMP}}
			case ttl == 2:
				r.Filters = []simnet.Filter{{}}
			}
		}}
		want := "null"
		if tcp {
			want = "1500"
		}
		inLab(t, p, func(t *testing.T, l *lab) {
			res := measured(t, l, Options{})
			if show(res.MTU) != want || show(res.AtLeast) != want || show(res.InterfaceMTU) != "9000" {
				t.Errorf("TCP passes %v: MTU %s, at least %s, interface %s", tcp, show(res.MTU), show(res.AtLeast), show(res.InterfaceMTU))
			}
			if len(res.Warnings) != 1 {
				t.Errorf("TCP passes %v: warnings %q", tcp, res.Warnings)
			}
		})
	}
}
