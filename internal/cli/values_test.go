package cli

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/whyslow/whyslow/httpcheck"
)

// parse parses args with the common flags.
func parse(t *testing.T, args ...string) (*common, error) {
	t.Helper()
	var c common
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	c.addTo(fs, letters{insecure: "k", iface: "i", source: "s"})
	err := fs.Parse(args)
	if err == nil {
		err = c.check()
	}
	return &c, err
}

func TestDurations(t *testing.T) {
	tests := []struct {
		in   string
		want time.Duration
		ok   bool
	}{
		{"5", 5 * time.Second, true},
		{"0.25", 250 * time.Millisecond, true},
		{"250ms", 250 * time.Millisecond, true},
		{"1m30s", 90 * time.Second, true},
		{"1e1", 10 * time.Second, true},
		{"", 0, false},
		{"abc", 0, false},
		{"NaN", 0, false},
		{"Inf", 0, false},
		{"1e300", 0, false},
		{"0", 0, false},        // below the least
		{"-5", 0, false},       //
		{"2h", 0, false},       // above the most
		{"5 s", 0, false},      // no space
		{"0x10p0", 16e9, true}, // a number is a number
	}
	for _, tt := range tests {
		t.Run(tt.in, func(t *testing.T) {
			c, err := parse(t, "--max-time="+tt.in)
			if (err == nil) != tt.ok {
				t.Fatalf("error %v, want ok %v", err, tt.ok)
			}
			if tt.ok && c.maxTime != tt.want {
				t.Errorf("got %v, want %v", c.maxTime, tt.want)
			}
		})
	}
}

func TestCommonFlags(t *testing.T) {
	dir := t.TempDir()
	html, json := dir+"/a.HTML", dir+"/b.json"
	_, err := parse(t, "-6", "-k", "-s", "::ffff:127.0.0.1", "--json", "-o", html, "-o", json, "-v", "--quiet", "--color", "never")
	if err == nil {
		t.Error("an IPv4 source went with -6")
	}
	c, err := parse(t, "-4", "-k", "-s", "::ffff:127.0.0.1", "--json", "-o", html, "-o", json, "-v", "--quiet", "--color", "never")
	if err != nil {
		t.Fatal(err)
	}
	want := &common{ipv4: true, insecure: true, source: netip.MustParseAddr("127.0.0.1"),
		format: formatJSON, json: true, outputs: []output{{html, formatHTML}, {json, formatJSON}}, formats: formats(),
		color: "never", quiet: true, verbose: true}
	if diff := cmp.Diff(want, c, cmp.AllowUnexported(common{}, output{}, format{}), cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if c.family() != 4 {
		t.Errorf("family %d", c.family())
	}
}

func TestColor(t *testing.T) {
	tests := []struct {
		name     string
		flag     string
		terminal bool
		vars     map[string]string
		want     bool
	}{
		{"a terminal", "auto", true, nil, true},
		{"a pipe", "auto", false, nil, false},
		{"NO_COLOR", "auto", true, map[string]string{"NO_COLOR": "1"}, false},
		{"NO_COLOR empty means nothing", "auto", true, map[string]string{"NO_COLOR": ""}, true},
		{"a dumb terminal", "auto", true, map[string]string{"TERM": "dumb"}, false},
		{"always beats NO_COLOR", "always", false, map[string]string{"NO_COLOR": "1"}, true},
		{"never", "never", true, nil, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := &common{color: tt.flag}
			env := Env{OutTerminal: tt.terminal, Getenv: func(k string) string { return tt.vars[k] }}
			if got := c.useColor(&env); got != tt.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestTargets(t *testing.T) {
	tests := []struct {
		in   string
		want target
		ok   bool
	}{
		{"www.example.com", target{host: "www.example.com", port: 443, url: "https://www.example.com", bare: true}, true},
		{"www.example.com/a?b=c", target{host: "www.example.com", port: 443, url: "https://www.example.com/a?b=c", bare: true}, true},
		{"www.example.com:8443", target{host: "www.example.com", port: 8443, url: "https://www.example.com:8443", bare: true, portGiven: true}, true},
		{"www.example.com:80/x", target{host: "www.example.com", port: 80, url: "http://www.example.com:80/x", portGiven: true}, true},
		{"http://www.example.com/", target{host: "www.example.com", port: 80, url: "http://www.example.com/"}, true},
		{"https://www.example.com:444/", target{host: "www.example.com", port: 444, url: "https://www.example.com:444/", portGiven: true}, true},
		{"192.0.2.1", target{host: "192.0.2.1", port: 443, url: "https://192.0.2.1", bare: true}, true},
		{"2001:db8::1", target{host: "2001:db8::1", port: 443, url: "https://[2001:db8::1]", bare: true}, true},
		{"[2001:db8::1]:8080", target{host: "2001:db8::1", port: 8080, url: "https://[2001:db8::1]:8080", bare: true, portGiven: true}, true},
		{"bücher.example", target{host: "bücher.example", port: 443, url: "https://b%C3%BCcher.example", bare: true}, true},
		{"_dmarc.example.com", target{host: "_dmarc.example.com", port: 443, url: "https://_dmarc.example.com", bare: true}, true},
		{"", target{}, false},
		{"https://", target{}, false},
		{"-x", target{}, false},
		{"a b", target{}, false},
		{"localhost:8080", target{host: "localhost", port: 8080, url: "https://localhost:8080", bare: true, portGiven: true}, true},
		{"h/?next=https://x/", target{host: "h", port: 443, url: "https://h/?next=https://x/", bare: true}, true},
		{"http://h:/", target{host: "h", port: 80, url: "http://h/"}, true},
		{"www.example.com.", target{host: "www.example.com.", port: 443, url: "https://www.example.com.", bare: true}, true},
		{"fe80::1%eth0", target{host: "fe80::1%eth0", port: 443, url: "https://[fe80::1%25eth0]", bare: true}, true},
		{"file:///etc/passwd", target{}, false},
		{"javascript://x", target{}, false},
		{"http://h:0/", target{}, false},
		{"http://h:x/", target{}, false},
	}
	for _, tt := range tests {
		t.Run(tt.in, func(t *testing.T) {
			got, err := parseTarget(tt.in)
			if (err == nil) != tt.ok {
				t.Fatalf("error %v, want ok %v", err, tt.ok)
			}
			if !tt.ok {
				if statusOf(err) != statusUsage {
					t.Errorf("status %d", statusOf(err))
				}
				return
			}
			tt.want.given = strings.NewReplacer("b=c", "b=…", "next=https://x/", "next=…").Replace(tt.in)
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(target{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestPlainHTTP(t *testing.T) {
	tgt, err := parseTarget("www.example.com/a")
	if err != nil {
		t.Fatal(err)
	}
	got := tgt.plainHTTP()
	if got.url != "http://www.example.com/a" || got.port != 80 || got.bare {
		t.Errorf("got %+v", got)
	}
}

func TestQuestions(t *testing.T) {
	tests := []struct {
		args    []string
		name    string
		family  int
		servers int
	}{
		{[]string{"www.example.com"}, "www.example.com", 0, 0},
		{[]string{"@192.0.2.53", "www.example.com", "aaaa"}, "www.example.com", 6, 1},
		{[]string{"www.example.com", "A", "@192.0.2.53", "@2001:db8::53"}, "www.example.com", 4, 2},
		{[]string{"192.0.2.7", "PTR"}, "192.0.2.7", 0, 0},
		{[]string{"7.2.0.192.in-addr.arpa.", "ptr"}, "7.2.0.192.in-addr.arpa.", 0, 0},
		{[]string{"www.example.com", "any"}, "www.example.com", 0, 0},
	}
	for _, tt := range tests {
		q, err := parseQuestion(tt.args, false)
		if err != nil {
			t.Errorf("%v: %v", tt.args, err)
			continue
		}
		if q.name != tt.name || int(q.family) != tt.family || len(q.servers) != tt.servers {
			t.Errorf("%v: got %+v", tt.args, q)
		}
	}
}

func TestRedactArgv(t *testing.T) {
	in := []string{"whyslow", "report", "https://user:secret@www.example.com/a?token=abc&plain#f", "-H", "Authorization: Bearer xyz",
		"--header=Cookie: a=b", "-HX-Key: k", "-H", "nocolon", "--max-time", "5", "bob:pw@host/?q=1", "https://h/p@x",
		"http://h/?TOK5", "h/?TOK5=", "-kvHCookie: a=b", "-kH", "X: y", "-X", "GET"}
	want := []string{"whyslow", "report", "https://…@www.example.com/a?token=…&…", "-H", "Authorization: …",
		"--header=Cookie: …", "-HX-Key: …", "-H", "…", "--max-time", "5", "…@host/?q=…", "https://h/p@x",
		"http://h/?…", "h/?…", "-kvHCookie: …", "-kH", "X: …", "-X", "GET"}
	if diff := cmp.Diff(want, redactArgv(in)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestRedactHTTP(t *testing.T) {
	const secret = "https://h/a?token=abc"
	ex := httpcheck.Exchange{URL: secret, Location: "/b?key=xyz", Failure: &httpcheck.Failure{Text: "redirect to " + secret}}
	r := &httpcheck.Result{URL: secret, Warnings: []string{secret + " twice"},
		Samples:  []httpcheck.Sample{{Exchanges: []httpcheck.Exchange{ex}, Failure: ex.Failure}},
		Controls: []httpcheck.Control{{Exchange: ex, Runs: []httpcheck.Exchange{ex}}},
		Summary:  httpcheck.Summary{Steps: []httpcheck.Step{{URL: secret}}, ByRequest: []httpcheck.RequestStat{{URL: secret}}},
		Failure:  &httpcheck.Failure{Text: "at " + secret},
	}
	redactHTTP(r)
	redactHTTP(nil)
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{"abc", "xyz"} {
		if strings.Contains(string(b), s) {
			t.Errorf("%q is still told in %s", s, b)
		}
	}
	if !strings.Contains(string(b), "token=…") {
		t.Errorf("the name is gone with the value: %s", b)
	}
}
