package apacheconf

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// look tells what one directive asks of the DNS.
func (a *auditor) look(s *server, d *Directive, in []*Directive) {
	switch d.Name {
	case "require":
		a.require(s, d, in)
	case "allow", "deny":
		a.allow(s, d, in)
	case "usecanonicalname":
		if len(d.Args) > 0 && strings.EqualFold(d.Args[0], "dns") {
			a.forced(s, d, in, false, "UseCanonicalName DNS looks up the name of the server's own address", "when its name is needed (a redirect, SERVER_NAME), once a connection", "UseCanonicalName On with a ServerName")
		}
	case "identitycheck":
		if len(d.Args) > 0 && strings.EqualFold(d.Args[0], "on") && a.Modules["ident_module"] {
			a.forced(s, d, in, false, "IdentityCheck asks the client's host by ident (no DNS)", "as the user is asked for, up to IdentityCheckTimeout", "IdentityCheck Off")
		}
	case "setenvif", "setenvifnocase":
		if len(d.Args) > 0 && strings.EqualFold(d.Args[0], "remote_host") && a.Modules["setenvif_module"] {
			a.asker(s, d, in, true, d.Args[0]+" in SetEnvIf", beforeResponse, "test Remote_Addr")
		}
	case "customlog", "transferlog", "globallog", "logformat", "hostnamelookups":
		// Formats are looked at where they are in use.
	case "rewritecond", "rewriterule":
		if strings.Contains(strings.ToUpper(d.Raw), "%{REMOTE_HOST}") && a.Modules["rewrite_module"] {
			// Rules of the server itself do not pass to virtual hosts.
			a.asker(s, d, in, len(in) > 0, "%{REMOTE_HOST} in "+written(d), beforeResponse, "test %{REMOTE_ADDR}")
		}
	default:
		a.programs(s, d, in)
	}
}

// written is a directive as users write it.
func written(d *Directive) string {
	if d.Section {
		return "<" + d.Written + ">"
	}
	return d.Written
}

func (a *auditor) require(s *server, d *Directive, in []*Directive) {
	args := d.Args
	if len(args) > 0 && strings.EqualFold(args[0], "not") {
		args = args[1:]
	}
	if len(args) == 0 {
		return
	}
	switch strings.ToLower(args[0]) {
	case "host":
		a.forced(s, d, in, true, "Require "+strings.Join(d.Args, " ")+" looks up the client's name and its addresses, even with HostnameLookups Off",
			beforeResponse+", "+a.per(), "Require ip with the client's networks, or Require forward-dns for a few names")
	case "forward-dns":
		a.forced(s, d, in, false, "Require "+strings.Join(d.Args, " ")+" looks up the addresses of these names, not the client's name",
			beforeResponse+", once a request", "Require ip")
	default:
		a.programs(s, d, in)
	}
}

// allow looks for names in the Allow and Deny of mod_access_compat.
func (a *auditor) allow(s *server, d *Directive, in []*Directive) {
	if len(d.Args) < 2 || !strings.EqualFold(d.Args[0], "from") {
		return
	}
	names := slices.DeleteFunc(slices.Clone(d.Args[1:]), func(w string) bool {
		return strings.EqualFold(w, "all") || strings.HasPrefix(strings.ToLower(w), "env=") || isNetwork(w)
	})
	if len(names) > 0 {
		a.forced(s, d, in, true, fmt.Sprintf("%s from %s looks up the client's name and its addresses, even with HostnameLookups Off", d.Written, strings.Join(names, " ")),
			beforeResponse+", "+a.per(), "the client's networks in place of names")
	}
}

// isNetwork tells addresses, parts of them (10.1) and networks from names.
func isNetwork(w string) bool {
	base, _, _ := strings.Cut(w, "/")
	if _, err := netip.ParseAddr(base); err == nil {
		return true
	}
	return strings.Trim(base, "0123456789.") == ""
}

// programs finds what hands REMOTE_HOST to a program, and expressions.
func (a *auditor) programs(s *server, d *Directive, in []*Directive) {
	raw := strings.ToLower(d.Raw)
	loaded := func(modules ...string) bool {
		return slices.ContainsFunc(modules, func(m string) bool { return a.Modules[m+"_module"] })
	}
	const change = "HostnameLookups Off; a program that needs the name can look it up itself"
	switch d.Name {
	case "scriptalias", "scriptaliasmatch":
		if loaded("cgi", "cgid") {
			a.asker(s, d, in, true, "CGI programs are given REMOTE_HOST ("+written(d)+")", beforeResponse, change)
		}
		return
	case "addhandler", "sethandler", "proxypass", "proxypassmatch", "addtype":
		switch {
		case strings.Contains(raw, "cgi-script") && loaded("cgi", "cgid"):
			a.asker(s, d, in, true, "CGI programs are given REMOTE_HOST ("+written(d)+")", beforeResponse, change)
		case strings.Contains(raw, "server-parsed") && loaded("include"):
			a.asker(s, d, in, true, "server-side includes are given REMOTE_HOST ("+written(d)+")", beforeResponse, change)
		case strings.Contains(raw, "fcgi:") && loaded("proxy_fcgi"), strings.Contains(raw, "scgi:") && loaded("proxy_scgi"), strings.Contains(raw, "uwsgi:") && loaded("proxy_uwsgi"):
			a.asker(s, d, in, true, "the FastCGI, SCGI or uwsgi server is given REMOTE_HOST ("+written(d)+")", beforeResponse, change)
		case strings.Contains(raw, "ajp:") && loaded("proxy_ajp"):
			a.asker(s, d, in, true, "the AJP server is given the client's name ("+written(d)+")", beforeResponse, change)
		case strings.Contains(raw, "httpd-php") && loaded("php", "php7", "php5"):
			a.asker(s, d, in, true, "PHP is given REMOTE_HOST ("+written(d)+")", beforeResponse, change)
		}
		return
	case "addoutputfilter", "setoutputfilter":
		if strings.Contains(raw, "includes") && loaded("include") {
			a.asker(s, d, in, true, "server-side includes are given REMOTE_HOST ("+written(d)+")", beforeResponse, change)
		}
		return
	}
	if strings.Contains(strings.ToUpper(d.Raw), "%{REMOTE_HOST}") {
		a.asker(s, d, in, true, "%{REMOTE_HOST} in "+written(d), beforeResponse, "test %{REMOTE_ADDR}")
	}
}

// logFindings looks at the formats in use.
func (a *auditor) logFindings() {
	for _, l := range a.Logs {
		d := &Directive{Place: l.Place}
		items := hostItems(l.Format)
		if strings.Contains(strings.ToUpper(l.Condition), "%{REMOTE_HOST}") {
			items = append(items, l.Condition)
		}
		if len(items) == 0 {
			continue
		}
		to := l.Path
		if to == "" {
			to = "a program"
		}
		// The main server's log gets the requests of virtual hosts without one.
		inherited := l.Global
		what := fmt.Sprintf("%s in the format of %s", strings.Join(items, " "), to)
		if !inherited && l.server.main {
			a.mainLog(d, l, what)
			continue
		}
		a.asker(l.server, d, nil, inherited, what, whileLogging, "%a in place of %h; whyslow lookups --write-resolved puts names in later")
	}
}

// mainLog asks for the main server and for the virtual hosts that log there.
func (a *auditor) mainLog(d *Directive, l Log, what string) {
	all := a.servers
	defer func() { a.servers = all }()
	a.servers = slices.DeleteFunc(slices.Clone(all), func(s *server) bool { return !s.main && s.ownLog })
	a.asker(l.server, d, nil, true, what, whileLogging, "%a in place of %h; whyslow lookups --write-resolved puts names in later")
}

// multipliers are what makes lookups more frequent, where there are any.
func (a *auditor) multipliers() {
	if !slices.ContainsFunc(a.Findings, func(f Finding) bool { return f.Costs }) {
		return
	}
	for _, s := range a.servers {
		each(s.directives, func(d *Directive, in []*Directive) {
			f := Finding{Place: d.Place, Scope: scopeOf(s, in), When: "once a request"}
			switch {
			case d.Name == "remoteipheader" && a.Modules["remoteip_module"]:
				f.What = "mod_remoteip: the name is not kept for the connection"
			case d.Name == "protocols" && a.Modules["http2_module"] && slices.ContainsFunc(d.Args, func(p string) bool { return p == "h2" || p == "h2c" }):
				f.What = "HTTP/2: the name is looked up for each stream"
			default:
				return
			}
			a.Findings = append(a.Findings, f)
		})
	}
}

// setters are the HostnameLookups that are not Off.
func (a *auditor) setters() {
	for _, s := range a.servers {
		for _, m := range s.modes {
			if m.mode == off {
				continue
			}
			var in []*Directive
			if m.section != nil {
				in = []*Directive{m.section}
			}
			f := Finding{Place: m.d.Place, Scope: scopeOf(s, in), What: "HostnameLookups " + m.mode.String(), Double: m.mode == double, Costs: a.used[m.d]}
			if f.Costs {
				f.When, f.Change = "whenever one of the lines here asks for the name", "HostnameLookups Off"
			} else {
				f.When = "never: nothing in its scope asks for the name"
			}
			a.Findings = append(a.Findings, f)
		}
	}
}
