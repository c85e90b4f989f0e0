//go:build !linux

package httpcheck

import (
	"fmt"
	"net"
)

// control refuses what only Linux can set before connect.
func (o *Options) control() (controlFunc, error) {
	switch {
	case o.MSS != 0:
		return nil, fmt.Errorf("httpcheck: clamping the segment size: %w", ErrUnsupported)
	case o.Interface != "":
		return nil, fmt.Errorf("httpcheck: binding to an interface: %w", ErrUnsupported)
	}
	return nil, nil
}

// canClamp says whether MSS works here.
const canClamp = false

// tcpInfo knows nothing on this platform.
func tcpInfo(net.Conn) *TCP { return nil }
