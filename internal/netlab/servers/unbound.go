package servers

import (
	"context"
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"

	"github.com/whyslow/whyslow/internal/netlab"
)

// UnboundConfig describes an unbound resolver.
type UnboundConfig struct {
	Addrs []netip.AddrPort
	// Stubs says which authoritative servers hold which zone.
	Stubs []Forward
	// Extra lines inside the server clause.
	Extra []string
}

// StartUnbound starts unbound. It validates nothing and knows no root servers:
// it resolves what its stubs hold.
func StartUnbound(ctx context.Context, ns *netlab.Namespace, cfg UnboundConfig) (*Daemon, error) {
	return startNameDaemon(ctx, ns, "unbound", nil, cfg.text, cfg.Addrs)
}

func (c UnboundConfig) text(dir string) string {
	var b strings.Builder
	p := func(f string, args ...any) { fmt.Fprintf(&b, f+"\n", args...) }
	p("server:")
	for _, a := range c.Addrs {
		p(" interface: %s@%d", a.Addr(), a.Port())
		p(" access-control: %s/0 allow", unspecified(a.Addr()))
	}
	username := `""`
	if u := account(); u != nil {
		username = u.Username
	}
	p(" username: %s\n chroot: \"\"\n directory: %q\n pidfile: %q", username, dir, filepath.Join(dir, "unbound.pid"))
	p(" use-syslog: no\n logfile: %q\n verbosity: 1", filepath.Join(dir, "unbound.log"))
	p(" do-daemonize: no\n num-threads: 1\n so-reuseport: no\n msg-cache-size: 4m\n rrset-cache-size: 4m")
	p(" outgoing-range: 200\n num-queries-per-thread: 100")
	p(" module-config: \"iterator\"\n do-not-query-localhost: no\n qname-minimisation: no\n minimal-responses: no")
	// The reverse zones of private and documentation addresses are empty in
	// an ordinary unbound.
	p(" unblock-lan-zones: yes\n insecure-lan-zones: yes")
	for _, line := range c.Extra {
		p(" %s", line)
	}
	p("remote-control:\n control-enable: no")
	for _, s := range c.Stubs {
		p("stub-zone:\n name: %q\n stub-prime: no", s.Zone)
		for _, a := range s.Servers {
			p(" stub-addr: %s@%d", a.Addr(), a.Port())
		}
	}
	return b.String()
}

func unspecified(a netip.Addr) netip.Addr {
	if a.Is4() {
		return netip.IPv4Unspecified()
	}
	return netip.IPv6Unspecified()
}
