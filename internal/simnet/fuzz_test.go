package simnet_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/whyslow/whyslow/internal/simnet"
	"github.com/whyslow/whyslow/internal/wire"
)

// Whatever a real stack sends, the model carries or drops it: it does not
// panic, and what it delivers are IP packets that fit the link. What a host
// sends to itself crosses no link and has no such limit.
func FuzzSend(f *testing.F) {
	for _, p := range []wire.Protocol{wire.UDP, wire.ICMP, wire.TCP} {
		for _, v6 := range []bool{false, true} {
			for _, probe := range []wire.Probe{{TTL: 1}, {TTL: 2}, {}, {Size: 1500}} {
				pkt, err := wire.Build(nil, flow(p, v6), probe)
				if err != nil {
					f.Fatal(err)
				}
				f.Add(pkt)
			}
		}
	}
	f.Add(packetToSelf(f, 6000))
	f.Fuzz(func(t *testing.T, pkt []byte) {
		toSelf := false
		if v, err := wire.ParsePacket(pkt); err == nil {
			toSelf = v.Dst == client4 || v.Dst == client6
		}
		for _, meddles := range []bool{false, true} {
			sendThrough(t, pkt, meddles, toSelf)
		}
	})
}

// sendThrough sends a packet twice through a router that does its best, or its
// worst.
func sendThrough(t *testing.T, pkt []byte, meddles, toSelf bool) {
	r := simnet.Router{Addr4: router4(1), Addr6: router6(1)}
	if meddles {
		masquerade(&r)
		r.NAT.Forwards = []simnet.Forward{{Addr: netip.MustParseAddr("203.0.113.80"), To: server4}}
		r.ClampMSS, r.Forge = 600, &simnet.Forgery{MTU: 68, Blind: true}
		r.Remark = simnet.Remark{Mask: 0xff, Value: 0x55}
		r.Labels = []wire.Label{{Value: 16}}
	}
	n := simnet.New(1)
	client := n.AddHost(simnet.Host{Addrs: []netip.Addr{client4, client6}})
	router := n.AddRouter(r)
	hidden := n.AddRouter(simnet.Router{Addr4: router4(2), Addr6: router6(2)})
	server := n.AddHost(simnet.Host{Addrs: []netip.Addr{server4, server6}})
	narrow := simnet.Link{MTU: 1280}
	n.Connect(client, router, simnet.Link{}, simnet.Link{})
	n.Connect(router, hidden, simnet.Link{}, simnet.Link{})
	n.Connect(hidden, server, narrow, narrow)
	if meddles {
		n.AddLSP(simnet.LSP{Path: []simnet.NodeID{router, hidden, server}})
		n.RouteVia(hidden, netip.MustParsePrefix("0.0.0.0/0"), simnet.Multipath{Via: []simnet.NodeID{router, server}})
	}
	n.Attach(client, func(_ time.Time, got []byte) {
		if _, err := wire.ParsePacket(got); err != nil || len(got) > 1500 && !toSelf {
			t.Errorf("%d bytes delivered: %v", len(got), err)
		}
	})
	n.Send(client, epoch, pkt)
	n.Send(client, epoch, pkt)
	if next, pending := n.Run(epoch.Add(time.Minute)); pending {
		t.Errorf("events without end, the next at %v", next)
	}
	if s := n.Stats(); s.Sent+s.Malformed != 2 {
		t.Errorf("stats %+v", s)
	}
}

// packetToSelf is a datagram of size bytes from the client to itself.
func packetToSelf(f *testing.F, size int) []byte {
	to := flow(wire.UDP, false)
	to.Dst = to.Src
	pkt, err := wire.Build(nil, to, wire.Probe{Size: size})
	if err != nil {
		f.Fatal(err)
	}
	return pkt
}
