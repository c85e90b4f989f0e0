package httpcheck

import (
	"syscall"

	"golang.org/x/sys/windows"
)

// errnoKind returns the Failure.Kind of a socket error. The POSIX names of
// package syscall are inventions on Windows and match nothing a socket returns.
func errnoKind(e syscall.Errno) string {
	switch e {
	case windows.WSAECONNREFUSED:
		return "refused"
	case windows.WSAECONNRESET, windows.WSAECONNABORTED:
		return "reset"
	case windows.WSAETIMEDOUT:
		return "timeout"
	case windows.WSAENETUNREACH, windows.WSAEHOSTUNREACH, windows.WSAENETDOWN, windows.WSAEHOSTDOWN,
		windows.WSAEADDRNOTAVAIL, windows.WSAEACCES, windows.WSAEAFNOSUPPORT:
		return "unreachable"
	}
	return "other"
}
