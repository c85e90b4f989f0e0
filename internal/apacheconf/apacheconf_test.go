package apacheconf

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

const modules = "LoadModule rewrite_module x\nLoadModule cgid_module x\nLoadModule setenvif_module x\nLoadModule include_module x\nLoadModule proxy_fcgi_module x\nLoadModule proxy_ajp_module x\n"

// files makes a file system of path and content in turn.
func files(pairs ...string) fstest.MapFS {
	m := fstest.MapFS{}
	for i := 0; i < len(pairs); i += 2 {
		m[strings.TrimPrefix(pairs[i], "/")] = &fstest.MapFile{Data: []byte(pairs[i+1])}
	}
	return m
}

func read(t *testing.T, m fstest.MapFS, env map[string]string) *Config {
	t.Helper()
	c, err := Read("/etc/apache2/apache2.conf", Options{FS: m, Env: env})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// debian has the shape of Debian's stock configuration.
func debian() fstest.MapFS {
	return files(
		"/etc/apache2/apache2.conf", "Timeout 300\nKeepAlive On\nKeepAliveTimeout 5\nHostnameLookups Off\nIncludeOptional mods-enabled/*.load\nIncludeOptional mods-enabled/*.conf\nInclude ports.conf\n"+
			`LogFormat "%v:%p %h %l %u %t \"%r\" %>s %O \"%{Referer}i\" \"%{User-Agent}i\"" vhost_combined`+"\n"+
			`LogFormat "%h %l %u %t \"%r\" %>s %O \"%{Referer}i\" \"%{User-Agent}i\"" combined`+"\nIncludeOptional conf-enabled/*.conf\nIncludeOptional sites-enabled/*.conf\n",
		"/etc/apache2/ports.conf", "Listen 80\n<IfModule ssl_module>\n\tListen 443\n</IfModule>\n<IfModule mod_gnutls.c>\n Listen 443\n</IfModule>\n",
		"/etc/apache2/mods-enabled/mpm_event.load", "LoadModule mpm_event_module /usr/lib/apache2/modules/mod_mpm_event.so\n",
		"/etc/apache2/mods-enabled/mpm_event.conf", "StartServers 2\nThreadsPerChild\t25\nMaxRequestWorkers\t  150\n",
		"/etc/apache2/conf-enabled/other-vhosts-access-log.conf", "# Define an access log for VirtualHosts that don't define their own logfile\nCustomLog ${APACHE_LOG_DIR}/other_vhosts_access.log vhost_combined\n",
		"/etc/apache2/sites-enabled/000-default.conf", "<VirtualHost *:80>\n\tServerName www.example.com\n\tDocumentRoot /var/www/html\n\tErrorLog ${APACHE_LOG_DIR}/error.log\n\tCustomLog ${APACHE_LOG_DIR}/access.log combined\n</VirtualHost>\n",
	)
}

func TestDebianStock(t *testing.T) {
	env := ReadEnv("SUFFIX=\nexport APACHE_LOG_DIR=/var/log/apache2$SUFFIX\n")
	c := read(t, debian(), env)
	a := c.Audit("/etc/apache2/apache2.conf")
	if diff := cmp.Diff([]string(nil), a.Warnings); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
	want := Limits{MPM: "event", MaxRequestWorkers: 150, ThreadsPerChild: 25, ServerLimit: 16, KeepAlive: true, MaxKeepAliveRequests: 100, KeepAliveTimeoutMS: 5000, TimeoutMS: 300_000}
	if diff := cmp.Diff(want, a.Limits); diff != "" {
		t.Errorf("limits (-want +got):\n%s", diff)
	}
	for path, name := range map[string]string{"/var/log/apache2/access.log": "combined", "/var/log/apache2/access.log.1": "combined", "/var/log/apache2/access.log.2.gz": "combined",
		"/var/log/apache2/other_vhosts_access.log": "vhost_combined", "/var/log/apache2/accessory.log": "", "/srv/access.log": ""} {
		if l, _ := a.LogOf(path); l.Name != name {
			t.Errorf("the log %s has format %q, want %q", path, l.Name, name)
		}
	}
	l, _ := a.LogOf("/var/log/apache2/access.log")
	if want := `%h %l %u %t "%r" %>s %O "%{Referer}i" "%{User-Agent}i"`; l.Format != want {
		t.Errorf("format %q, want %q", l.Format, want)
	}
	for _, f := range a.Findings {
		if f.Costs {
			t.Errorf("a stock Debian looks nothing up, but: %+v", f)
		}
	}
	if len(a.Findings) != 2 { // the two logs would, with On
		t.Errorf("findings: %+v", a.Findings)
	}
}

func TestAudit(t *testing.T) {
	const log = "LogFormat \"%h %t\" h\nLogFormat \"%a %t\" a\nCustomLog logs/l "
	tests := []struct {
		name, conf string
		// costs are line, and what the finding begins with; only those that cost.
		costs map[int]string
		twice []int
	}{
		{name: "lazy: On alone costs nothing", conf: "HostnameLookups On\n" + log + "a"},
		{name: "Off costs nothing", conf: "HostnameLookups Off\n" + log + "h"},
		{name: "logged", conf: "HostnameLookups On\n" + log + "h", costs: map[int]string{1: "HostnameLookups On", 4: "%h in the format"}},
		{name: "logged, Double", conf: "HostnameLookups double\n" + log + "h", costs: map[int]string{1: "HostnameLookups Double", 4: "%h in the format"}, twice: []int{1, 4}},
		{name: "a format that is defined, not used", conf: "HostnameLookups On\nLogFormat \"%h\" h\n"},
		{name: "a host with the peer's name", conf: "HostnameLookups On\nCustomLog l \"%>{c}h %a\"", costs: map[int]string{1: "HostnameLookups On", 2: "%>{c}h in"}},
		{name: "a header with an h is none", conf: "HostnameLookups On\nCustomLog l \"%{Host}i %%h %{h}e\""},
		{name: "Require host", conf: "<Directory /srv>\n<RequireAny>\nRequire not host example.com\n</RequireAny>\n</Directory>", costs: map[int]string{3: "Require not host"}, twice: []int{3}},
		{name: "Require forward-dns", conf: "<Location />\nRequire forward-dns a.example\n</Location>", costs: map[int]string{2: "Require forward-dns"}},
		{name: "Require ip", conf: "<Location />\nRequire ip 192.0.2.0/24\nRequire all granted\n</Location>"},
		{name: "Allow from", conf: "<Location />\nAllow from 10.1 192.0.2.0/24 2001:db8::/32 all env=x\nDeny from .example.com\n</Location>", costs: map[int]string{3: "Deny from .example.com"}, twice: []int{3}},
		{name: "rewrite in a directory", conf: "HostnameLookups On\n<Directory /srv>\nRewriteEngine On\nRewriteCond %{REMOTE_HOST} x\n</Directory>" + "\n", costs: map[int]string{1: "HostnameLookups", 4: "%{REMOTE_HOST} in RewriteCond"}},
		{name: "only a virtual host is On, the rule is the main server's", conf: "RewriteCond %{REMOTE_HOST} x\n<VirtualHost *>\nHostnameLookups On\n</VirtualHost>"},
		{name: "a virtual host's own log", conf: log + "h\n<VirtualHost *>\nHostnameLookups On\nCustomLog own a\n</VirtualHost>"},
		{name: "a virtual host without a log", conf: log + "h\n<VirtualHost *>\nHostnameLookups On\n</VirtualHost>", costs: map[int]string{3: "%h in", 5: "HostnameLookups On"}},
		{name: "a virtual host is Off", conf: "HostnameLookups On\n<VirtualHost *>\nHostnameLookups Off\nCustomLog own %h\n</VirtualHost>"},
		{name: "only a directory", conf: log + "h\n<Directory /srv>\nHostnameLookups On\n</Directory>", costs: map[int]string{3: "%h in", 5: "HostnameLookups On"}},
		{name: "SetEnvIf", conf: "HostnameLookups On\nSetEnvIf Remote_Host x y", costs: map[int]string{1: "HostnameLookups", 2: "Remote_Host"}},
		{name: "CGI", conf: "HostnameLookups On\nScriptAlias /cgi-bin/ /srv/", costs: map[int]string{1: "HostnameLookups", 2: "CGI"}},
		{name: "PHP by FastCGI", conf: "HostnameLookups On\n<FilesMatch php$>\nSetHandler \"proxy:unix:/run/php.sock|fcgi://localhost\"\n</FilesMatch>", costs: map[int]string{1: "HostnameLookups", 3: "the FastCGI"}},
		{name: "expression", conf: "HostnameLookups On\n<If \"%{REMOTE_HOST} == 'x'\">\nSetEnv a b\n</If>", costs: map[int]string{1: "HostnameLookups", 2: "%{REMOTE_HOST} in <If>"}},
		{name: "the server's own name", conf: "UseCanonicalName DNS", costs: map[int]string{1: "UseCanonicalName DNS"}},
		{name: "a macro", conf: "<Macro V $n>\n<VirtualHost *>\nServerName $n\nHostnameLookups On\nCustomLog $n.log \"%h\"\n</VirtualHost>\n</Macro>\nUse V a.example", costs: map[int]string{4: "HostnameLookups", 5: "%h in the format of /etc/apache2/a.example.log"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := read(t, files("/etc/apache2/apache2.conf", "Include all.conf\nInclude m.load", "/etc/apache2/m.load", "", "/etc/apache2/all.conf", tt.conf), nil)
			for m := range strings.Lines(modules) {
				c.Modules[strings.Fields(m)[1]] = true
			}
			a := c.Audit("x")
			got := map[int]string{}
			var twice []int
			for _, f := range a.Findings {
				if f.Costs {
					got[f.Place.Line] = f.What
				}
				if f.Double {
					twice = append(twice, f.Place.Line)
				}
			}
			for line, what := range tt.costs {
				if !strings.HasPrefix(got[line], what) {
					t.Errorf("line %d: %q, want %q", line, got[line], what)
				}
				delete(got, line)
			}
			if len(got) > 0 {
				t.Errorf("these cost nothing: %v", got)
			}
			for _, line := range tt.twice {
				if !slices.Contains(twice, line) {
					t.Errorf("double in lines %v, want %d", twice, line)
				}
			}
			if len(tt.twice) == 0 && len(twice) > 0 {
				t.Errorf("double in lines %v, want none", twice)
			}
		})
	}
}

func TestFaultsAreSaidWithTheirLine(t *testing.T) {
	tests := []struct{ name, conf, want string }{
		{"unknown variable", "Listen 80\nErrorLog ${NONE}/x", "/etc/apache2/apache2.conf:2: ${NONE} is not defined"},
		{"nothing to include", "Include none.conf", "/etc/apache2/apache2.conf:1: cannot include /etc/apache2/none.conf: file does not exist"},
		{"cycle", "Include apache2.conf", "/etc/apache2/apache2.conf:1: more than 20 files include each other"},
		{"not closed", "<Directory /x>\nRequire all granted", "/etc/apache2/apache2.conf:1: <directory> is never closed"},
		{"closes nothing", "\n</Directory>", "/etc/apache2/apache2.conf:2: </directory> closes no open section"},
		{"macro of macros", "<Macro A>\nUse A\n</Macro>\nUse A", "/etc/apache2/apache2.conf:2: more than 20 macros use each other"},
		{"optional", "IncludeOptional none.conf n/*.conf", ""},
		{"sections", strings.Repeat("<Location />\n", 50), "/etc/apache2/apache2.conf:41: more than 40 sections in each other; this one is not read"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := read(t, files("/etc/apache2/apache2.conf", tt.conf), nil)
			got := ""
			if len(c.Warnings) > 0 {
				got = c.Warnings[0]
			}
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestConditions(t *testing.T) {
	conf := "Define A x\nLoadModule a_module y\n<IfDefine A>\nOne\n</IfDefine>\n<IfDefine !A>\nBad\n</IfDefine>\n<IfModule mod_a.c>\nTwo\n</IfModule>\n<IfModule b_module>\nBad\n<IfModule a_module>\nBad\n</IfModule>\n</IfModule>\n" +
		"<IfVersion >= 2.4>\nThree\n</IfVersion>\n<IfVersion < 2.4>\nBad\n</IfVersion>\n<IfFile apache2.conf>\nFour \\\n  ${A} 'q\\'q' \"a \\\" b\"\n</IfFile>\nUnDefine A\n<IfDefine A>\nBad\n</IfDefine>\n"
	c := read(t, files("/etc/apache2/apache2.conf", conf), nil)
	var got [][]string
	for _, d := range c.Directives {
		got = append(got, append([]string{d.Name}, d.Args...))
	}
	if diff := cmp.Diff([][]string{{"one"}, {"two"}, {"three"}, {"four", "x", "q'q", `a " b`}}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestHtaccess(t *testing.T) {
	m := files("/etc/apache2/apache2.conf", "DocumentRoot /srv\n<Directory /srv>\nAllowOverride None\n</Directory>\n<Directory /srv/open>\nAllowOverride AuthConfig\n</Directory>\n",
		"/srv/.htaccess", "Require host no.example\n", "/srv/open/a/.htaccess", "\nRequire host yes.example\n")
	a := read(t, m, nil).Audit("x")
	if len(a.Findings) != 1 || a.Findings[0].Place.String() != "/srv/open/a/.htaccess:2" || a.Findings[0].Scope != ".htaccess of /srv/open/a" {
		t.Errorf("findings: %+v", a.Findings)
	}
}

func TestReadEnv(t *testing.T) {
	text := "unset HOME\nif [ x ] ; then\n SUFFIX=\"-${APACHE_CONFDIR##/etc/apache2-}\"\nelse\n SUFFIX=\nfi\nexport A=/var/log$SUFFIX/x # c\nexport B=\"${A}/y z\"\n: ${C:=1}\nD=${NONE:-def}\nE=$(id)\nexport LANG\n"
	want := map[string]string{"SUFFIX": "", "A": "/var/log/x", "B": "/var/log/x/y z", "D": "def"}
	if diff := cmp.Diff(want, ReadEnv(text)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func FuzzRead(f *testing.F) {
	f.Add("<Macro A $x>\n<VirtualHost $x>\nUse A b\n</VirtualHost>\n</Macro>\nUse A c", "export A=$B${C:-d}")
	f.Add("Define a ${A}${A}\nInclude *.conf\n<IfVersion ~ 2>\nCustomLog \"|x\" \"%{\"\n", "A='\\")
	f.Add("HostnameLookups Double\nRequire not\nAllow from\nLogFormat %h\nTransferLog l\n<\n</\n<>\n", "=\nA")
	f.Fuzz(func(t *testing.T, conf, env string) {
		c, err := Read("/a.conf", Options{FS: files("/a.conf", conf, "/s/.htaccess", conf), Env: ReadEnv(env)})
		if err != nil {
			return
		}
		a := c.Audit("/a.conf")
		for _, fi := range a.Findings {
			if fi.Place.Line < 1 {
				t.Errorf("a finding without a line: %+v", fi)
			}
		}
		a.LogOf("/a.log.1")
	})
}
