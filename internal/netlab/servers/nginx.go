package servers

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/whyslow/whyslow/internal/netlab"
)

// NginxConfig describes an nginx.
type NginxConfig struct {
	Addrs, TLSAddrs []netip.AddrPort
	Certificate     *Certificate // for TLSAddrs
	// Files of the document root by path. /favicon.ico and /robots.txt are
	// there in any case.
	Files map[string][]byte
	// Extra lines inside the server block, HTTP inside the http block.
	Extra, HTTP []string
}

// StartNginx starts nginx.
func StartNginx(ctx context.Context, ns *netlab.Namespace, cfg NginxConfig) (*Daemon, error) {
	const name = "nginx"
	if _, err := program(name, name); err != nil {
		return nil, err
	}
	if len(cfg.TLSAddrs) > 0 && cfg.Certificate == nil {
		return nil, errors.New("servers: TLS without a certificate")
	}
	files := map[string][]byte{
		"html/favicon.ico": control["/favicon.ico"].Body, "html/robots.txt": control["/robots.txt"].Body,
	}
	for path, content := range cfg.Files {
		files[filepath.Join("html", filepath.Clean("/"+path))] = content
	}
	if cfg.Certificate != nil {
		files["cert.pem"], files["key.pem"] = cfg.Certificate.certPEM, cfg.Certificate.keyPEM
	}
	dir, err := newDir(ns, name, files)
	if err != nil {
		return nil, err
	}
	conf := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(conf, []byte(cfg.text(dir)), 0o644); err != nil {
		return nil, fmt.Errorf("servers: preparing %s: %w", name, err)
	}
	return startDaemon(ctx, ns, daemonConfig{
		name: name, programs: []string{name},
		args: []string{"-p", dir + "/", "-e", dir + "/error.log", "-c", conf}, dir: dir,
		logs: []string{"error.log"},
		pid:  "nginx.pid", addrs: slices.Concat(cfg.Addrs, cfg.TLSAddrs), ready: connects,
	})
}

// text is the configuration file.
func (c NginxConfig) text(dir string) string {
	var b strings.Builder
	p := func(f string, args ...any) { fmt.Fprintf(&b, f+"\n", args...) }
	if u := account(); u != nil {
		p("user %s %s;", u.Username, groupName(u))
	}
	p("daemon off;\nworker_processes 1;\npid %s/nginx.pid;\nerror_log %s/error.log warn;", dir, dir)
	p("events { worker_connections 256; }\nhttp {")
	for _, temp := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		p(" %s_temp_path %s/%s;", temp, dir, temp)
	}
	p(" access_log %s/access.log;\n types { text/html html; text/css css; image/x-icon ico; }", dir)
	for _, line := range c.HTTP {
		p(" %s", line)
	}
	p(" tcp_nodelay on;\n sendfile on;\n server {")
	for _, a := range c.Addrs {
		p("  listen %s;", a)
	}
	for _, a := range c.TLSAddrs {
		p("  listen %s ssl;", a)
	}
	if c.Certificate != nil {
		p("  ssl_certificate %s/cert.pem;\n  ssl_certificate_key %s/key.pem;", dir, dir)
	}
	p("  root %s/html;", dir)
	for _, line := range c.Extra {
		p("  %s", line)
	}
	p(" }\n}")
	return b.String()
}
