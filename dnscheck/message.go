package dnscheck

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/miekg/dns"
)

// maxRecords bounds the records kept of one reply. A 64 KiB message can hold
// about 5,400 of the smallest; no address set comes near.
const maxRecords = 2048

// errNotOurs marks a reply that belongs to another query.
var errNotOurs = errors.New("dnscheck: reply to another question")

// packQuery builds the message of q, choosing an id where q has none.
func packQuery(q *Query) ([]byte, error) {
	if q.ID == 0 {
		q.ID = randomID()
	}
	if q.Class == 0 {
		q.Class = dns.ClassINET
	}
	m := &dns.Msg{
		MsgHdr:   dns.MsgHdr{Id: q.ID, RecursionDesired: !q.NoRD, AuthenticatedData: q.AD, CheckingDisabled: q.CD},
		Question: []dns.Question{{Name: dns.Fqdn(q.Name), Qtype: q.Type, Qclass: q.Class}},
	}
	if q.EDNS > 0 {
		m.SetEdns0(q.EDNS, q.DO)
	}
	b, err := m.Pack()
	if err != nil {
		return nil, fmt.Errorf("dnscheck: packing a query for %s: %w", quote(q.Name), err)
	}
	return b, nil
}

func randomID() uint16 {
	return uint16(1 + rand.IntN(65535))
}

// readReply decides whether msg answers q, and reads it. errNotOurs means no;
// any other error means that it does, but cannot be read.
func readReply(q Query, msg []byte) (*Answer, error) {
	if len(msg) < 12 || binary.BigEndian.Uint16(msg) != q.ID || msg[2]&0x80 == 0 {
		return nil, errNotOurs
	}
	m := new(dns.Msg)
	var hdr [12]byte
	copy(hdr[:4], msg) // the counts stay 0: only the flags are read here
	if err := m.Unpack(hdr[:]); err != nil {
		return nil, fmt.Errorf("dnscheck: reading the header: %w", err)
	}
	a := &Answer{Msg: m, Size: len(msg), Truncated: m.Truncated}
	qd := binary.BigEndian.Uint16(msg[4:])
	if qd == 0 && (m.Rcode == dns.RcodeFormatError || m.Rcode == dns.RcodeNotImplemented) {
		// A server that did not understand the query cannot repeat its
		// question; res_send.c makes the same exception.
		return a, nil
	}
	if qd != 1 {
		return nil, errNotOurs
	}
	name, off, err := dns.UnpackDomainName(msg, 12)
	if err != nil || off+4 > len(msg) {
		return nil, errNotOurs
	}
	m.Question = []dns.Question{{Name: name, Qtype: binary.BigEndian.Uint16(msg[off:]), Qclass: binary.BigEndian.Uint16(msg[off+2:])}}
	if !strings.EqualFold(name, dns.Fqdn(q.Name)) || m.Question[0].Qtype != q.Type || m.Question[0].Qclass != q.Class {
		return nil, errNotOurs
	}
	return a, readSections(a, msg, off+4)
}

// readSections reads the records. It does not use Msg.Unpack, which throws a
// whole section away when its last record was cut: with TC set, or in the
// replies of servers that cut without saying so, the records before the cut
// are good. Only an answer section that cannot be read is an error.
func readSections(a *Answer, msg []byte, off int) error {
	left := maxRecords
	for i, dst := range []*[]dns.RR{&a.Msg.Answer, &a.Msg.Ns, &a.Msg.Extra} {
		n := int(binary.BigEndian.Uint16(msg[6+2*i:]))
		for ; n > 0 && left > 0; n-- {
			if off >= len(msg) {
				// Fewer records than announced: cut, TC or not.
				a.Truncated = true
				return nil
			}
			rr, next, err := dns.UnpackRR(msg, off)
			if err != nil || next <= off {
				if a.Msg.Truncated || cutShort(msg, off) {
					a.Truncated = true
					return nil
				}
				if i == 0 {
					return fmt.Errorf("dnscheck: reading the answer section: %w", err)
				}
				return nil
			}
			off, left = next, left-1
			*dst = append(*dst, rr)
		}
	}
	return nil
}

// cutShort reports whether the record at off runs past the end of msg, which
// tells a datagram that was cut from one that is garbage.
func cutShort(msg []byte, off int) bool {
	for off < len(msg) {
		switch c := msg[off]; {
		case c == 0:
			off++
		case c&0xc0 == 0xc0:
			off += 2
		case c&0xc0 != 0:
			return false
		default:
			off += 1 + int(c)
			continue
		}
		if off+10 > len(msg) {
			return true
		}
		return off+10+int(binary.BigEndian.Uint16(msg[off+8:])) > len(msg)
	}
	return true
}

// ede returns the extended error of a reply (RFC 8914), "" if it has none.
func ede(m *dns.Msg) string {
	if m == nil {
		return ""
	}
	opt := m.IsEdns0()
	if opt == nil {
		return ""
	}
	for _, o := range opt.Option {
		e, ok := o.(*dns.EDNS0_EDE)
		if !ok {
			continue
		}
		s := fmt.Sprintf("%d", e.InfoCode)
		if text, ok := dns.ExtendedErrorCodeToString[e.InfoCode]; ok {
			s += " " + text
		}
		if e.ExtraText != "" {
			s += ": " + bounded(e.ExtraText, 200)
		}
		return s
	}
	return ""
}

// bounded cuts s, somebody else's text, to n bytes.
func bounded(s string, n int) string {
	if len(s) > n {
		return s[:n] + "…"
	}
	return s
}
