package render

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/whyslow/whyslow/reports"
)

// JSON writes the report as the contract has it: indented by two spaces, keys
// in the order of the structs, null for what was not measured, never null for
// a list.
func JSON(w io.Writer, r *reports.Report, _ Options) error {
	c := *r
	if c.Schema == "" {
		c.Schema = reports.Schema
	}
	return writeJSON(w, &c)
}

// writeJSON writes v in the same way.
func writeJSON[T any](w io.Writer, v *T) error {
	b, err := json.MarshalIndent(rewrite(v, func(s string) string { return s }), "", "  ")
	if err != nil {
		return fmt.Errorf("render: writing JSON: %w", err)
	}
	if _, err := w.Write(append(escapeJSON(b), '\n')); err != nil {
		return fmt.Errorf("render: writing JSON: %w", err)
	}
	return nil
}

// JSONLine writes v as one line of JSON, escaped as everywhere.
func JSONLine[T any](w io.Writer, v *T) error {
	b, err := json.Marshal(rewrite(v, func(s string) string { return s }))
	if err != nil {
		return fmt.Errorf("render: writing JSON: %w", err)
	}
	if _, err := w.Write(append(escapeJSON(b), '\n')); err != nil {
		return fmt.Errorf("render: writing JSON: %w", err)
	}
	return nil
}

// escapeJSON escapes what encoding/json leaves as it is and a terminal obeys
// or hides: DEL, C1 controls, bidirectional overrides, zero-width characters.
// Such a character can stand in a string only, where the escape means the same.
func escapeJSON(b []byte) []byte {
	var out bytes.Buffer
	out.Grow(len(b))
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		switch {
		case r == '\n' || shown(r):
			out.Write(b[:n])
		case r > 0xffff:
			r -= 0x10000
			fmt.Fprintf(&out, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
		b = b[n:]
	}
	return out.Bytes()
}
