package netlab_test

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/whyslow/whyslow/internal/netlab"
	"github.com/whyslow/whyslow/internal/netlab/labtest"
	"github.com/whyslow/whyslow/internal/netprobe"
	"github.com/whyslow/whyslow/trace"
)

// TestParallelPathsOfKernelRouters finds four members that the kernel spreads
// flows over by their ports, with privilege and without. Nobody listens at the
// server: its resets are answers too.
func TestParallelPathsOfKernelRouters(t *testing.T) {
	labtest.Need(t)
	cfg := netlab.ChainConfig{
		Client: []netip.Addr{client4, client6}, Server: []netip.Addr{server4, server6},
		Unlimited: true, Beside: map[int][][]netip.Addr{1: {}},
	}
	for i := range 3 {
		cfg.Routers = append(cfg.Routers, routerAddrs(i))
	}
	for k := range 3 {
		cfg.Beside[1] = append(cfg.Beside[1], routerAddrs(10+k))
	}
	chain, err := netlab.NewKernelChain(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = chain.Close() }()
	for _, v6 := range []bool{false, true} {
		dst := map[bool]netip.Addr{false: server4, true: server6}[v6]
		for _, m := range []netprobe.Method{netprobe.TCP, netprobe.UDP} {
			for _, unprivileged := range []bool{false, true} {
				t.Run(fmt.Sprintf("v6=%v/%v/unprivileged=%v", v6, m, unprivileged), func(t *testing.T) {
					p, err := trace.Discover(t.Context(),
						trace.Options{Dst: dst, Method: m, Unprivileged: unprivileged},
						trace.PathOptions{Failure: 0.001, Samples: 5, Budget: 20 * time.Second})
					if err != nil {
						t.Fatal(err)
					}
					at := map[int]int{}
					for _, n := range p.Nodes {
						if !n.Silent {
							at[n.TTL]++
						}
					}
					if fmt.Sprint(at) != "map[1:1 2:4 3:1 4:1]" || len(p.Links) != 10 || !p.Confirmed {
						t.Errorf("addresses by hop %v, %d links, confirmed %v\n%+v\n%v", at, len(p.Links), p.Confirmed, p.Reading, p.Warnings)
					}
					t.Logf("%s: %d flows, %d probes, %v", p.Socket, p.FlowCount, p.Probes, p.Elapsed)
				})
			}
		}
	}
}
