package accesslog

import (
	"bufio"
	"bytes"
	"compress/bzip2"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// maxWindow is the memory that a zstd file may ask for: that of zstd --long,
// and of every level below.
const maxWindow = 128 << 20

// ContentError says that a file is not a log that can be read: compressed in a
// way that is not decoded, in UTF-16, or binary.
type ContentError struct {
	// Name of the file, Kind of its content: "xz", "lz4", "zip", "compress",
	// "7z", "rar", "tar", "UTF-16", "binary", "systemd journal", "CR" for lines
	// that end in a carriage return alone.
	Name, Kind string
}

func (e *ContentError) Error() string {
	return fmt.Sprintf("accesslog: %s holds %s, which is not read", e.Name, e.content())
}

func (e *ContentError) content() string {
	switch e.Kind {
	case "UTF-16":
		return "UTF-16 text"
	case "binary":
		return "binary data, no text"
	case "systemd journal":
		return "a systemd journal"
	case "CR":
		return "lines that end in carriage returns alone"
	case "tar":
		return "a tar archive"
	}
	return "data compressed with " + e.Kind
}

// magics tell content by its first bytes, whatever a file is called.
var magics = []struct{ kind, magic string }{
	{"gzip", "\x1f\x8b"},
	{"bzip2", "BZh"},
	{"zstd", "\x28\xb5\x2f\xfd"},
	{"xz", "\xfd7zXZ\x00"},
	{"lz4", "\x04\x22\x4d\x18"},
	{"lzip", "LZIP"},
	{"compress", "\x1f\x9d"},
	{"zip", "PK\x03\x04"},
	{"7z", "7z\xbc\xaf\x27\x1c"},
	{"rar", "Rar!\x1a\x07"},
	{"UTF-16", "\xff\xfe"},
	{"UTF-16", "\xfe\xff"},
	{"systemd journal", "LPKSHHRH"},
}

// compression names the content that begins with head; "" is plain.
func compression(head []byte) string {
	for _, m := range magics {
		if bytes.HasPrefix(head, []byte(m.magic)) {
			if m.kind == "bzip2" && (len(head) < 4 || head[3]-'1' > 8) {
				continue // a log may begin with anything, say a host of this name
			}
			return m.kind
		}
	}
	if len(head) >= 4 && head[0]&0xf0 == 0x50 && head[1] == 0x2a && head[2] == 0x4d && head[3] == 0x18 {
		return "zstd" // a skippable frame (RFC 8878 section 3.1.2)
	}
	if len(head) >= 262 && string(head[257:262]) == "ustar" {
		return "tar"
	}
	return ""
}

// decompress returns the text of r, by what r begins with, and what its
// compression is called.
func decompress(name string, r io.Reader) (text io.Reader, kind string, err error) {
	br := bufio.NewReaderSize(r, 64<<10)
	head, failed := peek(br)
	if failed != nil && !errors.Is(failed, io.EOF) {
		r = failing{failed} // what is there first, then the error again
	}
	switch kind = compression(head); kind {
	case "":
		// What is buffered first, then straight from the file.
		rest := make([]byte, br.Buffered())
		_, _ = br.Read(rest) // cannot fail: it is there
		return io.MultiReader(bytes.NewReader(rest), r), kind, nil
	case "gzip":
		z, err := gzip.NewReader(br)
		if errors.Is(err, io.EOF) { // cut short within its header
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return failing{err}, kind, nil // no line, and a warning
		}
		return &gzipText{z: z}, kind, nil
	case "bzip2":
		return bzip2.NewReader(br), kind, nil
	case "zstd":
		// One block at a time and no goroutines: several files may be open.
		z, err := zstd.NewReader(br, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderLowmem(true))
		if err != nil {
			return nil, kind, fmt.Errorf("accesslog: reading %s: %w", name, err)
		}
		return &zstdText{z}, kind, nil
	}
	return nil, kind, &ContentError{Name: name, Kind: kind}
}

// failing is a text that ends with an error.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// peek returns what one read brings, and more only as long as it may be the
// beginning of a magic: a file that is followed may stay short for hours.
func peek(br *bufio.Reader) ([]byte, error) {
	for n := 1; ; n = br.Buffered() + 1 {
		_, err := br.Peek(n)
		head, _ := br.Peek(min(br.Buffered(), 512))
		if err != nil || len(head) >= 8 || !beginsMagic(head) {
			return head, err
		}
	}
}

func beginsMagic(head []byte) bool {
	for _, m := range magics {
		if len(head) < len(m.magic) && m.magic[:len(head)] == string(head) {
			return true
		}
	}
	return len(head) < 4 && head[0]&0xf0 == 0x50 && (len(head) == 1 || head[1] == 0x2a)
}

// zstdText lets the decoder go at its end.
type zstdText struct{ z *zstd.Decoder }

func (t *zstdText) Read(p []byte) (int, error) { return t.z.Read(p) }

func (t *zstdText) Close() error {
	t.z.Close()
	return nil
}

// gzipText reads all members of a gzip file. Behind the last may stand
// padding of tapes or rubbish, which gzip(1) ignores too.
type gzipText struct {
	z    *gzip.Reader
	some bool
}

func (t *gzipText) Read(p []byte) (int, error) {
	n, err := t.z.Read(p)
	t.some = t.some || n > 0
	if t.some && errors.Is(err, gzip.ErrHeader) {
		err = errTrailingData
	}
	return n, err
}

// errTrailingData ends a compressed file whose text is complete.
var errTrailingData = errors.New("other data follow its compressed data")
