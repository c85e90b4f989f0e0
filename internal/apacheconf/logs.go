package apacheconf

import (
	"path"
	"strings"
)

// Log is a file, or a program, to which a server writes its requests.
type Log struct {
	Place Place `json:"where"`
	// Scope is the server it belongs to.
	Scope string `json:"scope"`
	// Path is absolute; empty if a program reads the log.
	Path    string `json:"path,omitempty"`
	Program string `json:"program,omitempty"`
	// Format is the LogFormat; Name its nickname, if it has one.
	Format string `json:"format"`
	Name   string `json:"name,omitempty"`
	// Condition is env=… or expr=…: not all requests are written.
	Condition string `json:"condition,omitempty"`
	// Global logs get the requests of all servers.
	Global bool `json:"global,omitempty"`

	server *server
}

// commonFormat is what a log has without any LogFormat (mod_log_config).
const commonFormat = `%h %l %u %t "%r" %>s %b`

// logs finds what the servers write. Nicknames are resolved when all is read,
// so the last LogFormat of a name counts; a virtual host sees those of the main
// server too.
func (a *auditor) logs() {
	names := map[*server]map[string]string{}
	for _, s := range a.servers {
		names[s] = map[string]string{}
		each(s.directives, func(d *Directive, _ []*Directive) {
			if d.Name == "logformat" && len(d.Args) > 0 {
				nick := ""
				if len(d.Args) > 1 {
					nick = d.Args[1]
				}
				names[s][nick] = d.Args[0]
			}
		})
	}
	format := func(s *server, name string) (string, bool) {
		for _, of := range []*server{s, a.servers[0]} {
			if f, ok := names[of][name]; ok {
				return f, true
			}
		}
		return "", false
	}
	for _, s := range a.servers {
		each(s.directives, func(d *Directive, _ []*Directive) {
			global := d.Name == "globallog"
			if !global && d.Name != "customlog" && d.Name != "transferlog" || len(d.Args) == 0 {
				return
			}
			l := Log{Place: d.Place, Scope: s.name, Global: global, server: s}
			if p, ok := strings.CutPrefix(d.Args[0], "|"); ok {
				l.Program = strings.TrimLeft(p, "|$")
			} else {
				l.Path = a.abs(d.Args[0])
			}
			l.Format = commonFormat
			if f, ok := format(s, ""); ok {
				l.Format = f
			}
			if d.Name != "transferlog" && len(d.Args) > 1 {
				l.Format = d.Args[1]
				if f, ok := format(s, d.Args[1]); ok {
					l.Format, l.Name = f, d.Args[1]
				}
			}
			if len(d.Args) > 2 {
				l.Condition = d.Args[2]
			}
			s.ownLog = s.ownLog || !global
			a.Logs = append(a.Logs, l)
		})
	}
}

// LogOf finds who writes the log with an absolute path, which may be a rotated
// one: access.log.1, access.log.2.gz, access.log-20261130.
func (a *Audit) LogOf(file string) (Log, bool) {
	file = path.Clean(file)
	best := -1
	for i, l := range a.Logs {
		if l.Path == file {
			return l, true
		}
		rest, ok := strings.CutPrefix(file, l.Path)
		if ok && l.Path != "" && len(rest) > 1 && (rest[0] == '.' || rest[0] == '-') && !strings.Contains(rest, "/") &&
			(best < 0 || len(l.Path) > len(a.Logs[best].Path)) {
			best = i
		}
	}
	if best < 0 {
		return Log{}, false
	}
	return a.Logs[best], true
}

// hostItems are the items of a format that ask for the client's name.
func hostItems(format string) (items []string) {
	for i := 0; i < len(format); i++ {
		if format[i] != '%' {
			continue
		}
		start, arg := i, ""
		for i++; i < len(format) && strings.IndexByte("0123456789!,<>", format[i]) >= 0; i++ {
		}
		if i < len(format) && format[i] == '{' {
			end := strings.IndexByte(format[i:], '}')
			if end < 0 {
				return items
			}
			arg = format[i+1 : i+end]
			i += end + 1
		}
		if i >= len(format) {
			return items
		}
		// %{…}x is a variable of mod_ssl.
		if format[i] == 'h' || format[i] == 'x' && arg == "REMOTE_HOST" {
			items = append(items, format[start:i+1])
		}
	}
	return items
}
