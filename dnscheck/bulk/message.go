package bulk

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"time"

	"github.com/miekg/dns"
)

// headerLen is what every message begins with (RFC 1035 4.1.1).
const headerLen = 12

var (
	errShort = errors.New("bulk: the message ends too early")
	errName  = errors.New("bulk: a name that cannot be")
)

// appendQuery writes the message of q with an identifier.
func appendQuery(b []byte, q *Query, id uint16) ([]byte, error) {
	b = binary.BigEndian.AppendUint16(b, id)
	b = append(b, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0) // RD, one question
	typ := q.Type
	if q.Addr.IsValid() {
		typ = dns.TypePTR
		b = appendReverse(b, q.Addr)
	} else {
		var name [256]byte
		n, err := dns.PackDomainName(dns.Fqdn(q.Name), name[:], 0, nil, false)
		if err != nil {
			return b, err
		}
		b = append(b, name[:n]...)
	}
	b = binary.BigEndian.AppendUint16(b, typ)
	return binary.BigEndian.AppendUint16(b, dns.ClassINET), nil
}

const hexDigits = "0123456789abcdef"

// appendReverse writes the name of an address under in-addr.arpa (RFC 1035
// 3.5) or ip6.arpa (RFC 3596 2.5).
func appendReverse(b []byte, a netip.Addr) []byte {
	a = a.Unmap()
	if a.Is4() {
		octets := a.As4()
		for i := 3; i >= 0; i-- {
			at := len(b)
			b = append(b, 0)
			b = appendDecimal(b, octets[i])
			b[at] = byte(len(b) - at - 1)
		}
		return append(b, "\x07in-addr\x04arpa\x00"...)
	}
	octets := a.As16()
	for i := 15; i >= 0; i-- {
		b = append(b, 1, hexDigits[octets[i]&15], 1, hexDigits[octets[i]>>4])
	}
	return append(b, "\x03ip6\x04arpa\x00"...)
}

func appendDecimal(b []byte, v byte) []byte {
	if v >= 100 {
		b = append(b, '0'+v/100)
	}
	if v >= 10 {
		b = append(b, '0'+v/10%10)
	}
	return append(b, '0'+v%10)
}

// reply is what is read of a message.
type reply struct {
	rcode     int
	truncated bool
	names     []string
	addrs     []netip.Addr
	ttl       uint32
	known     bool // ttl is
}

// sameQuestion reports whether msg is an answer to the question that begins at
// headerLen of query: names by letter, whatever their case (RFC 4343).
func sameQuestion(msg, query []byte) bool {
	if len(msg) < len(query) || msg[2]&0x80 == 0 || binary.BigEndian.Uint16(msg[4:]) != 1 {
		return false
	}
	for i := headerLen; i < len(query); i++ {
		if lower(msg[i]) != lower(query[i]) {
			return false
		}
	}
	return true
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		c += 'a' - 'A'
	}
	return c
}

// read reads the records behind a question that ends at off.
func (r *reply) read(msg []byte, off int, typ uint16) error {
	*r = reply{rcode: int(msg[3] & 15), truncated: msg[2]&2 != 0, names: r.names[:0], addrs: r.addrs[:0]}
	if r.truncated {
		return nil // it is asked for again over TCP
	}
	answers, authorities := int(binary.BigEndian.Uint16(msg[6:])), int(binary.BigEndian.Uint16(msg[8:]))
	for i := range answers + authorities {
		rr, next, err := readRecord(msg, off)
		if err != nil {
			return err
		}
		off = next
		if rr.class != dns.ClassINET {
			continue
		}
		if i < answers {
			err = r.answer(msg, rr, typ)
		} else if rr.typ == dns.TypeSOA {
			err = r.soa(msg, rr)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// record is a resource record whose data are msg[data:data+length].
type record struct {
	typ, class   uint16
	ttl          uint32
	data, length int
}

func readRecord(msg []byte, off int) (rr record, next int, err error) {
	if off, err = skipName(msg, off); err != nil {
		return rr, 0, err
	}
	if off+10 > len(msg) {
		return rr, 0, errShort
	}
	rr = record{typ: binary.BigEndian.Uint16(msg[off:]), class: binary.BigEndian.Uint16(msg[off+2:]),
		ttl: binary.BigEndian.Uint32(msg[off+4:]), data: off + 10, length: int(binary.BigEndian.Uint16(msg[off+8:]))}
	if rr.ttl > 1<<31-1 {
		rr.ttl = 0 // RFC 2181 8
	}
	next = rr.data + rr.length
	if next > len(msg) {
		return rr, 0, errShort
	}
	return rr, next, nil
}

// skipName returns where the name at off ends.
func skipName(msg []byte, off int) (int, error) {
	for length := 0; ; {
		if off >= len(msg) {
			return 0, errShort
		}
		c := int(msg[off])
		switch {
		case c == 0:
			return off + 1, nil
		case c >= 0xc0: // a pointer ends it (RFC 1035 4.1.4)
			if off+2 > len(msg) {
				return 0, errShort
			}
			return off + 2, nil
		case c > 63:
			return 0, errName
		}
		if length += c + 1; length > 254 {
			return 0, errName
		}
		off += c + 1
	}
}

// answer takes a record of the answer section. The chain of CNAMEs to it (RFC
// 2317) is kept as long as its shortest link.
func (r *reply) answer(msg []byte, rr record, typ uint16) error {
	switch {
	case rr.typ == dns.TypeCNAME || rr.typ == dns.TypeDNAME:
	case rr.typ != typ:
		return nil
	case typ == dns.TypePTR:
		name, end, err := dns.UnpackDomainName(msg[:rr.data+rr.length], rr.data)
		if err != nil || end != rr.data+rr.length {
			return errName
		}
		if len(r.names) < MaxNames {
			r.names = append(r.names, name)
		}
	case typ == dns.TypeA && rr.length == 4, typ == dns.TypeAAAA && rr.length == 16:
		if a, ok := netip.AddrFromSlice(msg[rr.data : rr.data+rr.length]); ok && len(r.addrs) < MaxAddrs {
			r.addrs = append(r.addrs, a)
		}
	case typ == dns.TypeA || typ == dns.TypeAAAA:
		return errShort
	}
	if !r.known || rr.ttl < r.ttl {
		r.ttl, r.known = rr.ttl, true
	}
	return nil
}

// soa takes how long an answer without records may be kept.
func (r *reply) soa(msg []byte, rr record) error {
	if len(r.names)+len(r.addrs) > 0 || rr.length < 22 {
		return nil
	}
	least := min(rr.ttl, binary.BigEndian.Uint32(msg[rr.data+rr.length-4:]))
	if !r.known || least < r.ttl {
		r.ttl, r.known = least, true
	}
	return nil
}

func (r *reply) keeps() time.Duration { return time.Duration(r.ttl) * time.Second }
