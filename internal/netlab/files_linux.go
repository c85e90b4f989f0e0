package netlab

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// mountPoints are directories that exist to be mounted on, are empty otherwise
// and that nobody writes to: a file system put on one hides nothing, and when
// the mount namespace goes, not even an empty directory stays behind.
var mountPoints = []string{
	"/sys/fs/fuse/connections", "/proc/sys/fs/binfmt_misc", "/sys/fs/pstore", "/sys/kernel/debug",
}

// fileSystem is the lab's scratch space: configurations, logs, zone files of
// its servers, in memory and seen by this process and its children alone.
type fileSystem struct {
	dir     string
	mounted bool
}

// private keeps mounts made by this thread from spreading to other mount
// namespaces.
func private() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making mounts private: %w", err)
	}
	return nil
}

// newFileSystem mounts the scratch space. It must run inside a mount namespace
// of the process's own.
func newFileSystem() (*fileSystem, error) {
	if err := private(); err != nil {
		return nil, fmt.Errorf("netlab: %w", err)
	}
	var errs []error
	for _, dir := range mountPoints {
		err := unix.Mount("whyslow", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755,size=64m")
		if err == nil {
			return &fileSystem{dir: dir, mounted: true}, nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", dir, err))
	}
	return nil, fmt.Errorf("netlab: mounting scratch space: %w", errors.Join(errs...))
}

// replace puts content in place of the file at path, for the mount namespace
// of the calling thread.
func (f *fileSystem) replace(path string, content []byte) error {
	name, err := f.write(filepath.Base(path), content)
	if err != nil {
		return err
	}
	if err := unix.Mount(name, path, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mounting: %w", err)
	}
	return nil
}

// write writes a file of its own directory and returns its path.
func (f *fileSystem) write(name string, content []byte) (string, error) {
	dir, err := os.MkdirTemp(f.dir, "file-")
	if err != nil {
		return "", err
	}
	// Servers read it after they dropped their privileges.
	if err := os.Chmod(dir, 0o755); err != nil {
		return "", err
	}
	path := filepath.Join(dir, filepath.Base(name))
	return path, os.WriteFile(path, content, 0o644)
}

// close unmounts the scratch space, also while a dying server still uses it.
func (f *fileSystem) close() error {
	if !f.mounted {
		return nil
	}
	f.mounted = false
	if err := unix.Unmount(f.dir, unix.MNT_DETACH); err != nil {
		return fmt.Errorf("netlab: unmounting scratch space: %w", err)
	}
	return nil
}
