package cli

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The JSON forms are documented where they are defined: docs/json.md repeats,
// below its marker, the keys of the result types with their comments. This
// test keeps the two the same; UPDATE_GOLDEN=1 rewrites the document.
func TestJSONDocument(t *testing.T) {
	const document, marker = "../../docs/json.md", "<!-- The rest is made from the comments of the types. -->\n"
	doc, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	head, _, ok := strings.Cut(string(doc), marker)
	if !ok {
		t.Fatalf("%s has no marker", document)
	}
	want := head + marker
	for _, s := range []struct{ title, schema, dir, root string }{
		{"Report", "whyslow/report/1", "reports", "Report"},
		{"Trace", "whyslow/trace/1", "trace", "Result"},
		{"Path MTU", "whyslow/pmtu/1", "pmtu", "Result"},
		{"DNS", "whyslow/dns/1", "dnscheck", "Result"},
		{"Lookups", "whyslow/lookups/1", "dnscheck/lookups", "Result"},
		{"HTTP", "whyslow/http/1", "httpcheck", "Result"},
	} {
		want += fmt.Sprintf("\n## %s: `%s`\n", s.title, s.schema) + tables(t, s.dir, s.root)
	}
	if os.Getenv("UPDATE_GOLDEN") == "1" {
		if err := os.WriteFile(document, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, string(doc)); diff != "" {
		t.Errorf("%s differs from the types; UPDATE_GOLDEN=1 rewrites it (-types +document):\n%s", document, diff)
	}
}

// tables lists the fields of a type, then of the types it refers to.
func tables(t *testing.T, dir, root string) string {
	types := structs(t, dir)
	var b strings.Builder
	queue, seen := []string{root}, map[string]bool{root: true}
	for len(queue) > 0 {
		name := queue[0]
		queue = queue[1:]
		fmt.Fprintf(&b, "\n### %s.%s\n\n| key | value | meaning |\n|---|---|---|\n", path.Base(dir), name)
		for _, f := range types[name].Fields.List {
			if f.Tag == nil {
				continue
			}
			tag := reflect.StructTag(strings.Trim(f.Tag.Value, "`")).Get("json")
			key, opts, _ := strings.Cut(tag, ",")
			if key == "" || key == "-" {
				continue
			}
			value, refers := describe(f.Type, dir, types)
			if strings.Contains(opts, "omit") {
				value += "; absent if empty"
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", key, value, meaning(f))
			if refers != "" && !seen[refers] {
				seen[refers] = true
				queue = append(queue, refers)
			}
		}
	}
	return b.String()
}

// structs parses the struct types of a package.
func structs(t *testing.T, dir string) map[string]*ast.StructType {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("../..", dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]*ast.StructType{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok {
				if st, ok := spec.Type.(*ast.StructType); ok {
					found[spec.Name.Name] = st
				}
			}
			return true
		})
	}
	return found
}

// describe says how a Go type looks in JSON, and which type of the same
// package it refers to.
func describe(e ast.Expr, dir string, types map[string]*ast.StructType) (value, refers string) {
	switch e := e.(type) {
	case *ast.StarExpr:
		value, refers = describe(e.X, dir, types)
		return value + " or null", refers
	case *ast.ArrayType:
		value, refers = describe(e.Elt, dir, types)
		return "list of " + value, refers
	case *ast.MapType:
		value, refers = describe(e.Value, dir, types)
		return "object of " + value, refers
	case *ast.SelectorExpr:
		pkg := e.X.(*ast.Ident).Name
		switch pkg + "." + e.Sel.Name {
		case "millis.Value":
			return "ms or null", ""
		case "time.Time":
			return "time", ""
		case "netip.Addr":
			return "address", ""
		}
		return pkg + "." + e.Sel.Name, ""
	case *ast.Ident:
		switch {
		case types[e.Name] != nil:
			return path.Base(dir) + "." + e.Name, e.Name
		case e.Name == "bool" || e.Name == "string":
			return e.Name, ""
		case strings.HasPrefix(e.Name, "int") || strings.HasPrefix(e.Name, "uint"):
			return "integer", ""
		case e.Name == "float64" || e.Name == "Estimate":
			return "number", ""
		case e.Name == "Layer":
			return "string", ""
		}
		return e.Name, ""
	}
	return "?", ""
}

// meaning is a field's comment on one line of a Markdown table.
func meaning(f *ast.Field) string {
	text := f.Doc.Text()
	if text == "" {
		text = f.Comment.Text()
	}
	return strings.ReplaceAll(strings.Join(strings.Fields(text), " "), "|", `\|`)
}
