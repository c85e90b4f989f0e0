package simnet_test

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/whyslow/whyslow/internal/simnet"
	"github.com/whyslow/whyslow/internal/wire"
)

// eachFlow runs a test for all protocols and both families.
func eachFlow(t *testing.T, run func(t *testing.T, f wire.Flow, router func(int) netip.Addr)) {
	for _, p := range []wire.Protocol{wire.UDP, wire.ICMP, wire.TCP} {
		for _, v6 := range []bool{false, true} {
			router := router4
			if v6 {
				router = router6
			}
			t.Run(fmt.Sprintf("%v, IPv6 %v", p, v6), func(t *testing.T) { run(t, flow(p, v6), router) })
		}
	}
}

// trace sends one probe to each TTL up to n and returns the replies by TTL.
func (b *bench) trace(f wire.Flow, n int) []wire.Reply {
	b.t.Helper()
	for ttl := 1; ttl <= n; ttl++ {
		b.send(f, wire.Probe{Seq: uint16(ttl), TTL: ttl})
	}
	all := make([]wire.Reply, n)
	for _, a := range b.run(time.Minute) {
		r, err := wire.ParseReply(a.pkt, f)
		if err != nil {
			b.t.Errorf("at %v: %v", a.at, err)
			continue
		}
		if int(r.Seq) < 1 || int(r.Seq) > n {
			b.t.Errorf("reply to probe %d", r.Seq)
			continue
		}
		r.Received = epoch.Add(a.at)
		all[r.Seq-1] = r
	}
	return all
}

func froms(replies []wire.Reply) []netip.Addr {
	var all []netip.Addr
	for _, r := range replies {
		all = append(all, r.From)
	}
	return all
}

// fan is a client, a router that spreads flows over width branches of depth
// routers each, a router that joins them, and a server.
func fan(t *testing.T, width, depth int, m simnet.Multipath) *bench {
	b := &bench{t: t, Net: simnet.New(11)}
	client := b.AddHost(simnet.Host{Addrs: []netip.Addr{client4, client6}})
	router := func(i int) simnet.NodeID {
		return b.AddRouter(simnet.Router{Addr4: router4(i), Addr6: router6(i), ErrorBurst: -1})
	}
	split, join := router(1), router(200)
	server := b.AddHost(simnet.Host{Addrs: []netip.Addr{server4, server6}, ErrorBurst: -1})
	l := simnet.Link{Delay: ms}
	b.Connect(client, split, l, l)
	b.Connect(join, server, l, l)
	for w := range width {
		last := split
		for d := range depth {
			r := router(10 + w*10 + d)
			b.Connect(last, r, l, l)
			if d == 0 {
				m.Via = append(m.Via, r)
			}
			last = r
		}
		b.Connect(last, join, l, l)
	}
	for _, dst := range []netip.Addr{server4, server6} {
		b.RouteVia(split, netip.PrefixFrom(dst, dst.BitLen()), m)
	}
	b.ids = []simnet.NodeID{client, server}
	b.Attach(client, func(now time.Time, pkt []byte) {
		b.got = append(b.got, arrival{now.Sub(epoch), append([]byte(nil), pkt...)})
	})
	return b
}

// One flow keeps to one branch at every hop; many flows find all branches in
// about equal shares.
func TestMultipathKeepsFlowsAndSpreadsThem(t *testing.T) {
	const width, flows = 4, 400
	eachFlow(t, func(t *testing.T, f wire.Flow, router func(int) netip.Addr) {
		b := fan(t, width, 2, simnet.Multipath{})
		count := map[netip.Addr]int{}
		for i := range flows {
			f.SrcPort = uint16(30000 + i)
			got := b.trace(f, 5)
			branch := -1
			for w := range width {
				if got[1].From == router(10+w*10) {
					branch = w
				}
			}
			want := []netip.Addr{router(1), router(10 + branch*10), router(11 + branch*10), router(200), f.Dst}
			if branch < 0 || !cmp.Equal(want, froms(got), cmpopts.EquateComparable(netip.Addr{})) {
				t.Fatalf("flow %d takes %v", i, froms(got))
			}
			count[got[1].From]++
		}
		if len(count) != width {
			t.Errorf("%d of %d branches in use", len(count), width)
		}
		for a, n := range count {
			if n < flows/width/2 || n > flows/width*2 {
				t.Errorf("%v has %d of %d flows", a, n, flows)
			}
		}
	})
}

func TestMultipathHashes(t *testing.T) {
	branches := func(m simnet.Multipath, p wire.Protocol, change func(*wire.Flow, int)) int {
		b := fan(t, 4, 1, m)
		seen := map[netip.Addr]bool{}
		for i := range 100 {
			f := flow(p, false)
			change(&f, i)
			b.send(f, wire.Probe{Seq: uint16(i), TTL: 2})
			for _, a := range b.replies(f, b.run(time.Second)) {
				seen[a.From] = true
			}
		}
		return len(seen)
	}
	same := func(*wire.Flow, int) {}
	port := func(f *wire.Flow, i int) { f.SrcPort += uint16(i) }
	perProbe := func(f *wire.Flow, i int) { f.DstPort += uint16(i) }
	tests := []struct {
		name   string
		m      simnet.Multipath
		proto  wire.Protocol
		change func(*wire.Flow, int)
		want   int
	}{
		{"one flow", simnet.Multipath{}, wire.UDP, same, 1},
		{"one flow of echoes", simnet.Multipath{}, wire.ICMP, same, 1},
		{"a port for each probe", simnet.Multipath{}, wire.UDP, perProbe, 4},
		{"flows of echoes", simnet.Multipath{}, wire.ICMP, port, 4},
		{"flows of echoes, Linux", simnet.Multipath{Hash: simnet.HashPorts}, wire.ICMP, port, 1},
		{"flows, Linux", simnet.Multipath{Hash: simnet.HashPorts}, wire.TCP, port, 4},
		{"flows, by address", simnet.Multipath{Hash: simnet.HashAddresses}, wire.UDP, port, 1},
		{"one flow, by packet", simnet.Multipath{Hash: simnet.PerPacket}, wire.UDP, same, 4},
	}
	for _, tt := range tests {
		if got := branches(tt.m, tt.proto, tt.change); got != tt.want {
			t.Errorf("%s: %d branches, want %d", tt.name, got, tt.want)
		}
	}
}

// Behind a router that spreads flows another one spreads its share again,
// unless both hash alike.
func TestMultipathPolarisation(t *testing.T) {
	for _, tt := range []struct {
		seed uint64
		want int
	}{{0, 4}, {99, 2}} {
		b := &bench{t: t, Net: simnet.New(3)}
		client := b.AddHost(simnet.Host{Addrs: []netip.Addr{client4}})
		server := b.AddHost(simnet.Host{Addrs: []netip.Addr{server4}})
		router := func(i int) simnet.NodeID {
			return b.AddRouter(simnet.Router{Addr4: router4(i), ErrorBurst: -1})
		}
		l := simnet.Link{Delay: ms}
		split := func(i int, via ...simnet.NodeID) simnet.NodeID {
			r := router(i)
			for _, v := range via {
				b.Connect(r, v, l, l)
			}
			b.RouteVia(r, netip.PrefixFrom(server4, 32), simnet.Multipath{Via: via, Seed: tt.seed})
			return r
		}
		leaves := []simnet.NodeID{router(11), router(12), router(13), router(14)}
		for _, r := range leaves {
			b.Connect(r, server, l, l)
		}
		first := split(1, split(2, leaves[0], leaves[1]), split(3, leaves[2], leaves[3]))
		b.Connect(client, first, l, l)
		b.ids = []simnet.NodeID{client, server}
		b.Attach(client, func(now time.Time, pkt []byte) {
			b.got = append(b.got, arrival{now.Sub(epoch), append([]byte(nil), pkt...)})
		})
		seen := map[netip.Addr]bool{}
		for i := range 200 {
			f := flow(wire.UDP, false)
			f.SrcPort += uint16(i)
			seen[b.trace(f, 3)[2].From] = true
		}
		if len(seen) != tt.want {
			t.Errorf("seed %d: %d leaves in use, want %d", tt.seed, len(seen), tt.want)
		}
	}
}

// The routers of a label-switched path show their labels and seem equally far,
// R8; hidden ones do not show at all.
func TestLabelSwitchedPath(t *testing.T) {
	eachFlow(t, func(t *testing.T, f wire.Flow, router func(int) netip.Addr) {
		for _, direct := range []bool{false, true} {
			b := newBench(t, 6, nil)
			b.AddLSP(simnet.LSP{Path: b.ids[2:6], Label: 300, Direct: direct}) // routers 2 to 5
			got := b.trace(f, 7)
			want := []netip.Addr{router(1), router(2), router(3), router(4), router(5), router(6), f.Dst}
			if !cmp.Equal(want, froms(got), cmpopts.EquateComparable(netip.Addr{})) {
				t.Fatalf("path %v, want %v", froms(got), want)
			}
			rtts := []time.Duration{2, 4, 10, 10, 10, 12, 14} // in ms; 3 and 4 by way of 5
			if direct {
				rtts = []time.Duration{2, 4, 6, 8, 10, 12, 14}
			}
			for i, r := range got {
				var labels []wire.Label
				if i == 2 || i == 3 {
					labels = []wire.Label{{Value: uint32(300 + i - 2), Bottom: true, TTL: 1}}
				}
				if diff := cmp.Diff(labels, r.Labels); diff != "" {
					t.Errorf("hop %d, labels (-want +got):\n%s", i+1, diff)
				}
				if rtt := r.Received.Sub(epoch); rtt != rtts[i]*ms {
					t.Errorf("direct %v, hop %d after %v, want %v", direct, i+1, rtt, rtts[i]*ms)
				}
			}
		}
		b := newBench(t, 6, nil)
		b.AddLSP(simnet.LSP{Path: b.ids[2:6], Hide: true})
		want := []netip.Addr{router(1), router(2), router(5), router(6), f.Dst}
		if got := froms(b.trace(f, 5)); !cmp.Equal(want, got, cmpopts.EquateComparable(netip.Addr{})) {
			t.Errorf("hidden: path %v, want %v", got, want)
		}
	})
}

func TestLabelsOfARouter(t *testing.T) {
	labels := []wire.Label{{Value: 24001, TC: 1, TTL: 1}, {Value: 1048575, Bottom: true, TTL: 250}}
	for _, noLength := range []bool{false, true} {
		eachFlow(t, func(t *testing.T, f wire.Flow, _ func(int) netip.Addr) {
			b := newBench(t, 2, func(i int, r *simnet.Router) {
				if i == 2 {
					r.Labels, r.NoLength, r.Quote = labels, noLength, 8
				}
			})
			got := b.trace(f, 3)
			if got[0].Labels != nil || got[2].Labels != nil {
				t.Errorf("labels without a label: %+v", got)
			}
			if diff := cmp.Diff(labels, got[1].Labels); diff != "" {
				t.Errorf("labels (-want +got):\n%s", diff)
			}
		})
	}
}

// A router that answers as the destination (ovn#316) or with a neighbour's
// address, and routers whose answers begin at other TTLs.
func TestOtherSourceAndReplyTTL(t *testing.T) {
	eachFlow(t, func(t *testing.T, f wire.Flow, router func(int) netip.Addr) {
		b := newBench(t, 4, func(i int, r *simnet.Router) {
			switch i {
			case 1:
				r.ErrorAsDst = true
			case 2:
				r.ErrorFrom4, r.ErrorFrom6 = router4(99), router6(99)
			case 3:
				r.ReplyTTL = 255
			case 4:
				r.ReplyTTL = 128
			}
		})
		got := b.trace(f, 5)
		want := []netip.Addr{f.Dst, router(99), router(3), router(4), f.Dst}
		if !cmp.Equal(want, froms(got), cmpopts.EquateComparable(netip.Addr{})) {
			t.Errorf("path %v, want %v", froms(got), want)
		}
		for i, ttl := range []int{64, 63, 253, 125, 60} {
			if got[i].TTL != ttl {
				t.Errorf("hop %d: reply TTL %d, want %d", i+1, got[i].TTL, ttl)
			}
		}
		if got[0].Kind != wire.TimeExceeded {
			t.Errorf("hop 1 answers with kind %d", got[0].Kind)
		}
	})
}

// A clamp shows in what the hops behind it quote, as does a remarked DSCP.
func TestClampAndRemark(t *testing.T) {
	eachFlow(t, func(t *testing.T, f wire.Flow, _ func(int) netip.Addr) {
		b := newBench(t, 4, func(i int, r *simnet.Router) {
			if i == 2 {
				r.ClampMSS = 1300
				r.Remark = simnet.Remark{Mask: 0xfc, Value: 0x28}
			}
		})
		for ttl := 1; ttl <= 4; ttl++ {
			b.send(f, wire.Probe{Seq: uint16(ttl), TTL: ttl, TOS: 0xb9})
		}
		for _, a := range b.run(time.Second) {
			r, err := wire.ParseReply(a.pkt, f)
			if err != nil {
				t.Fatal(err)
			}
			tos, mss := 0xb9, 0
			if f.Proto == wire.TCP {
				mss = 1460
				if f.Src.Is6() {
					mss = 1440
				}
			}
			if r.Seq > 2 {
				tos = 0x29 // ECN is kept
				mss = min(mss, 1300)
			}
			if r.QuotedTOS != tos || r.QuotedMSS != mss || r.Translated {
				t.Errorf("hop %d: %+v, want TOS %#x, MSS %d", r.Seq, r, tos, mss)
			}
		}
	})
}

// A forged "too big" beside the honest answer.
func TestForgedTooBig(t *testing.T) {
	eachFlow(t, func(t *testing.T, f wire.Flow, router func(int) netip.Addr) {
		for _, blind := range []bool{false, true} {
			b := newBench(t, 3, func(i int, r *simnet.Router) {
				if i == 2 {
					r.Forge = &simnet.Forgery{MTU: 296, Min: 1000, Blind: blind, From4: router4(66), From6: router6(66)}
				}
			})
			b.send(f, wire.Probe{Seq: 1, Size: 1400})
			b.send(f, wire.Probe{Seq: 2, Size: 200})
			var forged, honest int
			for _, a := range b.run(time.Second) {
				r, err := wire.ParseReply(a.pkt, f)
				switch {
				case r.Kind == wire.TooBig && r.MTU == 296 && r.From == router(66) && err == nil && !blind:
					forged++
				// Only UDP is numbered by what a blind attacker can't guess
				// and told by what it can.
				case blind && (r.Unnumbered && r.MTU == 296 || errors.Is(err, wire.ErrNotOurs)):
					forged++
				case err == nil && r.From == f.Dst:
					honest++
				default:
					t.Errorf("%+v, %v", r, err)
				}
			}
			all := uint64(1)
			if f.Proto == wire.ICMP {
				all++ // the large echo reply passes too
			}
			if forged != 1 || honest != 2 || b.Stats().Forged != all {
				t.Errorf("blind %v: %d forged and %d honest answers", blind, forged, honest)
			}
		}
	})
}
