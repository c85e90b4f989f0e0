package netprobe

import (
	"encoding/binary"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// capture is a packet socket on an interface: what is really on the wire, and
// when.
type capture struct{ fd int }

// captured is one packet.
type captured struct {
	data []byte // from the IP header on
	out  bool
	at   time.Time
}

func newCapture(t *testing.T, link string) *capture {
	t.Helper()
	ifi, err := net.InterfaceByName(link)
	must(t, err)
	const all = unix.ETH_P_ALL<<8 | unix.ETH_P_ALL>>8 // in network order
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		unavailable(t, "no packet socket: %v", err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	must(t, setOptions(fd, stampOptions(0),
		option{name: "SO_RCVBUFFORCE", level: unix.SOL_SOCKET, opt: unix.SO_RCVBUF, value: 4 << 20}))
	must(t, unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: int64(patience / time.Second)}))
	must(t, unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all & 0xffff, Ifindex: ifi.Index}))
	return &capture{fd: fd}
}

// next waits for the next packet; ok is false if none comes at all, or with
// nowait if none is there.
func (c *capture) next(t *testing.T, nowait bool) (p captured, ok bool) {
	t.Helper()
	flags := 0
	if nowait {
		flags = unix.MSG_DONTWAIT
	}
	data, oob := make([]byte, 70000), make([]byte, 256)
	n, oobn, _, from, err := unix.Recvmsg(c.fd, data, oob, flags)
	if err != nil {
		return captured{}, false
	}
	var m message
	parseControl(family4, oob[:oobn], &m)
	ll, isLink := from.(*unix.SockaddrLinklayer)
	return captured{data: data[:n], out: isLink && ll.Pkttype == unix.PACKET_OUTGOING, at: m.stamp}, true
}

// sent waits for the next packet of a protocol that leaves.
func (c *capture) sent(t *testing.T, proto byte) []byte {
	t.Helper()
	for {
		p, ok := c.next(t, false)
		if !ok {
			t.Fatal("captured nothing")
		}
		if p.out && len(p.data) >= 28 && protocolOf(p.data) == proto {
			return p.data
		}
	}
}

func protocolOf(pkt []byte) byte {
	if pkt[0]>>4 == 4 {
		return pkt[9]
	}
	return pkt[6]
}

func ipLen(pkt []byte) int {
	if pkt[0]>>4 == 4 {
		return 20
	}
	return 40
}

// pseudoSum is the sum of a packet's pseudo header, RFC 9293 3.1.
func pseudoSum(pkt []byte) (acc uint32) {
	addrs, n := pkt[12:20], len(pkt)-ipLen(pkt)
	if pkt[0]>>4 == 6 {
		addrs = pkt[8:40]
	}
	for ; len(addrs) > 0; addrs = addrs[2:] {
		acc += uint32(binary.BigEndian.Uint16(addrs))
	}
	return acc + uint32(protocolOf(pkt)) + uint32(n)
}

// finish puts the checksum in that the network card computes, at an offset in
// the transport header.
func finish(pkt []byte, at int) {
	b := pkt[ipLen(pkt):]
	b[at], b[at+1] = 0, 0
	acc := pseudoSum(pkt)
	for i := 0; i < len(b); i += 2 {
		acc += uint32(b[i]) << 8
		if i+1 < len(b) {
			acc += uint32(b[i+1])
		}
	}
	for acc > 0xffff {
		acc = acc>>16 + acc&0xffff
	}
	binary.BigEndian.PutUint16(b[at:], ^uint16(acc))
}
