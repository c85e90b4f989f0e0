package diagnose_test

import (
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/whyslow/whyslow/internal/diagnose"
	"github.com/whyslow/whyslow/internal/netlab"
	"github.com/whyslow/whyslow/internal/netlab/labtest"
	"github.com/whyslow/whyslow/internal/netlab/servers"
	"github.com/whyslow/whyslow/internal/simnet"
	"github.com/whyslow/whyslow/reports"
)

func TestMain(m *testing.M) { os.Exit(netlab.Main(m)) }

// The hosts of the test network, from the documentation ranges.
var (
	clientAddr   = netip.MustParseAddr("192.0.2.10")
	resolverAddr = netip.MustParseAddr("192.0.2.53")
	webAddr      = netip.MustParseAddr("203.0.113.80")
	upstreamAddr = netip.MustParseAddr("203.0.113.53") // the web server's own resolver
	nsAddr       = netip.MustParseAddr("198.51.100.53")
)

const site = "www.shop.example"

// network is client – r1 – r2 – r3 – web, with the client's resolver at r1; the
// web server's resolver and its nameserver are at r4, behind r3.
type network struct {
	*netlab.Lab
	web, resolver, upstream, ns *netlab.Namespace
	routers                     []simnet.NodeID // r1, r2, r3
	conf                        string          // resolv.conf of the client
}

// shape is what differs between the tests' networks.
type shape struct {
	rtt     time.Duration // client to web, spread over the links
	lookups time.Duration // web server to its resolver, one way
}

func newNetwork(t *testing.T, s shape) *network {
	t.Helper()
	labtest.Need(t)
	n := simnet.New(1)
	host := func(name string, a netip.Addr) simnet.NodeID {
		return n.AddHost(simnet.Host{Name: name, Addrs: []netip.Addr{a}})
	}
	client, web, resolver := host("client", clientAddr), host("web", webAddr), host("resolver", resolverAddr)
	upstream, ns := host("upstream", upstreamAddr), host("ns", nsAddr)
	chain := []simnet.NodeID{client}
	for i := range 3 {
		chain = append(chain, n.AddRouter(simnet.Router{Name: fmt.Sprintf("r%d", i+1), Addr4: netip.AddrFrom4([4]byte{198, 51, 100, byte(i + 1)})}))
	}
	chain = append(chain, web)
	for i := range 4 {
		l := simnet.Link{Delay: s.rtt / 8}
		n.Connect(chain[i], chain[i+1], l, l)
	}
	quick := simnet.Link{Delay: 200 * time.Microsecond}
	far := n.AddRouter(simnet.Router{Name: "r4", Addr4: netip.MustParseAddr("198.51.100.4")})
	slow := simnet.Link{Delay: max(s.lookups, 200*time.Microsecond)}
	n.Connect(chain[1], resolver, quick, quick)
	n.Connect(chain[3], far, slow, slow)
	n.Connect(far, upstream, quick, quick)
	n.Connect(far, ns, quick, quick)
	ends := []netlab.End{{Node: client, Name: "client", Addrs: []netip.Addr{clientAddr}}, {Node: web, Name: "web", Addrs: []netip.Addr{webAddr}},
		{Node: resolver, Name: "resolver", Addrs: []netip.Addr{resolverAddr}}, {Node: upstream, Name: "upstream", Addrs: []netip.Addr{upstreamAddr}},
		{Node: ns, Name: "ns", Addrs: []netip.Addr{nsAddr}}}
	lab, err := netlab.New(netlab.Config{Net: n, Client: client, Ends: ends})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := lab.Close(); err != nil {
			t.Error(err)
		}
	})
	net := &network{Lab: lab, web: lab.Server(web), resolver: lab.Server(resolver), upstream: lab.Server(upstream), ns: lab.Server(ns),
		routers: chain[1:4]}
	if net.conf, err = lab.WriteFile("resolv.conf", []byte("nameserver "+resolverAddr.String()+"\n")); err != nil {
		t.Fatal(err)
	}
	return net
}

// zones are those of the site and of the client's address.
func zones() []servers.Zone {
	return []servers.Zone{
		{Origin: "shop.example", Records: []string{"www 300 IN A " + webAddr.String()}},
		{Origin: "isp.example", Records: []string{"visitor 0 IN A " + clientAddr.String()}},
		{Origin: "2.0.192.in-addr.arpa", Records: []string{"10 0 IN PTR visitor.isp.example."}},
		{Origin: "113.0.203.in-addr.arpa", Records: []string{"80 300 IN PTR www.shop.example."}},
	}
}

// clientDNS gives the client a resolver of its own that knows all zones and is
// quick, so that nothing the web server waits for shows in the client's DNS.
func (n *network) clientDNS(t *testing.T, faults ...servers.DNSFault) *servers.DNS {
	t.Helper()
	d, err := servers.StartAuthority(servers.AuthorityConfig{Place: n.resolver, Zones: zones(), Faults: faults,
		Addrs: []netip.AddrPort{netip.AddrPortFrom(resolverAddr, 53)}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

func (n *network) diagnose(t *testing.T, o diagnose.Options) *reports.Report {
	t.Helper()
	o.ResolvConf = n.conf
	began := time.Now()
	o.Progress = func(e diagnose.Event) { t.Logf("%6.2f s  %s: %s", time.Since(began).Seconds(), e.Instrument, e.Text) }
	r, err := diagnose.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// wantVerdict fails unless the verdict is as named and, where sure is asked
// for, given with 0.8 or more.
func wantVerdict(t *testing.T, r *reports.Report, layer reports.Layer, component string, sure bool) {
	t.Helper()
	v := r.Verdict
	got := "null"
	if v.Component != nil {
		got = *v.Component
	}
	if v.Layer != layer || got != component || sure && v.Confidence < 0.8 {
		var why strings.Builder
		for _, e := range v.Evidence {
			fmt.Fprintf(&why, "\n  %s: %s: %s (%v)", e.Rule, e.Claim, e.Observed, e.Supports)
		}
		t.Errorf("verdict %s/%s %.2f, want %s/%s\n%s%s", v.Layer, got, v.Confidence, layer, component, v.Summary, &why)
	}
}
