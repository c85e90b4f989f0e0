package archtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/whyslow/whyslow"

// layers are the packages from the lowest to the highest, by path below the
// module. A package may import those of lower layers, never one of its own
// layer or above. A name ending in "/…" stands for a whole folder, whose
// packages may import each other.
var layers = [][]string{
	{"internal/millis", "internal/stats"},
	{"internal/wire", "internal/accesslog", "internal/apacheconf"},
	{"internal/netprobe", "internal/simnet"},
	{"internal/netprobe/modelnet"},
	{"trace", "pmtu", "dnscheck", "httpcheck", "dnscheck/bulk"},
	{"dnscheck/delegation", "dnscheck/lookups"},
	{"reports"},
	{"reports/render"},
	{"internal/diagnose", "internal/live", "internal/netlab/…"},
	{"internal/demo/…"},
	{"internal/cli"},
	{"cmd/whyslow", "internal/bench"},
	{"internal/archtest"},
}

// narrower are packages that may import even less than their layer permits:
// the values are all they may import of this module. They are where the graph
// is not a stack.
var narrower = map[string][]string{
	"internal/simnet":            {"internal/wire"},
	"internal/netprobe/modelnet": {"internal/netprobe", "internal/simnet", "internal/wire"},
	"internal/netlab/…":          {"internal/simnet", "internal/wire"},
	"internal/accesslog":         {},
	"internal/apacheconf":        {},
	"dnscheck/bulk":              {},
	"dnscheck/lookups":           {"dnscheck", "dnscheck/bulk", "internal/accesslog", "internal/apacheconf", "internal/millis", "internal/stats"},
	"internal/live":              {"trace", "reports/render", "internal/millis", "internal/stats"},
	"reports":                    {"trace", "pmtu", "dnscheck", "httpcheck", "internal/millis", "internal/stats"},
	"internal/archtest":          {},
}

// pkg is what `go list -json` says of a package.
type pkg struct {
	ImportPath  string
	Dir         string
	GoFiles     []string
	Imports     []string
	TestImports []string
}

// list returns every package of the module, for one operating system, so that
// files of other platforms are seen too.
func list(t *testing.T, goos string) []pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-e", "-json=ImportPath,Dir,GoFiles,Imports,TestImports", "./...")
	cmd.Dir = root(t)
	cmd.Env = append(os.Environ(), "GOOS="+goos, "CGO_ENABLED=0")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, &stderr)
	}
	var pkgs []pkg
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("go list: %v", err)
		}
		pkgs = append(pkgs, p)
	}
	if len(pkgs) < 10 {
		t.Fatalf("go list found %d packages, which cannot be all", len(pkgs))
	}
	return pkgs
}

func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "go.mod")); err != nil {
		t.Fatalf("no go.mod where the repository should begin: %v", err)
	}
	return dir
}

// place returns a package's layer and its entry there; -1 if it has none.
func place(path string) (layer int, entry string) {
	for i, l := range layers {
		for _, e := range l {
			if path == e || matches(e, path) {
				return i, e
			}
		}
	}
	return -1, ""
}

func matches(entry, path string) bool {
	folder, ok := strings.CutSuffix(entry, "/…")
	return ok && (path == folder || strings.HasPrefix(path, folder+"/"))
}

// judge returns what is wrong with one import, "" if nothing.
func judge(from, to string) string {
	lf, ef := place(from)
	lt, et := place(to)
	switch {
	case lf < 0:
		return from + " has no layer: give it one in archtest and docs/design.md"
	case lt < 0:
		return to + " has no layer: give it one in archtest and docs/design.md"
	case ef == et:
		return "" // within one folder
	case lt == lf:
		return from + " imports its neighbour " + to
	case lt > lf:
		return from + " imports " + to + ", which lies above it"
	}
	if allowed, ok := narrower[ef]; ok && !slices.Contains(allowed, et) {
		return from + " imports " + to + "; it may import only " + strings.Join(allowed, ", ")
	}
	return ""
}

func TestImportsGoDownwards(t *testing.T) {
	for _, goos := range []string{"linux", "darwin", "windows"} {
		t.Run(goos, func(t *testing.T) {
			for _, p := range list(t, goos) {
				from := strings.TrimPrefix(p.ImportPath, module+"/")
				for _, imp := range p.Imports {
					to, ours := strings.CutPrefix(imp, module+"/")
					if !ours {
						continue
					}
					if wrong := judge(from, to); wrong != "" {
						t.Error(wrong)
					}
				}
			}
		})
	}
}

func TestJudge(t *testing.T) {
	tests := []struct {
		name     string
		from, to string
		ok       bool
	}{
		{"downwards", "internal/cli", "trace", true},
		{"upwards", "trace", "internal/diagnose", false},
		{"sideways between instruments", "trace", "pmtu", false},
		{"sideways, renderer into diagnosis", "internal/diagnose", "internal/netlab", false},
		{"model into probing", "internal/simnet", "internal/netprobe", false},
		{"judge into probing", "reports", "internal/netprobe", false},
		{"within a folder", "internal/netlab", "internal/netlab/servers", true},
		{"lab into an instrument", "internal/netlab/servers", "dnscheck", false},
		{"unknown package", "internal/util", "trace", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := judge(tt.from, tt.to); (got == "") != tt.ok {
				t.Errorf("judge(%q, %q) = %q, want fine: %v", tt.from, tt.to, got, tt.ok)
			}
		})
	}
}

// libraries are the packages another program could use: they never log, print,
// exit, read the environment or catch signals.
var libraries = []string{"trace", "pmtu", "dnscheck", "httpcheck", "reports", "reports/render",
	"internal/millis", "internal/stats", "internal/wire", "internal/netprobe", "internal/simnet", "internal/accesslog", "internal/diagnose", "internal/live"}

func TestLibrariesKeepQuiet(t *testing.T) {
	banned := []string{"os.Exit(", "os.Getenv(", "os.LookupEnv(", "os.Stdout", "os.Stderr",
		"fmt.Print(", "fmt.Printf(", "fmt.Println(", "log.Print", "log.Fatal", "signal.Notify", "func init()"}
	for _, p := range list(t, "linux") {
		path := strings.TrimPrefix(p.ImportPath, module+"/")
		if !slices.Contains(libraries, path) {
			continue
		}
		for _, imp := range p.Imports {
			if slices.Contains([]string{"log", "log/slog", "testing", "flag"}, imp) {
				t.Errorf("%s imports %s", path, imp)
			}
		}
		for _, name := range p.GoFiles {
			src, err := os.ReadFile(filepath.Join(p.Dir, name))
			if err != nil {
				t.Fatal(err)
			}
			for n, line := range strings.Split(string(src), "\n") {
				code, _, _ := strings.Cut(line, "//")
				for _, b := range banned {
					if strings.Contains(code, b) {
						t.Errorf("%s/%s:%d: %s in a library", path, name, n+1, b)
					}
				}
			}
		}
	}
}

func TestNoPackageImportsTesting(t *testing.T) {
	for _, p := range list(t, "linux") {
		path := strings.TrimPrefix(p.ImportPath, module+"/")
		if strings.HasSuffix(path, "test") {
			continue // a package of helpers for tests
		}
		if slices.Contains(p.Imports, "testing") {
			t.Errorf("%s imports testing outside its tests", path)
		}
	}
}

func TestTopLevel(t *testing.T) {
	agreed := []string{"cmd", "trace", "dnscheck", "pmtu", "httpcheck", "reports", "internal", "docs",
		"go.mod", "go.sum", "README.md", "LICENSE", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"}
	entries, err := os.ReadDir(root(t))
	if err != nil {
		t.Fatal(err)
	}
	tracked := trackedTop(t)
	for _, e := range entries {
		name := e.Name()
		if strings.HasPrefix(name, ".") || slices.Contains(agreed, name) {
			continue
		}
		if tracked == nil || slices.Contains(tracked, name) {
			t.Errorf("%s: not among the agreed entries at the top", name)
		}
	}
}

// trackedTop returns the top-level entries that git knows, nil outside a
// repository: a binary just built lies around without belonging.
func trackedTop(t *testing.T) []string {
	t.Helper()
	cmd := exec.Command("git", "ls-tree", "--name-only", "HEAD")
	cmd.Dir = root(t)
	out, err := cmd.Output()
	if err != nil {
		return nil
	}
	return strings.Fields(string(out))
}
