package cli

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/whyslow/whyslow/reports/render"
)

// deliver writes a result to stdout and to every -o file.
func deliver[T any](env *Env, c *common, forms render.Forms[T], v *T) error {
	if !c.quiet || len(c.outputs) == 0 {
		write, err := forms.ByName(c.format)
		if err != nil {
			return usagef("--format: %w", err)
		}
		opt := render.Options{Width: min(env.Width, maxWidth), Verbose: c.verbose, Color: c.useColor(env)}
		// In one piece: a result is not to be torn apart by progress, or by
		// an error half way.
		var buf bytes.Buffer
		if err := write(&buf, v, opt); err != nil {
			return failf("writing the result as %s: %w", c.format, err)
		}
		if _, err := env.Out.Write(buf.Bytes()); err != nil {
			return failf("writing the result to stdout: %w", err)
		}
	}
	for _, o := range c.outputs {
		write, err := forms.ByName(o.format)
		if err != nil {
			return usagef("-o, --output: %w", err)
		}
		var buf bytes.Buffer
		if err := write(&buf, v, render.Options{Verbose: c.verbose}); err != nil {
			return failf("writing %s: %w", o.path, err)
		}
		if err := writeFile(o.path, buf.Bytes()); err != nil {
			return failf("writing %s: %w; choose a file in a directory you may write to", o.path, err)
		}
		if !c.quiet {
			fmt.Fprintf(env.Err, "wrote %s\n", clean(o.path))
		}
	}
	return nil
}

// maxWidth bounds the width of text: a line of prose longer than this is hard
// to read on any terminal.
const maxWidth = 120

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

// clean makes a text that may quote strangers harmless on a terminal.
func clean(s string) string { return render.Terminal(s, 0) }
