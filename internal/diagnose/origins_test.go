package diagnose

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"

	"github.com/whyslow/whyslow/dnscheck"
	"github.com/whyslow/whyslow/trace"
)

// texts is an Exchanger that knows TXT records by name. A name it does not
// know does not exist; while down it answers nothing.
type texts struct {
	records map[string][]string
	down    atomic.Bool
	mu      sync.Mutex
	asked   map[string]int
}

func (x *texts) Exchange(ctx context.Context, q dnscheck.Query) (*dnscheck.Answer, error) {
	if x.down.Load() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if q.Type != dns.TypeTXT {
		return nil, errors.New("not a TXT query")
	}
	x.mu.Lock()
	if x.asked == nil {
		x.asked = make(map[string]int)
	}
	x.asked[q.Name]++
	x.mu.Unlock()
	time.Sleep(20 * time.Millisecond)
	m := new(dns.Msg)
	m.SetQuestion(q.Name, q.Type)
	m.Response = true
	for _, t := range x.records[q.Name] {
		m.Answer = append(m.Answer, &dns.TXT{Hdr: dns.RR_Header{Name: q.Name, Rrtype: dns.TypeTXT, Class: dns.ClassINET}, Txt: []string{t}})
	}
	if len(m.Answer) == 0 {
		m.Rcode = dns.RcodeNameError
	}
	return &dnscheck.Answer{Msg: m}, nil
}

func oneResolver() *dnscheck.Config {
	return &dnscheck.Config{Nameservers: []netip.Addr{netip.MustParseAddr("192.0.2.53")}}
}

// The zone of these tests is one's own: it is asked for documentation
// addresses too.
const ownZone = "as.example"

func TestOrigins(t *testing.T) {
	x := &texts{records: map[string][]string{
		"0.2.0.192.origin.as.example.":    {"64500 | 192.0.2.0/24 | ZZ | iana | 2010-01-01"},
		"0.100.51.198.origin.as.example.": {"64500 | 198.51.0.0/16 | ZZ | iana | ", "64501 64502 | 198.51.100.0/22 | ZZ | iana | "},
		"0.113.0.203.origin.as.example.":  {"what | is | this", "64503 | 10.0.0.0/8 | ZZ", "|", "99999999999 | 203.0.113.0/24", "64503 | 203.0.113/24"},
		"AS64500.as.example.":             {"64500 | ZZ | iana | 2010-01-01 | EXAMPLE-NET - Example, ZZ"},
		"AS64501.as.example.":             {"64500 | ZZ | iana | 2010-01-01 | of another", "64501 | ZZ | iana | 2010-01-01 | " + strings.Repeat("é", 200)},
		"0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.1.0.0.0.8.b.d.0.1.0.0.2.origin6.as.example.": {"64504 | 2001:db8::/32 | ZZ | iana | "},
	}}
	synctest.Test(t, func(t *testing.T) {
		origin := NewOrigins(x, oneResolver(), 53, ownZone+".").Find
		for _, tt := range []struct {
			addr string
			want *trace.AS
		}{
			{"192.0.2.7", &trace.AS{Number: 64500, Name: "EXAMPLE-NET - Example, ZZ", Prefix: "192.0.2.0/24"}},
			{"::ffff:192.0.2.8", &trace.AS{Number: 64500, Name: "EXAMPLE-NET - Example, ZZ", Prefix: "192.0.2.0/24"}},
			{"198.51.100.1", &trace.AS{Number: 64501, Name: strings.Repeat("é", 64), Prefix: "198.51.100.0/22"}},
			{"203.0.113.1", nil},
			{"2001:db8:1::5", &trace.AS{Number: 64504, Prefix: "2001:db8::/32"}},
			{"2001:db8:2::5", nil},
		} {
			got := origin(context.Background(), netip.MustParseAddr(tt.addr))
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tt.addr, diff)
			}
		}
	})
	for name, n := range x.asked {
		if n != 1 {
			t.Errorf("%s was asked for %d times", name, n)
		}
	}
}

// Whom somebody traces is told no more than once for each network, however
// many ask at a time.
func TestOriginsAskOncePerNetwork(t *testing.T) {
	x := &texts{records: map[string][]string{"0.2.0.192.origin.as.example.": {"64500 | 192.0.2.0/24 | ZZ"}}}
	synctest.Test(t, func(t *testing.T) {
		origin := NewOrigins(x, oneResolver(), 53, ownZone).Find
		var wg sync.WaitGroup
		for i := range 100 {
			wg.Go(func() {
				a := netip.AddrFrom4([4]byte{192, 0, 2, byte(i)})
				if as := origin(context.Background(), a); as == nil || as.Number != 64500 {
					t.Errorf("%v: %+v", a, as)
				} else {
					as.Number = 0 // a caller's change is its own
				}
			})
		}
		wg.Wait()
	})
	want := map[string]int{"0.2.0.192.origin.as.example.": 1, "AS64500.as.example.": 1}
	if diff := cmp.Diff(want, x.asked); diff != "" {
		t.Errorf("questions (-want +got):\n%s", diff)
	}
}

func TestOriginsOfSpecialAddressesAreNotAsked(t *testing.T) {
	special := []string{"10.1.2.3", "172.16.0.1", "192.168.1.1", "100.64.0.1", "127.0.0.1", "169.254.1.1", "0.0.0.0", "0.1.2.3", "224.0.0.1",
		"255.255.255.255", "240.0.0.1", "192.0.0.1", "192.0.2.1", "198.18.0.1", "198.51.100.1", "203.0.113.1", "::", "::1", "fe80::1%eth0",
		"fd00::1", "ff02::1", "2001:db8::1", "2002::1", "3fff::1", "64:ff9b::1", "4000::1", "2001::1"}
	for _, zone := range []string{"", originZone, "ASN.cymru.com"} {
		x := new(texts)
		synctest.Test(t, func(t *testing.T) {
			origin := NewOrigins(x, oneResolver(), 53, zone).Find
			for _, a := range append(special, "") {
				addr, _ := netip.ParseAddr(a)
				if as := origin(context.Background(), addr); as != nil || len(x.asked) > 0 {
					t.Errorf("zone %q: %s leads to %v and %v", zone, a, as, x.asked)
				}
			}
			origin(context.Background(), netip.MustParseAddr("198.41.0.4"))
		})
		if n := x.asked["0.0.41.198.origin.asn.cymru.com."]; n != 1 {
			t.Errorf("zone %q: the name of an ordinary address was asked for %d times: %v", zone, n, x.asked)
		}
	}
}

// A resolver that is dead for a while leaves no gap that lasts.
func TestOriginsAfterTimeout(t *testing.T) {
	x := &texts{records: map[string][]string{"0.2.0.192.origin.as.example.": {"64500 | 192.0.2.0/24 | ZZ"}}}
	synctest.Test(t, func(t *testing.T) {
		o := NewOrigins(x, oneResolver(), 53, ownZone)
		origin := o.Find
		x.down.Store(true)
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
				defer cancel()
				start := time.Now()
				if as := origin(ctx, netip.MustParseAddr("192.0.2.1")); as != nil || time.Since(start) > 2*time.Second {
					t.Errorf("%v after %v", as, time.Since(start))
				}
			})
		}
		wg.Wait()
		if !o.Unanswered() {
			t.Error("a dead resolver looks like addresses without an origin")
		}
		x.down.Store(false)
		if as := origin(context.Background(), netip.MustParseAddr("192.0.2.1")); as == nil {
			t.Error("no origin once the resolver answers")
		}
		if o.Unanswered() {
			t.Error("unanswered, once somebody has answered")
		}
	})
}

func TestOriginsStayBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := NewOrigins(new(texts), oneResolver(), 53, ownZone).Find
		for i := range 3 * maxOrigins {
			o(context.Background(), netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 1}))
		}
		x := &Origins{asker: asker{new(texts), oneResolver(), 53}, own: true, networks: make(map[netip.Prefix]*network), names: map[uint32]string{}}
		for i := range 2*maxOrigins + 5 {
			x.Find(context.Background(), netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 1}))
			x.name(context.Background(), uint32(i+1))
		}
		if len(x.networks) > maxOrigins || len(x.names) > maxOrigins {
			t.Errorf("%d networks and %d names are kept", len(x.networks), len(x.names))
		}
	})
}

func FuzzOrigin(f *testing.F) {
	f.Add("64500 64501 | 192.0.2.0/24 | ZZ | iana | 2010-01-01", "64500 | ZZ | iana | 2010-01-01 | EXAMPLE, ZZ")
	f.Add("NA | | |", "| | | |")
	f.Add("4294967296 | 192.0.2.0/33", "0 | a | b | c | \xff\xfe")
	f.Add("64500|192.0.2.1/0", strings.Repeat("|", 300))
	f.Fuzz(func(t *testing.T, origin, name string) {
		addr := netip.MustParseAddr("192.0.2.0")
		answer := func(s string) *dns.Msg {
			m := new(dns.Msg)
			for range 20 {
				m.Answer = append(m.Answer, &dns.TXT{Txt: []string{s[:len(s)/2], s[len(s)/2:]}})
			}
			return m
		}
		if as := originOf(answer(origin), addr); as != nil {
			p, err := netip.ParsePrefix(as.Prefix)
			if err != nil || !p.Contains(addr) || as.Number == 0 {
				t.Errorf("%q gives %+v", origin, as)
			}
			// Leading zeros and strings cut in two aside, the number is in the text.
			if got := fmt.Sprint(as.Number); !strings.Contains(strings.ReplaceAll(origin, "0", ""), strings.ReplaceAll(got, "0", "")) {
				t.Errorf("%q gives number %s", origin, got)
			}
		}
		if n := asNameOf(answer(name), 64500); len(n) > 3*maxASName || !utf8.ValidString(n) {
			t.Errorf("%q gives name %q", name, n)
		}
	})
}
