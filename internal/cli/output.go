package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/whyslow/whyslow/reports/render"
)

// forms are the ways to write one result, by format.
type forms map[string]func(io.Writer, render.Options) error

// deliver writes a result to stdout and to every -o file.
func (c *common) deliver(env *Env, fs forms) error {
	if !c.quiet || len(c.outputs) == 0 {
		opt := render.Options{Width: env.Width, Verbose: c.verbose, Color: c.useColor(env)}
		// In one piece: a result is not to be torn apart by progress or by
		// an error half way.
		var buf bytes.Buffer
		if err := fs[c.format](&buf, opt); err != nil {
			return failf("writing the result as %s: %w", c.format, err)
		}
		if _, err := env.Out.Write(buf.Bytes()); err != nil {
			return failf("writing the result to stdout: %w", err)
		}
	}
	for _, o := range c.outputs {
		var buf bytes.Buffer
		if err := fs[o.format](&buf, render.Options{Verbose: c.verbose}); err != nil {
			return failf("writing %s: %w", o.path, err)
		}
		if err := writeFile(o.path, buf.Bytes()); err != nil {
			return failf("writing %s: %w; the result is lost unless it was printed: use a directory you may write to", o.path, err)
		}
		if !c.quiet {
			fmt.Fprintf(env.Err, "wrote %s\n", clean(o.path))
		}
	}
	return nil
}

// writeFile writes a file that only its owner may read, since a report tells
// addresses and names of a private network. A regular file appears whole or
// not at all.
func writeFile(path string, data []byte) error {
	if st, err := os.Stat(path); err == nil && !st.Mode().IsRegular() {
		return os.WriteFile(path, data, 0o600) // a pipe or a device
	}
	// os.CreateTemp makes mode 0600, also where an older, more open file is
	// replaced.
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = tmp.Write(data)
	if cerr := tmp.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		os.Remove(tmp.Name())
	}
	return err
}

// readBounded reads a file of at most limit bytes.
func readBounded(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(b)) > limit {
		return nil, fmt.Errorf("%s is larger than %d bytes", path, limit)
	}
	return b, nil
}

// writeJSON is the JSON form of one instrument's result.
func writeJSON(v any) func(io.Writer, render.Options) error {
	return func(w io.Writer, _ render.Options) error {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(v)
	}
}

// clean makes a text from outside harmless on a terminal: control characters,
// escapes and invisible direction marks become visible, in one line.
func clean(s string) string {
	if !strings.ContainsFunc(s, unprintable) && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == utf8.RuneError:
			b.WriteString(`\ufffd`)
		case !unprintable(r):
			b.WriteRune(r)
		case r <= 0xff:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

func unprintable(r rune) bool { return !unicode.IsPrint(r) }
