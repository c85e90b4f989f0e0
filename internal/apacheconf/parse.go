package apacheconf

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
)

// static are the modules that builds of distributions have compiled in.
var static = []string{"core_module", "so_module", "http_module", "http_core_module", "log_config_module", "logio_module", "version_module", "unixd_module", "watchdog_module"}

// reader is what has been read so far: httpd's state while it reads.
type reader struct {
	*Config
	opt     Options
	defines map[string]string
	macros  map[string]macro
	files   int
	bytes   int
	count   int
	full    bool
}

type macro struct {
	params []string
	body   []line
	file   string
}

// frame is an open section. A frame that is skipped has no node.
type frame struct {
	name  string
	place Place
	node  *Directive // nil: contents belong to the frame below
	skip  bool
}

// Read reads a configuration file, given by its absolute path. The error says
// that this file itself cannot be read; all else is a warning.
func Read(file string, opt Options) (*Config, error) {
	if opt.FS == nil || !path.IsAbs(file) {
		return nil, fmt.Errorf("apacheconf: reading %s: an absolute path and a file system are needed", file)
	}
	if opt.Version == "" {
		opt.Version = "2.4.62"
	}
	r := &reader{Config: &Config{Modules: map[string]bool{}, ServerRoot: path.Dir(file)}, opt: opt,
		defines: map[string]string{}, macros: map[string]macro{}}
	for _, m := range static {
		r.Modules[m] = true
	}
	for _, d := range opt.Defines {
		r.defines[d] = ""
	}
	root := &Directive{}
	if err := r.file(path.Clean(file), root, 0); err != nil {
		return nil, fmt.Errorf("apacheconf: reading %s: %w", file, err)
	}
	r.Directives = root.Children
	if !opt.NoHtaccess {
		r.walkHtaccess()
	}
	return r.Config, nil
}

func (r *reader) warn(p Place, format string, args ...any) {
	if len(r.Warnings) < maxWarnings {
		r.Warnings = append(r.Warnings, p.String()+": "+fmt.Sprintf(format, args...))
	}
}

// text reads one file within the bounds.
func (r *reader) text(file string) (string, error) {
	if r.files++; r.files > maxFiles {
		return "", fmt.Errorf("more than %d files", maxFiles)
	}
	name := rel(file)
	st, err := fs.Stat(r.opt.FS, name)
	if err != nil {
		return "", cause(err)
	}
	if !st.Mode().IsRegular() {
		return "", errors.New("not a regular file")
	}
	f, err := r.opt.FS.Open(name)
	if err != nil {
		return "", cause(err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return "", cause(err)
	}
	if r.bytes += len(b); len(b) > maxFile || r.bytes > maxBytes {
		return "", errors.New("too long")
	}
	return string(b), nil
}

// cause leaves out the path, which the message names already.
func cause(err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err
	}
	return err
}

func rel(p string) string {
	if p = strings.TrimPrefix(path.Clean("/"+p), "/"); p != "" {
		return p
	}
	return "."
}

// abs makes a path absolute, from the ServerRoot.
func (c *Config) abs(p string) string {
	if !path.IsAbs(p) {
		p = path.Join(c.ServerRoot, p)
	}
	return path.Clean(p)
}

func (r *reader) file(file string, into *Directive, depth int) error {
	text, err := r.text(file)
	if err != nil {
		return err
	}
	r.lines(file, logical(text), into, depth)
	return nil
}

// lines reads the lines of a file or a macro.
func (r *reader) lines(file string, lines []line, into *Directive, depth int) {
	stack := []frame{{node: into}}
	for i := 0; i < len(lines); i++ {
		l := lines[i]
		at := Place{file, l.number}
		if r.count++; r.count > maxDirectives {
			if !r.full {
				r.warn(at, "more than %d lines; the rest is not read", maxDirectives)
			}
			r.full = true
			return
		}
		if len(l.text) > maxLine {
			r.warn(at, "the line is too long and not read")
			continue
		}
		top := stack[len(stack)-1]
		if name, ok := strings.CutPrefix(l.text, "</"); ok {
			name = strings.ToLower(strings.TrimSuffix(strings.TrimSpace(name), ">"))
			if len(stack) == 1 || top.name != name {
				r.warn(at, "</%s> closes no open section", name)
				continue
			}
			stack = stack[:len(stack)-1]
			continue
		}
		if !strings.HasPrefix(l.text, "<") {
			if !top.skip {
				r.directive(at, l.text, top.node, depth)
			}
			continue
		}
		text := strings.TrimPrefix(l.text, "<")
		if inner, ok := strings.CutSuffix(text, ">"); ok {
			text = inner
		} else {
			r.warn(at, "the section has no closing >")
		}
		f := frame{name: firstWord(text), place: at, node: top.node, skip: top.skip}
		if f.name == "macro" && !f.skip {
			i = r.define(file, lines, i, text)
			continue
		}
		switch {
		case f.skip:
		case len(stack) > maxSections:
			r.warn(at, "more than %d sections in each other; this one is not read", maxSections)
			f.skip = true
		default:
			r.open(&f, text)
		}
		stack = append(stack, f)
	}
	for _, f := range stack[1:] {
		r.warn(f.place, "<%s> is never closed", f.name)
	}
}

func firstWord(s string) string {
	name, _ := split(s)
	return strings.ToLower(name)
}

func split(s string) (name, rest string) {
	s = strings.TrimSpace(s)
	if i := strings.IndexAny(s, " \t"); i >= 0 {
		return s[:i], strings.TrimSpace(s[i:])
	}
	return s, ""
}

// open begins a section: conditions that httpd decides as it reads are decided
// here.
func (r *reader) open(f *frame, text string) {
	written, rest := split(text)
	rest = r.expand(f.place, rest)
	arg, not := strings.CutPrefix(strings.Trim(rest, `"`), "!")
	switch f.name {
	case "ifmodule":
		f.skip = r.Modules[moduleName(arg)] == not
	case "ifdefine":
		_, have := r.defines[arg]
		f.skip = have == not
	case "iffile":
		_, err := fs.Stat(r.opt.FS, rel(r.abs(arg)))
		f.skip = (err == nil) == not
	case "ifversion":
		holds, known := ifVersion(words(rest), r.opt.Version)
		if !known {
			r.warn(f.place, "<IfVersion %s> is not understood and taken to hold", rest)
		}
		f.skip = !holds
	default:
		d := &Directive{Name: f.name, Written: written, Args: words(rest), Raw: rest, Place: f.place, Section: true}
		f.node.Children = append(f.node.Children, d)
		f.node = d
	}
}

// moduleName brings mod_x.c and x.c (of the MPMs) to x_module.
func moduleName(s string) string {
	base, ok := strings.CutSuffix(s, ".c")
	switch base {
	case "event", "worker", "prefork":
		base = "mpm_" + base
	}
	if !ok {
		return s
	}
	return strings.TrimPrefix(base, "mod_") + "_module"
}

// expand replaces ${NAME}; unknown names stay as they are, as in httpd.
func (r *reader) expand(at Place, s string) string {
	if !strings.Contains(s, "${") {
		return s
	}
	var b strings.Builder
	for b.Len() < maxLine {
		before, after, ok := strings.Cut(s, "${")
		b.WriteString(before)
		if !ok {
			break
		}
		name, rest, closed := strings.Cut(after, "}")
		v, have := r.defines[name]
		if !have {
			v, have = r.opt.Env[name]
		}
		switch {
		case !closed:
			b.WriteString("${" + after)
			return b.String()
		case have:
			b.WriteString(v)
		default:
			// ${name:arg} is a RewriteMap.
			if !strings.Contains(name, ":") {
				r.warn(at, "${%s} is not defined", name)
			}
			b.WriteString("${" + name + "}")
		}
		s = rest
	}
	return b.String()
}

func (r *reader) directive(at Place, text string, into *Directive, depth int) {
	name, rest := split(text)
	rest = r.expand(at, rest)
	// Variables may make much of little.
	if r.bytes += len(rest) - len(text); r.bytes > maxBytes {
		r.count = maxDirectives
	}
	d := &Directive{Name: strings.ToLower(name), Written: name, Args: words(rest), Raw: rest, Place: at}
	arg := func(i int) string {
		if i < len(d.Args) {
			return d.Args[i]
		}
		return ""
	}
	switch d.Name {
	case "define":
		r.defines[arg(0)] = arg(1)
	case "undefine":
		delete(r.defines, arg(0))
	case "loadmodule":
		r.Modules[arg(0)] = true
	case "include", "includeoptional":
		for _, pattern := range d.Args {
			r.include(at, pattern, d.Name == "include", into, depth)
		}
	case "use":
		r.use(at, d.Args, into, depth)
	case "serverroot":
		r.ServerRoot = path.Clean("/" + arg(0))
		fallthrough
	default:
		into.Children = append(into.Children, d)
	}
}

// include reads what a path or a pattern names; a directory with all below it.
func (r *reader) include(at Place, pattern string, must bool, into *Directive, depth int) {
	if depth >= maxDepth {
		r.warn(at, "more than %d files include each other", maxDepth)
		return
	}
	files := []string{rel(r.abs(pattern))}
	if strings.ContainsAny(pattern, "*?[") {
		var err error
		if files, err = fs.Glob(r.opt.FS, files[0]); err != nil {
			r.warn(at, "%s: %v", pattern, err)
		}
	}
	found := false
	for _, f := range files {
		_ = fs.WalkDir(r.opt.FS, f, func(p string, e fs.DirEntry, err error) error {
			if r.full || r.files > maxFiles {
				return fs.SkipAll
			}
			if err == nil && e.IsDir() {
				found = true
				return nil
			}
			if err == nil {
				err = r.file("/"+p, into, depth+1)
			}
			found = found || err == nil
			// What a pattern found but cannot be read is said in any case.
			if err != nil && (must || !errors.Is(err, fs.ErrNotExist)) {
				r.warn(at, "cannot include /%s: %v", p, cause(err))
				found = true
			}
			return nil
		})
	}
	if !found && must {
		r.warn(at, "nothing matches %s", pattern)
	}
}

// define keeps a macro and returns the index of its end.
func (r *reader) define(file string, lines []line, i int, text string) int {
	args := words(text)
	end := i + 1
	for end < len(lines) && !strings.EqualFold(strings.ReplaceAll(lines[end].text, " ", ""), "</macro>") {
		end++
	}
	at := Place{file, lines[i].number}
	if end == len(lines) {
		r.warn(at, "<macro> is never closed")
	}
	if len(args) < 2 {
		r.warn(at, "the macro has no name")
		return end
	}
	r.macros[strings.ToLower(args[1])] = macro{args[2:], lines[i+1 : end], file}
	return end
}

// use puts a macro's lines in, the longest parameter names replaced first.
func (r *reader) use(at Place, args []string, into *Directive, depth int) {
	if len(args) == 0 {
		r.warn(at, "Use names no macro")
		return
	}
	m, ok := r.macros[strings.ToLower(args[0])]
	if !ok || len(m.params) != len(args)-1 {
		r.warn(at, "Use %s: no macro of this name with %d arguments", args[0], len(args)-1)
		return
	}
	if depth >= maxDepth {
		r.warn(at, "more than %d macros use each other", maxDepth)
		return
	}
	values, longest := map[string]string{}, 0
	for i, p := range m.params {
		if p != "" {
			values[p] = args[i+1]
			longest = max(longest, len(args[i+1]))
		}
	}
	var pairs []string
	for _, p := range slices.SortedFunc(maps.Keys(values), func(a, b string) int { return len(b) - len(a) }) {
		pairs = append(pairs, p, values[p])
	}
	replace := strings.NewReplacer(pairs...)
	body := make([]line, 0, len(m.body))
	for _, l := range m.body {
		// A parameter may be a single letter, its value a page.
		if r.bytes += len(l.text); len(l.text)*(longest+1) > maxFile || r.bytes > maxBytes {
			r.warn(at, "Use %s: too long when put in", args[0])
			break
		}
		l.text = replace.Replace(l.text)
		r.bytes += len(l.text)
		body = append(body, l)
	}
	r.lines(m.file, body, into, depth+1)
}
