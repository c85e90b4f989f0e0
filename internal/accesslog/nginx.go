package accesslog

import (
	"fmt"
	"strings"
	"time"
)

// CompileNginx compiles a log_format of nginx: its strings joined, without
// the quotes around them. opts.Escape is its parameter escape=; EscapeApache,
// the zero value, means nginx's default.
func CompileNginx(text string, opts CompileOptions) (*Format, error) {
	c, err := newCompiler(text, opts)
	if err != nil {
		return nil, err
	}
	if c.f.escape = opts.Escape; c.f.escape == EscapeApache {
		c.f.escape = EscapeNginx
	}
	c.f.moment = Completed // $msec and $time_local too: the log phase is the last
	for i := 0; i < len(text); {
		if text[i] == '\\' { // the configuration reader's own, as in "\""
			i += c.nginxEscape(text[i:])
			continue
		}
		if text[i] != '$' {
			c.pending.WriteByte(text[i])
			i++
			continue
		}
		name, n, err := nginxVariable(text[i:])
		if err != nil {
			return nil, fmt.Errorf("%w, at byte %d of the log format", err, i+1)
		}
		st := c.nginxStep(name)
		st.directive = "$" + name
		if err := c.add(st); err != nil {
			return nil, err
		}
		i += n
	}
	return c.finish()
}

// nginxEscape takes a backslash and what follows as ngx_conf_read_token does.
func (c *compiler) nginxEscape(s string) int {
	if len(s) > 1 && s[1] == '\'' {
		c.pending.WriteByte('\'')
		return 2
	}
	return c.apacheEscape(s)
}

// nginxVariable takes $name or ${name}.
func nginxVariable(s string) (name string, n int, err error) {
	rest, braced := strings.CutPrefix(s[1:], "{")
	for n = 0; n < len(rest); n++ {
		if c := rest[n]; c != '_' && c-'0' > 9 && c|0x20-'a' > 25 {
			break
		}
	}
	name = rest[:n]
	switch {
	case name == "":
		return "", 0, fmt.Errorf("accesslog: %.20q names no variable", s)
	case braced && !strings.HasPrefix(rest[n:], "}"):
		return "", 0, fmt.Errorf("accesslog: %.40q has no closing brace", s)
	case braced:
		n += 2
	}
	return name, n + 1, nil
}

// nginxVariables are those with a meaning here. All others are text.
var nginxVariables = map[string]step{
	"remote_addr":          {kind: kindHost},
	"realip_remote_addr":   {kind: kindPeer},
	"remote_port":          {kind: kindRemotePort},
	"time_local":           {kind: kindCLF},
	"msec":                 {kind: kindEpoch, unit: time.Second},
	"request":              {kind: kindRequest},
	"request_method":       {kind: kindMethod},
	"request_uri":          {kind: kindPath},
	"uri":                  {kind: kindPath},
	"server_protocol":      {kind: kindProtocol},
	"status":               {kind: kindStatus},
	"body_bytes_sent":      {kind: kindBytes},
	"bytes_sent":           {kind: kindBytes},
	"request_length":       {kind: kindNumber},
	"request_time":         {kind: kindDuration, unit: time.Second},
	"connection":           {kind: kindConnection},
	"connection_requests":  {kind: kindKeepAlive, less: 1},
	"host":                 {kind: kindVHost},
	"http_host":            {kind: kindVHost},
	"server_name":          {kind: kindVHost},
	"http_referer":         {kind: kindReferer},
	"http_user_agent":      {kind: kindUserAgent},
	"http_x_forwarded_for": {kind: kindForwarded},
	"time_iso8601":         {kind: kindLayout, layout: isoLayout},
}

func (c *compiler) nginxStep(name string) step {
	lower := strings.ToLower(name)
	if c.header != "" {
		// The header's own name, or the variable's.
		if v := strings.ReplaceAll(c.header, "-", "_"); lower == v || lower == "http_"+v {
			return step{kind: kindForwarded}
		}
		if lower == "http_x_forwarded_for" {
			return step{kind: kindText}
		}
	} else if lower == "proxy_add_x_forwarded_for" {
		return step{kind: kindForwarded}
	}
	if st, ok := nginxVariables[lower]; ok {
		return st
	}
	return step{kind: kindText}
}
