package dnscheck

import (
	"errors"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

var sameAddr = cmp.Comparer(func(a, b netip.Addr) bool { return a == b })

func TestParseResolvConf(t *testing.T) {
	def := func(edit func(*Config)) *Config {
		c := DefaultConfig()
		c.Nameservers, c.NameserverLines = addrs("192.0.2.1"), []int{1}
		if edit != nil {
			edit(c)
		}
		return c
	}
	const ns = "nameserver 192.0.2.1\n"
	tests := []struct {
		name, in string
		want     *Config
		warn     []string // fragments, one for each warning
	}{
		{"plain", ns, def(nil), nil},
		{"empty", "", DefaultConfig(), []string{"no nameserver"}},
		{"no newline at the end", "nameserver 192.0.2.1", def(nil), nil},
		{"tab, trailing words", "nameserver\t 192.0.2.1 # home\n", def(nil), nil},
		{"comments", "# a\n; b\n" + ns, def(func(c *Config) { c.NameserverLines = []int{3} }), nil},
		{"leading blank hides a line", " nameserver 192.0.2.9\n" + ns, def(func(c *Config) { c.NameserverLines = []int{2} }), []string{"line 1"}},
		{"three at most", ns + "nameserver 192.0.2.2\nnameserver 2001:db8::1\nnameserver 192.0.2.4\n", def(func(c *Config) {
			c.Nameservers, c.NameserverLines = addrs("192.0.2.1", "192.0.2.2", "2001:db8::1"), []int{1, 2, 3}
		}), []string{"line 4: nameserver 192.0.2.4 is never asked"}},
		{"zone", "nameserver fe80::1%eth0\n", def(func(c *Config) { c.Nameservers = addrs("fe80::1%eth0") }), nil},
		{"inet_aton forms", "nameserver 127.1\nnameserver 0x7f.0.0.2\nnameserver 2130706435\n", def(func(c *Config) {
			c.Nameservers, c.NameserverLines = addrs("127.0.0.1", "127.0.0.2", "127.0.0.3"), []int{1, 2, 3}
		}), nil},
		{"no addresses", ns + "nameserver dns.example\nnameserver 192.0.2.256\nnameserver [192.0.2.1]:53\nnameserver\nnameserver \n", def(nil),
			[]string{"line 2", "line 3", "line 4", "line 5", "line 6"}},
		{"search", ns + "search a.example b.example\n", def(func(c *Config) { c.Search, c.SearchLine = []string{"a.example", "b.example"}, 2 }), nil},
		{"domain takes one", ns + "domain a.example b.example\n", def(func(c *Config) { c.Search, c.SearchLine = []string{"a.example"}, 2 }), []string{"line 2"}},
		{"the last of both wins", ns + "search a.example\ndomain b.example\n", def(func(c *Config) { c.Search, c.SearchLine = []string{"b.example"}, 3 }), nil},
		{"root is skipped", ns + "search . a.example.\n", def(func(c *Config) { c.Search, c.SearchRoot, c.SearchLine = []string{"a.example"}, true, 2 }), nil},
		{"a comment in a search line", ns + "search a.example # lab\n", def(func(c *Config) { c.Search, c.SearchLine = []string{"a.example", "#", "lab"}, 2 }), []string{`"#"`}},
		{"options", ns + "options timeout:3 attempts:1 ndots:2 rotate edns0 trust-ad use-vc no-aaaa single-request no-tld-query no-reload\n", def(func(c *Config) {
			c.Timeout, c.Attempts, c.Ndots, c.OptionsLine = 3*time.Second, 1, 2, 2
			c.Rotate, c.EDNS0, c.TrustAD, c.UseVC, c.NoAAAA, c.SingleRequest, c.NoTLDQuery = true, true, true, true, true, true, true
		}), nil},
		{"single-request-reopen is not single-request", ns + "options single-request-reopen\n", def(func(c *Config) { c.SingleRequestReopen, c.OptionsLine = true, 2 }), nil},
		{"caps", ns + "options timeout:60 attempts:9 ndots:99\n", def(func(c *Config) {
			c.Timeout, c.Attempts, c.Ndots, c.OptionsLine = 30*time.Second, 5, 15, 2
		}), []string{"capped at 30", "capped at 5", "capped at 15"}},
		{"atoi", ns + "options timeout:2s attempts:x\n", def(func(c *Config) { c.Timeout, c.Attempts, c.OptionsLine = 2*time.Second, 0, 2 }), []string{"no server at all"}},
		{"unknown", ns + "nameservers 192.0.2.2\nfoo bar\noptions debug:3\n", def(func(c *Config) { c.OptionsLine = 4 }), []string{"line 2", "line 3", "line 4"}},
		{"garbage", ns + "\x00\xff\x1b[31m\n\x7f\x80 x\n", def(nil), []string{"line 3"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ParseResolvConf(strings.NewReader(tt.in))
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tt.want, got, sameAddr, cmpopts.IgnoreFields(Config{}, "Warnings", "Options"), cmpopts.EquateEmpty()); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
			if len(got.Warnings) != len(tt.warn) {
				t.Fatalf("warnings %q, want %d", got.Warnings, len(tt.warn))
			}
			for i, w := range tt.warn {
				if !strings.Contains(got.Warnings[i], w) {
					t.Errorf("warning %q, want %q in it", got.Warnings[i], w)
				}
			}
		})
	}
}

func TestParseResolvConfErrors(t *testing.T) {
	if _, err := ParseResolvConf(iotest.ErrReader(errors.New("disk on fire"))); err == nil {
		t.Error("a failing reader gives no error")
	}
	if _, err := ParseResolvConf(io.LimitReader(endless{}, 10<<20)); err == nil {
		t.Error("an endless file gives no error")
	}
	if _, err := LoadResolvConf(t.TempDir()); err == nil {
		t.Error("a directory gives no error")
	}
}

type endless struct{}

func (endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = 'x'
	}
	return len(b), nil
}

func TestLoadResolvConfMissing(t *testing.T) {
	c, err := LoadResolvConf(filepath.Join(t.TempDir(), "none"))
	if err != nil {
		t.Fatal(err)
	}
	if c.Nameservers[0] != netip.MustParseAddr("127.0.0.1") || len(c.Warnings) != 1 {
		t.Errorf("got %+v", c)
	}
}

// res_send.c: seconds = retrans << ns, divided by nscount for ns > 0.
func TestServerWait(t *testing.T) {
	tests := []struct {
		timeout time.Duration
		servers int
		want    []time.Duration
	}{
		{5 * time.Second, 1, []time.Duration{5 * time.Second}},
		{5 * time.Second, 2, []time.Duration{5 * time.Second, 5 * time.Second}},
		{5 * time.Second, 3, []time.Duration{5 * time.Second, 3 * time.Second, 6 * time.Second}},
		{1 * time.Second, 3, []time.Duration{time.Second, time.Second, time.Second}},
		{0, 2, []time.Duration{time.Second, time.Second}},
		{30 * time.Second, 3, []time.Duration{30 * time.Second, 20 * time.Second, 40 * time.Second}},
	}
	for _, tt := range tests {
		c := &Config{Timeout: tt.timeout, Nameservers: make([]netip.Addr, tt.servers)}
		var got []time.Duration
		for i := range tt.servers {
			got = append(got, c.ServerWait(i))
		}
		if d := cmp.Diff(tt.want, got); d != "" {
			t.Errorf("timeout %v, %d servers (-want +got):\n%s", tt.timeout, tt.servers, d)
		}
	}
}

func TestParseTarget(t *testing.T) {
	long := strings.Repeat("a.", 126) + "a" // 253
	tests := []struct {
		in, name, addr string
		bad            bool
	}{
		{in: "www.example.com", name: "www.example.com"},
		{in: "www.example.com.", name: "www.example.com."},
		{in: "bücher.example", name: "xn--bcher-kva.example"},
		{in: "BÜCHER.example.", name: "xn--bcher-kva.example."},
		{in: "_dmarc.example.com", name: "_dmarc.example.com"},
		{in: "192.0.2.1", addr: "192.0.2.1"},
		{in: "[2001:db8::1]", addr: "2001:db8::1"},
		{in: "fe80::1%eth0", addr: "fe80::1%eth0"},
		{in: "1.2.0.192.in-addr.arpa", addr: "192.0.2.1"},
		{in: "1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa.", addr: "2001:db8::1"},
		{in: "2.0.192.in-addr.arpa", name: "2.0.192.in-addr.arpa"},
		{in: long, name: long},
		{in: long + ".b", bad: true},
		{in: "", bad: true},
		{in: ".", bad: true},
		{in: "a..b", bad: true},
		{in: strings.Repeat("a", 64) + ".example", bad: true},
		{in: "a b.example", bad: true},
		{in: "evil\x1b[31m.example", bad: true},
		{in: `a\.b.example`, bad: true},
		{in: strings.Repeat("ü", 5000), bad: true},
	}
	for _, tt := range tests {
		got, err := parseTarget(tt.in)
		if (err != nil) != tt.bad {
			t.Errorf("%.40q: error %v", tt.in, err)
			continue
		}
		addr := ""
		if got.addr.IsValid() {
			addr = got.addr.String()
		}
		if got.name != tt.name || addr != tt.addr {
			t.Errorf("%.40q: got %q %q, want %q %q", tt.in, got.name, addr, tt.name, tt.addr)
		}
	}
}

func TestHosts(t *testing.T) {
	file := filepath.Join(t.TempDir(), "hosts")
	text := "127.0.0.1 localhost\n192.0.2.1 www.example.com www # mine\n2001:db8::1\tWWW.example.com\nnonsense www\n192.0.2.2 www\n192.0.2.1 www\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		f    Family
		want []netip.Addr
	}{
		{"www.example.com", Any, addrs("192.0.2.1", "2001:db8::1")},
		{"www.example.com", IPv6, addrs("2001:db8::1")},
		{"www", Any, addrs("192.0.2.1", "192.0.2.2")},
		{"www", IPv6, nil},
		{"mine", Any, nil},
		{"www.example.com.", Any, nil},
	}
	for _, tt := range tests {
		if d := cmp.Diff(tt.want, lookupHosts(file, tt.name, tt.f), sameAddr); d != "" {
			t.Errorf("%s %d (-want +got):\n%s", tt.name, tt.f, d)
		}
	}
	st, err := Resolve(t.Context(), Options{Name: "www", Config: DefaultConfig(), Hosts: file, Exchanger: &fakeNet{}})
	if err != nil {
		t.Fatal(err)
	}
	if st.Source != "hosts" || len(st.Notes) == 0 || len(st.Addrs) != 2 {
		t.Errorf("got %+v", st)
	}
}

func FuzzParseResolvConf(f *testing.F) {
	for _, s := range []string{"", threeServers, "search . a b\noptions ndots:-1 timeout:-9 attempts:99999999999999\n", "nameserver fe80::1%eth0 x\n", "nameserver 0x1.07\n\x00", "domain\n options"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		c, err := ParseResolvConf(strings.NewReader(s))
		if err != nil {
			return
		}
		if n := len(c.Nameservers); n < 1 || n > maxNameservers {
			t.Errorf("%d nameservers", n)
		}
		if c.Timeout < 0 || c.Timeout > maxTimeout || c.Attempts < 0 || c.Attempts > maxAttempts || c.Ndots < 0 || c.Ndots > maxNdots {
			t.Errorf("out of bounds: %+v", c)
		}
		if len(c.Warnings) > maxConfWarnings+1 || len(c.Search) > maxSearch {
			t.Errorf("%d warnings, %d search domains", len(c.Warnings), len(c.Search))
		}
		c.View(53)
	})
}
