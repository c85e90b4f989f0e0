package netprobe

import (
	"net/netip"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/whyslow/whyslow/internal/wire"
)

// TestManyConnectionsAtOnce traces to 64 destinations at a time, by every kind
// of socket, and to one destination 64 times (mtr#344, mtr#278: concurrent runs
// took each other's replies).
func TestManyConnectionsAtOnce(t *testing.T) {
	const conns, ttls = 64, 4
	c := newChain(t, 2)
	targets := make([]netip.Addr, conns)
	c.at(t, 3, func() {
		for i := range targets {
			targets[i] = netip.AddrFrom4([4]byte{10, 0, 2, byte(100 + i)})
			addAddress(t, "l2", targets[i].String()+"/24")
		}
	})
	for _, k := range kinds {
		if k.cfg.Serial {
			continue
		}
		for _, same := range []bool{false, true} {
			t.Run(k.name, func(t *testing.T) {
				c.here(t)
				before := heap()
				all := make([]Conn, conns)
				for i := range all {
					dst := targets[i]
					if same {
						dst = targets[0]
					}
					all[i] = open(t, dst, k.cfg)
				}
				for ttl := 1; ttl <= ttls; ttl++ {
					for i, conn := range all {
						send(t, conn, wire.Probe{Seq: uint16(i*ttls + ttl - 1), TTL: ttl})
					}
				}
				for i, conn := range all {
					for range ttls {
						if r := recv(t, conn); int(r.Seq)/ttls != i {
							t.Fatalf("connection %d received the reply to probe %d", i, r.Seq)
						}
					}
				}
				if used := heap() - before; used > 6<<20 {
					t.Errorf("%d connections use %d kB", conns, used>>10)
				}
				if used := cpuOver(t, 100*time.Millisecond); used > 20*time.Millisecond {
					t.Errorf("idle connections use %v of 100ms", used)
				}
				for i, conn := range all {
					if r, ok := popped(conn); ok {
						t.Errorf("connection %d received one more: %+v", i, r)
					}
				}
			})
		}
	}
}

// popped takes a reply that already waits.
func popped(conn Conn) (wire.Reply, bool) {
	switch c := conn.(type) {
	case *datagramConn:
		return c.pop()
	case *rawConn:
		return c.pop()
	case *swarmConn:
		return c.pop()
	}
	return wire.Reply{}, false
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// cpuOver is the processor time that this process takes during d.
func cpuOver(t *testing.T, d time.Duration) time.Duration {
	t.Helper()
	used := func() time.Duration {
		var r syscall.Rusage
		must(t, syscall.Getrusage(syscall.RUSAGE_SELF, &r))
		return time.Duration(r.Utime.Nano() + r.Stime.Nano())
	}
	before := used()
	timer := time.NewTimer(d)
	<-timer.C
	return used() - before
}
