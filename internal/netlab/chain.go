package netlab

import (
	"errors"
	"fmt"
	"net/netip"
)

// ChainConfig describes a chain of real kernel routers between this process
// and one server. It exists to keep the model honest.
type ChainConfig struct {
	Client, Server []netip.Addr
	// Routers from the client's to the server's: each one's addresses, one a
	// family, which its ICMP errors come from.
	Routers [][]netip.Addr
	// MTUs of the links in bytes, one more than routers. Nil means 1500.
	MTUs []int
}

func (c ChainConfig) validate() error {
	if len(c.Client) == 0 || len(c.Server) == 0 {
		return errors.New("netlab: a chain needs addresses at both ends")
	}
	if len(c.Routers) > 64 {
		return fmt.Errorf("netlab: a chain of %d routers is too long", len(c.Routers))
	}
	if c.MTUs != nil && len(c.MTUs) != len(c.Routers)+1 {
		return fmt.Errorf("netlab: %d MTUs for %d links", len(c.MTUs), len(c.Routers)+1)
	}
	return nil
}

func (c ChainConfig) mtu(link int) int {
	if c.MTUs == nil {
		return 1500
	}
	return c.MTUs[link]
}
