package diagnose_test

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/whyslow/whyslow/internal/diagnose"
	"github.com/whyslow/whyslow/internal/netlab"
	"github.com/whyslow/whyslow/internal/netlab/labtest"
	"github.com/whyslow/whyslow/internal/netlab/servers"
	"github.com/whyslow/whyslow/reports"
)

// apache is a web server with a DNS of its own: a real unbound before a real
// nsd, whose answers take as long as the network's shape says.
type apache struct {
	config     servers.ApacheConfig
	resolvConf string
	// dead leaves the reverse zone of the client without a server.
	dead bool
}

func (n *network) startApache(t *testing.T, a apache) {
	t.Helper()
	needStart := func(d *servers.Daemon, err error) {
		t.Helper()
		var missing *servers.NotInstalledError
		if errors.As(err, &missing) {
			labtest.Skip(t, missing.Error())
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if t.Failed() {
				t.Logf("log of %d:\n%s", d.Pid(), d.Log())
			}
			_ = d.Close()
		})
	}
	nsd, err := servers.StartNSD(t.Context(), n.ns, servers.NSDConfig{Addrs: []netip.AddrPort{netip.AddrPortFrom(nsAddr, 53)}, Zones: zones()})
	needStart(nsd, err)
	stubs := []servers.Forward{}
	for _, z := range zones() {
		at := netip.AddrPortFrom(nsAddr, 53)
		if a.dead && z.Origin == "2.0.192.in-addr.arpa" {
			at = netip.MustParseAddrPort("203.0.113.254:53") // nobody is there
		}
		stubs = append(stubs, servers.Forward{Zone: z.Origin, Servers: []netip.AddrPort{at}})
	}
	unbound, err := servers.StartUnbound(t.Context(), n.upstream, servers.UnboundConfig{
		Addrs: []netip.AddrPort{netip.AddrPortFrom(upstreamAddr, 53)}, Stubs: stubs})
	needStart(unbound, err)
	conf := "nameserver " + upstreamAddr.String() + "\n" + a.resolvConf
	if err := n.web.SetFiles(netlab.Files{ResolvConf: []byte(conf)}); err != nil {
		t.Fatal(err)
	}
	a.config.Addrs = []netip.AddrPort{netip.AddrPortFrom(webAddr, 80)}
	a.config.Host = site
	httpd, err := servers.StartApache(t.Context(), n.web, a.config)
	needStart(httpd, err)
}

var (
	page = map[string][]byte{"index.html": []byte("<h1>shop</h1>\n"), "big.html": make([]byte, 20000)}
	// program asks for nothing itself: REMOTE_HOST is set before it runs.
	program = map[string][]byte{"hello": []byte("#!/bin/sh\nprintf 'Content-Type: text/plain\\r\\n\\r\\nhello\\n'\n")}
)

const hostLog = `%h %l %u %t "%r" %>s %b`

// Everything that Apache httpd may wait for in the DNS, and what must not be
// blamed on it. The answers of its resolver take two seconds.
func TestApacheHostnameLookups(t *testing.T) {
	const delay = time.Second // one way
	tests := []struct {
		name      string
		path      string
		delay     time.Duration
		apache    apache
		layer     reports.Layer
		component string
	}{
		{"Require host", "/", delay, apache{config: servers.ApacheConfig{Files: page, RequireHost: "isp.example"}}, reports.Server, "hostname-lookups"},
		{"CGI under Double", "/cgi-bin/hello", delay, apache{config: servers.ApacheConfig{CGI: program, HostnameLookups: "Double"}}, reports.Server, "hostname-lookups"},
		{"log only", "/", delay, apache{config: servers.ApacheConfig{Files: page, HostnameLookups: "On", LogFormat: hostLog}}, reports.Server, "hostname-lookups"},
		{"dead reverse zone", "/", 0, apache{config: servers.ApacheConfig{Files: page, HostnameLookups: "On", LogFormat: hostLog},
			resolvConf: "options timeout:1 attempts:1\n", dead: true}, reports.Server, "hostname-lookups"},
		{"dead reverse zone before the answer", "/cgi-bin/hello", 0, apache{config: servers.ApacheConfig{CGI: program, HostnameLookups: "Double"},
			resolvConf: "options timeout:1 attempts:1\n", dead: true}, reports.Server, "hostname-lookups"},
		{"off", "/", delay, apache{config: servers.ApacheConfig{Files: page, HostnameLookups: "Off"}}, reports.None, "healthy"},
		{"off, program", "/cgi-bin/hello", delay, apache{config: servers.ApacheConfig{CGI: program, HostnameLookups: "Off"}}, reports.None, "healthy"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n := newNetwork(t, shape{rtt: 16 * time.Millisecond, lookups: tt.delay})
			n.clientDNS(t)
			n.startApache(t, tt.apache)
			r := n.diagnose(t, diagnose.Options{URL: fmt.Sprintf("http://%s%s", site, tt.path)})
			wantVerdict(t, r, tt.layer, tt.component, true)
		})
	}
}
