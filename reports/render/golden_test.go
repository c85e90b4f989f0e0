package render_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whyslow/whyslow/reports"
	"github.com/whyslow/whyslow/reports/render"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// samples returns the names of the sample reports.
func samples(t testing.TB) []string {
	t.Helper()
	paths, err := filepath.Glob("testdata/*.json")
	if err != nil || len(paths) == 0 {
		t.Fatalf("sample reports: %v, %v", paths, err)
	}
	for i, p := range paths {
		paths[i] = strings.TrimSuffix(p, ".json")
	}
	return paths
}

func readSample(t testing.TB, name string) *reports.Report {
	t.Helper()
	f, err := os.Open(name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := render.ReadReport(f)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

// The samples are in the form that is written. More keys are welcome as the
// instruments learn more; those that are there stay.
func TestGoldenJSON(t *testing.T) {
	for _, name := range samples(t) {
		got := mustJSON(t, readSample(t, name))
		if *update {
			golden(t, name+".json", got)
			continue
		}
		b, err := os.ReadFile(name + ".json")
		if err != nil {
			t.Fatal(err)
		}
		var wantAny, gotAny any
		if err := errors.Join(json.Unmarshal(b, &wantAny), json.Unmarshal(got, &gotAny)); err != nil {
			t.Fatal(err)
		}
		for _, missing := range lacks("", wantAny, gotAny) {
			t.Errorf("%s%s is not written as it was read", name, missing)
		}
	}
}

// lacks returns the paths of the values of want that got has not.
func lacks(path string, want, got any) []string {
	var out []string
	switch want := want.(type) {
	case map[string]any:
		m, ok := got.(map[string]any)
		if !ok {
			return []string{path}
		}
		for key, val := range want {
			if _, ok := m[key]; !ok {
				out = append(out, path+"."+key)
				continue
			}
			out = append(out, lacks(path+"."+key, val, m[key])...)
		}
	case []any:
		l, ok := got.([]any)
		if !ok || len(l) != len(want) {
			return []string{path}
		}
		for i, val := range want {
			out = append(out, lacks(fmt.Sprintf("%s[%d]", path, i), val, l[i])...)
		}
	default:
		if want != got {
			return []string{path}
		}
	}
	return out
}

func TestGolden(t *testing.T) {
	forms := []struct {
		suffix string
		write  render.Func
		opt    render.Options
	}{
		{".txt", render.Text, render.Options{}},
		{".verbose.txt", render.Text, render.Options{Width: 120, Verbose: true}},
		{".md", render.Markdown, render.Options{}},
		{".html", render.HTML, render.Options{}},
	}
	for _, name := range samples(t) {
		for _, form := range forms {
			t.Run(filepath.Base(name)+form.suffix, func(t *testing.T) {
				var b bytes.Buffer
				if err := form.write(&b, readSample(t, name), form.opt); err != nil {
					t.Fatal(err)
				}
				golden(t, name+form.suffix, b.Bytes())
			})
		}
	}
}
