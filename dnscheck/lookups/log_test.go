package lookups

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/whyslow/whyslow/internal/accesslog"
)

var (
	noon  = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	alice = netip.MustParseAddr("93.184.216.34")
	bob   = netip.MustParseAddr("2a00:1450:4001::7")
)

// request is one of alice's, so many seconds after noon.
func request(after float64, change ...func(*accesslog.Record)) *accesslog.Record {
	r := &accesslog.Record{Client: alice, Time: noon.Add(time.Duration(after * float64(time.Second))), Has: accesslog.FieldClient | accesslog.FieldTime}
	for _, c := range change {
		c(r)
	}
	return r
}

func nth(k int64) func(*accesslog.Record) {
	return func(r *accesslog.Record) { r.KeepAlive = k; r.Has |= accesslog.FieldKeepAlive }
}

func port(p uint16) func(*accesslog.Record) {
	return func(r *accesslog.Record) { r.RemotePort = p; r.Has |= accesslog.FieldRemotePort }
}

func http2(r *accesslog.Record) { r.Protocol = []byte("HTTP/2.0") }

// Apache httpd looks up once a connection over HTTP/1.1, and for each request
// over HTTP/2 and with mod_remoteip (measured: docs of facts in the comments of
// Log).
func TestLookupsThatRequestsCause(t *testing.T) {
	for _, tt := range []struct {
		name      string
		opt       LogOptions
		log       []*accesslog.Record
		low, high int
		exact     bool
	}{
		{"nothing tells connections apart", LogOptions{}, []*accesslog.Record{request(0), request(1), request(4), request(20)}, 2, 4, false},
		{"a longer timeout", LogOptions{KeepAliveTimeout: time.Minute}, []*accesslog.Record{request(0), request(1), request(4), request(20)}, 1, 4, false},
		{"%k", LogOptions{}, []*accesslog.Record{request(0, nth(0)), request(1, nth(1)), request(2, nth(0)), request(3, nth(2))}, 2, 2, true},
		{"ports", LogOptions{}, []*accesslog.Record{request(0, port(1)), request(1, port(2)), request(2, port(1)), request(200, port(1))}, 3, 3, true},
		{"HTTP/2", LogOptions{}, []*accesslog.Record{request(0, http2), request(0, http2, nth(4))}, 2, 2, false},
		{"mod_remoteip", LogOptions{PerRequest: true}, []*accesslog.Record{request(0, nth(0)), request(1, nth(1))}, 2, 2, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := NewLog(tt.opt)
			for _, r := range tt.log {
				l.Add(r)
			}
			v := l.Visitors()
			if len(v) != 1 || v[0].Low != tt.low || v[0].High != tt.high || l.Exact != tt.exact || v[0].Requests != len(tt.log) {
				t.Errorf("%+v, exact %v; want %d to %d lookups, exact %v", v, l.Exact, tt.low, tt.high, tt.exact)
			}
		})
	}
}

func TestWhatIsNotAnAddressIsCountedApart(t *testing.T) {
	l := NewLog(LogOptions{})
	l.Add(request(0))
	l.Add(request(1, func(r *accesslog.Record) { r.Client, r.Name = netip.Addr{}, []byte("host.example") }))
	l.Add(request(2, func(r *accesslog.Record) { r.Client = netip.Addr{} }))
	l.Add(request(3, func(r *accesslog.Record) { r.Client = netip.MustParseAddr("10.1.2.3") }))
	if diff := cmp.Diff([]int{2, 1, 1, 1}, []int{l.Requests, l.Named, l.Absent, l.Special}); diff != "" {
		t.Errorf("requests, named, absent, special (-want +got):\n%s", diff)
	}
	if l.Span() != 3*time.Second {
		t.Errorf("span %v", l.Span())
	}
}

func TestMoreLookupsThanAreKept(t *testing.T) {
	l := NewLog(LogOptions{MaxLookups: 10})
	for i := range 40 {
		l.Add(request(float64(i), nth(0)))
	}
	if len(l.order) != 10 || l.over != 30 || l.scale(nil) != 4 {
		t.Errorf("%d kept, %d over, each stands for %v", len(l.order), l.over, l.scale(nil))
	}
}

func TestReplay(t *testing.T) {
	l := NewLog(LogOptions{})
	for _, at := range []float64{0, 30, 59, 61, 100, 130} {
		l.Add(request(at, nth(0)))
	}
	fate := func(keeps time.Duration) []Fate {
		return []Fate{{Chosen: Chosen{Visitor: l.Visitors()[0], Weight: 1}, Reverse: Cost{Keeps: keeps}}}
	}
	for _, tt := range []struct {
		keeps time.Duration
		want  replayed
	}{
		{time.Minute, replayed{misses: 3, hits: 3}}, // at 0, 61 and 130
		{time.Hour, replayed{misses: 1, hits: 5}},
		{0, replayed{misses: 6}}, // failures are not cached
	} {
		if got := replay(l.lookups(), fate(tt.keeps), false, func(f *Fate) *Cost { return &f.Reverse }); got[0] != tt.want {
			t.Errorf("kept for %v: %+v, want %+v", tt.keeps, got[0], tt.want)
		}
	}
}

func TestSpecialRanges(t *testing.T) {
	for addr, want := range map[string]bool{"10.0.0.1": true, "192.168.3.4": true, "100.64.0.1": true, "127.0.0.1": true, "::1": true, "fd00::1": true,
		"fe80::1": true, "203.0.113.7": true, "::ffff:10.0.0.1": true, "93.184.216.34": false, "2a00:1450::1": false, "100.128.0.1": false} {
		if got := Special(netip.MustParseAddr(addr)); got != want {
			t.Errorf("%s: %v", addr, got)
		}
	}
	if z := ReverseZone(alice); z != "216.184.93.in-addr.arpa." {
		t.Errorf("zone %q", z)
	}
	if z := ReverseZone(bob); z != "1.0.0.4.0.5.4.1.0.0.a.2.ip6.arpa." {
		t.Errorf("zone %q", z)
	}
}
