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
	// Beside are routers parallel to one of Routers, by its index: the router
	// in front, which must not be missing, spreads flows over all of them by
	// addresses and ports.
	Beside map[int][][]netip.Addr
	// Back says at which indices nothing is spread: what goes to the server
	// passes Routers[i], and what comes back passes Beside[i][0].
	Back map[int]bool
	// NoRoute are the indices of routers that have no way to the server.
	NoRoute map[int]bool
	// Rules are what nft(8) reads in a router, by its index. Its devices are
	// called left, towards the client, and right.
	Rules map[int]string
	// Unlimited lifts the limits on ICMP errors that Linux has.
	Unlimited bool
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
	for i := range c.Beside {
		if i < 1 || i >= len(c.Routers) || c.Beside[i-1] != nil {
			return fmt.Errorf("netlab: no routers can be beside router %d", i)
		}
	}
	return nil
}

func (c ChainConfig) mtu(link int) int {
	if c.MTUs == nil {
		return 1500
	}
	return c.MTUs[link]
}
