package pmtu

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/whyslow/whyslow/internal/netprobe"
	"github.com/whyslow/whyslow/internal/simnet"
)

// exactPath is a path of 12 hops and 60 ms whose MTU must come out exactly.
type exactPath struct {
	name  string
	mtu   int
	at    int // TTL of the limiter; 0 if there is none
	plan  plan
	forge int // what a forger claims of every packet that arrives; 0 is nobody
	only  int // the family; 0 is both
}

func exactPaths() []exactPath {
	narrow := map[int]int{5: 1400}
	var out []exactPath
	add := func(name string, mtu, at int, p plan) *exactPath {
		p.routers, p.delay = 11, 2500*time.Microsecond
		out = append(out, exactPath{name: name, mtu: mtu, at: at, plan: p})
		return &out[len(out)-1]
	}
	add("whole", 1500, 0, plan{})
	add("honest", 1400, 4, plan{mtu: narrow})
	for _, claim := range []int{0, 68, 1500, 1600} {
		add(fmt.Sprintf("claims %d", claim), 1400, 4, plan{mtu: narrow, router: policy(simnet.Lying, claim)})
	}
	for _, k := range []int{1, 2, 5, 8, 11} {
		add(fmt.Sprintf("black hole at hop %d", k), 1400, k, plan{mtu: map[int]int{k + 1: 1400}, router: policy(simnet.Absent, 0)})
	}
	for _, mtu := range []int{1499, 1492, 1411, 1337, 1281} {
		add(fmt.Sprintf("black hole of %d", mtu), mtu, 4, plan{mtu: map[int]int{5: mtu}, router: policy(simnet.Absent, 0)})
	}
	add("black hole of 611", 611, 4, plan{mtu: map[int]int{5: 611}, router: policy(simnet.Absent, 0)}).only = 4
	add("two narrowings", 1400, 8, plan{mtu: map[int]int{4: 1450, 9: 1400}})
	add("two black holes", 1400, 8, plan{mtu: map[int]int{4: 1450, 9: 1400}, router: policy(simnet.Absent, 0)})
	add("asymmetric", 1400, 4, plan{mtu: narrow, detour: 14})
	add("asymmetric black hole", 1400, 4, plan{mtu: narrow, detour: 14, router: policy(simnet.Absent, 0)})
	add("minimum of IPv6", 1280, 4, plan{mtu: map[int]int{5: 1280}})
	add("claims below the minimum of IPv6", 1280, 4, plan{mtu: map[int]int{5: 1280}, router: policy(simnet.Lying, 1279)}).only = 6
	jumbo := make(map[int]int)
	for ttl := 1; ttl <= 12; ttl++ {
		jumbo[ttl] = 9000
	}
	jumbo[5] = 1500
	add("jumbo 9000 to 1500", 1500, 4, plan{mtu: jumbo})
	add("jumbo 9000 to 1500, black hole", 1500, 4, plan{mtu: jumbo, router: policy(simnet.Absent, 0)})
	for _, claim := range []int{552, 1280, 1, 1 << 20} {
		add(fmt.Sprintf("forged %d", claim), 1500, 0, plan{}).forge = claim
		add(fmt.Sprintf("forged %d, narrow", claim), 1400, 4, plan{mtu: narrow}).forge = claim
	}
	return out
}

// TestExact holds the measurement to what it promises, on every kind of path:
// the exact value in 40 packets, the place in two a hop, and all of it in five
// round trips and 300 ms. Only an IPv4 destination that answers by ICMP errors,
// of which Linux sends six and then one a second, takes longer.
func TestExact(t *testing.T) {
	for _, x := range exactPaths() {
		for _, v6 := range []bool{false, true} {
			if x.only == 4 && v6 || x.only == 6 && !v6 {
				continue
			}
			for _, m := range []netprobe.Method{netprobe.ICMP, netprobe.UDP} {
				for _, limited := range []bool{false, true} {
					if limited && m == netprobe.ICMP {
						continue
					}
					p := x.plan
					p.v6 = v6
					if !limited {
						p.server.ErrorBurst = -1
					}
					b := bounds{packets: 40, within: 5*60*time.Millisecond + 300*time.Millisecond}
					if x.mtu < 1200 {
						b.packets = 48 // where no link has its MTU
					}
					if limited && !v6 {
						b = bounds{packets: 56, within: 5 * time.Second}
					}
					t.Run(fmt.Sprintf("%s v6=%v %v limited=%v", x.name, v6, m, limited), func(t *testing.T) {
						inLab(t, p, func(t *testing.T, l *lab) { x.check(t, l, m, b) })
					})
				}
			}
		}
	}
}

// bounds are what a measurement may cost.
type bounds struct {
	packets int // for the value
	within  time.Duration
}

func (x *exactPath) check(t *testing.T, l *lab, m netprobe.Method, b bounds) {
	var network netprobe.Network = l.Network
	if x.forge != 0 {
		network = forger{network, x.forge}
	}
	res, err := Run(context.Background(), Options{Network: network, Dst: l.dst, Method: m})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d packets for the value, %d to locate, %v %q", res.Packets-res.Locating, res.Locating, res.Elapsed, res.Warnings)
	if show(res.MTU) != fmt.Sprint(x.mtu) {
		t.Errorf("MTU %s, want %d", show(res.MTU), x.mtu)
	}
	at, want := Limiter{}, Limiter{}
	if res.Limiter != nil {
		at = *res.Limiter
	}
	if x.at > 0 {
		want = Limiter{x.at, l.router(x.at)}
	}
	if at != want {
		t.Errorf("limiter %+v, want %+v", at, want)
	}
	if res.Elapsed.Duration() > b.within {
		t.Errorf("took %v, want at most %v", res.Elapsed, b.within)
	}
	if res.Packets-res.Locating > b.packets || res.Locating > 2*l.ttl {
		t.Errorf("%d packets for the value, %d to locate it; want at most %d and %d", res.Packets-res.Locating, res.Locating, b.packets, 2*l.ttl)
	}
}
