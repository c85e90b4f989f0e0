package main

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/whyslow/whyslow/internal/netlab"
	"github.com/whyslow/whyslow/internal/netlab/labtest"
	"github.com/whyslow/whyslow/internal/netlab/servers"
	"github.com/whyslow/whyslow/internal/simnet"
	"github.com/whyslow/whyslow/internal/wire"
	"github.com/whyslow/whyslow/pmtu"
)

var (
	client6 = netip.MustParseAddr("2001:db8::10")
	web6    = netip.MustParseAddr("2001:db8:1::80")
)

// pathLab is client – r1 – … – r4 – web in both families, whose links differ.
type pathLab struct {
	*lab
	nodes []simnet.NodeID
}

// pathShape is what differs between the tests' paths.
type pathShape struct {
	there, back map[int]int // MTU of the link to the hop at a TTL, by direction
	policy      simnet.TooBigPolicy
	claim       int
	filter      []simnet.Filter // at r4
}

func newPathLab(t *testing.T, s pathShape) *pathLab {
	t.Helper()
	labtest.Need(t)
	n := simnet.New(1)
	l := &pathLab{lab: &lab{}}
	addrs := [][]netip.Addr{{clientAddr, client6}, {webAddr, web6}}
	l.nodes = append(l.nodes, n.AddHost(simnet.Host{Name: "client", Addrs: addrs[0]}))
	for i := 1; i <= 4; i++ {
		r := simnet.Router{Name: fmt.Sprintf("r%d", i), TooBig: s.policy, TooBigClaim: s.claim,
			Addr4: netip.AddrFrom4([4]byte{198, 51, 100, byte(i)}), Addr6: netip.MustParseAddr(fmt.Sprintf("2001:db8:2::%d", i))}
		if i == 4 {
			r.Filters = s.filter
		}
		l.nodes = append(l.nodes, n.AddRouter(r))
	}
	l.nodes = append(l.nodes, n.AddHost(simnet.Host{Name: "web", Addrs: addrs[1]}))
	for ttl := 1; ttl <= 5; ttl++ {
		delay := 2 * time.Millisecond
		n.Connect(l.nodes[ttl-1], l.nodes[ttl], simnet.Link{Delay: delay, MTU: s.there[ttl]}, simnet.Link{Delay: delay, MTU: s.back[ttl]})
	}
	var err error
	if l.Lab, err = netlab.New(netlab.Config{Net: n, Client: l.nodes[0], Ends: []netlab.End{
		{Node: l.nodes[0], Name: "client", Addrs: addrs[0]}, {Node: l.nodes[5], Name: "web", Addrs: addrs[1]}}}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	l.web = l.Server(l.nodes[5])
	if l.conf, err = l.WriteFile("resolv.conf", []byte("nameserver "+resolverAddr.String()+"\n")); err != nil {
		t.Fatal(err)
	}
	return l
}

// nginx serves pages of several sizes on port 80 of a namespace.
func nginx(t *testing.T, ns *netlab.Namespace, addrs ...netip.Addr) {
	t.Helper()
	labtest.Need(t, "nginx")
	c := servers.NginxConfig{Files: map[string][]byte{
		"index.html": []byte(strings.Repeat("<p>a page that fills packets</p>\n", 4000)), "small.html": []byte("<p>small</p>\n")}}
	for _, a := range addrs {
		c.Addrs = append(c.Addrs, netip.AddrPortFrom(a, 80))
	}
	d, err := servers.StartNginx(t.Context(), ns, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
}

// pmtu runs whyslow pmtu and reads its JSON. It logs what a user would see.
func (l *lab) pmtu(t *testing.T, args ...string) *pmtu.Result {
	t.Helper()
	_, forms := l.forms(t, append([]string{"pmtu"}, args...)...)
	t.Logf("whyslow pmtu %s\n%s%s", strings.Join(args, " "), forms["text"], forms["stderr"])
	r := new(pmtu.Result)
	if err := json.Unmarshal([]byte(forms["json"]), r); err != nil {
		t.Fatal(err)
	}
	return r
}

func show(n *int) string {
	if n == nil {
		return "null"
	}
	return fmt.Sprint(*n)
}

// about is the MTU of the way back, or "about N" if that is what is wanted and N
// lies in the range told, which is a narrow one.
func about(b *pmtu.Backward, want string) string {
	var n, lo, hi int
	if _, err := fmt.Sscanf(want, "about %d", &n); err != nil {
		return show(b.MTU)
	}
	if b.MTU != nil && *b.MTU == n {
		return want
	}
	if _, err := fmt.Sscanf(b.Note, "the largest packet that comes through has between %d and %d bytes", &lo, &hi); err != nil || n < lo || n > hi || hi-lo > 20 {
		return b.Note
	}
	return want
}

// The way there, by the kernel's own sockets.
func TestPathMTUForward(t *testing.T) {
	both := func(ttl, mtu int) pathShape {
		return pathShape{there: map[int]int{ttl: mtu}, back: map[int]int{ttl: mtu}}
	}
	hole := both(4, 1400)
	hole.policy = simnet.Absent
	lying := both(3, 1400)
	lying.policy, lying.claim = simnet.Lying, 0
	for _, tt := range []struct {
		name    string
		shape   pathShape
		mtu     int
		limiter int // TTL; 0 is none
		hole    bool
		claimed string
	}{
		{"whole", pathShape{}, 1500, 0, false, "null"},
		{"PPPoE", both(2, 1492), 1492, 1, false, "1492"},
		{"a router that claims 0", lying, 1400, 2, false, "0"},
		{"a black hole", hole, 1400, 3, true, "null"},
	} {
		for _, dst := range []netip.Addr{webAddr, web6} {
			for _, how := range []string{"-I", "-U"} {
				t.Run(fmt.Sprintf("%s %v %s", tt.name, dst, how), func(t *testing.T) {
					l := newPathLab(t, tt.shape)
					r := l.pmtu(t, "--no-http", how, dst.String())
					if show(r.MTU) != fmt.Sprint(tt.mtu) || r.BlackHole != tt.hole || show(r.ClaimedMTU) != tt.claimed {
						t.Errorf("MTU %s, black hole %v, claimed %s; want %d, %v, %s", show(r.MTU), r.BlackHole, show(r.ClaimedMTU), tt.mtu, tt.hole, tt.claimed)
					}
					at := 0
					if r.Limiter != nil {
						at = r.Limiter.TTL
					}
					if at != tt.limiter {
						t.Errorf("limiter %+v, want hop %d", r.Limiter, tt.limiter)
					}
				})
			}
		}
	}
}

// The way back: large segments of a real web server vanish, and nobody tells
// it.
func TestPathMTUBackward(t *testing.T) {
	for _, tt := range []struct {
		name  string
		shape pathShape
		page  string
		mtu   string
		hole  string
		note  string
		only  netip.Addr // one family will do for what takes long
	}{
		{"whole", pathShape{}, "/", "1500", "false", "", netip.Addr{}},
		{"a black hole", pathShape{back: map[int]int{3: 1400}, policy: simnet.Absent}, "/", "1400", "true", "", web6},
		{"a black hole of an odd size", pathShape{back: map[int]int{3: 1377}, policy: simnet.Absent}, "/", "about 1377", "true", "", webAddr},
		{"the server is told", pathShape{back: map[int]int{3: 1400}}, "/", "1400", "false", "", netip.Addr{}},
		{"a small page", pathShape{}, "/small.html", "null", "null", "too small", netip.Addr{}},
		{"a small page before a black hole", pathShape{back: map[int]int{3: 1400}, policy: simnet.Absent}, "/small.html", "null", "null", "too small", netip.Addr{}},
	} {
		for _, dst := range []netip.Addr{webAddr, web6} {
			if tt.only.IsValid() && dst != tt.only {
				continue
			}
			t.Run(fmt.Sprintf("%s %v", tt.name, dst), func(t *testing.T) {
				l := newPathLab(t, tt.shape)
				nginx(t, l.web, webAddr, web6)
				r := l.pmtu(t, "http://"+netip.AddrPortFrom(dst, 80).String()+tt.page)
				hole := "null"
				if h := r.Backward.BlackHole; h != nil {
					hole = fmt.Sprint(*h)
				}
				if about(&r.Backward, tt.mtu) != tt.mtu || hole != tt.hole || !strings.Contains(r.Backward.Note, tt.note) {
					t.Errorf("back: MTU %s, black hole %s, note %q; want %s, %s, %q\n%+v", show(r.Backward.MTU), hole, r.Backward.Note, tt.mtu, tt.hole, tt.note, r.Backward)
				}
				if show(r.MTU) != "1500" || r.BlackHole {
					t.Errorf("there: MTU %s, black hole %v, want 1500", show(r.MTU), r.BlackHole)
				}
				for _, f := range r.Backward.Fetches {
					if f.Bytes > 2*pmtu.MaxFetch {
						t.Errorf("%d bytes were fetched at once", f.Bytes)
					}
				}
			})
		}
	}
}

// Nothing listens: that is said, and is no reason to lose the rest.
func TestPathMTUWithoutWebServer(t *testing.T) {
	l := newPathLab(t, pathShape{})
	r := l.pmtu(t, webAddr.String())
	if show(r.MTU) != "1500" || !strings.Contains(r.Backward.Note, "refused") || r.Backward.BlackHole != nil {
		t.Errorf("MTU %s, back %+v", show(r.MTU), r.Backward)
	}
}

// A chain of real kernel routers, one of whose ICMP a firewall drops.
func TestPathMTUInTheKernel(t *testing.T) {
	labtest.Need(t, "nft", "nginx")
	for _, silent := range []bool{false, true} {
		t.Run(fmt.Sprintf("ICMP dropped %v", silent), func(t *testing.T) {
			c := netlab.ChainConfig{Client: []netip.Addr{clientAddr, client6}, Server: []netip.Addr{webAddr, web6}, MTUs: []int{1500, 1500, 1492, 1500}}
			for i := 1; i <= 3; i++ {
				c.Routers = append(c.Routers, []netip.Addr{netip.AddrFrom4([4]byte{198, 51, 100, byte(i)}), netip.MustParseAddr(fmt.Sprintf("2001:db8:2::%d", i))})
			}
			chain, err := netlab.NewKernelChain(c)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := chain.Close(); err != nil {
					t.Error(err)
				}
			})
			if silent {
				rules := `table inet t { chain c { type filter hook input priority 0; icmp type destination-unreachable icmp code frag-needed drop; icmpv6 type packet-too-big drop; }; }`
				if out, err := exec.CommandContext(t.Context(), "nft", rules).CombinedOutput(); err != nil {
					t.Fatalf("nft: %v\n%s", err, out)
				}
				t.Cleanup(func() { _ = exec.Command("nft", "delete table inet t").Run() })
			}
			nginx(t, chain.Server, webAddr, web6)
			l := &lab{conf: filepath.Join(t.TempDir(), "resolv.conf")}
			if err := os.WriteFile(l.conf, []byte("nameserver "+resolverAddr.String()+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			for _, dst := range []netip.Addr{webAddr, web6} {
				r := l.pmtu(t, "http://"+netip.AddrPortFrom(dst, 80).String()+"/")
				if show(r.MTU) != "1492" || r.BlackHole != silent || r.Signalled == silent || r.Limiter == nil || r.Limiter.TTL != 2 {
					t.Errorf("%v: MTU %s, black hole %v, limiter %+v", dst, show(r.MTU), r.BlackHole, r.Limiter)
				}
				if b := r.Backward; show(b.MTU) != "1492" || b.BlackHole == nil || *b.BlackHole {
					t.Errorf("%v: back %+v", dst, b)
				}
			}
		})
	}
}

// Without any capability: ping sockets, and UDP with its error queue, measure
// the same.
func TestPathMTUUnprivileged(t *testing.T) {
	labtest.Need(t, "setpriv")
	newPathLab(t, pathShape{there: map[int]int{4: 1400}, policy: simnet.Absent})
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, dst := range []netip.Addr{webAddr, web6} {
		for _, how := range []string{"-I", "-U"} {
			cmd := exec.CommandContext(t.Context(), "setpriv", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs",
				exe, "pmtu", "--json", "--no-http", how, dst.String())
			cmd.Env = append(os.Environ(), asProgram+"=1")
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			r := new(pmtu.Result)
			if err := json.Unmarshal(out, r); err != nil {
				t.Fatal(err)
			}
			if show(r.MTU) != "1400" || !r.BlackHole || r.Limiter == nil || r.Limiter.TTL != 3 {
				t.Errorf("%v %s: MTU %s, black hole %v, limiter %+v: %q", dst, how, show(r.MTU), r.BlackHole, r.Limiter, r.Warnings)
			}
		}
	}
}

// A firewall at the end lets TCP to the web server through and nothing else:
// its own data measures the path, the routers' errors the place.
func TestPathMTUByTCP(t *testing.T) {
	shape := func(mtu int, p simnet.TooBigPolicy, claim int) pathShape {
		s := pathShape{policy: p, claim: claim, filter: []simnet.Filter{{Proto: wire.UDP}, {Echo: true}}}
		if mtu > 0 {
			s.there = map[int]int{3: mtu}
		}
		return s
	}
	for _, tt := range []struct {
		name      string
		shape     pathShape
		mtu       string
		limiter   int
		signalled bool
	}{
		{"whole", shape(0, simnet.Honest, 0), "1500", 0, false},
		{"honest", shape(1411, simnet.Honest, 0), "1411", 2, true},
		{"a black hole", shape(1411, simnet.Absent, 0), "1411", 2, false},
		{"an absurd claim", shape(1411, simnet.Lying, 68), "null", 0, false},
	} {
		for _, dst := range []netip.Addr{webAddr, web6} {
			if tt.name == "an absurd claim" && dst == web6 {
				continue // IPv6 ignores claims below 1280: there it is a black hole
			}
			for _, how := range []string{"-T", ""} {
				if how == "" && dst == web6 {
					continue // the way to TCP is the same
				}
				t.Run(fmt.Sprintf("%s %v %s", tt.name, dst, how), func(t *testing.T) {
					l := newPathLab(t, tt.shape)
					nginx(t, l.web, webAddr, web6)
					args := []string{"--no-http", "http://" + netip.AddrPortFrom(dst, 80).String() + "/"}
					if how != "" {
						args = append(args, how)
					}
					r := l.pmtu(t, args...)
					if show(r.MTU) != tt.mtu || r.Method != "tcp" {
						t.Fatalf("MTU %s by %s, want %s: %q", show(r.MTU), r.Method, tt.mtu, r.Warnings)
					}
					at := 0
					if r.Limiter != nil {
						at = r.Limiter.TTL
					}
					if tt.mtu == "null" && !strings.Contains(strings.Join(r.Warnings, "\n"), "the kernel goes by 552 bytes") {
						t.Errorf("nothing says why: %q", r.Warnings)
					}
					if mtu, _ := r.HopMTU(1); tt.limiter > 0 && mtu != 1500 {
						t.Errorf("%d bytes pass to hop 1, want 1500", mtu)
					}
					if at != tt.limiter || r.Signalled != tt.signalled {
						t.Errorf("limiter %+v, signalled %v: %q", r.Limiter, r.Signalled, r.Warnings)
					}
				})
			}
		}
	}
}
