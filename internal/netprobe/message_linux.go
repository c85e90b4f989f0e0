package netprobe

import (
	"encoding/binary"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// Sizes of the buffers a message is read into, in bytes.
const (
	// dataSize holds what an ICMP error quotes: by RFC 1812 and RFC 4443 it
	// keeps to 576 and 1280 bytes, but some quote a whole packet of Ethernet.
	dataSize = 2 << 10
	// dataSlack is what may come before and behind a probe that returns whole,
	// as an echo reply or with its transmit stamp: headers.
	dataSlack = 256
	oobSize   = 512
)

// message is what one recvmsg returned, from the receive queue or the error
// queue.
type message struct {
	data  []byte         // valid until the next read
	name  netip.AddrPort // receive queue: the sender; error queue: the quoted destination
	ttl   int            // of the arrival; 0 means unknown
	stamp time.Time      // kernel wall clock time; zero means none
	// queued says that fields below are set: the message is of the error queue.
	queued bool
	origin uint8
	typ    uint8
	code   uint8
	info   uint32 // next-hop MTU of "too big"
	// extension is where in data the extensions of RFC 4884 begin, 0 if the
	// kernel does not say.
	extension int
	offender  netip.Addr
}

// reader reads messages into one buffer. It belongs to one goroutine.
type reader struct {
	fam  *family
	data []byte
	oob  []byte
}

func newReader(fam *family) *reader {
	return &reader{fam: fam, data: make([]byte, dataSize), oob: make([]byte, oobSize)}
}

// fit grows the buffer to hold the answers to probes of up to size bytes. So
// the many readers of many connections stay small until one needs more.
func (r *reader) fit(size int64) {
	if need := int(size) + dataSlack; need > len(r.data) {
		r.data = make([]byte, max(need, min(4*len(r.data), 64<<10+dataSlack)))
	}
}

// read takes one message off fd's receive queue or, with unix.MSG_ERRQUEUE in
// flags, off its error queue. It never blocks.
func (r *reader) read(fd, flags int) (message, error) {
	n, oobn, _, from, err := unix.Recvmsg(fd, r.data, r.oob, flags|unix.MSG_DONTWAIT)
	if err != nil {
		return message{}, err
	}
	m := message{data: r.data[:n], name: addrOf(from)}
	parseControl(r.fam, r.oob[:oobn], &m)
	return m, nil
}

// parseControl reads the control messages of a recvmsg into m. Messages cut
// short by a small buffer are skipped.
func parseControl(f *family, oob []byte, m *message) {
	for len(oob) >= unix.CmsgLen(0) {
		h, data, rest, err := unix.ParseOneSocketControlMessage(oob)
		if err != nil {
			return
		}
		oob = rest
		switch level, typ := int(h.Level), int(h.Type); {
		case level == f.level && typ == f.cmsgTTL && len(data) >= 4:
			m.ttl = int(binary.NativeEndian.Uint32(data)) & 0xff
		case level == f.level && typ == f.recvErr:
			parseExtendedErr(data, m)
		case level == unix.SOL_SOCKET && typ == unix.SO_TIMESTAMPING:
			m.stamp = parseStamp(data)
		}
	}
}

// parseExtendedErr reads a struct sock_extended_err and the offender's
// sockaddr that follows it (ip(7), IP_RECVERR).
func parseExtendedErr(b []byte, m *message) {
	const size = 16
	if len(b) < size {
		return
	}
	m.queued = true
	m.origin, m.typ, m.code = b[4], b[5], b[6]
	m.info = binary.NativeEndian.Uint32(b[8:])
	m.extension = int(binary.NativeEndian.Uint16(b[12:])) // struct sock_ee_data_rfc4884
	b = b[size:]
	switch {
	case len(b) >= 8 && binary.NativeEndian.Uint16(b) == unix.AF_INET:
		m.offender = netip.AddrFrom4([4]byte(b[4:8]))
	case len(b) >= 24 && binary.NativeEndian.Uint16(b) == unix.AF_INET6:
		m.offender = netip.AddrFrom16([16]byte(b[8:24])).Unmap()
	}
}

// parseStamp reads the software stamp of a struct scm_timestamping: the first
// of three timespecs, zero if the kernel took none.
func parseStamp(b []byte) time.Time {
	var sec, nsec int64
	switch {
	case len(b) >= 48: // 64-bit timespecs
		sec, nsec = int64(binary.NativeEndian.Uint64(b)), int64(binary.NativeEndian.Uint64(b[8:]))
	case len(b) >= 24: // 32-bit timespecs
		sec, nsec = int64(int32(binary.NativeEndian.Uint32(b))), int64(int32(binary.NativeEndian.Uint32(b[4:])))
	}
	if sec == 0 && nsec == 0 {
		return time.Time{}
	}
	return time.Unix(sec, nsec)
}
