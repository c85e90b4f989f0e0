package accesslog

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/netip"
)

// Rewrite writes the texts of the sources to dst, one behind the other and
// decompressed, with names in the place of addresses. A source whose
// compressed data are damaged is written as far as it goes, with a warning.
func Rewrite(ctx context.Context, dst io.Writer, opts Options, name func(netip.Addr) (string, bool), sources ...Source) (Rewritten, error) {
	var done Rewritten
	out := &endings{w: dst}
	var last *Format
	for _, src := range sources {
		text, _, err := src.text(ctx)
		if err != nil {
			return done, err
		}
		last, err = rewriteSource(ctx, out, opts, name, src, text, last, &done)
		_ = text.Close() // only read
		if err != nil {
			return done, err
		}
	}
	return done, nil
}

// rewriteSource rewrites one source and returns its format. last is that of
// the source before, for one without a line.
func rewriteSource(ctx context.Context, out *endings, opts Options, name func(netip.Addr) (string, bool), src Source, text io.Reader, last *Format, done *Rewritten) (*Format, error) {
	in := bufio.NewReaderSize(untilDone{ctx, text}, headSize)
	head, peeked := peekLines(in, src.Live)
	if err := out.separate(len(head) > 0); err != nil {
		return last, err
	}
	if bytes.HasPrefix(head, []byte(utf8BOM)) {
		if _, err := out.Write(head[:len(utf8BOM)]); err != nil {
			return last, fmt.Errorf("accesslog: writing the log: %w", err)
		}
		_, _ = in.Discard(len(utf8BOM))
		head, _ = in.Peek(in.Buffered())
	}
	if kind := notText(head); kind != "" {
		return last, &ContentError{Name: src.Name, Kind: kind}
	}
	f := opts.Format
	if f == nil {
		d, err := Detect(splitSample(head, peeked != nil), opts.Compile)
		switch {
		case err == nil:
			f = d.Format
		case last != nil:
			f = last
		case d.Lines == 0:
			f = JSON(opts.Compile)
		default:
			return last, &FormatError{Name: src.Name, Detection: d, First: bytes.Clone(first(head))}
		}
	}
	w := NewRewriter(f, name)
	readErr, writeErr := w.copyTo(out, in, done)
	switch {
	case writeErr != nil:
		return f, fmt.Errorf("accesslog: writing the log: %w", writeErr)
	case ctx.Err() != nil:
		return f, ctx.Err()
	case readErr != nil:
		done.Warnings = append(done.Warnings, fmt.Sprintf("%s: reading it failed (%v); what came before is written", src.Name, readErr))
	}
	return f, nil
}

// peekLines returns what can be seen of a text without taking it: of a live one
// a line, else as much as the buffer holds.
func peekLines(in *bufio.Reader, live bool) (head []byte, err error) {
	for n := 1; ; n = in.Buffered() + 1 {
		if !live {
			n = headSize
		}
		_, err = in.Peek(n)
		head, _ = in.Peek(in.Buffered())
		if err != nil || !live || bytes.IndexByte(head, '\n') >= 0 || len(head) == headSize {
			return head, err
		}
	}
}

// utf8BOM is what Windows programs put before UTF-8.
const utf8BOM = "\xef\xbb\xbf"

// untilDone is a text that ends with its context.
type untilDone struct {
	ctx context.Context
	r   io.Reader
}

func (u untilDone) Read(p []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.r.Read(p)
}

// endings remembers whether what was written ended a line, so that the next
// source does not continue it.
type endings struct {
	w    io.Writer
	amid bool
}

func (e *endings) Write(p []byte) (int, error) {
	if len(p) > 0 {
		e.amid = p[len(p)-1] != '\n'
	}
	return e.w.Write(p)
}

func (e *endings) separate(more bool) error {
	if !e.amid || !more {
		return nil
	}
	if _, err := e.Write([]byte("\n")); err != nil {
		return fmt.Errorf("accesslog: writing the log: %w", err)
	}
	return nil
}
