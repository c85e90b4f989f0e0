package accesslog

import (
	"fmt"
	"slices"
	"strings"
)

// commonTail and combinedTail are what most formats end in.
const (
	commonTail   = ` %l %u %t "%r" %>s `
	combinedTail = ` "%{Referer}i" "%{User-Agent}i"`
)

// named are the formats known by name. Debian's write %O, bytes with headers,
// where upstream's write %b; on the line they look alike.
var named = []struct{ name, text string }{
	{"common", "%h" + commonTail + "%b"},
	{"combined", "%h" + commonTail + "%b" + combinedTail},
	{"vhost_common", "%v %h" + commonTail + "%b"},
	{"vhost_combined", "%v:%p %h" + commonTail + "%O" + combinedTail},
	{"vhost_combined_upstream", "%v %h" + commonTail + "%b" + combinedTail},
	{"debian_common", "%h" + commonTail + "%O"},
	{"debian_combined", "%h" + commonTail + "%O" + combinedTail},
	{"combinedio", "%h" + commonTail + "%b" + combinedTail + " %I %O"},
}

// nginxNamed are the same of nginx: its own combined, and "main" of the
// configuration it ships with.
var nginxNamed = []struct{ name, text string }{
	{"nginx_combined", `$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent"`},
	{"nginx_main", `$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent" "$http_x_forwarded_for"`},
}

// Names lists the formats that Named knows.
func Names() []string {
	names := []string{"json"}
	for _, n := range named {
		names = append(names, n.name)
	}
	for _, n := range nginxNamed {
		names = append(names, n.name)
	}
	slices.Sort(names)
	return names
}

// Named returns the format of a name; false if there is none of it.
func Named(name string, opts CompileOptions) (*Format, bool) {
	opts.Name = name
	if name == "json" {
		return JSON(opts), true
	}
	for _, n := range named {
		if n.name == name {
			f, err := CompileApache(n.text, opts)
			return f, err == nil
		}
	}
	for _, n := range nginxNamed {
		if n.name == name {
			f, err := CompileNginx(n.text, opts)
			return f, err == nil
		}
	}
	return nil, false
}

// ParseFormat compiles what a user gives as a format: a name, a LogFormat of
// Apache httpd, told by its "%", a log_format of nginx, told by its "$".
func ParseFormat(text string, opts CompileOptions) (*Format, error) {
	text = strings.TrimSpace(text)
	if f, ok := Named(text, opts); ok {
		return f, nil
	}
	percent, dollar := strings.IndexByte(text, '%'), strings.IndexByte(text, '$')
	switch {
	case percent >= 0 && (dollar < 0 || percent < dollar):
		return CompileApache(text, opts)
	case dollar >= 0:
		return CompileNginx(text, opts)
	}
	return nil, fmt.Errorf("accesslog: %.60q is no name of a format (%s), nor has it a %%directive or $variable", text, strings.Join(Names(), ", "))
}
