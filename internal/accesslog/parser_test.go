package accesslog

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// seen is what a test expects of a record; text is unescaped.
type seen struct {
	Client, Name, Peer, Forwarded          string
	Time                                   string
	Method, Path, Protocol, Request        string
	Status                                 int
	Bytes, KeepAlive, Duration, Connection any
	Port                                   uint16
	VHost, Conn, Referer, Agent            string
}

// look makes the comparable form of a record.
func look(f *Format, r *Record) seen {
	text := func(b []byte) string { return string(f.Unescape(nil, b)) }
	s := seen{Name: text(r.Name), Forwarded: text(r.Forwarded), Method: text(r.Method), Path: text(r.Path), Protocol: text(r.Protocol),
		Status: r.Status, Port: r.RemotePort, VHost: text(r.VHost), Referer: text(r.Referer), Agent: text(r.UserAgent)}
	if r.Client.IsValid() {
		s.Client = r.Client.String()
	}
	if r.Peer.IsValid() {
		s.Peer = r.Peer.String()
	}
	if r.Has.Has(FieldTime) {
		s.Time = r.Time.Format(time.RFC3339Nano)
	}
	if r.Method == nil {
		s.Request = text(r.Request)
	}
	if r.Has.Has(FieldStatus) != (r.Status != 0) {
		s.Status = -1
	}
	if r.Has.Has(FieldBytes) {
		s.Bytes = r.Bytes
	}
	if r.Has.Has(FieldKeepAlive) {
		s.KeepAlive = r.KeepAlive
	}
	if r.Has.Has(FieldDuration) {
		s.Duration = r.Duration.String()
	}
	if r.Has.Has(FieldConnection) {
		s.Connection = r.Connection
	}
	if r.ConnStatus != 0 {
		s.Conn = string(r.ConnStatus)
	}
	return s
}

const stamp = `[10/Oct/2000:13:55:36 -0700]`

// utc is stamp's instant.
const utc = "2000-10-10T20:55:36Z"

func TestParse(t *testing.T) {
	tests := []struct {
		name, format, line string
		want               seen
	}{
		{"common", "common", `192.0.2.1 - frank ` + stamp + ` "GET /a.gif?x=1 HTTP/1.0" 200 2326`,
			seen{Client: "192.0.2.1", Time: utc, Method: "GET", Path: "/a.gif?x=1", Protocol: "HTTP/1.0", Status: 200, Bytes: int64(2326)}},
		{"no bytes are not 0 bytes", "common", `192.0.2.1 - - ` + stamp + ` "HEAD / HTTP/1.1" 304 -`,
			seen{Client: "192.0.2.1", Time: utc, Method: "HEAD", Path: "/", Protocol: "HTTP/1.1", Status: 304}},
		{"combined", "combined", `2001:db8::7 - - ` + stamp + ` "GET / HTTP/2.0" 200 5 "http://www.example.com/" "Mozilla/5.0 (X11; \"q\")"`,
			seen{Client: "2001:db8::7", Time: utc, Method: "GET", Path: "/", Protocol: "HTTP/2.0", Status: 200, Bytes: int64(5),
				Referer: "http://www.example.com/", Agent: `Mozilla/5.0 (X11; "q")`}},
		{"TLS hello on a plain port", "combined", `192.0.2.1 - - ` + stamp + ` "\x16\x03\x01\x02" 400 226 "-" "-"`,
			seen{Client: "192.0.2.1", Time: utc, Request: "\x16\x03\x01\x02", Status: 400, Bytes: int64(226)}},
		{"a name that begins like an address", "combined", `92.118.161.13.netsystemsresearch.com - - ` + stamp + ` "-" 408 - "-" "-"`,
			seen{Name: "92.118.161.13.netsystemsresearch.com", Time: utc, Status: 408}},
		{"7 is no address", "common", `7 - - ` + stamp + ` "GET / HTTP/1.1" 200 1`,
			seen{Name: "7", Time: utc, Method: "GET", Path: "/", Protocol: "HTTP/1.1", Status: 200, Bytes: int64(1)}},
		{"a user with a space, a bracket and an empty one", "common", `192.0.2.1 - a b [c ` + stamp + ` "GET / HTTP/1.1" 200 1`,
			seen{Client: "192.0.2.1", Time: utc, Method: "GET", Path: "/", Protocol: "HTTP/1.1", Status: 200, Bytes: int64(1)}},
		{"quotes an old server did not escape", "combined", `192.0.2.1 - - ` + stamp + ` "GET / HTTP/1.1" 200 1 "-" "a "b" c"`,
			seen{Client: "192.0.2.1", Time: utc, Method: "GET", Path: "/", Protocol: "HTTP/1.1", Status: 200, Bytes: int64(1), Agent: `a "b" c`}},
		{"vhost_combined", "vhost_combined", `www.example.com:443 ::ffff:192.0.2.9 - - ` + stamp + ` "GET / HTTP/1.1" 200 1 "-" "x"`,
			seen{VHost: "www.example.com", Client: "192.0.2.9", Time: utc, Method: "GET", Path: "/", Protocol: "HTTP/1.1", Status: 200, Bytes: int64(1), Agent: "x"}},
		{"a virtual host that is an IPv6 address", "vhost_combined", `[2001:db8::1]:80 192.0.2.9 - - ` + stamp + ` "GET / HTTP/1.1" 200 1 "-" "x"`,
			seen{VHost: "[2001:db8::1]", Client: "192.0.2.9", Time: utc, Method: "GET", Path: "/", Protocol: "HTTP/1.1", Status: 200, Bytes: int64(1), Agent: "x"}},
		{"everything Apache knows of a connection", `%a %{c}a %h %{remote}p %k %X %D %T %{ms}T %I %O %t \"%r\" %s %>s`,
			`192.0.2.1 198.51.100.2 www.example.net 40000 0 + 1503 0 1 99 432 ` + stamp + ` "GET / HTTP/1.1" 301 200`,
			seen{Client: "192.0.2.1", Peer: "198.51.100.2", Name: "www.example.net", Port: 40000, KeepAlive: int64(0), Conn: "+", Duration: "1.503ms",
				Bytes: int64(432), Time: utc, Method: "GET", Path: "/", Protocol: "HTTP/1.1", Status: 200}},
		{"times in parts", `%h %{%Y-%m-%d %H:%M:%S}t.%{usec_frac}t %{%z}t %{end:sec}t`, `192.0.2.1 2000-10-10 13:55:36.000042 -0700 971211337`,
			seen{Client: "192.0.2.1", Time: "2000-10-10T20:55:36.000042Z"}},
		{"a time of microseconds beside the common one", `%h %t %{usec}t`, `192.0.2.1 ` + stamp + ` 971211336000007`,
			seen{Client: "192.0.2.1", Time: "2000-10-10T20:55:36.000007Z"}},
		{"strftime with names and AM", `%{%A, %d-%b-%y %I:%M:%S %p %z}t %h`, `Tuesday, 10-Oct-00 01:55:36 PM -0700 192.0.2.1`,
			seen{Client: "192.0.2.1", Time: utc}},
		{"a year of two digits", `%{%d-%b-%y %H:%M:%S}t %h`, `10-Oct-99 20:55:36 192.0.2.1`, seen{Client: "192.0.2.1", Time: "1999-10-10T20:55:36Z"}},
		{"conditions", `%!404,410{Referer}i %h %200,304{User-agent}i %t`, `- 192.0.2.1 - ` + stamp, seen{Client: "192.0.2.1", Time: utc}},
		{"trailers, cookies, notes, per cent", `%h 100%% %{a}^ti %{b}^to %{c}C %{d}n %{e}e %{f}o %{SSL_PROTOCOL}x %L %l "%m %U%q %H"`,
			`192.0.2.1 100% 1 2 3 4 5 6 TLSv1.3 - - "POST /p q?x HTTP/1.1"`,
			seen{Client: "192.0.2.1", Method: "POST", Path: "/p q?x", Protocol: "HTTP/1.1"}},
		{"the proxies' list first", `%{X-Forwarded-For}i %l %u %t "%r" %>s %b`, `203.0.113.7, 198.51.100.1 - - ` + stamp + ` "GET / HTTP/1.1" 200 1`,
			seen{Forwarded: "203.0.113.7, 198.51.100.1", Time: utc, Method: "GET", Path: "/", Protocol: "HTTP/1.1", Status: 200, Bytes: int64(1)}},
		{"address and port", `%h:%{remote}p %t`, `2001:db8::1:40000 ` + stamp, seen{Client: "2001:db8::1", Port: 40000, Time: utc}},
		{"the request line before its decoded parts", `%h "%r" %m %U`, `192.0.2.1 "GET /a%20b?c HTTP/1.1" GET /a b`,
			seen{Client: "192.0.2.1", Method: "GET", Path: "/a%20b?c", Protocol: "HTTP/1.1"}},
		{"a backslash in the format", `%h \\ %t`, `192.0.2.1 \ ` + stamp, seen{Client: "192.0.2.1", Time: utc}},
		{"tabs", `%h\t%t\t%>s`, "192.0.2.1\t" + stamp + "\t200", seen{Client: "192.0.2.1", Time: utc, Status: 200}},
		{"nginx main with its times", `$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_x_forwarded_for" $request_time $connection $connection_requests $msec`,
			`192.0.2.1 - - ` + stamp + ` "GET /\x22 HTTP/1.1" 200 7 "-" 0.042 17 1 971211336.123`,
			seen{Client: "192.0.2.1", Time: "2000-10-10T20:55:36.123Z", Method: "GET", Path: `/"`, Protocol: "HTTP/1.1", Status: 200, Bytes: int64(7), Duration: "42ms", Connection: uint64(17), KeepAlive: int64(0)}},
		{"nginx by a socket file, without a status", "nginx_combined", `unix: - - ` + stamp + ` "" 000 0 "-" "-"`,
			seen{Name: "unix:", Time: utc, Bytes: int64(0)}},
		{"nginx scheme, host and variables that touch", `$scheme://$host$request_uri|${time_iso8601}|$uri$is_args$args|$remote_addr`,
			`http://www.example.com/a?b|2000-10-10T13:55:36-07:00|/a?b|192.0.2.1`,
			seen{VHost: "www.example.com", Path: "/a?b", Time: utc, Client: "192.0.2.1"}},
		{"JSON of nginx with escapes that are no JSON", "json", `{"time_iso8601":"2000-10-10T13:55:36-07:00","remote_addr":"192.0.2.1","request":"GET /\x22\xE4 HTTP/1.1","status":200,"body_bytes_sent":"5","request_time":"0.100","connection_requests":3}`,
			seen{Client: "192.0.2.1", Time: utc, Method: "GET", Path: "/\"\xe4", Protocol: "HTTP/1.1", Status: 200, Bytes: int64(5), Duration: "100ms", KeepAlive: int64(2)}},
		{"JSON of Caddy", "json", `{"level":"info","ts":971211336.5,"logger":"http.log.access","msg":"handled request","request":{"remote_ip":"198.51.100.2","remote_port":"41342","client_ip":"192.0.2.1","proto":"HTTP/2.0","method":"GET","host":"localhost","uri":"/a","headers":{"User-Agent":["curl/7.82.0"],"X-Forwarded-For":["192.0.2.1"]},"tls":{"resumed":false,"version":772}},"bytes_read":0,"user_id":"","duration":0.000929675,"size":10900,"status":200,"resp_headers":{"Server":["Caddy"]}}`,
			seen{Client: "192.0.2.1", Peer: "198.51.100.2", Port: 41342, Time: "2000-10-10T20:55:36.5Z", Method: "GET", Path: "/a", Protocol: "HTTP/2.0", VHost: "localhost", Status: 200, Bytes: int64(10900), Duration: "929.675µs", Forwarded: "192.0.2.1", Agent: "curl/7.82.0"}},
		{"JSON of Google's load balancer", "json", `{"httpRequest":{"requestMethod":"GET","requestUrl":"http://h.example/","status":200,"responseSize":"12","remoteIp":"192.0.2.1","latency":"0.012s","userAgent":"x"},"timestamp":"2000-10-10T20:55:36Z"}`,
			seen{Client: "192.0.2.1", Time: utc, Method: "GET", Path: "http://h.example/", Status: 200, Bytes: int64(12), Duration: "12ms", Agent: "x"}},
		{"JSON of Cloudflare", "json", `{"ClientIP":"2001:db8::1","ClientRequestHost":"h.example","ClientRequestMethod":"GET","ClientRequestURI":"/x","EdgeStartTimestamp":971211336000000000,"EdgeResponseStatus":200,"EdgeResponseBytes":69045}`,
			seen{Client: "2001:db8::1", VHost: "h.example", Method: "GET", Path: "/x", Time: utc, Status: 200, Bytes: int64(69045)}},
		{"JSON: headers and arguments are the client's own words", "json", `{"args":{"client_ip":"203.0.113.66","request":{"client_ip":"203.0.113.66"}},"list":[{"client_ip":"203.0.113.66"}],` +
			`"request":{"remote_ip":"192.0.2.1","headers":{"Client-Ip":["203.0.113.66"],"Ts":["x"],"Status":["999"],"Time":["0"],"Remote-Port":["1"],"Request":{"client_ip":"203.0.113.66"}}},` +
			`"resp_headers":{"Client-Ip":["203.0.113.66"]},"status":200}`,
			seen{Client: "192.0.2.1", Status: 200}},
		{"JSON of the Elastic Common Schema", "json", `{"@timestamp":"2000-10-10T20:55:36.000Z","client":{"ip":"192.0.2.1","port":4711},"server":{"ip":"10.0.0.1"},"host":{"ip":["10.0.0.2"]},"related":{"ip":["10.0.0.3"]},` +
			`"http":{"version":"1.1","request":{"method":"GET"},"response":{"status_code":200,"body":{"bytes":5}}},"url":{"original":"/a"},"event":{"duration":1500000},"user_agent":{"original":"x"}}`,
			seen{Client: "192.0.2.1", Port: 4711, Time: utc, Method: "GET", Path: "/a", Status: 200, Bytes: int64(5), Duration: "1.5ms", Agent: "x"}},
		{"JSON: the same key within", "json", `{"request":{"remote_addr":"10.0.0.1"},"remote_addr":"192.0.2.1:4711"}`, seen{Client: "192.0.2.1", Port: 4711}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f, err := ParseFormat(tt.format, CompileOptions{})
			if err != nil {
				t.Fatal(err)
			}
			var r Record
			if fault := f.NewParser().Parse([]byte(tt.line), &r); fault != NoFault {
				t.Fatalf("fault: %v", fault)
			}
			if d := cmp.Diff(tt.want, look(f, &r)); d != "" {
				t.Errorf("record (-want +got):\n%s", d)
			}
		})
	}
}

func TestFormatsAsTheyStandInTheConfiguration(t *testing.T) {
	tests := []struct {
		name, given, text, called string
		escape                    Escape
	}{
		{"LogFormat", `LogFormat "%h %t \"%r\"" mine`, `%h %t \"%r\"`, "mine", EscapeApache},
		{"without a name", `LogFormat "%h %t"`, `%h %t`, `%h %t`, EscapeApache},
		{"log_format of several strings", "log_format main '$remote_addr - [$time_local] '\n  '\"$request\" $status';", `$remote_addr - [$time_local] "$request" $status`, "main", EscapeNginx},
		{"with its escape", `log_format j escape=json '{"a":"$remote_addr"}';`, `{"a":"$remote_addr"}`, "j", EscapeJSON},
		{"in quotes", `"%h %t"`, `%h %t`, `%h %t`, EscapeApache},
		{"a format that begins and ends with quotes", `"%h" %t "%r"`, `"%h" %t "%r"`, `"%h" %t "%r"`, EscapeApache},
		{"a name", ` combined `, named[1].text, "combined", EscapeApache},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f, err := ParseFormat(tt.given, CompileOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if f.Text() != tt.text || f.Name() != tt.called || f.Escape() != tt.escape {
				t.Errorf("%q called %q with escape %v", f.Text(), f.Name(), f.Escape())
			}
		})
	}
}

func TestUnescape(t *testing.T) {
	tests := []struct {
		escape   Escape
		in, want string
	}{
		{EscapeApache, `a\"b\\c\td\x00\xfFe\qf\x0`, "a\"b\\c\td\x00\xffe\\qf\\x0"},
		{EscapeNginx, `a\x22b\x5Cc\td\`, "a\"b\\c\\td\\"},
		{EscapeJSON, `a\"b\/\u00e9c\ud83d\ude00d\ud83dx\xE9\u12`, "a\"b/\u00e9c\U0001f600d\ufffdx\xe9\\u12"},
		{EscapeNone, `a\"b\x22`, `a\"b\x22`},
	}
	for _, tt := range tests {
		f := &Format{escape: tt.escape}
		if got := string(f.Unescape(nil, []byte(tt.in))); got != tt.want {
			t.Errorf("escape %d: %q became %q, want %q", tt.escape, tt.in, got, tt.want)
		}
	}
}

func TestDurationIncludesLookup(t *testing.T) {
	for format, want := range map[string]bool{"%h %t %D": true, "%D %h %t": false, "%a %t %D": false, "%T %h %D": true, "%D %h %T": false, "%h %t": false,
		"$remote_addr [$time_local] $request_time": false} {
		f, err := ParseFormat(format, CompileOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got := f.DurationIncludesLookup(); got != want {
			t.Errorf("%s: %v, want %v", format, got, want)
		}
	}
}

func TestQuote(t *testing.T) {
	for in, want := range map[string]int{``: -1, `a`: -1, `"`: 0, `a"b`: 1, `\"`: -1, `\"a"`: 3, `\\"`: 2, `\\\""`: 4, `a\"\`: -1} {
		if got := quote([]byte(in)); got != want {
			t.Errorf("%s ends at %d, want %d", in, got, want)
		}
	}
}

// nginx with escape=none writes what it was sent: a browser of a thousand
// quotes is still one.
func TestManyQuotesThatNobodyEscaped(t *testing.T) {
	f, err := CompileNginx(nginxNamed[0].text, CompileOptions{Escape: EscapeNone})
	if err != nil {
		t.Fatal(err)
	}
	agent := strings.Repeat(`\" "`, 1000)
	var r Record
	line := `192.0.2.1 - - ` + stamp + ` "GET / HTTP/1.1" 200 5 "-" "` + agent + `"`
	if fault := f.NewParser().Parse([]byte(line), &r); fault != NoFault || string(r.UserAgent) != agent {
		t.Errorf("fault %v, agent of %d bytes", fault, len(r.UserAgent))
	}
}

// Times without an offset are of the location given, but those of the W3C's
// logs, which are of UTC.
func TestLocation(t *testing.T) {
	opts := CompileOptions{Location: time.FixedZone("", -7*3600)}
	tests := []struct {
		name     string
		format   func() (*Format, error)
		line     string
		zoneless bool
	}{
		{"strftime", func() (*Format, error) { return ParseFormat("%{%Y-%m-%d %H:%M:%S}t", opts) }, "2000-10-10 13:55:36", true},
		{"common", func() (*Format, error) { return ParseFormat("%t", opts) }, stamp, false},
		{"W3C", func() (*Format, error) { return compileW3C("date time", ' ', opts) }, "2000-10-10 20:55:36", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f, err := tt.format()
			if err != nil {
				t.Fatal(err)
			}
			var r Record
			if fault := f.NewParser().Parse([]byte(tt.line), &r); fault != NoFault || r.Time.Format(time.RFC3339) != utc || f.Zoneless() != tt.zoneless {
				t.Errorf("%v, %v, zoneless %v", fault, r.Time, f.Zoneless())
			}
		})
	}
}

func TestFaults(t *testing.T) {
	tests := []struct {
		name, format, line string
		want               Fault
	}{
		{"cut", "common", `192.0.2.1 - - ` + stamp + ` "GET`, FaultCutShort},
		{"more", "common", `192.0.2.1 - - ` + stamp + ` "GET / HTTP/1.1" 200 1 x`, FaultNumber},
		{"more behind a text", `%h "%r"`, `192.0.2.1 "GET / HTTP/1.1" x`, FaultTrailing},
		{"no such day", "common", `192.0.2.1 - - [30/Feb/2000:13:55:36 -0700] "GET / HTTP/1.1" 200 1`, FaultTime},
		{"no such hour", "common", `192.0.2.1 - - [10/Oct/2000:24:55:36 -0700] "GET / HTTP/1.1" 200 1`, FaultTime},
		{"status in words", "common", `192.0.2.1 - - ` + stamp + ` "GET / HTTP/1.1" fine 1`, FaultNumber},
		{"NUL", "common", "192.0.2.1 - - \x00\x00\x00", FaultNUL},
		{"JSON that ends", "json", `{"ip":"192.0.2.1"`, FaultJSON},
		{"JSON of other kind", "json", `["192.0.2.1"]`, FaultJSON},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f, err := ParseFormat(tt.format, CompileOptions{})
			if err != nil {
				t.Fatal(err)
			}
			var r Record
			if got := f.NewParser().Parse([]byte(tt.line), &r); got != tt.want {
				t.Errorf("fault %v, want %v", got, tt.want)
			}
		})
	}
}

func TestFormatsRefused(t *testing.T) {
	tests := []struct{ name, format, want string }{
		{"neither name nor format", "apache", "no name of a format"},
		{"unknown directive", "%h %Q", "%Q is no directive"},
		{"no brace", "%h %{Referer", "no closing brace"},
		{"end", "%h %!200", "ends within a directive"},
		{"touching", "%h%u", "touch"},
		{"two lines", `%h\n%u`, "several lines"},
		{"unit", "%{min}T %h", "unit"},
		{"time", "%{%Q}t %h", "%Q"},
		{"no variable", "$ $remote_addr", "names no variable"},
		{"brace of a variable", "${remote_addr $status", "no closing brace"},
		{"too long", strings.Repeat("%h ", 6000), "longer than"},
		{"too many", strings.Repeat("%h ", 300), "more than 256"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := ParseFormat(tt.format, CompileOptions{}); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}

func TestRightmost(t *testing.T) {
	own := func(a netip.Addr) bool { return netip.MustParsePrefix("10.0.0.0/8").Contains(a) }
	tests := []struct {
		list    string
		trusted func(netip.Addr) bool
		want    string
	}{
		{"192.0.2.1", nil, "192.0.2.1"},
		{"203.0.113.9, 192.0.2.1", nil, "192.0.2.1"},
		{"203.0.113.9, 192.0.2.1, 10.0.0.1, 10.0.0.2", own, "192.0.2.1"},
		{"192.0.2.1:4711", nil, "192.0.2.1"},
		{"[2001:db8::1]:4711", nil, "2001:db8::1"},
		{"[2001:db8::1]", nil, "2001:db8::1"},
		{"fe80::1%eth0", nil, "fe80::1"},
		{"::ffff:192.0.2.1", nil, "192.0.2.1"},
		{"192.0.2.1, unknown", nil, ""},
		{"192.0.2.1, unknown, 10.0.0.1", own, "10.0.0.1"},
		{"10.0.0.3,10.0.0.4", own, "10.0.0.3"},
		{"192.0.2.1,,", nil, "192.0.2.1"},
		{`"192.0.2.1","10.0.0.1"`, own, "192.0.2.1"},
		{"", nil, ""},
		{"_hidden", nil, ""},
	}
	for _, tt := range tests {
		t.Run(tt.list, func(t *testing.T) {
			got := ""
			if a, ok := Rightmost([]byte(tt.list), tt.trusted); ok {
				got = a.String()
			}
			if got != tt.want {
				t.Errorf("client %q, want %q", got, tt.want)
			}
		})
	}
}
