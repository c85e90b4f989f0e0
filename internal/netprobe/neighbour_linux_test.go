package netprobe

import (
	"context"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/whyslow/whyslow/internal/wire"
)

// The last router says that a host is down only when its search for it has
// failed, three seconds later. Every socket that lives so long still hears that, and which probe
// it is about.
func TestHostUnreachableThreeSecondsLateIsHeard(t *testing.T) {
	c := newChain(t, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 9*time.Second)
	defer cancel()
	for _, v6 := range []bool{false, true} { // links that are new solicit nobody for a second or two
		conn, err := (&Host{}).Open(ctx, c.server(v6), Config{Method: ICMP})
		must(t, err)
		_, err = conn.Send(wire.Probe{Seq: 1, TTL: 5})
		must(t, err)
		_, err = conn.Recv(ctx)
		must(t, err)
		must(t, conn.Close())
	}
	type asked struct {
		name string
		conn Conn
		v6   bool
	}
	var all []asked
	for _, dst := range []string{"10.0.1.77", "2001:db8:1::77"} {
		for _, m := range []Method{ICMP, UDP, TCP} {
			for _, unprivileged := range []bool{false, true} {
				if m == TCP && unprivileged {
					continue // a connecting socket does not live so long (synLife)
				}
				addr := netip.MustParseAddr(dst)
				conn, err := (&Host{}).Open(ctx, addr, Config{Method: m, Unprivileged: unprivileged})
				must(t, err)
				t.Cleanup(func() { conn.Close() })
				_, err = conn.Send(wire.Probe{Seq: 7, TTL: 5})
				must(t, err)
				all = append(all, asked{fmt.Sprintf("%s %v unprivileged=%v", dst, m, unprivileged), conn, addr.Is6()})
			}
		}
	}
	for _, a := range all {
		router, code := netip.MustParseAddr("10.0.0.2"), uint8(1)
		if a.v6 {
			router, code = netip.MustParseAddr("2001:db8:0::2"), 3
		}
		r, err := a.conn.Recv(ctx)
		if err != nil {
			t.Errorf("%s: %v", a.name, err)
			continue
		}
		took := r.Received.Sub(r.Sent)
		if r.Kind != wire.Unreachable || r.Code != code || r.Seq != 7 || r.From.Unmap() != router || took < 2*time.Second {
			t.Errorf("%s: after %v came %+v, want %v to say code %d of probe 7", a.name, took, r, router, code)
		}
	}
}
