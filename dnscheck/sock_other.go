//go:build !linux

package dnscheck

import "syscall"

// control refuses what only Linux can do.
func (h *Host) control(string, string, syscall.RawConn) error {
	if h.Interface != "" {
		return ErrInterface
	}
	return nil
}
