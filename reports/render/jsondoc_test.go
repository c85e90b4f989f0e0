package render_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"net/netip"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/whyslow/whyslow/reports/render"
)

// documented is what docs/json.md says of the keys of one type.
type documented map[string]struct {
	value string
	maybe bool // absent if empty
}

// readDocument reads the tables of docs/json.md, by type.
func readDocument(t testing.TB) map[string]documented {
	t.Helper()
	b, err := os.ReadFile("../../docs/json.md")
	if err != nil {
		t.Fatal(err)
	}
	types := map[string]documented{}
	var name string
	row := regexp.MustCompile("^\\| `([^`]+)` \\| (.*?)(; absent if empty)? \\| .* \\|$")
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSpace(line)
		if heading, ok := strings.CutPrefix(line, "### "); ok {
			name = heading
			types[name] = documented{}
		} else if m := row.FindStringSubmatch(line); m != nil && name != "" {
			d := types[name][m[1]]
			d.value, d.maybe = m[2], m[3] != ""
			types[name][m[1]] = d
		}
	}
	return types
}

// differences says where a value is not what the document says of its type.
func differences(types map[string]documented, path, value string, v any) []string {
	wrong := []string{fmt.Sprintf("%s: %v is no %s", path, v, value)}
	if inner, ok := strings.CutSuffix(value, " or null"); ok && !strings.HasPrefix(value, "list of ") {
		if v == nil {
			return nil
		}
		return differences(types, path, inner, v)
	}
	if inner, ok := strings.CutPrefix(value, "list of "); ok {
		list, ok := v.([]any)
		if !ok {
			return wrong
		}
		var out []string
		for _, one := range list {
			out = append(out, differences(types, path+"[]", inner, one)...)
		}
		return out
	}
	if inner, ok := strings.CutPrefix(value, "object of "); ok {
		object, ok := v.(map[string]any)
		if !ok {
			return wrong
		}
		var out []string
		for key, one := range object {
			out = append(out, differences(types, path+"."+key, inner, one)...)
		}
		return out
	}
	if isScalar(value, v) {
		return nil
	}
	keys, known := types[value]
	object, ok := v.(map[string]any)
	if !known || !ok {
		return wrong
	}
	var out []string
	for key, one := range object {
		if d, ok := keys[key]; ok {
			out = append(out, differences(types, path+"."+key, d.value, one)...)
		} else {
			out = append(out, fmt.Sprintf("%s.%s is not documented", path, key))
		}
	}
	for key, d := range keys {
		if _, ok := object[key]; !ok && !d.maybe {
			out = append(out, fmt.Sprintf("%s.%s is absent", path, key))
		}
	}
	return out
}

// isScalar reports whether v is what the document calls value.
func isScalar(value string, v any) bool {
	switch v := v.(type) {
	case string:
		switch value {
		case "time":
			_, err := time.Parse(time.RFC3339Nano, v)
			return err == nil
		case "address":
			_, err := netip.ParseAddr(v)
			return v == "" || err == nil
		}
		return value == "string"
	case bool:
		return value == "bool"
	case float64:
		return value == "number" || value == "ms" || value == "integer" && v == math.Trunc(v)
	}
	return false
}

// The document is made from the types; this holds what is written against it:
// names, types, what is absent and what is null.
func TestJSONIsAsDocumented(t *testing.T) {
	types := readDocument(t)
	if len(types) < 30 {
		t.Fatalf("%d types in the document", len(types))
	}
	for _, name := range samples(t) {
		r := readSample(t, name)
		check := func(what, typ, out string) {
			var v any
			if err := json.Unmarshal([]byte(out), &v); err != nil {
				t.Fatal(err)
			}
			for _, d := range differences(types, what, typ, v) {
				t.Errorf("%s: %s", name, d)
			}
		}
		var b bytes.Buffer
		if err := render.JSON(&b, r, render.Options{}); err != nil {
			t.Fatal(err)
		}
		check("report", "reports.Report", b.String())
		if r.HTTP == nil || r.DNS == nil || r.Trace == nil || r.PMTU == nil {
			continue
		}
		eachSingle(t, r, func(instrument, form, out string) {
			if form == "json" {
				typ := map[string]string{"trace": "trace.Result", "pmtu": "pmtu.Result", "dns": "dnscheck.Result", "http": "httpcheck.Result"}
				check(instrument, typ[instrument], out)
			}
		})
	}
}
