package netprobe

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/whyslow/whyslow/internal/wire"
)

// opener opens a Conn over one kind of socket.
type opener func(context.Context, route, Config) (Conn, error)

// openHost tries the sockets of cfg.Method, the most telling first, and goes
// on to the next only where the host refuses one.
func openHost(ctx context.Context, dst netip.Addr, cfg Config) (Conn, error) {
	rt, err := lookupRoute(dst, cfg)
	if err != nil {
		return nil, err
	}
	var refused []error
	for _, open := range openers(cfg) {
		c, err := open(ctx, rt, cfg)
		if err == nil {
			return c, nil
		}
		if !errors.Is(err, ErrNotPermitted) {
			return nil, err
		}
		refused = append(refused, err)
	}
	return nil, fmt.Errorf("netprobe: opening %v: %w", dst, errors.Join(refused...))
}

// openers lists the kinds of socket to try for cfg, in order.
func openers(cfg Config) []opener {
	if cfg.Segments && cfg.Method == TCP {
		return []opener{openSegments}
	}
	var list []opener
	add := func(m Method, proto wire.Protocol, unprivileged opener) {
		if cfg.Method != m && cfg.Method != Auto {
			return
		}
		if !cfg.Unprivileged {
			list = append(list, func(ctx context.Context, rt route, cfg Config) (Conn, error) {
				return openRaw(ctx, rt, cfg, proto)
			})
		}
		list = append(list, unprivileged)
	}
	add(ICMP, wire.ICMP, openPing)
	add(UDP, wire.UDP, openUDP)
	add(TCP, wire.TCP, openTCP)
	return list
}

// info is what is known of a Conn over the route.
func (rt route) info(flow wire.Flow, socket string) Info {
	return Info{
		Protocol: flow.Proto, Socket: socket, Source: rt.src, SourcePort: flow.SrcPort,
		InterfaceMTU: rt.ifMTU, CachedMTU: rt.cachedMTU,
		FlowStable: socket != "connect", // but see Config.Serial
	}
}
