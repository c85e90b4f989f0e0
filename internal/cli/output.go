package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/whyslow/whyslow/reports/render"
)

// deliver writes a result to stdout and to every -o file. A result that took a
// minute to measure is not lost to a full disk: what cannot be saved is printed,
// --quiet or not.
func deliver[T any](env *Env, c *common, forms render.Forms[T], v *T) error {
	var failed []error
	quiet := c.quiet && len(c.outputs) > 0
	if !quiet {
		failed = append(failed, show(env, c, forms, v))
	}
	lost := save(env, c, forms, v)
	if lost != nil && quiet {
		failed = append(failed, show(env, c, forms, v))
		lost = fmt.Errorf("%w; the result is printed instead", lost)
	}
	return unwritten(append(failed, lost)...)
}

// unwritten is the error of a result that did not get to where it should.
func unwritten(failed ...error) error {
	var texts []string
	for _, err := range failed {
		if err != nil {
			texts = append(texts, err.Error())
		}
	}
	if len(texts) == 0 {
		return nil
	}
	return &statusError{status: statusUnwritten, err: errors.New(strings.Join(texts, "; "))}
}

// show writes a result to stdout.
func show[T any](env *Env, c *common, forms render.Forms[T], v *T) error {
	opt := render.Options{Width: min(env.Width, maxWidth), Verbose: c.verbose, Color: c.useColor(env), Host: env.Hostname}
	// In one piece: a result is not to be torn apart by progress, or by an
	// error half way.
	b, err := rendered(forms, c.format, v, opt)
	if err == nil {
		_, err = env.Out.Write(b)
	}
	if err != nil {
		return fmt.Errorf("writing the result to stdout: %w", reason(err))
	}
	return nil
}

// save writes a result to every -o file, as many as can be written.
func save[T any](env *Env, c *common, forms render.Forms[T], v *T) error {
	var failed []string
	for _, o := range c.outputs {
		b, err := rendered(forms, o.format, v, render.Options{Verbose: c.verbose, Host: env.Hostname})
		if err == nil {
			err = writeFile(o.path, b)
		}
		if err != nil {
			failed = append(failed, fmt.Sprintf("writing %s: %v", o.path, err))
			continue
		}
		if !c.quiet {
			fmt.Fprintf(env.Err, "wrote %s\n", clean(o.path))
		}
	}
	if failed == nil {
		return nil
	}
	return errors.New(strings.Join(failed, "; "))
}

func rendered[T any](forms render.Forms[T], format string, v *T, opt render.Options) ([]byte, error) {
	write, err := forms.ByName(format)
	if err != nil {
		return nil, err
	}
	var buf bytes.Buffer
	err = write(&buf, v, opt)
	return buf.Bytes(), err
}

// maxWidth bounds the width of text: a line of prose longer than this is hard
// to read on any terminal.
const maxWidth = 120

// writeFile writes a file that only its owner may read, since a report tells
// addresses and names of a private network. It appears whole or not at all.
func writeFile(path string, data []byte) error {
	path, tmp, err := replacement(path)
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
		_ = os.Remove(tmp.Name())
	}
	return cause(err)
}

// checkWritable refuses a file that writeFile could not write, before a minute
// is spent on what shall stand there. A file that is there stays as it is.
func checkWritable(path string) error {
	_, tmp, err := replacement(path)
	if err != nil {
		return err
	}
	err = tmp.Close()
	if rerr := os.Remove(tmp.Name()); err == nil {
		err = rerr
	}
	return cause(err)
}

// replacement makes the temporary file that shall take the place of path, and
// returns where that is if path is a symbolic link.
func replacement(path string) (string, *os.File, error) {
	st, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return "", nil, cause(err)
	default:
		if err := regular("it", st); err != nil {
			return "", nil, err
		}
		if path, err = filepath.EvalSymlinks(path); err != nil {
			return "", nil, cause(err)
		}
		// Renaming would replace also a file that is write-protected.
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return "", nil, cause(err)
		}
		if err := f.Close(); err != nil {
			return "", nil, cause(err)
		}
	}
	// os.CreateTemp makes mode 0600, also where an older, more open file is
	// replaced.
	tmp, err := os.CreateTemp(filepath.Dir(path), ".whyslow-*")
	if err != nil {
		return "", nil, fmt.Errorf("the directory %s: %w", filepath.Dir(path), cause(err))
	}
	return path, tmp, nil
}

// cause is an error of the file system without the file's name, which the
// caller tells.
func cause(err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err
	}
	if le, ok := errors.AsType[*os.LinkError](err); ok {
		return le.Err
	}
	return err
}

// clean makes a text that may quote strangers harmless on a terminal.
func clean(s string) string { return render.Terminal(s, 0) }
