package render

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/whyslow/whyslow/dnscheck"
	"github.com/whyslow/whyslow/dnscheck/lookups"
	"github.com/whyslow/whyslow/httpcheck"
	"github.com/whyslow/whyslow/pmtu"
	"github.com/whyslow/whyslow/reports"
	"github.com/whyslow/whyslow/trace"
)

const (
	// maxReport bounds a saved report, in bytes.
	maxReport = 16 << 20
	// maxValues bounds the values in it. An empty element takes three bytes in
	// the file and a kilobyte in memory.
	maxValues = 1 << 17
)

// mostMS bounds the milliseconds of a cause: a year. No measurement takes as
// long, and what is larger would be printed with hundreds of digits.
const mostMS = 366 * 24 * 3600 * 1000

// ReadReport reads what JSON has written. It refuses more than 16 MiB, another
// schema, and a value that no report can hold, and says where that value
// stands. Keys it does not know are skipped: a later version may add some.
func ReadReport(r io.Reader) (*reports.Report, error) {
	rep, err := read[reports.Report](r, reports.Schema)
	if err == nil {
		err = checkReport(rep)
	}
	if err != nil {
		return nil, fmt.Errorf("render: reading report: %w", err)
	}
	return rep, nil
}

// ReadResult is ReadReport for the result of a single instrument, T, with its
// schema.
func ReadResult[T any](r io.Reader, schema string) (*T, error) {
	v, err := read[T](r, schema)
	if err != nil {
		return nil, fmt.Errorf("render: reading result: %w", err)
	}
	return v, nil
}

// members are those without which a single instrument's result says nothing.
// Of a report checkReport knows.
func members(schema string) []string {
	switch schema {
	case trace.Schema:
		return []string{"target", "hops"}
	case pmtu.Schema:
		return []string{"target", "mtu"}
	case dnscheck.Schema:
		return []string{"name", "stub"}
	case httpcheck.Schema:
		return []string{"url", "samples"}
	}
	return nil
}

func read[T any](r io.Reader, schema string) (*T, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxReport+1))
	switch {
	case err != nil:
		return nil, err
	case len(b) > maxReport:
		return nil, fmt.Errorf("longer than %d MiB", maxReport>>20)
	case countValues(b) > maxValues:
		return nil, fmt.Errorf("more than %d values", maxValues)
	}
	v := new(T)
	var head struct {
		Schema *string `json:"schema"`
	}
	if err := json.Unmarshal(b, &head); err != nil {
		return nil, placeError(b, v, err)
	}
	if head.Schema == nil {
		return nil, fmt.Errorf("schema: missing, want %q", schema)
	}
	if *head.Schema != schema {
		return nil, fmt.Errorf("schema: %q, want %q", Terminal(*head.Schema, 60), schema)
	}
	var given map[string]json.RawMessage
	if err := json.Unmarshal(b, &given); err != nil {
		return nil, placeError(b, v, err)
	}
	for _, name := range members(schema) {
		if _, ok := given[name]; !ok {
			return nil, fmt.Errorf("%s: missing", name)
		}
	}
	if err := json.Unmarshal(b, v); err != nil {
		return nil, placeError(b, v, err)
	}
	return v, checkNumbers("", reflect.ValueOf(v))
}

// checkReport refuses what the types allow and the contract does not.
func checkReport(r *reports.Report) error {
	layers := []reports.Layer{reports.Network, reports.DNS, reports.Server, reports.Client, reports.None, reports.Inconclusive}
	v := &r.Verdict
	switch {
	case r.Started.IsZero():
		return errors.New("started: missing")
	case v.Layer == "" && r.Interrupted: // cut short before there was a verdict
	case !slices.Contains(layers, v.Layer):
		return fmt.Errorf("verdict.layer: %q, want one of %q", Terminal(string(v.Layer), 40), layers)
	}
	for i, b := range v.Blame {
		if !slices.Contains(layers, b.Layer) {
			return fmt.Errorf("verdict.blame[%d].layer: %q, want one of %q", i, Terminal(string(b.Layer), 40), layers)
		}
	}
	return nil
}

// hopTTL is the path of the TTL of a hop, in a report and in a trace.
var hopTTL = regexp.MustCompile(`^(trace\.)?hops\[\d+\]\.ttl$`)

// checkNumbers refuses numbers that the types allow and nothing measured can
// be. It returns the path of the first.
func checkNumbers(path string, v reflect.Value) error {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			return checkNumbers(path, v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			if err := checkNumbers(fmt.Sprintf("%s[%d]", path, i), v.Index(i)); err != nil {
				return err
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			if name == "" { // not of the JSON form, or of a type with a form of its own
				continue
			}
			if err := checkNumbers(strings.TrimPrefix(path+"."+name, "."), v.Field(i)); err != nil {
				return err
			}
		}
	case reflect.Map:
		for _, key := range slices.Sorted(maps.Keys(keys(v))) {
			if err := checkNumbers(path+"."+Terminal(key, 40), v.MapIndex(reflect.ValueOf(key))); err != nil {
				return err
			}
		}
	case reflect.Float64:
		if v.Type() == reflect.TypeFor[lookups.Estimate]() {
			if x := v.Float(); math.IsNaN(x) || x < 0 || x > 1e18 {
				return fmt.Errorf("%s: %v, want a number from 0 on", path, x)
			}
			return nil
		}
		return checkFloat(path, v.Float())
	case reflect.Int:
		if n := v.Int(); hopTTL.MatchString(path) && (n < 1 || n > 255) {
			return fmt.Errorf("%s: %d, want 1 to 255", path, n)
		}
	}
	return nil
}

// keys are those of a map with text for keys.
func keys(v reflect.Value) map[string]bool {
	out := map[string]bool{}
	for _, k := range v.MapKeys() {
		if k.Kind() == reflect.String {
			out[k.String()] = true
		}
	}
	return out
}

// checkFloat knows the two kinds of numbers with fractions there are:
// milliseconds and shares.
func checkFloat(path string, x float64) error {
	switch key := path[strings.LastIndexByte(path, '.')+1:]; {
	case key == "ms" || strings.HasSuffix(key, "_ms"):
		if math.IsNaN(x) || math.Abs(x) > mostMS {
			return fmt.Errorf("%s: %v is out of range, want at most %d", path, x, mostMS)
		}
	case !share(x):
		return fmt.Errorf("%s: %v, want 0 to 1", path, x)
	}
	return nil
}

// share reports whether x is a share or probability. Sums of shares may pass 1
// by rounding.
func share(x float64) bool { return !math.IsNaN(x) && x >= 0 && x <= 1+1e-9 }

// countValues returns how many values the JSON text b can hold at most, without
// allocating any.
func countValues(b []byte) int {
	n, inString := 1, false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case !inString && (c == ',' || c == '[' || c == '{'):
			n++
		}
	}
	return n
}

// placeError adds to an error of json.Unmarshal where it happened: a line and
// column if b is not JSON, the path of the value if it does not fit v.
func placeError(b []byte, v any, err error) error {
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		before := b[:min(int(syntax.Offset), len(b))]
		line := 1 + bytes.Count(before, []byte("\n"))
		column := len(before) - (bytes.LastIndexByte(before, '\n') + 1)
		return fmt.Errorf("line %d, column %d: %w", line, max(column, 1), err)
	}
	if path, inner := locate(b, v); inner != nil {
		return fmt.Errorf("%s: %w", Terminal(path, 200), inner)
	}
	return err
}
