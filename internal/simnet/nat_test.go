package simnet_test

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/whyslow/whyslow/internal/simnet"
	"github.com/whyslow/whyslow/internal/wire"
)

var (
	outside4 = netip.MustParseAddr("203.0.113.5")
	outside6 = netip.MustParseAddr("2001:db8:ff::5")
)

// masquerade hides the client behind a router.
func masquerade(r *simnet.Router) {
	r.NAT = &simnet.NAT{
		Inside:   []netip.Prefix{netip.PrefixFrom(client4, 32), netip.PrefixFrom(client6, 128)},
		Outside4: outside4, Outside6: outside6,
	}
}

// Behind a NAT all answers come back, and whether a quote shows the NAT depends
// on how well it translates quotes.
func TestMasquerade(t *testing.T) {
	for _, tt := range []struct {
		name    string
		policy  simnet.QuotePolicy
		quote   int
		base    uint16
		visible bool // behind the NAT
	}{
		{"repaired", simnet.QuoteRepaired, 0, 0, false},
		{"repaired, other ports", simnet.QuoteRepaired, 0, 1024, false},
		{"stale", simnet.QuoteStale, 0, 1024, true},
		{"foreign", simnet.QuoteForeign, 0, 0, true},
		{"repaired, 8 bytes", simnet.QuoteRepaired, 8, 1024, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			eachFlow(t, func(t *testing.T, f wire.Flow, router func(int) netip.Addr) {
				b := newBench(t, 4, func(i int, r *simnet.Router) {
					r.Quote = tt.quote
					if i == 2 {
						masquerade(r)
						r.NAT.Quote, r.NAT.PortBase = tt.policy, tt.base
					}
				})
				var seen []netip.Addr // by the server
				b.Attach(b.server(), func(now time.Time, pkt []byte) {
					v, err := wire.ParsePacket(pkt)
					if err != nil {
						t.Error(err)
					}
					seen = append(seen, v.Src)
					reply := serverAnswer(t, pkt)
					b.Send(b.server(), now, reply)
				})
				got := b.trace(f, 5)
				want := []netip.Addr{router(1), router(2), router(3), router(4), f.Dst}
				if !cmp.Equal(want, froms(got), cmpopts.EquateComparable(netip.Addr{})) {
					t.Fatalf("path %v, want %v", froms(got), want)
				}
				for i, r := range got[:4] {
					if want := tt.visible && i >= 2; r.Translated != want && !(tt.policy == simnet.QuoteStale && f.Proto == wire.ICMP) {
						t.Errorf("hop %d: translated %v, want %v: %+v", i+1, r.Translated, want, r)
					}
				}
				out := outside4
				if f.Src.Is6() {
					out = outside6
				}
				if len(seen) != 1 || seen[0] != out {
					t.Errorf("the server sees %v, want %v", seen, out)
				}
			})
		})
	}
}

// serverAnswer is what a host answers to a probe.
func serverAnswer(t *testing.T, pkt []byte) []byte {
	t.Helper()
	v, err := wire.ParsePacket(pkt)
	if err != nil {
		t.Fatal(err)
	}
	var reply []byte
	switch v.Proto {
	case wire.ICMP:
		reply, err = wire.EchoReplyTo(nil, pkt)
	case wire.TCP:
		reply, err = wire.TCPReplyTo(nil, pkt, true)
	default:
		reply, err = wire.ErrorFor(nil, pkt, wire.Message{From: v.Dst, Kind: wire.Unreachable, Reason: wire.NoPort})
	}
	if err != nil {
		t.Fatal(err)
	}
	return reply
}

// Two hosts that use one port are told apart behind the NAT.
func TestMasqueradeMapsPortsThatCollide(t *testing.T) {
	for _, p := range []wire.Protocol{wire.UDP, wire.ICMP, wire.TCP} {
		n := simnet.New(1)
		nat := n.AddRouter(simnet.Router{Addr4: outside4, NAT: &simnet.NAT{
			Inside: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")},
		}})
		server := n.AddHost(simnet.Host{Addrs: []netip.Addr{server4}, ErrorBurst: -1})
		n.Connect(nat, server, simnet.Link{}, simnet.Link{})
		got := map[netip.Addr]int{}
		for i := range 3 {
			a := netip.AddrFrom4([4]byte{192, 0, 2, byte(10 + i)})
			f := flow(p, false)
			f.Src = a
			host := n.AddHost(simnet.Host{Addrs: []netip.Addr{a}})
			n.Connect(host, nat, simnet.Link{}, simnet.Link{})
			n.Attach(host, func(_ time.Time, pkt []byte) {
				if r, err := wire.ParseReply(pkt, f); err != nil || r.Seq != uint16(i) {
					t.Errorf("%v for %v: %+v, %v", p, a, r, err)
				}
				got[a]++
			})
			pkt, err := wire.Build(nil, f, wire.Probe{Seq: uint16(i)})
			if err != nil {
				t.Fatal(err)
			}
			n.Send(host, epoch, pkt)
		}
		n.Run(epoch.Add(time.Second))
		if len(got) != 3 {
			t.Errorf("%v: answers %v", p, got)
		}
	}
}

// A target behind a destination NAT: its answers come from the outside
// address, and where the NAT is a bad one its port unreachable comes from the
// inside host's (NTrace-dev#204).
func TestForward(t *testing.T) {
	inside4, inside6 := netip.MustParseAddr("10.9.9.9"), netip.MustParseAddr("2001:db8:99::9")
	for _, leak := range []bool{false, true} {
		eachFlow(t, func(t *testing.T, f wire.Flow, router func(int) netip.Addr) {
			b := &bench{t: t, Net: simnet.New(7)}
			client := b.AddHost(simnet.Host{Addrs: []netip.Addr{client4, client6}})
			b.ids = []simnet.NodeID{client}
			for i := 1; i <= 4; i++ {
				r := simnet.Router{Name: fmt.Sprint(i), Addr4: router4(i), Addr6: router6(i)}
				if i == 3 {
					r.NAT = &simnet.NAT{Leak: leak, Forwards: []simnet.Forward{
						{Addr: server4, To: inside4}, {Addr: server6, To: inside6},
					}}
				}
				b.ids = append(b.ids, b.AddRouter(r))
			}
			b.ids = append(b.ids, b.AddHost(simnet.Host{Addrs: []netip.Addr{inside4, inside6}}))
			for i := range b.ids[1:] {
				b.link(i, simnet.Link{Delay: ms})
			}
			b.Attach(client, func(now time.Time, pkt []byte) {
				b.got = append(b.got, arrival{now.Sub(epoch), append([]byte(nil), pkt...)})
			})
			got := b.trace(f, 5)
			want := []netip.Addr{router(1), router(2), f.Dst, f.Dst, f.Dst}
			if leak {
				want[2], want[3] = router(3), router(4)
				if f.Proto == wire.UDP {
					want[4] = inside4
					if f.Src.Is6() {
						want[4] = inside6
					}
				}
			}
			if !cmp.Equal(want, froms(got), cmpopts.EquateComparable(netip.Addr{})) {
				t.Errorf("path %v, want %v", froms(got), want)
			}
			kind := wire.PortReply
			if f.Proto == wire.ICMP {
				kind = wire.EchoReply
			}
			if got[3].Kind != wire.TimeExceeded || got[4].Kind != kind {
				t.Errorf("hops 4 and 5 answer with kinds %d and %d", got[3].Kind, got[4].Kind)
			}
		})
	}
}

// Fragments of an answer find back through a NAT.
func TestMasqueradeOfFragments(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		b := newBench(t, 3, func(i int, r *simnet.Router) {
			if i == 1 {
				masquerade(r)
			}
		})
		narrow := simnet.Link{Delay: ms, MTU: 1300}
		b.Connect(b.ids[2], b.ids[3], simnet.Link{Delay: ms}, narrow) // only the way back
		f := flow(wire.ICMP, v6)
		b.send(f, wire.Probe{Seq: 1, Size: 1500})
		b.run(time.Second)
		b.send(f, wire.Probe{Seq: 2, Size: 1500})
		var whole int
		var r wire.Reassembler
		for _, a := range b.run(time.Second) {
			if len(a.pkt) > 1300 {
				t.Errorf("%d bytes in one piece", len(a.pkt))
			}
			if pkt := r.Add(a.pkt); pkt != nil {
				if got, err := wire.ParseReply(pkt, f); err != nil || got.Kind != wire.EchoReply {
					t.Errorf("IPv6 %v: %+v, %v", v6, got, err)
				}
				whole++
			}
		}
		if whole != 1 {
			t.Errorf("IPv6 %v: %d answers", v6, whole)
		}
	}
}
