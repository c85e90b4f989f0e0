package bulk

import (
	"net/netip"
	"testing"

	"github.com/miekg/dns"
)

// FuzzReply holds the reader against miekg/dns: it never panics, keeps its
// bounds, and where both read a message they agree.
func FuzzReply(f *testing.F) {
	query, err := appendQuery(nil, &Query{Addr: netip.MustParseAddr("192.0.2.1")}, 77)
	if err != nil {
		f.Fatal(err)
	}
	var q dns.Msg
	if err := q.Unpack(query); err != nil {
		f.Fatal(err)
	}
	for _, change := range []func(m *dns.Msg){
		func(m *dns.Msg) { m.Answer = []dns.RR{ptr(m.Question[0], "a.example.", 60)} },
		func(m *dns.Msg) { m.Rcode, m.Ns = dns.RcodeNameError, []dns.RR{soa("example.", 60, 30)} },
		func(m *dns.Msg) { m.Truncated = true },
		func(m *dns.Msg) { m.Compress = true; m.Answer = []dns.RR{ptr(m.Question[0], m.Question[0].Name, 0)} },
	} {
		m := new(dns.Msg).SetReply(&q)
		change(m)
		b, err := m.Pack()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, msg []byte) {
		if len(msg) < headerLen || !sameQuestion(msg, query) {
			return
		}
		var r reply
		err := r.read(msg, len(query), dns.TypePTR)
		if len(r.names) > MaxNames || len(r.addrs) > MaxAddrs {
			t.Fatalf("%d names, %d addresses", len(r.names), len(r.addrs))
		}
		var m dns.Msg
		if m.Unpack(msg) != nil || err != nil || m.Truncated {
			return
		}
		var want []string
		for _, rr := range m.Answer {
			if p, ok := rr.(*dns.PTR); ok && p.Hdr.Class == dns.ClassINET && len(want) < MaxNames {
				want = append(want, p.Ptr)
			}
		}
		if len(want) != len(r.names) {
			t.Fatalf("names %q, want %q", r.names, want)
		}
		for i := range want {
			if want[i] != r.names[i] {
				t.Fatalf("names %q, want %q", r.names, want)
			}
		}
	})
}

// FuzzReverse holds the names of addresses against miekg/dns.
func FuzzReverse(f *testing.F) {
	f.Add([]byte{192, 0, 2, 255})
	f.Add([]byte("\x20\x01\x0d\xb8............"))
	f.Fuzz(func(t *testing.T, b []byte) {
		a, ok := netip.AddrFromSlice(b)
		if !ok {
			return
		}
		want, err := dns.ReverseAddr(a.Unmap().String())
		if err != nil {
			t.Fatal(err)
		}
		got, end, err := dns.UnpackDomainName(appendReverse(nil, a), 0)
		if err != nil || got != want || end != len(appendReverse(nil, a)) {
			t.Errorf("%v: %q, %v, want %q", a, got, err, want)
		}
	})
}
