package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// openRegular opens a file that can be read to its end. A pipe or a device may
// have none, and opening one can block where no Ctrl-C is heard: the signal is
// caught, so the system call is begun anew.
func openRegular(path string) (*os.File, error) {
	st, err := os.Stat(path)
	if err == nil {
		err = regular(path, st)
	}
	if err != nil {
		return nil, reason(err)
	}
	// Whoever puts a pipe in its place meanwhile does not make it block.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, reason(err)
	}
	if st, err = f.Stat(); err == nil {
		err = regular(path, st)
	}
	if err != nil {
		f.Close()
		return nil, reason(err)
	}
	return f, nil
}

// irregular is the error of a file that is none to read or to replace.
type irregular struct{ path, what string }

func (e *irregular) Error() string { return e.path + " is " + e.what + ", and no regular file" }

const aPipe = "a pipe"

// regular refuses what is no regular file, and says what it is.
func regular(path string, st fs.FileInfo) error {
	switch m := st.Mode(); {
	case m.IsRegular():
		return nil
	case m.IsDir():
		return &irregular{path, "a directory"}
	case m&fs.ModeNamedPipe != 0:
		return &irregular{path, aPipe}
	case m&fs.ModeSocket != 0:
		return &irregular{path, "a socket"}
	}
	return &irregular{path, "a device"}
}

// reason is an error of the file system as a sentence, without the name of the
// system call.
func reason(err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return fmt.Errorf("%s: %w", pe.Path, pe.Err)
	}
	return err
}

// checkReadable refuses a file that could not be read later.
func checkReadable(path string) error {
	f, err := openRegular(path)
	if err != nil {
		return err
	}
	return f.Close()
}

// readBounded reads a regular file of at most limit bytes.
func readBounded(path string, limit int64) ([]byte, error) {
	f, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readAll(f, path, limit)
}

func readAll(r io.Reader, name string, limit int64) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, reason(err))
	}
	if int64(len(b)) > limit {
		return nil, fmt.Errorf("%s is larger than %d MB", name, limit>>20)
	}
	return b, nil
}
