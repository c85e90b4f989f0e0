package cli

import (
	"strings"
	"testing"
)

// refused fails unless a command line is a usage error that says want, prints
// nothing as a result and tells no secret.
func refused(t *testing.T, args []string, want string) {
	t.Helper()
	got := run(t, args...)
	if got.status != statusUsage || got.out != "" {
		t.Errorf("%q: status %d, output %q", args, got.status, got.out)
	}
	if !strings.Contains(got.err, want) {
		t.Errorf("%q: stderr %q does not say %q", args, got.err, want)
	}
	for _, secret := range []string{"HUNTER", "SEK", "\x1b", `\n`} {
		if strings.Contains(got.err, secret) {
			t.Errorf("%q: stderr %q tells %q", args, got.err, secret)
		}
	}
}

// Once "--source 1.2.3.4" was the verdict "network unreachable, 0.96", and
// "-6 http://127.0.0.1/" one on the DNS.
func TestMistakesOfThisHostAreNoVerdicts(t *testing.T) {
	for _, command := range []string{"report", "http", "trace", "pmtu", "dns"} {
		t.Run(command, func(t *testing.T) {
			refused(t, []string{command, "127.0.0.1", "--source", "203.0.113.99"}, "--source: 203.0.113.99 is no address of this host; this host has 127.0.0.1")
			refused(t, []string{command, "127.0.0.1", "--source", "0.0.0.0"}, "--source:")
			refused(t, []string{command, "127.0.0.1", "--source", "224.0.0.1"}, "--source:")
			refused(t, []string{command, "127.0.0.1", "--source", "fe80::1"}, "--source: fe80::1 needs its interface")
			refused(t, []string{command, "127.0.0.1", "--source", "127.0.0.1", "-6"}, "--source:")
			refused(t, []string{command, "127.0.0.1", "-6"}, "127.0.0.1 is")
			refused(t, []string{command, "::1", "-4"}, "::1 is")
			refused(t, []string{command, "127.0.0.1", "--interface", "nosuch"}, "--interface:")
		})
	}
	for _, command := range []string{"report", "http", "trace", "pmtu"} {
		refused(t, []string{command, "::1", "--source", "127.0.0.1"}, "--source: 127.0.0.1 cannot reach ::1, which is of the other address family")
		refused(t, []string{command, "203.0.113.99", "--source", "127.0.0.1"}, "--source: 127.0.0.1 reaches this host alone")
		refused(t, []string{command, "fe80::1"}, "fe80::1 is the same on every link: name its interface")
		refused(t, []string{command, "fe80::1%nosuch"}, `"nosuch" is no interface of this host`)
		refused(t, []string{command, "224.0.0.1"}, "the address of a group or of all")
	}
	for _, command := range []string{"trace", "pmtu"} {
		refused(t, []string{command, "0.0.0.0"}, "this host itself is 127.0.0.1")
		refused(t, []string{command, "http://[::]:8080/"}, "this host itself is 127.0.0.1")
		refused(t, []string{command, "127.0.0.1", "-I", "-p", "80"}, "-p, --port: ICMP echo has no ports")
	}
	refused(t, []string{"trace", "127.0.0.1", "127.0.0.2", "--format", "html"}, "jsonl")
	refused(t, []string{"dns", "localhost", "@::1", "--source", "127.0.0.1"}, "@::1: --source: 127.0.0.1 cannot reach ::1")
}

// inet_aton and browsers read 127.1 as an address; here it was "no such name,
// almost certain".
func TestShortAddressesAreNoNames(t *testing.T) {
	for host, want := range map[string]string{
		"127.1": "127.0.0.1", "0x7f.1": "127.0.0.1", "2130706433": "127.0.0.1", "0x7f000001": "127.0.0.1",
		"0177.0.0.01": "127.0.0.1", "192.168.257": "192.168.1.1", "0": "0.0.0.0", "127.0.0.1.": "127.0.0.1",
		"1.2.3.256": "no IPv4 address", "1.2.3.4.5": "no IPv4 address", "256.1": "no IPv4 address",
		"4294967296": "no IPv4 address", "99999999999999999999": "no IPv4 address", "08.8.8.8": "8.8.8.8",
	} {
		for _, command := range []string{"report", "http", "trace", "pmtu", "dns"} {
			refused(t, []string{command, host}, want)
		}
		refused(t, []string{"http", "http://" + host + ":8080/"}, want)
	}
	for _, host := range []string{"1.example", "web.1", "0x.example", "a1", "0xg", "1-2"} {
		if err := checkHost(host); err != nil {
			t.Errorf("%s is refused: %v", host, err)
		}
	}
}

// These were measured, and the advice was "run again with more time".
func TestUnusableURLsAreNotMeasured(t *testing.T) {
	label := strings.Repeat("a", 64)
	name := strings.Repeat("abcdefg.", 40) + "example"
	tests := []struct{ name, host, want string }{
		{"two dots", "a..b", "two dots in a row"},
		{"a dot in front", ".example.com", "nothing before a dot"},
		{"only a dot", ".", "nothing before a dot"},
		{"a long label", label + ".example", "a label of 64 bytes"},
		{"a long name", name, "a name of 327 bytes"},
		{"a space", "a b.example", "host"},
		{"a control character", "a\x01b.example", "host"},
		{"a quote", `a"b.example`, "holds '\"'"},
		{"an asterisk", "*.example.com", "holds '*'"},
		{"no international name", "\u2024\u0300.example", "no valid international name"},
		{"a long international label", strings.Repeat("ü", 63) + ".example", "holds"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, args := range [][]string{{"report", "http://" + tt.host + "/"}, {"http", tt.host},
				{"trace", tt.host}, {"pmtu", tt.host + ":80"}, {"dns", tt.host}} {
				want := tt.want
				if args[0] == "dns" && want == "host" {
					want = "host name" // net/url has no say there
				}
				refused(t, args, want)
			}
		})
	}
	long := "http://127.0.0.1/" + strings.Repeat("a", 9000)
	for _, command := range []string{"report", "http", "trace", "pmtu"} {
		refused(t, []string{command, long}, "is 9017 bytes long; no URL above 8192")
	}
	if got := run(t, "http", long); len(got.err) > 500 {
		t.Errorf("the whole URL is repeated: %d bytes", len(got.err))
	}
}

// mailto:x@y was taken for the user x of the host y.
func TestOtherSchemesAreNoHosts(t *testing.T) {
	for _, arg := range []string{"mailto:x@y", "javascript:alert(1)", "http:www.example.com", "https:/www.example.com", "file:/etc/passwd",
		"data:text/html,x", "urn:isbn:1", "al:HUNTER@127.0.0.1", "127.0.0.1:http", "127.0.0.1:", "2001:db8::zz", "ws://h/", "HTTPX://h/"} {
		for _, command := range []string{"report", "http", "trace", "pmtu"} {
			refused(t, []string{command, arg}, "http")
		}
	}
	refused(t, []string{"dns", "https://al:HUNTER@h.example/?k=SEK"}, "give the host alone")
	refused(t, []string{"dns", "mailto:x@y"}, "no domain name")
}

// A usage error repeated the password and the key.
func TestErrorsTellNoSecrets(t *testing.T) {
	for _, url := range []string{
		"http://al:HUNTER2@127.0.0.1:99999/?key=SEK",
		"http://al:HUN/HUNTER@127.0.0.1/?SEK",
		"http://al:HUN?HUNTER@127.0.0.1/",
		"http://al:HUNTER@a..b/?SEK=",
		"http://al:HUNTER%zz@127.0.0.1/",
		"http://al:HUNTER@[::1/?a=SEK",
		"ftp://al:HUNTER@127.0.0.1/#SEK",
		"http://al:HUNTER@127.0.0.1/" + strings.Repeat("a", 9000) + "?SEK",
	} {
		for _, command := range []string{"report", "http", "trace", "pmtu"} {
			refused(t, []string{command, url}, "127.0.0.1"[:0])
		}
	}
	secret := "http://al:HUNTER2@www.example.com/?SEK"
	refused(t, []string{secret}, "is no command")
	refused(t, []string{"report", "x", secret}, "one URL at a time")
	refused(t, []string{"doctor", secret}, "takes no argument")
	refused(t, []string{"demo", "healthy", secret}, "one scenario at a time")
	refused(t, []string{"http", "-H", "Authorization Bearer SEK", "http://127.0.0.1/"}, "no colon")
}

// What was dropped or overruled without a word.
func TestNothingIsIgnoredSilently(t *testing.T) {
	url := "http://127.0.0.1/"
	tests := []struct {
		args []string
		want string
	}{
		{[]string{"report", url, "--json", "--format", "text"}, "--json and --format text exclude each other"},
		{[]string{"demo", "--list", "--format", "html", "--json"}, "exclude each other"},
		{[]string{"report", url, "-X", ""}, `-X, --request: "" is no method`},
		{[]string{"http", url, "--request="}, `-X, --request: "" is no method`},
		{[]string{"http", url, "-A", ""}, "-A, --user-agent: is empty"},
		{[]string{"http", url, "--cacert", ""}, "--cacert: is empty"},
		{[]string{"http", url, "--interface", ""}, "--interface: is empty"},
		{[]string{"doctor", "--resolv-conf", ""}, "--resolv-conf: is empty"},
		{[]string{"doctor", "--resolv-conf", "no-such-file"}, "--resolv-conf: no-such-file: "},
		{[]string{"dns", "localhost", "--resolv-conf", "testdata"}, "--resolv-conf: testdata is a directory"},
		{[]string{"http", "--cacert", "testdata", url}, "--cacert: testdata is a directory"},
		{[]string{"http", url, "-H", "content-length: 5"}, "content-length cannot be set"},
		{[]string{"http", url, "-H", "Transfer-Encoding: chunked"}, "Transfer-Encoding cannot be set"},
		{[]string{"report", url, "-H", "Connection: close"}, "Connection cannot be set"},
		{[]string{"report", url, "-H", "Host: a b"}, `Host: "a b" is no host`},
		{[]string{"report", url, "-H", "Host: http://x/"}, "is no host"},
		{[]string{"report", url, "-H", "host:"}, "Host is empty"},
		{[]string{"report", url, "-H", "Host: a", "-H", "host: b"}, "Host is given twice"},
		{[]string{"trace", "127.0.0.1", "-f", "20", "-m", "3"}, "-f, --first: 20 lies beyond the largest TTL, 3"},
		{[]string{"trace", "127.0.0.1", "-f", "31"}, "-f, --first: 31 lies beyond the largest TTL, 30"},
	}
	for _, tt := range tests {
		refused(t, tt.args, tt.want)
	}
	for _, host := range []string{"alias.example", "alias.example:8080", "192.0.2.1", "[2001:db8::1]:80"} {
		var fields []header
		if err := (headerValue{&fields}).Set("Host: " + host); err != nil {
			t.Errorf("Host %s: %v", host, err)
		}
	}
}
