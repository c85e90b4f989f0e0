package trace

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/whyslow/whyslow/internal/netprobe"
	"github.com/whyslow/whyslow/internal/netprobe/modelnet"
	"github.com/whyslow/whyslow/internal/simnet"
)

// graphNet builds routers by name, as fakeNet has them, in the model: real
// packets, real hashes, Linux's limits on errors.
func graphNet(seed uint64, next map[string][]string, v6 bool, hash simnet.Hash) (net *simnet.Net, client simnet.NodeID, ids map[string]simnet.NodeID, dst netip.Addr) {
	net = simnet.New(seed)
	client = net.AddHost(simnet.Host{Name: "client", Addrs: []netip.Addr{addr4(250), addr6(250)}})
	ids = map[string]simnet.NodeID{"": client}
	dst = addr4(200)
	if v6 {
		dst = addr6(200)
	}
	server := net.AddHost(simnet.Host{Name: "server", Addrs: []netip.Addr{addr4(200), addr6(200)}})
	net.OpenTCP(server, 443)
	ids["dst"] = server
	link := simnet.Link{Delay: time.Millisecond}
	var visit func(at string)
	visit = func(at string) {
		for _, to := range next[at] {
			if _, ok := ids[to]; !ok {
				ids[to] = net.AddRouter(simnet.Router{Name: to, Addr4: addr4(byte(len(ids))), Addr6: addr6(byte(len(ids)))})
				visit(to)
			}
			net.Connect(ids[at], ids[to], link, link)
		}
	}
	visit("")
	for at, to := range next {
		var via []simnet.NodeID
		for _, name := range to {
			via = append(via, ids[name])
		}
		if len(via) > 1 {
			net.RouteVia(ids[at], netip.PrefixFrom(dst, dst.BitLen()), simnet.Multipath{Via: via, Hash: hash})
		} else {
			net.Route(ids[at], netip.PrefixFrom(dst, dst.BitLen()), via[0])
		}
	}
	return net, client, ids, dst
}

func discoverModel(t *testing.T, seed uint64, next map[string][]string, v6 bool, hash simnet.Hash, change func(*simnet.Net, map[string]simnet.NodeID), opt Options, po PathOptions) (p *Paths) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		net, client, ids, dst := graphNet(seed, next, v6, hash)
		if change != nil {
			change(net, ids)
		}
		w := modelnet.New(net, client)
		defer w.Close()
		opt.Network, opt.Dst = w, dst
		var err error
		if p, err = Discover(context.Background(), opt, po); err != nil {
			t.Fatal(err)
		}
	})
	return p
}

// unequal is a diamond whose one side has two routers more.
var unequal = map[string][]string{"": {"a"}, "a": {"b", "x"}, "b": {"c"}, "c": {"dst"}, "x": {"y"}, "y": {"z"}, "z": {"c"}}

func TestParallelPathsOfTheModel(t *testing.T) {
	for _, tt := range []struct {
		name  string
		next  map[string][]string
		links int // where they are fewer than edges lie in the graph's TTLs; 0 is as many
	}{
		{"two", fan(1, 2, 1), 0},
		{"four", fan(1, 1, 4, 1), 0},
		{"sixteen", fan(1, 16, 1), 0},
		{"nested", fan(1, 2, 3, 1), 0},
		{"unequal", unequal, 9},
	} {
		for _, v6 := range []bool{false, true} {
			for _, m := range []netprobe.Method{netprobe.ICMP, netprobe.UDP, netprobe.TCP} {
				t.Run(fmt.Sprintf("%s/v6=%v/%v", tt.name, v6, m), func(t *testing.T) {
					want := tt.links
					if want == 0 {
						want = linksOf(tt.next)
					}
					p := discoverModel(t, 11, tt.next, v6, simnet.HashFlow, nil, Options{Method: m},
						PathOptions{Failure: 0.001, Flows: 512, Samples: -1, Budget: 10 * time.Minute})
					if len(p.Links) != want || !p.Confirmed {
						t.Errorf("%d links, want %d; confirmed %v\n%s", len(p.Links), want, p.Confirmed, texts(p))
					}
					t.Logf("%d flows, %d probes, %v", p.FlowCount, p.Probes, p.Elapsed)
				})
			}
		}
	}
}

// Linux hashes no ICMP by its flow, so that method sees one path there.
func TestPortsAreHashedWhereEchoesAreNot(t *testing.T) {
	for _, tt := range []struct {
		method netprobe.Method
		want   int
	}{{netprobe.ICMP, 1}, {netprobe.UDP, 4}, {netprobe.TCP, 4}, {netprobe.Auto, 4}} {
		p := discoverModel(t, 3, fan(1, 4, 1), false, simnet.HashPorts, nil, Options{Method: tt.method}, PathOptions{Failure: 0.001, Samples: -1})
		if got := nodesAt(p, 2); got != tt.want {
			t.Errorf("%v: %d routers at hop 2, want %d", tt.method, got, tt.want)
		}
		if said := strings.Contains(texts(p), "many routers spread echoes by their addresses alone"); said != (tt.want == 1) {
			t.Errorf("%v: that echoes tell nothing of other flows is said: %v", tt.method, said)
		}
	}
}

func TestPacketsSpreadInTheModel(t *testing.T) {
	p := discoverModel(t, 3, fan(1, 2, 1), true, simnet.PerPacket, nil, Options{}, PathOptions{Samples: -1})
	if !strings.Contains(texts(p), "packets spread one by one") {
		t.Errorf("not said:\n%s", texts(p))
	}
}

// mtr#233 with packets: a member that loses one in ten, on the way there.
func TestBadMemberOfTheModelIsNamed(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		for _, m := range []netprobe.Method{netprobe.ICMP, netprobe.TCP} {
			p := discoverModel(t, 5, fan(1, 4, 1, 1), v6, simnet.HashFlow, func(n *simnet.Net, ids map[string]simnet.NodeID) {
				n.SetLink(ids["a00"], ids["b02"], simnet.Link{Delay: time.Millisecond, Loss: 0.1})
			}, Options{Method: m}, PathOptions{Budget: 2 * time.Minute})
			if !strings.Contains(texts(p), "that member of the parallel paths is bad") {
				t.Errorf("v6=%v %v: not said\n%s", v6, m, texts(p))
			}
		}
	}
}

func TestStatedProbabilityInTheModel(t *testing.T) {
	const runs = 60
	missed := 0
	for seed := range uint64(runs) {
		p := discoverModel(t, seed+1, fan(1, 2, 1, 2, 1), seed%2 == 1, simnet.HashFlow, nil, Options{Method: netprobe.TCP},
			PathOptions{Samples: -1, Budget: 5 * time.Minute})
		if len(p.Links) != linksOf(fan(1, 2, 1, 2, 1)) {
			missed++
		}
	}
	// Two routers that hide a branch with 1/32 each.
	if bound := 0.0625; float64(missed)/runs > bound+3*0.032 {
		t.Errorf("missed in %d of %d runs", missed, runs)
	}
	t.Logf("missed in %d of %d runs", missed, runs)
}
