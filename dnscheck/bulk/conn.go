package bulk

import (
	"net"

	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
)

// maxReply bounds a datagram. Without EDNS no answer has more than 512 bytes
// (RFC 1035 4.2.1); servers that send more are read all the same.
const maxReply = 4096

// batchConn sends and receives several datagrams at once.
type batchConn interface {
	write(*batch) error
	read(*batch) (int, error)
}

// batch is a set of datagrams.
type batch struct {
	msgs []ipv4.Message // which is ipv6.Message too
	n    int
}

// newBatch makes one to receive into.
func newBatch(n, size int) batch {
	b := batch{msgs: make([]ipv4.Message, n)}
	for i := range b.msgs {
		b.msgs[i].Buffers = [][]byte{make([]byte, size)}
	}
	return b
}

// add appends a datagram to send. The bytes are not copied.
func (b *batch) add(msg []byte) {
	if b.n == len(b.msgs) {
		b.msgs = append(b.msgs, ipv4.Message{Buffers: make([][]byte, 1)})
	}
	b.msgs[b.n].Buffers[0] = msg
	b.n++
}

func (b *batch) message(i int) []byte { return b.msgs[i].Buffers[0][:b.msgs[i].N] }

// messageConn is what ipv4.PacketConn and ipv6.PacketConn have in common.
type messageConn interface {
	ReadBatch(ms []ipv4.Message, flags int) (int, error)
	WriteBatch(ms []ipv4.Message, flags int) (int, error)
}

type manyConn struct{ messageConn }

func newBatchConn(c net.Conn) batchConn {
	u, ok := c.(*net.UDPConn)
	if !ok {
		return oneConn{c}
	}
	_ = u.SetReadBuffer(1 << 20) // as much as the system allows
	if a, ok := u.LocalAddr().(*net.UDPAddr); ok && a.IP.To4() != nil {
		return manyConn{ipv4.NewPacketConn(u)}
	}
	return manyConn{ipv6.NewPacketConn(u)}
}

func (c manyConn) write(b *batch) error {
	defer func() { b.n = 0 }()
	for sent := 0; sent < b.n; {
		n, err := c.WriteBatch(b.msgs[sent:b.n], 0)
		if err != nil {
			return err
		}
		sent += n
	}
	return nil
}

func (c manyConn) read(b *batch) (int, error) {
	n, err := c.ReadBatch(b.msgs, 0)
	return max(n, 0), err
}

// oneConn is any other connection, a datagram at a time.
type oneConn struct{ net.Conn }

func (c oneConn) write(b *batch) error {
	defer func() { b.n = 0 }()
	for _, m := range b.msgs[:b.n] {
		if _, err := c.Write(m.Buffers[0]); err != nil {
			return err
		}
	}
	return nil
}

func (c oneConn) read(b *batch) (int, error) {
	n, err := c.Read(b.msgs[0].Buffers[0])
	if err != nil {
		return 0, err
	}
	b.msgs[0].N = n
	return 1, nil
}
