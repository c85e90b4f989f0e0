package accesslog

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"time"
)

// FollowOptions are how a growing file is watched.
type FollowOptions struct {
	// Poll is how long to wait at the end of the file before looking again.
	// Zero means 250 ms.
	Poll time.Duration
	// End begins at the file's end, with the lines still to come.
	End bool
	// Wait replaces the timer. It returns an error when ctx has ended.
	Wait func(ctx context.Context, poll time.Duration) error
}

// Follow is the source of a file that is read to its end and on, as it grows,
// until the context ends, which ends the text without an error. Rotation is
// seen by looking, since no notification works on every file system: a rename
// when the name has become another file, copytruncate when the file is shorter
// than what was read of it or no longer has what was read last. What a server
// still writes to a renamed file after a new one has appeared is not read.
func Follow(path string, opts FollowOptions) Source {
	if opts.Poll <= 0 {
		opts.Poll = 250 * time.Millisecond
	}
	if opts.Wait == nil {
		opts.Wait = wait
	}
	return Source{Name: path, Live: true, Open: func(ctx context.Context) (io.ReadCloser, error) {
		f := &follower{path: path, wait: func() error { return opts.Wait(ctx, opts.Poll) }}
		if err := f.open(); err != nil {
			return nil, err
		}
		if fi, err := f.file.Stat(); err == nil && opts.End && fi.Size() > 0 {
			// From the line that is not finished yet.
			f.offset = lineStart(f.file, fi.Size())
		}
		return f, nil
	}}
}

func wait(ctx context.Context, poll time.Duration) error {
	t := time.NewTimer(poll)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// lineStart returns where the last, unfinished line begins.
func lineStart(f io.ReaderAt, size int64) int64 {
	buf := make([]byte, min(size, headSize))
	n, _ := f.ReadAt(buf, size-int64(len(buf)))
	if i := bytes.LastIndexByte(buf[:n], '\n'); i >= 0 {
		return size - int64(len(buf)) + int64(i) + 1
	}
	return size
}

// tailSize is how much of what was read last must still be there.
const tailSize = 64

type follower struct {
	path   string
	file   *os.File
	offset int64
	tail   []byte // what stands before offset, at most tailSize
	wait   func() error
	idle   bool // the end was reached; who knows what happened since
}

func (f *follower) open() error {
	file, err := os.Open(f.path)
	if err != nil {
		return err
	}
	fi, err := file.Stat()
	if err == nil && !fi.Mode().IsRegular() {
		err = fmt.Errorf("following %s: it is no regular file", f.path)
	}
	if err != nil {
		_ = file.Close()
		return err
	}
	f.file, f.offset, f.tail, f.idle = file, 0, f.tail[:0], false
	return nil
}

func (f *follower) Close() error { return f.file.Close() }

// Read blocks until there is more, or the context has ended.
func (f *follower) Read(p []byte) (int, error) {
	for {
		if f.idle && f.changed() {
			if f.restart() {
				return copy(p, "\n"), nil
			}
		}
		f.idle = false
		n, err := f.file.ReadAt(p, f.offset)
		if n > 0 {
			f.offset += int64(n)
			f.remember(p[:n])
			return n, nil
		}
		if err != nil && err != io.EOF { //nolint:errorlint // ReadAt's contract
			return 0, fmt.Errorf("accesslog: following %s: %w", f.path, err)
		}
		f.idle = true
		if f.replaced() {
			// Nothing more came while the new file appeared: one more look.
			if n, _ := f.file.ReadAt(p, f.offset); n > 0 {
				f.offset += int64(n)
				f.remember(p[:n])
				return n, nil
			}
			unfinished := f.unfinished()
			old := f.file
			if err := f.open(); err == nil {
				_ = old.Close()
				if unfinished {
					return copy(p, "\n"), nil
				}
				continue
			}
		}
		if f.wait() != nil {
			return 0, io.EOF
		}
	}
}

// remember keeps the end of what was read.
func (f *follower) remember(b []byte) {
	if len(b) >= tailSize {
		f.tail = append(f.tail[:0], b[len(b)-tailSize:]...)
		return
	}
	f.tail = append(f.tail, b...)
	if n := len(f.tail) - tailSize; n > 0 {
		f.tail = append(f.tail[:0], f.tail[n:]...)
	}
}

func (f *follower) unfinished() bool { return len(f.tail) > 0 && f.tail[len(f.tail)-1] != '\n' }

// changed reports whether what was read is no longer in the file: it was
// truncated, and may have grown again beyond where reading stood.
func (f *follower) changed() bool {
	fi, err := f.file.Stat()
	if err != nil || fi.Size() < f.offset {
		return err == nil
	}
	var now [tailSize]byte
	n, _ := f.file.ReadAt(now[:len(f.tail)], f.offset-int64(len(f.tail)))
	return !bytes.Equal(now[:n], f.tail)
}

// restart begins the same file again, and reports whether a line was cut.
func (f *follower) restart() bool {
	cut := f.unfinished()
	f.offset, f.tail, f.idle = 0, f.tail[:0], false
	return cut
}

// replaced reports whether the name belongs to another file by now.
func (f *follower) replaced() bool {
	now, err := os.Stat(f.path)
	if err != nil {
		return false // amid a rotation
	}
	was, err := f.file.Stat()
	return err == nil && !os.SameFile(was, now)
}
