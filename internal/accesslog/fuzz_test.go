package accesslog

import (
	"bytes"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// fuzzFormats are tried on every line.
func fuzzFormats(tb testing.TB) []*Format {
	tb.Helper()
	var all []*Format
	for _, text := range append(Names(), `%{X-Forwarded-For}i %l %u %t %{%c %z}t|%D "%m %U%q %H"%X%%`, `%h:%{remote}p %{begin:msec}t %{usec_frac}t %k %v:%p`,
		`$remote_addr:$remote_port $msec $request_time [$time_local] $host$request_uri`) {
		f, err := ParseFormat(text, CompileOptions{})
		if err != nil {
			tb.Fatal(err)
		}
		all = append(all, f)
	}
	return all
}

func fuzzLines(f *testing.F) {
	for _, l := range []string{
		`192.0.2.1 - frank ` + stamp + ` "GET /a HTTP/1.0" 200 2326`,
		`www.example.com:80 2001:db8::1 - - ` + stamp + ` "\x16\x03\x01" 400 226 "-" "a \"b\" \\"`,
		`{"ts":971211336.5,"request":{"remote_ip":"192.0.2.1","headers":{"X-Forwarded-For":["a","b"]}},"status":200,"x":[1,{"y":null}],"d":"\xXX"}`,
		`203.0.113.7, [::1]:80 - - ` + stamp + ` Tue Oct 10 13:55:36 2000 -0700|5 "GET /a?b HTTP/1.1"+%`,
		`192.0.2.1 - - ` + stamp + ` "GET / HTTP/1.1" 200 1 "x\" "y"`, `192.0.2.1 - - ` + stamp + ` "GET /\" 200 1`, `192.0.2.1 - - ` + stamp + ` "GET /" 200 1 "-" "x\"`,
		"\x00\x00\x1f\x8b \xff", `"`, `\`, `- - - [`,
	} {
		f.Add([]byte(l))
	}
}

// within reports whether v lies in the memory of line.
func within(line, v []byte) bool {
	return len(v) == 0 || bytes.Contains(line, v) && cap(v) <= cap(line)
}

func FuzzParse(f *testing.F) {
	fuzzLines(f)
	formats := fuzzFormats(f)
	var parsers []*Parser
	for _, f := range formats {
		parsers = append(parsers, f.NewParser())
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		if len(line) > 4096 {
			return
		}
		for i, p := range parsers {
			r := Record{File: 3, Number: 4}
			given := bytes.Clone(line)
			fault := p.Parse(line, &r)
			if !bytes.Equal(given, line) || r.File != 3 || r.Number != 4 {
				t.Fatalf("%s: the line was changed", formats[i].Name())
			}
			// The memory of the last line's time must not matter.
			var fresh Record
			if again := formats[i].NewParser().Parse(line, &fresh); again != fault || fault == NoFault && fresh.Time != r.Time {
				t.Fatalf("%s: %v and %v, then %v and %v", formats[i].Name(), fault, r.Time, again, fresh.Time)
			}
			if formats[i].shape != shapeOther {
				quickIsStraight(t, formats[i], line)
			}
			if fault != NoFault {
				continue
			}
			for _, v := range [][]byte{r.Name, r.Forwarded, r.Request, r.Method, r.Path, r.Protocol, r.VHost, r.Referer, r.UserAgent} {
				if !within(line, v) {
					t.Fatalf("%s: %q is not of the line", formats[i].Name(), v)
				}
				_ = formats[i].Unescape(nil, v)
			}
			if r.Client.Zone() != "" || r.Client.Is4In6() || r.Client.IsValid() && r.Name != nil && !formats[i].json {
				t.Fatalf("%s: client %v, name %q", formats[i].Name(), r.Client, r.Name)
			}
			if r.Status < 0 || r.Status > 999 || r.Bytes < 0 || r.Duration < 0 || r.KeepAlive < 0 && r.Has.Has(FieldKeepAlive) {
				t.Fatalf("%s: %+v", formats[i].Name(), r)
			}
			if c := r.Clone(); !bytes.Equal(c.Path, r.Path) || c.Client != r.Client || c.Time != r.Time {
				t.Fatalf("a copy differs: %+v", c)
			}
			Rightmost(r.Forwarded, nil)
		}
	})
}

// quickIsStraight: what the short way reads, the long way reads alike.
func quickIsStraight(t *testing.T, f *Format, line []byte) {
	t.Helper()
	var quick, straight Record
	quick.reset(line, f.moment)
	straight.reset(line, f.moment)
	if !f.NewParser().quick(line, &quick) {
		return
	}
	if fault := f.NewParser().straight(line, &straight); fault != NoFault {
		t.Fatalf("%s: %q is read quickly, but straight it has the fault %v", f.Name(), line, fault)
	}
	if d := cmp.Diff(straight, quick, cmp.AllowUnexported(Record{}), cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); d != "" {
		t.Fatalf("%s: %q (-straight +quick):\n%s", f.Name(), line, d)
	}
}

func FuzzLogFormat(f *testing.F) {
	for _, s := range []string{`%h %l %u %t \"%r\" %>s %b`, `%!200,304{Referer}i%%`, `%{%Y-%m-%dT%T%z}t %{msec_frac}t`, `%{begin:%c}t|%^FB|%{x}^ti`,
		`$remote_addr ${status}x$host$request_uri`, `{"a":"$remote_addr"}`, `%{`, `%`, `$`, `\`, `%U%q%h`} {
		f.Add(s, []byte(`192.0.2.1 - - `+stamp+` "GET / HTTP/1.1" 200 1`))
	}
	f.Fuzz(func(t *testing.T, text string, line []byte) {
		if len(text) > 512 || len(line) > 2048 {
			return
		}
		for _, compile := range []func(string, CompileOptions) (*Format, error){CompileApache, CompileNginx, ParseFormat} {
			format, err := compile(text, CompileOptions{ClientHeader: "X-Real-IP"})
			if err != nil {
				continue
			}
			var r Record
			_ = format.NewParser().Parse(line, &r)
			_ = format.Fields().Names()
		}
	})
}

func FuzzDetect(f *testing.F) {
	fuzzLines(f)
	f.Add([]byte(combinedLog(3)))
	f.Fuzz(func(t *testing.T, log []byte) {
		if len(log) > 2048 {
			return
		}
		d, err := Detect(splitSample(log, true), CompileOptions{})
		if (err == nil) != (d.Fit > 0) || d.Fit > d.Lines || err == nil && d.Format == nil {
			t.Fatalf("%+v, %v", d, err)
		}
		// And the whole way, as it comes from a file.
		r := NewReader(t.Context(), Options{}, text("fuzz", string(log)))
		defer r.Close()
		n := 0
		for _, err := range r.All() {
			if err != nil {
				return
			}
			n++
		}
		s := r.Stats()
		if s.Lines != s.Records+s.Blank+s.BrokenLines() || s.Records != n {
			t.Fatalf("stats %+v", s)
		}
	})
}

// FuzzRewrite: every byte but the client's stays, and no line is added.
func FuzzRewrite(f *testing.F) {
	fuzzLines(f)
	formats := fuzzFormats(f)
	const name = "named.example.com"
	f.Fuzz(func(t *testing.T, log []byte) {
		if len(log) > 4096 {
			return
		}
		for i, format := range formats {
			if i%4 != len(log)%4 { // a quarter of them is enough of one input
				continue
			}
			var out bytes.Buffer
			w := NewRewriter(format, func(netip.Addr) (string, bool) { return name + "\"\n" + string(log), true })
			if _, err := w.Copy(&out, bytes.NewReader(log)); err != nil {
				t.Fatal(err)
			}
			if bytes.Count(out.Bytes(), []byte("\n")) != bytes.Count(log, []byte("\n")) {
				t.Fatalf("%s: lines were forged: %q from %q", format.Name(), out.Bytes(), log)
			}
			w = NewRewriter(format, func(netip.Addr) (string, bool) { return name, true })
			for line := range bytes.Lines(log) {
				got, changed := w.Line(nil, line)
				if !changed {
					if !bytes.Equal(got, line) {
						t.Fatalf("%s: %q became %q", format.Name(), line, got)
					}
					continue
				}
				before, after, ok := bytes.Cut(got, []byte(name))
				if !ok || !bytes.HasPrefix(line, before) || !bytes.HasSuffix(line, after) || len(before)+len(after) > len(line) {
					t.Fatalf("%s: %q became %q", format.Name(), line, got)
				}
				if _, _, ok := parseAddrPort(line[len(before) : len(line)-len(after)]); !ok {
					t.Fatalf("%s: %q is no address and was replaced in %q", format.Name(), line[len(before):len(line)-len(after)], line)
				}
			}
		}
	})
}

func FuzzAddr(f *testing.F) {
	for _, s := range []string{"192.0.2.1", "::", "::1", "1::", "1:2:3:4:5:6:7::", "::ffff:192.0.2.1", "fe80::1%eth0", "1:2:3:4:5:6:1.2.3.4", "01.2.3.4", "7", "1.2.3.4.", ":::", "::1:", "%", "::%"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if len(s) > 64 {
			return
		}
		got, ok := parseAddr([]byte(s))
		want, err := netip.ParseAddr(s)
		if ok != (err == nil) || ok && got != want.Unmap().WithZone("") {
			t.Fatalf("%q: %v, %v; netip has %v, %v", s, got, ok, want, err)
		}
	})
}

func FuzzCommonTime(f *testing.F) {
	for _, s := range []string{"10/Oct/2000:13:55:36 -0700", "29/Feb/1900:00:00:00 +0000", "31/Apr/2024:23:59:60 +1400", "01/Mar/2024:00:00:00 +0000", "31/Dec/2100:12:00:00 -0030"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if len(s) != clfLen {
			return
		}
		var c clfTime
		got, ok := c.read([]byte(s))
		want, err := time.Parse("02/Jan/2006:15:04:05 -0700", s)
		switch { // what no log has, and package time sees otherwise
		case s[18:20] == "60", s[7:11] == "0000", s[22:24] == "24", s[24:26] == "60", err != nil && strings.Contains(err.Error(), "offset"):
			return
		case !strings.Contains("JanFebMarAprMayJunJulAugSepOctNovDec", s[3:6]):
			return // other letter case
		}
		if ok != (err == nil) || ok && !got.Equal(want) {
			t.Fatalf("%q: %v, %v; time has %v, %v", s, got, ok, want, err)
		}
	})
}

// apacheEscaped is ap_escape_logitem of Apache httpd.
func apacheEscaped(s string) string {
	var b strings.Builder
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c == '\b' || c == '\n' || c == '\r' || c == '\t' || c == '\v':
			b.WriteByte('\\')
			b.WriteByte("btnv?r"[c-'\b'])
		case c < ' ' || c > '~':
			fmt.Fprintf(&b, `\x%02x`, c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// FuzzRoundTrip writes lines as the servers do, and reads what was written.
func FuzzRoundTrip(f *testing.F) {
	f.Add("GET / HTTP/1.1", "http://x/", "agent", "user")
	f.Add("\x16\x03\x01", `"`, `\`, `a b [10/Oct/2000:13:55:36 -0700] "GET / HTTP/1.1" 200 5`)
	formats := map[string]*Format{}
	for _, n := range []string{"combined", "nginx_combined"} {
		formats[n], _ = Named(n, CompileOptions{})
	}
	f.Fuzz(func(t *testing.T, request, referer, agent, user string) {
		if len(request)+len(referer)+len(agent)+len(user) > 2048 || request == "-" || referer == "-" || agent == "-" || request == "" || referer == "" || agent == "" {
			return
		}
		nginxEscaped := func(s string) string {
			var b strings.Builder
			for i := range len(s) {
				if c := s[i]; c == '"' || c == '\\' || c < ' ' || c > '~' {
					fmt.Fprintf(&b, `\x%02X`, c)
				} else {
					b.WriteByte(c)
				}
			}
			return b.String()
		}
		for name, esc := range map[string]func(string) string{"combined": apacheEscaped, "nginx_combined": nginxEscaped} {
			format := formats[name]
			line := fmt.Sprintf(`192.0.2.1 - %s %s "%s" 200 5 "%s" "%s"`, esc(user), stamp, esc(request), esc(referer), esc(agent))
			var r Record
			if fault := format.NewParser().Parse([]byte(line), &r); fault != NoFault {
				t.Fatalf("%s: %v in %q", name, fault, line)
			}
			for _, v := range []struct{ got, want string }{
				{string(format.Unescape(nil, r.Request)), request}, {string(format.Unescape(nil, r.Referer)), referer}, {string(format.Unescape(nil, r.UserAgent)), agent},
			} {
				if v.got != v.want {
					t.Fatalf("%s: got %q, want %q in %q", name, v.got, v.want, line)
				}
			}
			if r.Client.String() != "192.0.2.1" || r.Status != 200 || r.Bytes != 5 || r.Time.Format(time.RFC3339) != utc {
				t.Fatalf("%s: %+v", name, r)
			}
		}
	})
}
