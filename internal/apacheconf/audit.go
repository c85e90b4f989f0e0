package apacheconf

import (
	"fmt"
	"slices"
	"strings"
)

// Audit is what a configuration says about lookups, logs and workers.
type Audit struct {
	File     string    `json:"file"`
	Summary  string    `json:"summary"`
	Findings []Finding `json:"findings"`
	Logs     []Log     `json:"logs"`
	Limits   Limits    `json:"limits"`
	Warnings []string  `json:"warnings,omitempty"`
}

// Finding is a line that looks up names, or would if it could.
type Finding struct {
	Place Place `json:"where"`
	// Scope is the server, and the section in it.
	Scope string `json:"scope"`
	What  string `json:"what"`
	// Costs says that this line makes lookups happen as the server is
	// configured. Else it would with HostnameLookups On, or does nothing.
	Costs bool `json:"costs"`
	// When is when it waits, and how often.
	When string `json:"when"`
	// Double says that the name's addresses are looked up too.
	Double bool `json:"double"`
	// Change removes the lookups.
	Change string `json:"change,omitempty"`
}

// When lookups happen.
const (
	beforeResponse = "before the response"
	whileLogging   = "while logging: the worker and the connection's next request wait"
)

// server is the main server or a virtual host.
type server struct {
	name       string
	main       bool
	directives []*Directive
	ownLog     bool
	modes      []setter
}

// setter is a HostnameLookups. section is nil at the server's own level.
type setter struct {
	d       *Directive
	section *Directive
	mode    mode
	server  *server
}

type mode uint8

const (
	off mode = iota
	on
	double
)

func (m mode) String() string { return [...]string{"Off", "On", "Double"}[m] }

type auditor struct {
	*Config
	*Audit
	servers []*server // the main server first
	used    map[*Directive]bool
}

// Audit reads from the configuration what makes the server look up names.
func (c *Config) Audit(file string) *Audit {
	a := &auditor{Config: c, Audit: &Audit{File: file, Findings: []Finding{}, Logs: []Log{}, Warnings: c.Warnings}, used: map[*Directive]bool{}}
	a.split()
	a.limits()
	a.logs()
	a.modes()
	for _, s := range a.servers {
		each(s.directives, func(d *Directive, in []*Directive) { a.look(s, d, in) })
	}
	a.logFindings()
	a.multipliers()
	a.setters()
	slices.SortStableFunc(a.Findings, func(x, y Finding) int { return rank(x) - rank(y) })
	a.summarise()
	return a.Audit
}

func rank(f Finding) int {
	if f.Costs {
		return 0
	}
	return 1
}

// split makes the list of servers. Sections of .htaccess files belong to the
// main server, whose sections all others inherit.
func (a *auditor) split() {
	root := &server{name: "main server", main: true}
	a.servers = []*server{root}
	for _, d := range a.Directives {
		if d.Name != "virtualhost" || !d.Section {
			root.directives = append(root.directives, d)
			continue
		}
		s := &server{name: "<VirtualHost " + d.Raw + ">", directives: d.Children}
		for _, c := range d.Children {
			if c.Name == "servername" && len(c.Args) > 0 {
				s.name = c.Args[0]
			}
		}
		a.servers = append(a.servers, s)
	}
	root.directives = append(root.directives, a.htaccess...)
}

// each visits directives with the sections they are in, the outermost first.
// A section is visited before its contents.
func each(ds []*Directive, visit func(d *Directive, in []*Directive)) {
	var walk func(ds, in []*Directive)
	walk = func(ds, in []*Directive) {
		for _, d := range ds {
			visit(d, in)
			if d.Section {
				walk(d.Children, append(slices.Clip(in), d))
			}
		}
	}
	walk(ds, nil)
}

func (a *auditor) modes() {
	for _, s := range a.servers {
		each(s.directives, func(d *Directive, in []*Directive) {
			if d.Name != "hostnamelookups" || len(d.Args) == 0 {
				return
			}
			set := setter{d: d, server: s}
			if len(in) > 0 {
				set.section = in[len(in)-1]
			}
			switch strings.ToLower(d.Args[0]) {
			case "on":
				set.mode = on
			case "double":
				set.mode = double
			}
			// The last one of a level counts.
			s.modes = slices.DeleteFunc(s.modes, func(o setter) bool { return o.section == set.section })
			s.modes = append(s.modes, set)
		})
	}
}

// level is the mode at a server's own level: its own, else the main server's.
func (a *auditor) level(s *server) (setter, bool) {
	for _, of := range []*server{s, a.servers[0]} {
		for _, m := range of.modes {
			if m.section == nil {
				return m, true
			}
		}
	}
	return setter{}, false
}

// applying are the settings other than Off that hold, or may hold by path, where
// a directive stands. A section's own setting is the only one in it.
func (a *auditor) applying(s *server, in []*Directive, inherited bool) (found []setter) {
	for _, sec := range slices.Backward(in) {
		for _, m := range s.modes {
			if m.section == sec {
				return slices.DeleteFunc([]setter{m}, func(m setter) bool { return m.mode == off })
			}
		}
	}
	to := []*server{s}
	if s.main && inherited {
		to = a.servers
	}
	for _, t := range to {
		if m, ok := a.level(t); ok && m.mode != off {
			found = append(found, m)
		}
		for _, of := range []*server{t, a.servers[0]} {
			for _, m := range of.modes {
				if m.section != nil && m.mode != off {
					found = append(found, m)
				}
			}
		}
	}
	return found
}

// asker adds a finding that costs only where HostnameLookups is on.
func (a *auditor) asker(s *server, d *Directive, in []*Directive, inherited bool, what, when, change string) {
	f := Finding{Place: d.Place, Scope: scopeOf(s, in), What: what, When: when + ", " + a.per(), Change: change}
	for _, m := range a.applying(s, in, inherited) {
		a.used[m.d] = true
		f.Costs, f.Double = true, f.Double || m.mode == double
		if note := fmt.Sprintf("HostnameLookups %s at %s", m.mode, m.d.Place); !strings.Contains(f.What, note) && strings.Count(f.What, " at ") < 3 {
			f.What += ", with " + note
		}
	}
	if !f.Costs {
		f.When = "never while HostnameLookups is Off here; with On " + f.When
	}
	a.Findings = append(a.Findings, f)
}

// forced adds a finding that costs whatever HostnameLookups is.
func (a *auditor) forced(s *server, d *Directive, in []*Directive, twice bool, what, when, change string) {
	a.Findings = append(a.Findings, Finding{Place: d.Place, Scope: scopeOf(s, in), What: what, Costs: true, Double: twice, When: when, Change: change})
}

// per is how often the name is looked up.
func (a *auditor) per() string {
	switch {
	case a.Limits.RemoteIP:
		return "once a request (mod_remoteip)"
	case a.Limits.HTTP2:
		return "once a connection, over HTTP/2 once a request"
	}
	return "once a connection"
}

func scopeOf(s *server, in []*Directive) string {
	scope := s.name
	for _, d := range in {
		if d.Name == "htaccess" {
			return ".htaccess of " + d.Raw
		}
		scope += " <" + d.Written + " " + d.Raw + ">"
	}
	return scope
}

func (a *auditor) summarise() {
	n, unverified := 0, 0
	for _, f := range a.Findings {
		if f.Costs {
			n++
		} else {
			unverified++
		}
	}
	switch {
	case n == 1:
		a.Summary = "one line of this configuration makes the server look up names"
	case n > 1:
		a.Summary = fmt.Sprintf("%d lines of this configuration make the server look up names", n)
	case unverified > 0:
		a.Summary = "this server looks up no names as it is configured"
	default:
		a.Summary = "this server looks up no names, and nothing here would ask for one"
	}
}
