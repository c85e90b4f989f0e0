package netlab_test

import (
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/whyslow/whyslow/internal/netlab"
	"github.com/whyslow/whyslow/internal/simnet"
)

// benchCarriers runs a benchmark over each carrier that the host permits.
func benchCarriers(b *testing.B, f func(*testing.B, netlab.Carrier)) {
	b.Helper()
	for _, c := range []netlab.Carrier{netlab.TUN, netlab.Veth} {
		b.Run(c.String(), func(b *testing.B) {
			if c == netlab.TUN {
				needTUN(b)
			}
			f(b, c)
		})
	}
}

// BenchmarkForwarding measures a TCP transfer server to client through one
// router, without a rate limit in the model.
func BenchmarkForwarding(b *testing.B) {
	benchCarriers(b, func(b *testing.B, c netlab.Carrier) {
		lab, ns := pair(b, c, simnet.Link{Delay: 2 * time.Millisecond, Queue: 4 << 20})
		const chunk = 1 << 20
		b.SetBytes(chunk)
		start := time.Now()
		if err := transfer(ns, int64(b.N)*chunk); err != nil {
			b.Fatal(err)
		}
		rate := float64(b.N) * chunk * 8 / time.Since(start).Seconds()
		b.ReportMetric(rate/1e6, "Mbit/s")
		b.ReportMetric(float64(lab.Traffic().Dropped), "dropped")
	})
}

// BenchmarkLink100 measures the same through a link of 100 Mbit/s and 20 ms,
// of which headers leave 94.9.
func BenchmarkLink100(b *testing.B) {
	benchCarriers(b, func(b *testing.B, c netlab.Carrier) {
		_, ns := pair(b, c, simnet.Link{Delay: 10 * time.Millisecond, Rate: 100e6})
		const chunk = 1 << 20
		start := time.Now()
		if err := transfer(ns, int64(b.N)*chunk); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(b.N)*chunk*8/time.Since(start).Seconds()/1e6, "Mbit/s")
	})
}

// transfer sends size bytes from a server in ns to this process.
func transfer(ns *netlab.Namespace, size int64) error {
	l, err := ns.Listen("tcp", netip.AddrPortFrom(server4, 5001).String())
	if err != nil {
		return err
	}
	defer func() { _ = l.Close() }()
	sent := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err == nil {
			_, err = io.CopyN(c, zeros{}, size)
			_ = c.Close()
		}
		sent <- err
	}()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	if _, err := io.Copy(io.Discard, c); err != nil {
		return err
	}
	return <-sent
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { return len(b), nil }

// BenchmarkDelayError measures by how much packets come later than the model
// says, from before the send to the kernel's receive time.
func BenchmarkDelayError(b *testing.B) {
	benchCarriers(b, func(b *testing.B, c netlab.Carrier) {
		const delay = 10 * time.Millisecond
		_, ns := pair(b, c, simnet.Link{Delay: delay})
		errs, err := delayErrors(ns, delay, b.N)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(quantile(errs, 0.5).Microseconds()), "µs-median")
		b.ReportMetric(float64(quantile(errs, 0.95).Microseconds()), "µs-p95")
		b.ReportMetric(float64(quantile(errs, 1).Microseconds()), "µs-max")
	})
}

func quantile(sorted []time.Duration, q float64) time.Duration {
	return sorted[int(q*float64(len(sorted)-1))]
}

// delayErrors sends n datagrams from this process to ns, 1 to 3 ms apart, and
// returns, sorted, how much longer than delay each took.
func delayErrors(ns *netlab.Namespace, delay time.Duration, n int) ([]time.Duration, error) {
	pc, err := ns.ListenPacket("udp", netip.AddrPortFrom(server4, 5002).String())
	if err != nil {
		return nil, err
	}
	defer func() { _ = pc.Close() }()
	in := pc.(*net.UDPConn)
	raw, err := in.SyscallConn()
	if err != nil {
		return nil, err
	}
	if err := raw.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1)
	}); err != nil {
		return nil, err
	}
	out, err := net.Dial("udp", pc.LocalAddr().String())
	if err != nil {
		return nil, err
	}
	defer func() { _ = out.Close() }()
	go func() {
		var b [8]byte
		for i := range n {
			time.Sleep(time.Duration(1+i%3) * time.Millisecond)
			binary.BigEndian.PutUint64(b[:], uint64(time.Now().UnixNano()))
			_, _ = out.Write(b[:])
		}
	}()
	var errs []time.Duration
	b, oob := make([]byte, 64), make([]byte, 256)
	for range n {
		if err := in.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
			return nil, err
		}
		k, ok, _, _, err := in.ReadMsgUDP(b, oob)
		if err != nil {
			return nil, err
		}
		msgs, err := unix.ParseSocketControlMessage(oob[:ok])
		if err != nil || k != 8 || len(msgs) == 0 {
			return nil, io.ErrUnexpectedEOF
		}
		ts := (*unix.Timespec)(unsafe.Pointer(&msgs[0].Data[0]))
		errs = append(errs, time.Duration(ts.Nano()-int64(binary.BigEndian.Uint64(b)))-delay)
	}
	slices.Sort(errs)
	return errs, nil
}
