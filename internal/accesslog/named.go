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
// Apache httpd, told by its "%", a log_format of nginx, told by its "$"; also
// the whole directive as it stands in the configuration, or its text with the
// quotes around it.
func ParseFormat(text string, opts CompileOptions) (*Format, error) {
	text, opts = undress(strings.TrimSpace(text), opts)
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

// undress takes the format out of a directive's line or its quotes.
func undress(text string, opts CompileOptions) (string, CompileOptions) {
	word, rest, _ := strings.Cut(text, " ")
	switch strings.ToLower(word) {
	case "logformat":
		if format, after, ok := quoted(strings.TrimSpace(rest)); ok {
			if name := strings.TrimSpace(after); name != "" && opts.Name == "" {
				opts.Name = name
			}
			return format, opts
		}
	case "log_format":
		name, rest, _ := strings.Cut(strings.TrimSpace(rest), " ")
		rest = strings.TrimSpace(rest)
		if escape, after, ok := strings.Cut(rest, " "); ok && strings.HasPrefix(escape, "escape=") {
			opts.Escape = map[string]Escape{"escape=json": EscapeJSON, "escape=none": EscapeNone}[escape]
			rest = strings.TrimSpace(after)
		}
		format := ""
		for {
			part, after, ok := quoted(rest)
			if !ok {
				break
			}
			format += part
			rest = strings.TrimSpace(after)
		}
		if rest = strings.TrimSuffix(rest, ";"); rest == "" && format != "" {
			if opts.Name == "" {
				opts.Name = name
			}
			return format, opts
		}
	}
	if format, after, ok := quoted(text); ok && after == "" && strings.ContainsAny(format, "%$") {
		return format, opts
	}
	return text, opts
}

// quoted takes a string in single or double quotes from the beginning of s. What
// is escaped in it stays so.
func quoted(s string) (inside, rest string, ok bool) {
	if s == "" || s[0] != '"' && s[0] != '\'' {
		return "", s, false
	}
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case s[0]:
			return s[1:i], s[i+1:], true
		}
	}
	return "", s, false
}
