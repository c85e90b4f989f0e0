package servers

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"github.com/whyslow/whyslow/internal/netlab"
)

// NSDConfig describes an nsd, an authoritative server.
type NSDConfig struct {
	Addrs []netip.AddrPort
	Zones []Zone
}

// StartNSD starts nsd.
func StartNSD(ctx context.Context, ns *netlab.Namespace, cfg NSDConfig) (*Daemon, error) {
	files := map[string][]byte{}
	for i, z := range cfg.Zones {
		text, err := z.Text()
		if err != nil {
			return nil, err
		}
		files[fmt.Sprintf("zone%d", i)] = []byte(text)
	}
	return startNameDaemon(ctx, ns, "nsd", files, cfg.text, cfg.Addrs)
}

// startNameDaemon starts nsd or unbound, which are started alike: in the
// foreground, on a configuration file that names its own folder.
func startNameDaemon(ctx context.Context, ns *netlab.Namespace, name string, files map[string][]byte,
	text func(dir string) string, addrs []netip.AddrPort) (*Daemon, error) {
	if _, err := program(name, name); err != nil {
		return nil, err
	}
	dir, err := newDir(ns, name, files)
	if err != nil {
		return nil, err
	}
	conf := filepath.Join(dir, name+".conf")
	if err := os.WriteFile(conf, []byte(text(dir)), 0o644); err != nil {
		return nil, fmt.Errorf("servers: preparing %s: %w", name, err)
	}
	return startDaemon(ctx, ns, daemonConfig{
		name: name, programs: []string{name}, args: []string{"-d", "-c", conf}, dir: dir,
		logs:  []string{name + ".log"},
		addrs: addrs, ready: answers,
	})
}

func (c NSDConfig) text(dir string) string {
	var b strings.Builder
	p := func(f string, args ...any) { fmt.Fprintf(&b, f+"\n", args...) }
	p("server:")
	for _, a := range c.Addrs {
		p(" ip-address: %s@%d", a.Addr(), a.Port())
	}
	username := `""`
	if u := account(); u != nil {
		username = u.Username
	}
	p(" username: %s\n chroot: \"\"\n database: \"\"\n zonesdir: %q\n pidfile: %q", username, dir, filepath.Join(dir, "nsd.pid"))
	p(" logfile: %q\n zonelistfile: %q\n xfrdfile: %q\n xfrdir: %q", filepath.Join(dir, "nsd.log"),
		filepath.Join(dir, "zone.list"), filepath.Join(dir, "xfrd.state"), dir)
	p(" server-count: 1\n hide-version: yes\n rrl-ratelimit: 0")
	p("remote-control:\n control-enable: no")
	for i, z := range c.Zones {
		p("zone:\n name: %q\n zonefile: \"zone%d\"", strings.TrimSuffix(z.Origin, ".")+".", i)
	}
	return b.String()
}
