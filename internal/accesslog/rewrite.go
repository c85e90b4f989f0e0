package accesslog

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"
)

// Rewriter writes a log with names in the place of its clients' addresses, as
// HostnameLookups would have, and every other byte as it was: line ends,
// broken lines, overlong ones. Where a line already holds a name it stays.
//
// A name comes from whoever owns the reverse zone and is hostile. What is
// neither letter, digit, "-", "_" nor "." is written as \xhh, and one that
// reads as a number or an address, or is too long, is not used at all: nobody
// gets to forge a line or another client's address.
type Rewriter struct {
	f    *Format
	p    *Parser
	name func(netip.Addr) (string, bool)
	rec  Record
	line []byte
	in   *bufio.Reader
	out  *bufio.Writer
}

// Rewritten is what a Rewriter did.
type Rewritten struct {
	// Lines in all; Named of them got a name, in Unnamed the address stayed
	// for want of one, Other have no address where one belongs or are broken.
	Lines, Named, Unnamed, Other int
	// Warnings are what is wrong with the sources, each named.
	Warnings []string
}

// NewRewriter returns a rewriter of logs of a format. name tells an address's
// name, false if it has none.
func NewRewriter(f *Format, name func(netip.Addr) (string, bool)) *Rewriter {
	return &Rewriter{f: f, p: f.NewParser(), name: name}
}

// rewriteLine bounds the lines that are looked into: longer ones are copied.
const rewriteLine = 256 << 10

// Copy rewrites a text. What compresses it must be undone already, see
// [Rewrite].
func (w *Rewriter) Copy(dst io.Writer, src io.Reader) (Rewritten, error) {
	var done Rewritten
	readErr, writeErr := w.copyTo(dst, src, &done)
	switch {
	case writeErr != nil:
		return done, fmt.Errorf("accesslog: writing the log: %w", writeErr)
	case readErr != nil:
		return done, fmt.Errorf("accesslog: reading the log: %w", readErr)
	}
	return done, nil
}

func (w *Rewriter) copyTo(dst io.Writer, src io.Reader, done *Rewritten) (readErr, writeErr error) {
	if w.in == nil {
		w.in, w.out = bufio.NewReaderSize(src, rewriteLine), bufio.NewWriterSize(dst, 64<<10)
	}
	in, out := w.in, w.out
	in.Reset(src)
	out.Reset(dst)
	for amid := false; ; { // within a line longer than the buffer
		piece, err := in.ReadSlice('\n')
		long := errors.Is(err, bufio.ErrBufferFull)
		if len(piece) > 0 {
			switch {
			case !amid && !long:
				piece = w.count(piece, done)
			case !amid:
				done.Lines++
				done.Other++
			}
			if _, err := out.Write(piece); err != nil {
				return nil, err
			}
		}
		amid = long
		if err == nil || long {
			continue
		}
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return err, out.Flush()
	}
}

// count rewrites a line with its end and counts it.
func (w *Rewriter) count(piece []byte, done *Rewritten) []byte {
	done.Lines++
	var outcome outcome
	w.line, outcome = w.rewrite(w.line[:0], piece)
	switch outcome {
	case gotName:
		done.Named++
	case keptAddress:
		done.Unnamed++
	default:
		done.Other++
	}
	return w.line
}

// Line appends a line, with or without its line end, to dst, and reports
// whether it holds another name than before.
func (w *Rewriter) Line(dst, line []byte) ([]byte, bool) {
	dst, o := w.rewrite(dst, line)
	return dst, o == gotName
}

type outcome uint8

const (
	keptAll outcome = iota
	keptAddress
	gotName
)

func (w *Rewriter) rewrite(dst, line []byte) ([]byte, outcome) {
	text := bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
	skipped := len(text)
	text = bytes.TrimLeft(text, "\x00")
	skipped -= len(text)
	if w.p.Parse(text, &w.rec) != NoFault || w.rec.hostAt[1] == 0 {
		return append(dst, line...), keptAll
	}
	from, to := w.rec.hostAt[0], w.rec.hostAt[1]
	addr, to, ok := addrSpan(text, from, to)
	if !ok {
		return append(dst, line...), keptAll
	}
	name, ok := w.name(addr)
	if ok {
		name, ok = w.escaped(name)
	}
	if !ok {
		return append(dst, line...), keptAddress
	}
	dst = append(dst, line[:skipped+from]...)
	dst = append(dst, name...)
	return append(dst, line[skipped+to:]...), gotName
}

// addrSpan reads the address in text[from:to] and returns where it ends, which
// may be before a port.
func addrSpan(text []byte, from, to int) (netip.Addr, int, bool) {
	field := text[from:to]
	if a, ok := parseAddr(field); ok {
		return a, to, true
	}
	a, _, ok := parseAddrPort(field)
	if !ok {
		return a, to, false
	}
	if field[0] == '[' {
		return a, from + bytes.IndexByte(field, ']') + 1, true
	}
	return a, from + bytes.IndexByte(field, ':'), true
}

// maxName is the longest name of the DNS as text.
const maxName = 253

// escaped returns a name as it may stand in a log; false if it must not.
func (w *Rewriter) escaped(name string) (string, bool) {
	name = strings.TrimSuffix(name, ".")
	if name == "" || len(name) > maxName || strings.Trim(name, "0123456789.-") == "" {
		return "", false
	}
	if _, _, ok := parseAddrPort([]byte(name)); ok {
		return "", false
	}
	plain := true
	for i := 0; i < len(name) && plain; i++ {
		plain = hostByte(name[i])
	}
	if plain {
		return name, true
	}
	var b strings.Builder
	for i := range len(name) {
		c := name[i]
		switch {
		case hostByte(c):
			b.WriteByte(c)
		case w.f.escape == EscapeJSON:
			fmt.Fprintf(&b, `\\x%02x`, c) // a JSON string with \xhh in it
		default:
			fmt.Fprintf(&b, `\x%02x`, c)
		}
	}
	return b.String(), true
}

func hostByte(c byte) bool {
	return c|0x20-'a' <= 25 || c-'0' <= 9 || c == '-' || c == '_' || c == '.'
}
