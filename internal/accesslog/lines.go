package accesslog

import (
	"bytes"
	"io"
)

// lines cuts a text into lines without copying them. Its buffer grows to what
// the longest line needs, at most MaxLine.
type lines struct {
	r          io.Reader
	buf        []byte
	start, end int
	number     int   // of the last line
	offset     int64 // bytes of text taken in
	err        error
	skipping   bool // amid a line that was too long
	nuls       bool // NUL bytes were left out before the line
}

const linesBuffer = 256 << 10

// reset begins another text.
func (l *lines) reset(r io.Reader) {
	if l.buf == nil {
		l.buf = make([]byte, linesBuffer)
	}
	*l = lines{r: r, buf: l.buf}
}

// next returns a line without its end, valid until the next call. After the
// last it returns the error of the text, io.EOF if there was none. A line
// that is too long is returned once, cut, with FaultTooLong.
func (l *lines) next() ([]byte, Fault, error) {
	searched := 0
	for {
		if n := bytes.IndexByte(l.buf[l.start+searched:l.end], '\n'); n >= 0 {
			line := l.buf[l.start : l.start+searched+n]
			l.start += searched + n + 1
			searched = 0
			if l.skipping {
				l.skipping = false
				continue
			}
			l.number++
			return l.trim(line), NoFault, nil
		}
		searched = l.end - l.start
		if l.skipping {
			l.start, searched = l.end, 0
		}
		if searched > 0 && l.buf[l.start] == 0 {
			l.dropNULs()
			searched = l.end - l.start
		}
		if searched >= MaxLine {
			line := l.buf[l.start : l.start+MaxLine]
			l.start = l.end
			l.skipping = true
			l.number++
			return line, FaultTooLong, nil
		}
		if l.err != nil {
			if searched == 0 {
				return nil, NoFault, l.err
			}
			line := l.buf[l.start:l.end]
			l.start = l.end
			l.number++
			return l.trim(line), NoFault, nil
		}
		l.fill()
	}
}

// fill reads more behind what is there.
func (l *lines) fill() {
	if l.start > 0 {
		copy(l.buf, l.buf[l.start:l.end])
		l.end -= l.start
		l.start = 0
	}
	if l.end == len(l.buf) {
		bigger := make([]byte, 2*len(l.buf))
		copy(bigger, l.buf)
		l.buf = bigger
	}
	for range 100 {
		n, err := l.r.Read(l.buf[l.end:])
		l.end += n
		l.offset += int64(n)
		if err != nil {
			l.err = err
			return
		}
		if n > 0 {
			return
		}
	}
	l.err = io.ErrNoProgress
}

// dropNULs leaves out NUL bytes at the beginning of a line. A log that was
// truncated under a writer that does not append begins with a hole, which may
// be gigabytes; a crash leaves some amid the file.
func (l *lines) dropNULs() {
	l.nuls = true
	for l.start < l.end && l.buf[l.start] == 0 {
		l.start++
	}
}

// trim takes off the carriage return of Windows and NULs before the line.
func (l *lines) trim(line []byte) []byte {
	if n := len(line); n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	if len(line) > 0 && line[0] == 0 {
		l.nuls = true
		line = bytes.TrimLeft(line, "\x00")
	}
	return line
}

// head returns what can be seen of the text without taking it: at least want
// bytes if there are so many and the text is not live, else what one read
// brings.
func (l *lines) head(want int, live bool) []byte {
	for {
		if l.end > l.start && l.buf[l.start] == 0 {
			l.dropNULs()
		}
		switch have := l.buf[l.start:l.end]; {
		case l.err != nil, len(have) >= want, live && bytes.IndexByte(have, '\n') >= 0:
			return have
		}
		l.fill()
	}
}
