package apacheconf

import (
	"io/fs"
	"path"
	"strings"
)

// walkHtaccess reads the .htaccess files below the document roots where
// AllowOverride permits any.
func (r *reader) walkHtaccess() {
	name := ".htaccess"
	var roots []string
	each(r.Directives, func(d *Directive, _ []*Directive) {
		switch {
		case len(d.Args) == 0:
		case d.Name == "accessfilename":
			name = d.Args[0]
		case d.Name == "documentroot":
			roots = append(roots, r.abs(d.Args[0]))
		}
	})
	seen, left := map[string]bool{}, maxWalked
	for _, root := range roots {
		_ = fs.WalkDir(r.opt.FS, rel(root), func(p string, e fs.DirEntry, err error) error {
			if left--; left < 0 {
				return fs.SkipAll
			}
			dir := "/" + path.Dir(p)
			if err != nil || e.IsDir() || e.Name() != name || seen[p] || !r.overrides(dir) {
				return nil
			}
			seen[p] = true
			section := &Directive{Name: "htaccess", Args: []string{dir}, Raw: dir, Place: Place{"/" + p, 1}, Section: true}
			if err := r.file("/"+p, section, maxDepth); err != nil {
				r.warn(section.Place, "not read: %v", err)
			}
			r.htaccess = append(r.htaccess, section)
			return nil
		})
	}
	if left < 0 {
		r.Warnings = append(r.Warnings, "not all directories were searched for "+name)
	}
}

// overrides says whether .htaccess counts in a directory: the AllowOverride of
// the longest path that holds it. None is the default of 2.4. Directories given
// by a pattern are taken to permit it if they permit anything.
func (r *reader) overrides(dir string) bool {
	longest, allowed := -1, false
	each(r.Directives, func(d *Directive, in []*Directive) {
		if d.Name != "allowoverride" || len(in) == 0 || len(d.Args) == 0 {
			return
		}
		may := !strings.EqualFold(d.Args[0], "none")
		sec := in[len(in)-1]
		if len(sec.Args) == 0 {
			return
		}
		p := sec.Args[0]
		if sec.Name == "directorymatch" || strings.ContainsAny(p, "*?[~") {
			allowed = allowed || may
			return
		}
		p = strings.TrimSuffix(path.Clean(p), "/")
		if sec.Name == "directory" && (dir == p || strings.HasPrefix(dir, p+"/")) && len(p) >= longest {
			longest, allowed = len(p), may
		}
	})
	return allowed
}
