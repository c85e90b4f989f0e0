package render

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whyslow/whyslow/pmtu"
)

// What a terminal shows of a path MTU, line by line.
func TestPathMTUText(t *testing.T) {
	n := func(v int) *int { return &v }
	b := func(v bool) *bool { return &v }
	target := pmtu.Target{Addr: netip.MustParseAddr("203.0.113.80")}
	at := func(ttl int) *pmtu.Limiter {
		return &pmtu.Limiter{TTL: ttl, Addr: netip.MustParseAddr("198.51.100.3")}
	}
	for _, tt := range []struct {
		name string
		res  pmtu.Result
		want string
	}{
		{"whole", pmtu.Result{Target: target, Method: "icmp", MTU: n(1500), InterfaceMTU: n(1500), Packets: 16}, `
Path MTU  203.0.113.80 · icmp · 16 packets
  there     1500 bytes pass, all that the interface allows
`},
		{"a black hole there", pmtu.Result{Target: target, Method: "icmp", MTU: n(1400), InterfaceMTU: n(1500), BlackHole: true,
			Limiter: at(3), Packets: 45, Locating: 17, Steps: []pmtu.Step{{TTL: 1, MTU: n(1500)}, {TTL: 4, MTU: n(1400)}},
			Tunnel: []string{"a VPN's setting (100 of 1500 bytes)", "IPsec"}}, `
Path MTU  203.0.113.80 · icmp · 45 packets, 17 of them to find the place
  there     1400 bytes pass of the interface's 1500
  narrow    behind hop 3 (198.51.100.3): larger packets vanish and nobody says
            so, a black hole
  by hop    1–3: 1500 · 4 and on: 1400
  suggests  a VPN's setting (100 of 1500 bytes); or IPsec
`},
		{"a black hole back, and a clamp", pmtu.Result{Target: target, Method: "udp", MTU: n(1500), InterfaceMTU: n(1500),
			Backward: pmtu.Backward{MTU: n(1400), BlackHole: b(true), OurMSS: n(1460), PeerMSS: n(1412), Fetches: make([]pmtu.Fetched, 9)}}, `
Path MTU  203.0.113.80 · udp · 9 page loads
  there     1500 bytes pass, all that the interface allows
  back      1400 bytes come through; larger packets vanish and nobody tells the
            server, a black hole
  segments  we take 1460 bytes, the server takes 1412 (packets of 1452, though
            1500 pass): a clamp on the way, or its own link
`},
		{"a black hole back of an odd size", pmtu.Result{Target: target, Method: "icmp", MTU: n(1500), InterfaceMTU: n(1500),
			Backward: pmtu.Backward{BlackHole: b(true), Note: "the largest packet that comes through has between 1374 and 1380 bytes", Fetches: make([]pmtu.Fetched, 16)}}, `
Path MTU  203.0.113.80 · icmp · 16 page loads
  there     1500 bytes pass, all that the interface allows
  back      larger packets vanish and nobody tells the server, a black hole (the
            largest packet that comes through has between 1374 and 1380 bytes)
`},
		{"cached, two narrow places, no web server", pmtu.Result{Target: target, Method: "icmp", MTU: n(1400), InterfaceMTU: n(1500),
			CachedMTU: n(552), Signalled: true, Limiter: at(6), Steps: []pmtu.Step{{TTL: 1}, {TTL: 4, MTU: n(1450)}, {TTL: 7, MTU: n(1400)}},
			Backward: pmtu.Backward{Note: "no web server answers"}}, `
Path MTU  203.0.113.80 · icmp
  there     1400 bytes pass of the interface's 1500
  narrow    behind hop 6 (198.51.100.3), and the router there says so
  cached    the kernel remembers 552 bytes for this path
  by hop    1–3: not measured · 4–6: 1450 · 7 and on: 1400
  back      not measured: no web server answers
`},
		{"nothing answers", pmtu.Result{Target: target, Method: "tcp", InterfaceMTU: n(1500), Warnings: []string{"nobody answers"}}, `
Path MTU  203.0.113.80 · tcp
  there     not measured
  ! nobody answers
`},
		{"at least", pmtu.Result{Target: target, Method: "tcp", AtLeast: n(1500), InterfaceMTU: n(9000)}, `
Path MTU  203.0.113.80 · tcp
  there     at least 1500 bytes pass of the interface's 9000
`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSheet(Options{Width: 80})
			s.pmtu(&tt.res)
			if diff := cmp.Diff(strings.TrimPrefix(tt.want, "\n"), s.b.String()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
