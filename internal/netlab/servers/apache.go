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

// ApacheConfig describes an Apache httpd.
type ApacheConfig struct {
	Addrs, TLSAddrs []netip.AddrPort
	Certificate     *Certificate // for TLSAddrs
	Host            string       // ServerName; empty means "localhost"
	// HostnameLookups is "Off", "On" or "Double". Empty means Off.
	HostnameLookups string
	// LogFormat of the access log, file "access.log". Empty means the common
	// format with the client's address (%a) in place of its name.
	LogFormat string
	// RequireHost restricts the document root, but not /favicon.ico and
	// /robots.txt, to clients of this domain. Empty means everybody.
	RequireHost string
	// Files of the document root by path. /favicon.ico and /robots.txt are
	// there in any case.
	Files map[string][]byte
	// CGI programs by name, served below /cgi-bin/: scripts that begin
	// with "#!".
	CGI map[string][]byte
	// Workers is how many requests are handled at once. Zero means 50.
	Workers int
	// Extra lines of configuration.
	Extra []string
}

// apacheModules are the modules loaded where they are not compiled in.
var apacheModules = []string{
	"mpm_event", "authn_core", "authz_core", "authz_host", "dir", "mime", "alias", "env",
	"log_config", "unixd", "cgid", "setenvif", "rewrite", "socache_shmcb", "ssl", "status",
}

// apacheModuleDirs are where distributions put modules.
var apacheModuleDirs = []string{
	"/usr/lib/apache2/modules", "/usr/lib64/httpd/modules", "/usr/lib/httpd/modules",
	"/usr/lib64/apache2", "/usr/lib/apache2", "/usr/local/apache2/modules",
}

// StartApache starts Apache httpd. With ResolvConf set by Namespace.SetFiles
// before, its lookups go to the resolvers named there.
func StartApache(ctx context.Context, ns *netlab.Namespace, cfg ApacheConfig) (*Daemon, error) {
	const name = "Apache httpd"
	if _, err := program(name, "apache2", "httpd"); err != nil {
		return nil, err
	}
	if len(cfg.TLSAddrs) > 0 && cfg.Certificate == nil {
		return nil, errors.New("servers: TLS without a certificate")
	}
	files := map[string][]byte{
		"mime.types":         []byte("text/html html\ntext/css css\ntext/plain txt\nimage/x-icon ico\n"),
		"htdocs/favicon.ico": control["/favicon.ico"].Body, "htdocs/robots.txt": control["/robots.txt"].Body,
	}
	for path, content := range cfg.Files {
		files[filepath.Join("htdocs", filepath.Clean("/"+path))] = content
	}
	for path, content := range cfg.CGI {
		files[filepath.Join("cgi-bin", filepath.Clean("/"+path))] = content
	}
	if cfg.Certificate != nil {
		files["cert.pem"], files["key.pem"] = cfg.Certificate.certPEM, cfg.Certificate.keyPEM
	}
	dir, err := newDir(ns, "apache", files)
	if err != nil {
		return nil, err
	}
	for _, sub := range []string{"htdocs", "cgi-bin"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			return nil, fmt.Errorf("servers: preparing %s: %w", name, err)
		}
	}
	conf := filepath.Join(dir, "httpd.conf")
	if err := os.WriteFile(conf, []byte(cfg.text(dir)), 0o644); err != nil {
		return nil, fmt.Errorf("servers: preparing %s: %w", name, err)
	}
	return startDaemon(ctx, ns, daemonConfig{
		name: name, programs: []string{"apache2", "httpd"},
		args: []string{"-d", dir, "-f", conf, "-DFOREGROUND"}, dir: dir,
		logs: []string{"error.log"},
		pid:  "httpd.pid", addrs: slices.Concat(cfg.Addrs, cfg.TLSAddrs), ready: connects,
	})
}

// text is the configuration file.
func (c ApacheConfig) text(dir string) string {
	host, lookups, format, workers := c.Host, c.HostnameLookups, c.LogFormat, c.Workers
	if host == "" {
		host = "localhost"
	}
	if lookups == "" {
		lookups = "Off"
	}
	if format == "" {
		format = `%a %l %u %t "%r" %>s %b`
	}
	if workers == 0 {
		workers = 50
	}
	var b strings.Builder
	p := func(f string, args ...any) { fmt.Fprintf(&b, f+"\n", args...) }
	p("ServerRoot %s", dir)
	p("DefaultRuntimeDir %s", dir)
	p("PidFile httpd.pid")
	p("ServerName %s", host)
	c.modules(p)
	if u := account(); u != nil {
		p("User %s\nGroup %s", u.Username, groupName(u))
	}
	for _, a := range slices.Concat(c.Addrs, c.TLSAddrs) {
		p("Listen %s", a)
	}
	p("ErrorLog %s/error.log\nLogLevel warn", dir)
	p("LogFormat %q lab\nCustomLog %s/access.log lab", format, dir)
	// One process: its workers share nothing slower than memory.
	p("ServerLimit 1\nStartServers 1\nThreadsPerChild %d\nThreadLimit %d\nMaxRequestWorkers %d", workers, workers, workers)
	p("MinSpareThreads 1\nMaxSpareThreads %d", workers)
	p("KeepAlive On\nKeepAliveTimeout 15\nMaxKeepAliveRequests 0\nTimeout 60")
	p("Mutex file:%s default", dir)
	p("HostnameLookups %s", lookups)
	p("DocumentRoot %s/htdocs\nDirectoryIndex index.html\nScriptSock %s/cgi.sock", dir, dir)
	p("TypesConfig mime.types")
	require := "all granted"
	if c.RequireHost != "" {
		require = "host " + c.RequireHost
	}
	p("<Directory %s/htdocs>\n Require %s\n</Directory>", dir, require)
	p("<FilesMatch \"^(favicon.ico|robots.txt)$\">\n Require all granted\n</FilesMatch>")
	p("ScriptAlias /cgi-bin/ %s/cgi-bin/\n<Directory %s/cgi-bin>\n Options +ExecCGI\n Require %s\n</Directory>", dir, dir, require)
	for _, a := range c.TLSAddrs {
		p("<VirtualHost %s>\n ServerName %s\n SSLEngine on\n SSLCertificateFile %s/cert.pem\n SSLCertificateKeyFile %s/key.pem\n</VirtualHost>", a, host, dir, dir)
	}
	for _, line := range c.Extra {
		p("%s", line)
	}
	return b.String()
}

// modules writes the LoadModule lines for what is not compiled in.
func (c ApacheConfig) modules(p func(string, ...any)) {
	for _, m := range apacheModules {
		if (m == "ssl" || m == "socache_shmcb") && len(c.TLSAddrs) == 0 {
			continue
		}
		for _, dir := range apacheModuleDirs {
			path := filepath.Join(dir, "mod_"+m+".so")
			if _, err := os.Stat(path); err == nil {
				p("LoadModule %s_module %s", m, path)
				break
			}
		}
	}
}
