package diagnose

import "golang.org/x/sys/unix"

// kernel is the kernel's release: TCP behaviour depends on it.
func kernel() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return ""
	}
	return unix.ByteSliceToString(u.Sysname[:]) + " " + unix.ByteSliceToString(u.Release[:])
}
