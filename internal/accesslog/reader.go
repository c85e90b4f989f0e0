package accesslog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
)

// Options of a Reader.
type Options struct {
	// Format of the lines. Nil means: of each source found from its lines.
	Format *Format
	// Compile is what formats found are compiled with.
	Compile CompileOptions
	// KeepBroken is how many broken lines are kept of each fault, to be shown.
	// Zero means 5, less than zero none.
	KeepBroken int
}

// BrokenLine is a line that could not be read.
type BrokenLine struct {
	Source string
	Number int // from 1
	Fault  Fault
	// Text is hostile, and its first 512 bytes only.
	Text []byte
}

// maxBrokenText bounds what is kept of a broken line.
const maxBrokenText = 512

// Stats is what a Reader has seen so far.
type Stats struct {
	// Lines in all; Records of them are requests, Blank are empty or comments,
	// the others are broken.
	Lines, Records, Blank int
	// Bytes of text, decompressed.
	Bytes int64
	// Broken counts lines by fault.
	Broken [numFaults]int
	// Kept are the first broken lines of each fault.
	Kept []BrokenLine
	// Warnings are what is wrong with the sources themselves, each named.
	Warnings []string
	// Formats found, in the order of the sources; one for all if given.
	Formats []Detection
}

// BrokenLines is how many lines could not be read.
func (s *Stats) BrokenLines() int {
	n := 0
	for _, b := range s.Broken {
		n += b
	}
	return n
}

// Reader reads the records of one log, whose sources follow each other. Close
// it. It is not for several goroutines at once.
type Reader struct {
	ctx     func() error // ends the reading
	open    func(Source) (io.ReadCloser, string, error)
	opts    Options
	sources []Source
	at      int // the source being read, -1 before the first

	lines  lines
	closer io.Closer
	parser *Parser
	format *Format
	kind   string // of compression
	stats  Stats
	done   int64 // bytes of the sources before
	err    error
}

// NewReader returns a reader of the sources, in this order. ctx ends it, and
// is handed to the sources.
func NewReader(ctx context.Context, opts Options, sources ...Source) *Reader {
	if opts.KeepBroken == 0 {
		opts.KeepBroken = 5
	}
	r := &Reader{opts: opts, sources: sources, at: -1, ctx: ctx.Err,
		open: func(s Source) (io.ReadCloser, string, error) { return s.text(ctx) }}
	if opts.Format != nil {
		r.use(opts.Format)
		r.stats.Formats = []Detection{{Format: opts.Format, Sure: Certain}}
	}
	return r
}

func (r *Reader) use(f *Format) {
	if r.format != f {
		r.format, r.parser = f, f.NewParser()
	}
}

// Format is that of the record read last, nil before the first.
func (r *Reader) Format() *Format { return r.format }

// Stats returns what was seen so far. It is valid until the next record.
func (r *Reader) Stats() *Stats {
	r.stats.Bytes = r.done + r.lines.offset
	return &r.stats
}

// Next reads the next record into rec, and returns io.EOF after the last.
// What cannot be read of a line or a source is in Stats and ends nothing; an
// error is a source that could not be opened, or the context's.
func (r *Reader) Next(rec *Record) error {
	if r.err != nil {
		return r.err
	}
	for {
		if r.at < 0 || r.lines.r == nil {
			if err := r.advance(); err != nil {
				r.err = err
				return err
			}
		}
		line, fault, err := r.lines.next()
		if err != nil {
			r.finish(err)
			continue
		}
		r.stats.Lines++
		if r.stats.Lines&0xfff == 0 {
			if err := r.ctx(); err != nil {
				r.err = err
				return err
			}
		}
		if len(line) == 0 {
			r.stats.Blank++
			continue
		}
		rec.File, rec.Number = r.at, r.lines.number
		if fault == NoFault {
			fault = r.parser.Parse(line, rec)
		}
		if fault == NoFault {
			r.stats.Records++
			return nil
		}
		r.fault(line, fault)
	}
}

// All yields the records; the one yielded is the same each time. The last pair
// may be an error, with no record.
func (r *Reader) All() iter.Seq2[*Record, error] {
	return func(yield func(*Record, error) bool) {
		var rec Record
		for {
			err := r.Next(&rec)
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(&rec, nil) {
				return
			}
		}
	}
}

// fault counts a broken line.
func (r *Reader) fault(line []byte, fault Fault) {
	if line[0] == '#' {
		r.stats.Blank++
		// A log that declares its fields may declare others later on.
		if fields, ok := bytes.CutPrefix(line, []byte(w3cFields)); ok && r.opts.Format == nil && r.format.separator != 0 && string(fields) != r.format.text {
			if f, err := compileW3C(string(fields), r.format.separator, r.opts.Compile); err == nil {
				r.use(f)
			}
		}
		return
	}
	r.stats.Broken[fault]++
	if r.stats.Broken[fault] <= r.opts.KeepBroken {
		r.stats.Kept = append(r.stats.Kept, BrokenLine{Source: r.sources[r.at].Name, Number: r.lines.number, Fault: fault,
			Text: bytes.Clone(line[:min(len(line), maxBrokenText)])})
	}
}

// maxWarnings bounds how many warnings are kept.
const maxWarnings = 100

func (r *Reader) warn(format string, args ...any) {
	if len(r.stats.Warnings) < maxWarnings {
		r.stats.Warnings = append(r.stats.Warnings, fmt.Sprintf(format, args...))
	}
}

// advance opens the next source and finds its format.
func (r *Reader) advance() error {
	if err := r.ctx(); err != nil {
		return err
	}
	if r.at++; r.at == len(r.sources) {
		r.at--
		return io.EOF
	}
	src := r.sources[r.at]
	text, kind, err := r.open(src)
	if err != nil {
		return err
	}
	r.closer, r.kind = text, kind
	r.lines.reset(text)
	return r.examine(src)
}

// headSize is how much of a text is looked at before it is read.
const headSize = 64 << 10

// examine looks at the beginning of a text: whether it is one, and its format.
func (r *Reader) examine(src Source) error {
	head := r.lines.head(headSize, src.Live)
	if bytes.HasPrefix(head, []byte(utf8BOM)) {
		r.lines.start += 3
		head = head[3:]
	}
	if kind := notText(head); kind != "" {
		return &ContentError{Name: src.Name, Kind: kind}
	}
	if r.opts.Format != nil {
		return nil
	}
	d, err := Detect(splitSample(head, r.lines.err != nil), r.opts.Compile)
	switch {
	case err == nil && d.Format != nil:
		// The format of the file before, if it fits as well, is the same log's.
		if r.format != nil && fits(r.format, splitSample(head, r.lines.err != nil)) >= d.Fit {
			return nil
		}
		r.use(d.Format)
		r.stats.Formats = append(r.stats.Formats, d)
	case r.format != nil:
		// Keep what the log had so far; its lines will be counted as broken.
	case d.Lines == 0, src.Live && bytes.IndexByte(head, '\n') < 0:
		r.use(JSON(r.opts.Compile)) // nothing to read, whatever the format
	default:
		return &FormatError{Name: src.Name, Detection: d, First: bytes.Clone(first(head))}
	}
	return nil
}

// finish ends a source. err is how its text ended.
func (r *Reader) finish(err error) {
	name := r.sources[r.at].Name
	switch {
	case errors.Is(err, io.EOF):
	case errors.Is(err, errTrailingData):
		r.warn("%s: %v, after line %d; they are not read", name, err, r.lines.number)
	case errors.Is(err, io.ErrUnexpectedEOF) && r.kind != "":
		r.warn("%s: its %s data end too early, after line %d; the lines until there are used", name, r.kind, r.lines.number)
	case r.kind != "":
		r.warn("%s: its %s data are damaged after line %d (%v); the lines until there are used", name, r.kind, r.lines.number, err)
	default:
		r.warn("%s: reading failed after line %d (%v); the lines until there are used", name, r.lines.number, err)
	}
	if r.lines.nuls {
		r.warn("%s: NUL bytes before lines were left out: it was truncated while a server wrote it, or the machine crashed", name)
	}
	r.done += r.lines.offset
	r.lines.reset(nil)
	r.closeSource()
}

func (r *Reader) closeSource() {
	if r.closer != nil {
		_ = r.closer.Close() // only read
		r.closer = nil
	}
}

// Close ends the reading.
func (r *Reader) Close() error {
	r.closeSource()
	if r.err == nil {
		r.err = errors.New("accesslog: the reader is closed")
	}
	return nil
}
