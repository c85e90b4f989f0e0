package servers_test

import (
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/miekg/dns"

	"github.com/whyslow/whyslow/internal/apacheconf"
	"github.com/whyslow/whyslow/internal/netlab"
	"github.com/whyslow/whyslow/internal/netlab/labtest"
	"github.com/whyslow/whyslow/internal/netlab/servers"
)

// module is the LoadModule line of a module that servers.ApacheConfig does not
// load by itself.
func module(t *testing.T, name string) string {
	t.Helper()
	for _, dir := range []string{"/usr/lib/apache2/modules", "/usr/lib64/httpd/modules", "/usr/lib64/apache2", "/usr/local/apache2/modules"} {
		path := filepath.Join(dir, "mod_"+name+".so")
		if _, err := os.Stat(path); err == nil {
			return "LoadModule " + name + "_module " + path
		}
	}
	t.Fatalf("there is no mod_%s", name)
	return ""
}

// What the audit of a configuration says of lookups, held against the queries
// that a real Apache httpd with this configuration sends for two requests on
// one connection.
func TestApacheAsksWhatTheAuditSays(t *testing.T) {
	labtest.Need(t, "apache2")
	s := newSite(t)
	auth, err := servers.StartAuthority(servers.AuthorityConfig{Place: s.resolver, Addrs: []netip.AddrPort{netip.AddrPortFrom(resolverAddr, 53)}, Zones: reverseZones})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = auth.Close() })
	if err := s.web.SetFiles(netlab.Files{ResolvConf: []byte("nameserver " + resolverAddr.String() + "\n")}); err != nil {
		t.Fatal(err)
	}
	all := map[string][]byte{"index.html": []byte("<p>hello"), "s.shtml": []byte(`<!--#echo var="REMOTE_HOST" -->`)}
	cgi := map[string][]byte{"p": []byte("#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\nx'\n")}
	rewrite := []string{"RewriteEngine On", "RewriteCond %{REMOTE_HOST} nobody", "RewriteRule ^ - [F]"}
	for i, tt := range []struct {
		name     string
		config   servers.ApacheConfig
		path     string
		ptr, fwd int // queries for the name, and for its addresses (A)
	}{
		{"Off, the log asks", servers.ApacheConfig{LogFormat: "%h"}, "/", 0, 0},
		{"On, nobody asks", servers.ApacheConfig{HostnameLookups: "On"}, "/", 0, 0},
		{"On, the log asks", servers.ApacheConfig{HostnameLookups: "On", LogFormat: "%h"}, "/", 1, 0},
		{"On, the log asks for the peer", servers.ApacheConfig{HostnameLookups: "On", LogFormat: "%{c}h"}, "/", 1, 0},
		{"Double, the log asks", servers.ApacheConfig{HostnameLookups: "Double", LogFormat: "%h"}, "/", 1, 1},
		{"On, a program asks", servers.ApacheConfig{HostnameLookups: "On", CGI: cgi}, "/cgi-bin/p", 1, 0},
		{"Off, a program asks", servers.ApacheConfig{CGI: cgi}, "/cgi-bin/p", 0, 0},
		{"Require host", servers.ApacheConfig{RequireHost: "example.com"}, "/", 1, 1},
		{"Require forward-dns", servers.ApacheConfig{Extra: []string{"<Location />", "Require forward-dns client.example.com", "</Location>"}}, "/", 0, 2},
		{"Allow from", servers.ApacheConfig{Extra: []string{module(t, "access_compat"), "<Location />", "Order allow,deny", "Allow from .example.com", "</Location>"}}, "/", 1, 1},
		{"Off, a rule asks", servers.ApacheConfig{Extra: rewrite}, "/", 0, 0},
		{"On, a rule asks", servers.ApacheConfig{HostnameLookups: "On", Extra: rewrite}, "/", 1, 0},
		{"On, SetEnvIf asks", servers.ApacheConfig{HostnameLookups: "On", Extra: []string{"SetEnvIf Remote_Host x y"}}, "/", 1, 0},
		{"On, an expression asks", servers.ApacheConfig{HostnameLookups: "On", Extra: []string{`<If "%{REMOTE_HOST} == 'x'">`, "Require all denied", "</If>"}}, "/", 1, 0},
		{"On, SSI asks", servers.ApacheConfig{HostnameLookups: "On", Extra: []string{module(t, "include"), "<Location />", "Options +Includes", "SetOutputFilter INCLUDES", "</Location>"}}, "/s.shtml", 1, 0},
		{"On in a directory only", servers.ApacheConfig{LogFormat: "%h", Extra: []string{"<Location />", "HostnameLookups On", "</Location>"}}, "/", 1, 0},
		{"On, mod_remoteip without its header", servers.ApacheConfig{HostnameLookups: "On", LogFormat: "%h", Extra: []string{module(t, "remoteip"), "RemoteIPHeader X-Forwarded-For"}}, "/", 1, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			at := netip.AddrPortFrom(webAddr, uint16(8100+i))
			tt.config.Addrs, tt.config.Files = []netip.AddrPort{at}, all
			apache, err := servers.StartApache(t.Context(), s.web, tt.config)
			closeLater(t, apache, err)
			asked := func() [2]int {
				return [2]int{auth.Asked("1.100.51.198.in-addr.arpa.", dns.TypePTR), auth.Asked("client.example.com.", dns.TypeA)}
			}
			before := asked()
			c := newClient(t, nil)
			for range 2 {
				get(t, c, "http://"+at.String()+tt.path)
			}
			c.CloseIdleConnections()
			logOf(t, apache, "access.log", 2)
			_ = apache.Close()
			after := asked()
			ptr, fwd := after[0]-before[0], after[1]-before[1]
			if ptr != tt.ptr || fwd != tt.fwd {
				t.Errorf("Apache asked %d times for the name, %d times for its addresses, want %d and %d", ptr, fwd, tt.ptr, tt.fwd)
			}
			text, err := apache.File("httpd.conf")
			if err != nil {
				t.Fatal(err)
			}
			conf, err := apacheconf.Read("/httpd.conf", apacheconf.Options{FS: fstest.MapFS{"httpd.conf": {Data: []byte(text)}}})
			if err != nil {
				t.Fatal(err)
			}
			// Its programs are no finding where the request is for none.
			said := slices.DeleteFunc(conf.Audit("/httpd.conf").Findings, func(f apacheconf.Finding) bool {
				program := strings.HasPrefix(f.What, "CGI")
				return !f.Costs || strings.HasPrefix(f.What, "HostnameLookups ") || program && !strings.HasPrefix(tt.path, "/cgi-bin/")
			})
			if (len(said) > 0) != (ptr+fwd > 0) {
				t.Errorf("Apache asked %d and %d times; the audit says %+v", ptr, fwd, said)
			}
			if twice := slices.ContainsFunc(said, func(f apacheconf.Finding) bool { return f.Double }); twice != (ptr > 0 && fwd > 0) {
				t.Errorf("Apache asked %d and %d times; the audit says Double %v", ptr, fwd, twice)
			}
		})
	}
}
