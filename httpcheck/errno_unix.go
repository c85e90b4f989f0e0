//go:build !windows

package httpcheck

import "syscall"

// errnoKind returns the Failure.Kind of a socket error.
func errnoKind(e syscall.Errno) string {
	switch e {
	case syscall.ECONNREFUSED:
		return "refused"
	case syscall.ECONNRESET, syscall.EPIPE, syscall.ECONNABORTED:
		return "reset"
	case syscall.ETIMEDOUT:
		return "timeout"
	// EACCES and EPERM are a local filter or a prohibit route; ENETUNREACH
	// also an address family this host has no address of.
	case syscall.ENETUNREACH, syscall.EHOSTUNREACH, syscall.ENETDOWN, syscall.EHOSTDOWN,
		syscall.EADDRNOTAVAIL, syscall.EACCES, syscall.EPERM, syscall.EAFNOSUPPORT:
		return "unreachable"
	}
	return "other"
}
