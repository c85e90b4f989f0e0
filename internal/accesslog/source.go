package accesslog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// Source is one text to read: a file, standard input.
type Source struct {
	// Name for messages.
	Name string
	// Open returns the text as stored; what compresses it is found out.
	Open func(context.Context) (io.ReadCloser, error)
	// Live sources, such as a file that is followed, are read as far as they
	// are there: nothing waits for more than one line.
	Live bool
	// Modified is when it was written last, zero if unknown.
	Modified time.Time
}

// File is the source of a file. It is not opened before it is read.
func File(path string) Source {
	s := Source{Name: path, Open: func(context.Context) (io.ReadCloser, error) { return os.Open(path) }}
	if fi, err := os.Stat(path); err == nil {
		s.Modified = fi.ModTime()
	}
	return s
}

// Stdin is the source of a text that is open already, under the name "-".
func Stdin(r io.Reader) Source {
	return Source{Name: "-", Live: true, Open: func(context.Context) (io.ReadCloser, error) { return io.NopCloser(r), nil }}
}

// text opens a source and undoes what compresses it, twice for files that were
// rotated by two that compress. kind names the compression, "" if there is
// none.
func (s Source) text(ctx context.Context) (text io.ReadCloser, kind string, err error) {
	f, err := s.Open(ctx)
	if err != nil {
		return nil, "", fmt.Errorf("accesslog: opening the log: %w", err)
	}
	o := &opened{Reader: f, closers: []io.Closer{f}}
	for range 2 {
		inner, k, err := decompress(s.Name, o.Reader)
		if err != nil {
			_ = o.Close()
			return nil, "", err
		}
		o.Reader = inner
		if k == "" {
			break
		}
		kind = k
		if c, ok := inner.(io.Closer); ok {
			o.closers = append(o.closers, c)
		}
	}
	return o, kind, nil
}

// opened is a text and all that has to be closed for it.
type opened struct {
	io.Reader
	closers []io.Closer
}

func (o *opened) Close() error {
	var errs []error
	for i := len(o.closers) - 1; i >= 0; i-- {
		errs = append(errs, o.closers[i].Close())
	}
	return errors.Join(errs...)
}

// FormatError says that a log's format is not known.
type FormatError struct {
	Name      string
	Detection Detection
	// First line of it, hostile, at most 512 bytes.
	First []byte
}

func (e *FormatError) Error() string {
	return fmt.Sprintf("accesslog: the format of %s is not known: %v", e.Name, e.Detection)
}

func first(head []byte) []byte {
	if n := bytes.IndexByte(head, '\n'); n >= 0 {
		head = head[:n]
	}
	return head[:min(len(head), maxBrokenText)]
}

func fits(f *Format, sample [][]byte) int {
	n := 0
	p := f.NewParser()
	var rec Record
	for _, l := range sample[:min(len(sample), maxDetectLines)] {
		if p.strict(l, &rec) == NoFault {
			n++
		}
	}
	return n
}

// notText tells what is no text: many bytes that no text has.
func notText(head []byte) string {
	if kind := compression(head); kind == "UTF-16" {
		return kind
	}
	if n := bytes.IndexByte(head, '\r'); n >= 0 && n < len(head)-1 && bytes.IndexByte(head, '\n') < 0 {
		return "CR"
	}
	odd, nul := 0, 0
	for _, c := range head {
		switch {
		case c == 0:
			nul++
		case c < ' ' && c != '\n' && c != '\r' && c != '\t' && c != 0x1b:
			odd++
		}
	}
	// UTF-16 without its mark: every other byte is NUL.
	if len(head) >= 64 && nul*5 > len(head)*2 && bytes.Count(head, []byte("\x00\n"))+bytes.Count(head, []byte("\n\x00")) > 0 && odd == 0 {
		return "UTF-16"
	}
	if len(head) >= 64 && (odd+nul)*10 > len(head) {
		return "binary"
	}
	return ""
}
