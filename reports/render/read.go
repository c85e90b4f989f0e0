package render

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/whyslow/whyslow/reports"
)

const (
	// maxReport bounds a saved report, in bytes.
	maxReport = 16 << 20
	// maxValues bounds the values in it. An empty element takes three bytes in
	// the file and a kilobyte in memory.
	maxValues = 1 << 17
)

// ReadReport reads what JSON has written. It refuses more than 16 MiB, another
// schema, and a value that no report can hold, and says where that value
// stands. Keys it does not know are skipped: a later version may add some.
func ReadReport(r io.Reader) (*reports.Report, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxReport+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("render: reading report: %w", err)
	case len(b) > maxReport:
		return nil, fmt.Errorf("render: reading report: longer than %d MiB", maxReport>>20)
	case countValues(b) > maxValues:
		return nil, fmt.Errorf("render: reading report: more than %d values", maxValues)
	}
	var head struct {
		Schema *string `json:"schema"`
	}
	if err := json.Unmarshal(b, &head); err != nil {
		return nil, fmt.Errorf("render: reading report: %w", placeError(b, &reports.Report{}, err))
	}
	if head.Schema == nil {
		return nil, fmt.Errorf("render: reading report: schema: missing, want %q", reports.Schema)
	}
	if *head.Schema != reports.Schema {
		return nil, fmt.Errorf("render: reading report: schema: %q, want %q", Terminal(*head.Schema, 60), reports.Schema)
	}
	rep := new(reports.Report)
	if err := json.Unmarshal(b, rep); err != nil {
		return nil, fmt.Errorf("render: reading report: %w", placeError(b, rep, err))
	}
	if err := checkReport(rep); err != nil {
		return nil, fmt.Errorf("render: reading report: %w", err)
	}
	return rep, nil
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
	if !share(v.Confidence) {
		return fmt.Errorf("verdict.confidence: %v, want 0 to 1", v.Confidence)
	}
	for i, b := range v.Blame {
		switch {
		case !slices.Contains(layers, b.Layer):
			return fmt.Errorf("verdict.blame[%d].layer: %q, want one of %q", i, Terminal(string(b.Layer), 40), layers)
		case !share(b.Share):
			return fmt.Errorf("verdict.blame[%d].share: %v, want 0 to 1", i, b.Share)
		}
	}
	if t := r.Trace; t != nil {
		for i, h := range t.Hops {
			if h.TTL < 1 || h.TTL > 255 {
				return fmt.Errorf("trace.hops[%d].ttl: %d, want 1 to 255", i, h.TTL)
			}
			if !share(h.Loss) {
				return fmt.Errorf("trace.hops[%d].loss: %v, want 0 to 1", i, h.Loss)
			}
		}
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
