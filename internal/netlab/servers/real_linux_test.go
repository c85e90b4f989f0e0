package servers_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/whyslow/whyslow/internal/netlab"
	"github.com/whyslow/whyslow/internal/netlab/labtest"
	"github.com/whyslow/whyslow/internal/netlab/servers"
	"github.com/whyslow/whyslow/internal/simnet"
)

func TestMain(m *testing.M) { os.Exit(netlab.Main(m)) }

var (
	clientAddr   = netip.MustParseAddr("198.51.100.1")
	webAddr      = netip.MustParseAddr("203.0.113.80")
	resolverAddr = netip.MustParseAddr("203.0.113.53")
	authAddr     = netip.MustParseAddr("192.0.2.53")
)

// site is a lab with a client, a web server, its resolver, and an
// authoritative server that is slow to reach.
type site struct {
	lab                 *netlab.Lab
	web, resolver, auth *netlab.Namespace
}

// authDelay is the round trip between the resolver and the authority.
const authDelay = 400 * time.Millisecond

func newSite(t *testing.T) *site {
	t.Helper()
	n := simnet.New(1)
	router := n.AddRouter(simnet.Router{Name: "r1", Addr4: netip.MustParseAddr("192.0.2.1")})
	cfg := netlab.Config{Net: n}
	add := func(name string, addr netip.Addr, delay time.Duration) simnet.NodeID {
		id := n.AddHost(simnet.Host{Name: name, Addrs: []netip.Addr{addr}})
		n.Connect(id, router, simnet.Link{Delay: delay}, simnet.Link{Delay: delay})
		cfg.Ends = append(cfg.Ends, netlab.End{Node: id, Name: name, Addrs: []netip.Addr{addr}})
		return id
	}
	cfg.Client = add("client", clientAddr, time.Millisecond)
	web := add("web", webAddr, 0)
	resolver := add("resolver", resolverAddr, 0)
	auth := add("auth", authAddr, authDelay/2)
	lab, err := netlab.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := lab.Close(); err != nil {
			t.Error(err)
		}
	})
	return &site{lab, lab.Server(web), lab.Server(resolver), lab.Server(auth)}
}

// reverseZones holds the client's name, not to be cached.
var reverseZones = []servers.Zone{
	{Origin: "100.51.198.in-addr.arpa", Records: []string{"* 0 IN PTR client.example.com."}},
	{Origin: "example.com", Records: []string{"client 0 IN A 198.51.100.1", "www 300 IN A 203.0.113.80"}},
}

// resolve starts nsd and unbound and makes the web server use them.
func (s *site) resolve(t *testing.T) {
	t.Helper()
	auth := netip.AddrPortFrom(authAddr, 53)
	nsd, err := servers.StartNSD(t.Context(), s.auth, servers.NSDConfig{Addrs: []netip.AddrPort{auth}, Zones: reverseZones})
	closeLater(t, nsd, err)
	unbound, err := servers.StartUnbound(t.Context(), s.resolver, servers.UnboundConfig{
		Addrs: []netip.AddrPort{netip.AddrPortFrom(resolverAddr, 53)},
		Stubs: []servers.Forward{
			{Zone: "100.51.198.in-addr.arpa.", Servers: []netip.AddrPort{auth}},
			{Zone: "example.com.", Servers: []netip.AddrPort{auth}},
		},
	})
	closeLater(t, unbound, err)
	err = s.web.SetFiles(netlab.Files{ResolvConf: []byte("nameserver " + resolverAddr.String() + "\n")})
	if err != nil {
		t.Fatal(err)
	}
}

func closeLater(t *testing.T, d *servers.Daemon, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(d.Log())
		}
		_ = d.Close()
	})
}

func TestApacheHostnameLookups(t *testing.T) {
	labtest.Need(t, "apache2", "unbound", "nsd")
	s := newSite(t)
	s.resolve(t)
	page := map[string][]byte{"index.html": []byte("<p>hello")}
	cgi := map[string][]byte{"name": []byte("#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n%s' \"$REMOTE_HOST\"\n")}
	for i, tt := range []struct {
		name   string
		config servers.ApacheConfig
		path   string
		first  time.Duration // least time to the first byte on a fresh connection
		second time.Duration // the same of the next request on it
		name0  string        // what the access log begins with
	}{
		{"off", servers.ApacheConfig{Files: page, LogFormat: "%h"}, "/", 0, 0, "198.51.100.1"},
		{"on, only the log asks", servers.ApacheConfig{Files: page, HostnameLookups: "On", LogFormat: "%h"}, "/", 0, authDelay, "client.example.com"},
		{"on, a CGI program asks", servers.ApacheConfig{CGI: cgi, HostnameLookups: "On", LogFormat: "%h"}, "/cgi-bin/name", authDelay, 0, "client.example.com"},
		{"require host", servers.ApacheConfig{Files: page, RequireHost: "example.com", LogFormat: "%h"}, "/", 2 * authDelay, 0, ""},
		{"require host, control", servers.ApacheConfig{Files: page, RequireHost: "example.com", LogFormat: "%a"}, "/robots.txt", 0, 0, "198.51.100.1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			at := netip.AddrPortFrom(webAddr, uint16(8000+i))
			tt.config.Addrs = []netip.AddrPort{at}
			apache, err := servers.StartApache(t.Context(), s.web, tt.config)
			closeLater(t, apache, err)
			// The round trip to the authority bounds a lookup from below;
			// without one no part of it may show.
			eventually(t, func() error {
				return inTurn(t, fmt.Sprintf("http://%s%s", at, tt.path), authDelay, tt.first, tt.second)
			})
			_ = apache.Close()
			log, err := apache.File("access.log")
			if err != nil || !strings.HasPrefix(log, tt.name0) {
				t.Errorf("access log %q, %v, want prefix %q", log, err, tt.name0)
			}
		})
	}
}

func TestTLSOfRealServers(t *testing.T) {
	labtest.Need(t, "apache2", "nginx")
	s := newSite(t)
	ca, err := servers.NewCA()
	if err != nil {
		t.Fatal(err)
	}
	cert, err := ca.Issue(servers.CertificateConfig{Names: []string{"www.example.com"}, Addrs: []netip.Addr{webAddr}})
	if err != nil {
		t.Fatal(err)
	}
	page := map[string][]byte{"index.html": []byte("<p>hello")}
	for _, tt := range []struct {
		name  string
		at    uint16
		start func(plain, secure []netip.AddrPort) (*servers.Daemon, error)
	}{
		{"apache", 8443, func(plain, secure []netip.AddrPort) (*servers.Daemon, error) {
			return servers.StartApache(t.Context(), s.web, servers.ApacheConfig{Addrs: plain, TLSAddrs: secure, Certificate: cert, Files: page})
		}},
		{"nginx", 9443, func(plain, secure []netip.AddrPort) (*servers.Daemon, error) {
			return servers.StartNginx(t.Context(), s.web, servers.NginxConfig{Addrs: plain, TLSAddrs: secure, Certificate: cert, Files: page})
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			plain, secure := netip.AddrPortFrom(webAddr, tt.at-363), netip.AddrPortFrom(webAddr, tt.at)
			d, err := tt.start([]netip.AddrPort{plain}, []netip.AddrPort{secure})
			closeLater(t, d, err)
			client := newClient(t, &tls.Config{RootCAs: ca.Pool()})
			get(t, client, fmt.Sprintf("http://%s/", plain))
			get(t, client, fmt.Sprintf("https://%s/", secure))
			get(t, client, fmt.Sprintf("https://%s/robots.txt", secure))
		})
	}
}

func TestUnboundAsksNSD(t *testing.T) {
	labtest.Need(t, "unbound", "nsd")
	s := newSite(t)
	s.resolve(t)
	r := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, netip.AddrPortFrom(resolverAddr, 53).String())
	}}
	names, err := r.LookupAddr(t.Context(), clientAddr.String())
	if err != nil || len(names) != 1 || names[0] != "client.example.com." {
		t.Errorf("PTR of the client: %v, %v", names, err)
	}
	q := new(dns.Msg).SetQuestion("nothere.example.com.", dns.TypeA)
	c := dns.Client{Timeout: 10 * time.Second}
	reply, _, err := c.Exchange(q, netip.AddrPortFrom(resolverAddr, 53).String())
	if err != nil || reply.Rcode != dns.RcodeNameError {
		t.Errorf("a name that does not exist: %v, %v", reply, err)
	}
}
