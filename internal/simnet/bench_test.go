package simnet_test

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/whyslow/whyslow/internal/simnet"
	"github.com/whyslow/whyslow/internal/wire"
)

// BenchmarkForward is the cost of one 1500-byte packet from host to host: at
// 100 Mbit/s there are 8333 of them a second.
func BenchmarkForward(b *testing.B) {
	for _, routers := range []int{1, 12} {
		b.Run(fmt.Sprintf("routers=%d", routers), func(b *testing.B) {
			n := simnet.New(1)
			last := n.AddHost(simnet.Host{Addrs: []netip.Addr{client4}})
			client := last
			l := simnet.Link{Delay: 5 * time.Millisecond, Jitter: time.Millisecond, Loss: 0.001, Rate: 1e9}
			for i := range routers {
				r := n.AddRouter(simnet.Router{Addr4: router4(i)})
				n.Connect(last, r, l, l)
				last = r
			}
			server := n.AddHost(simnet.Host{Addrs: []netip.Addr{server4}})
			n.Connect(last, server, l, l)
			delivered := 0
			n.Attach(server, func(time.Time, []byte) { delivered++ })
			pkt, err := wire.Build(nil, flow(wire.UDP, false), wire.Probe{Size: 1500})
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			now := epoch
			for b.Loop() {
				now = now.Add(120 * time.Microsecond)
				n.Send(client, now, pkt)
				n.Run(now)
			}
			n.Run(now.Add(time.Second))
			if delivered < b.N*9/10 {
				b.Errorf("%d of %d packets delivered", delivered, b.N)
			}
		})
	}
}
