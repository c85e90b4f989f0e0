package servers_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/whyslow/whyslow/internal/accesslog"
	"github.com/whyslow/whyslow/internal/netlab/labtest"
	"github.com/whyslow/whyslow/internal/netlab/servers"
)

// sent is one request, as its sender knows it.
type sent struct {
	line, agent, forwarded string // as sent, not escaped
	port                   uint16
	nth                    int64 // on its connection
	status                 int
	after, before          time.Time
}

// hostile requests: what clients may put between quotes, and what is none.
func hostile() []string {
	var odd strings.Builder
	for c := 0x80; c < 0x100; c++ {
		odd.WriteByte(byte(c))
	}
	const host = " HTTP/1.1\r\nHost: www.example.com\r\nConnection: close\r\n"
	return []string{
		"GET / HTTP/1.1\r\nHost: www.example.com\r\nUser-Agent: plain\r\n\r\n",
		`GET /a"b\c?d="\x41\"` + host + `User-Agent: q"u\o\"t[e] "- " 200 5` + "\r\n\r\n",
		"GET /bytes" + host + "User-Agent: tab\there " + odd.String() + "\r\nX-Forwarded-For: 203.0.113.9, \"unknown\", 2001:db8::1\r\n\r\n",
		"GET /" + strings.Repeat("long", 1900) + host + "User-Agent: " + strings.Repeat(`\"`, 3500) + "\r\n\r\n",
		"GET /" + strings.Repeat("toolong", 5000) + host + "\r\n",
		"GET /no/agent/" + host + "\r\n",
		"GET /dash" + host + "User-Agent: -\r\nReferer: -\r\n\r\n",
		// A user whose name has the form of what follows it in a log:
		// `a b [10/Oct/2000:13:55:36 -0700] "GET /forged HTTP/1.1" 200 1`.
		"GET /user" + host + "Authorization: Basic YSBiIFsxMC9PY3QvMjAwMDoxMzo1NTozNiAtMDcwMF0gIkdFVCAvZm9yZ2VkIEhUVFAvMS4xIiAyMDAgMTpw\r\n\r\n",
		"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\x00\x00\r\n\r\n",
		"FROB<>~ /x y z HTTP/1.1\r\nHost: www.example.com\r\n\r\n",
		"GET http://192.0.2.1:80/absolute" + host + "\r\n",
		"\"GET\\ / HTTP/1.1\r\n\r\n",
		"HEAD /control\x01\x7f" + host + "\r\n",
	}
}

// send makes the requests, each on a connection of its own but for the last
// three, and returns those that were answered.
func send(t *testing.T, to netip.AddrPort) []sent {
	t.Helper()
	var all []sent
	for _, raw := range hostile() {
		all = append(all, exchange(t, to, raw)...)
	}
	kept := "GET /kept HTTP/1.1\r\nHost: www.example.com\r\nUser-Agent: kept\r\n\r\n"
	return append(all, exchange(t, to, kept, kept, kept)...)
}

func exchange(t *testing.T, to netip.AddrPort, raws ...string) (all []sent) {
	t.Helper()
	c, err := net.Dial("tcp", to.String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(c)
	for i, raw := range raws {
		s := sent{line: raw[:strings.Index(raw, "\r\n")], nth: int64(i), after: time.Now()}
		s.agent, s.forwarded = header(raw, "User-Agent"), header(raw, "X-Forwarded-For")
		s.port = c.LocalAddr().(*net.TCPAddr).AddrPort().Port()
		if _, err := io.WriteString(c, raw); err != nil {
			t.Fatal(err)
		}
		method, _, _ := strings.Cut(raw, " ")
		resp, err := http.ReadResponse(in, &http.Request{Method: method})
		if err != nil {
			t.Fatalf("answer to %.60q: %v", raw, err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		s.status, s.before = resp.StatusCode, time.Now()
		all = append(all, s)
	}
	return all
}

func header(raw, name string) string {
	_, rest, ok := strings.Cut(raw, "\r\n"+name+": ")
	if !ok {
		return ""
	}
	value, _, _ := strings.Cut(rest, "\r\n")
	return value
}

// logOf waits until a log has n lines.
func logOf(t *testing.T, d *servers.Daemon, name string, n int) string {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		log, err := d.File(name)
		if err == nil && strings.Count(log, "\n") >= n {
			return log
		}
		if time.Now().After(end) {
			t.Fatalf("%s has %d lines, want %d: %v", name, strings.Count(log, "\n"), n, err)
		}
	}
}

// checkLog reads every line of a log and holds it against what was sent.
func checkLog(t *testing.T, f *accesslog.Format, log string, want []sent) {
	t.Helper()
	p := f.NewParser()
	lines := strings.Split(strings.TrimSuffix(log, "\n"), "\n")
	if len(lines) != len(want) {
		t.Fatalf("%d lines, want %d:\n%s", len(lines), len(want), log)
	}
	for i, line := range lines {
		var r accesslog.Record
		if fault := p.Parse([]byte(line), &r); fault != accesslog.NoFault {
			t.Errorf("fault: %v\n%.300s", fault, line)
			continue
		}
		for _, wrong := range differences(f, &r, want[i]) {
			t.Errorf("%s\n%.300s", wrong, line)
		}
	}
}

// differences lists what a record says otherwise than its sender.
func differences(f *accesslog.Format, r *accesslog.Record, want sent) (wrong []string) {
	text := func(b []byte) string { return string(f.Unescape(nil, b)) }
	has := f.Fields()
	if f.Name() == "json" { // whatever the keys are
		has &= r.Has
	}
	check := func(field accesslog.Fields, what string, got, want any) {
		if has.Has(field) && got != want {
			wrong = append(wrong, fmt.Sprintf("%s %.100q, want %.100q", what, fmt.Sprint(got), fmt.Sprint(want)))
		}
	}
	check(accesslog.FieldClient, "client", r.Client, clientAddr)
	check(accesslog.FieldPeer, "peer", r.Peer, clientAddr)
	check(accesslog.FieldStatus, "status", r.Status, want.status)
	check(accesslog.FieldKeepAlive, "requests before on the connection", r.KeepAlive, want.nth)
	check(accesslog.FieldRemotePort, "port", r.RemotePort, want.port)
	// What a server refuses it may log as it likes.
	if accepted := want.status == http.StatusOK || want.status == http.StatusNotFound; accepted {
		check(accesslog.FieldRequest, "request", r.Request == nil || text(r.Request) == want.line, true)
		method, rest, _ := strings.Cut(want.line, " ")
		path, protocol, _ := strings.Cut(rest, " HTTP/")
		check(accesslog.FieldRequest, "method", text(r.Method), method)
		check(accesslog.FieldRequest, "protocol", text(r.Protocol), "HTTP/"+protocol)
		if r.Request != nil {
			check(accesslog.FieldRequest, "path", text(r.Path), path)
		}
		if r.UserAgent != nil {
			check(0, "agent", text(r.UserAgent), want.agent)
		}
		check(accesslog.FieldForwarded, "forwarded", text(r.Forwarded), want.forwarded)
	}
	if has.Has(accesslog.FieldTime) && (r.Time.Before(want.after.Truncate(time.Second).Add(-time.Second)) || r.Time.After(want.before.Add(time.Second))) {
		wrong = append(wrong, fmt.Sprintf("time %v, sent from %v to %v", r.Time, want.after.UTC(), want.before.UTC()))
	}
	if has.Has(accesslog.FieldDuration) && (!r.Has.Has(accesslog.FieldDuration) || r.Duration > want.before.Sub(want.after)+time.Second) {
		wrong = append(wrong, fmt.Sprintf("duration %v, it took %v", r.Duration, want.before.Sub(want.after)))
	}
	return wrong
}

// Whatever is sent, a log of a real Apache httpd is read without a broken
// line, and with the values that were sent.
func TestReadsLogsOfApache(t *testing.T) {
	labtest.Need(t, "apache2")
	s := newSite(t)
	formats := []string{
		`%h %l %u %t "%r" %>s %b "%{Referer}i" "%{User-Agent}i"`,
		`%v:%p %h %l %u %t "%r" %>s %B "%{Referer}i" "%{User-Agent}i"`,
		`%v %h %l %u %t "%r" %s "%{X-Forwarded-For}i"`,
		`%a %{c}a %h %{remote}p %k %X %D %T %{ms}T %{%Y-%m-%d %H:%M:%S}t.%{usec_frac}t %{%z}t "%m %U%q %H" %>s`,
		`{"a":"%a","t":"%{%Y-%m-%dT%H:%M:%S%z}t","r":"%r","ua":"%{User-Agent}i","s":%>s,"k":%k}`,
		`%!400,414{User-agent}i|%200,404{Referer}i|%h|%{end:msec}t|%>s|"%r"|%{us}T`,
		`%h:%{remote}p\t%{%A, %d-%b-%y %I:%M:%S %p %z}t %% %{nobody}C %{nothing}n %{no}o %{X}^ti %L %P %R %f %>s`,
		`%h %{User-Agent}i %t "%r" %>s`,
	}
	var extra []string
	for i, f := range formats {
		// Apache's configuration reader takes \" and \\ as Go writes them; its
		// own \t must reach it.
		extra = append(extra, fmt.Sprintf("CustomLog f%d.log %s", i, strings.ReplaceAll(fmt.Sprintf("%q", f), `\\t`, `\t`)))
	}
	at := netip.AddrPortFrom(webAddr, 80)
	d, err := servers.StartApache(t.Context(), s.web, servers.ApacheConfig{Addrs: []netip.AddrPort{at}, Host: "www.example.com", Extra: extra,
		Files: map[string][]byte{"index.html": []byte("hello"), "kept": []byte("kept")}})
	closeLater(t, d, err)
	want := send(t, at)
	for i, text := range formats {
		t.Run(text, func(t *testing.T) {
			f, err := accesslog.CompileApache(text, accesslog.CompileOptions{})
			if err != nil {
				t.Fatal(err)
			}
			checkLog(t, f, logOf(t, d, fmt.Sprintf("f%d.log", i), len(want)), want)
		})
	}
	for i, name := range []string{"combined", "vhost_combined"} {
		t.Run("detected as "+name, func(t *testing.T) { detects(t, logOf(t, d, fmt.Sprintf("f%d.log", i), len(want)), name, len(want)) })
	}
}

// detects reads a log whose format nobody gives.
func detects(t *testing.T, log, name string, records int) {
	t.Helper()
	var lines [][]byte
	for l := range strings.Lines(log) {
		lines = append(lines, []byte(strings.TrimSuffix(l, "\n")))
	}
	d, err := accesslog.Detect(lines, accesslog.CompileOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if d.Format.Name() != name || d.Fit != records || d.Sure != accesslog.Certain {
		t.Errorf("detected %v", d)
	}
}

// The same of nginx, with every way it escapes.
func TestReadsLogsOfNginx(t *testing.T) {
	labtest.Need(t, "nginx")
	s := newSite(t)
	const combined = `$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent"`
	const all = `$remote_addr $remote_port $msec $connection $connection_requests $request_time $status "$request" "$http_x_forwarded_for" ${request_method}|$host`
	const object = `{"time_iso8601":"$time_iso8601","remote_addr":"$remote_addr","remote_user":"$remote_user","request":"$request","status":$status,` +
		`"body_bytes_sent":"$body_bytes_sent","http_user_agent":"$http_user_agent","xff":"$http_x_forwarded_for","remote_port":"$remote_port","connection_requests":$connection_requests}`
	formats := []struct {
		text, escape string
		options      accesslog.CompileOptions
		json         bool
	}{
		{combined, "", accesslog.CompileOptions{}, false},
		{all, "escape=default", accesslog.CompileOptions{}, false},
		{object, "escape=json", accesslog.CompileOptions{}, true},
		{object, "escape=json", accesslog.CompileOptions{Escape: accesslog.EscapeJSON}, false},
		{object, "escape=default", accesslog.CompileOptions{}, true},
		{combined, "escape=none", accesslog.CompileOptions{Escape: accesslog.EscapeNone}, false},
	}
	var declared, used []string
	for i, f := range formats {
		declared = append(declared, fmt.Sprintf("log_format f%d %s '%s';", i, f.escape, f.text))
		used = append(used, fmt.Sprintf("access_log f%d.log f%d;", i, i))
	}
	at := netip.AddrPortFrom(webAddr, 80)
	d, err := servers.StartNginx(t.Context(), s.web, servers.NginxConfig{Addrs: []netip.AddrPort{at}, HTTP: declared, Extra: used,
		Files: map[string][]byte{"index.html": []byte("hello"), "kept": []byte("kept")}})
	closeLater(t, d, err)
	want := send(t, at)
	for i, tt := range formats {
		t.Run(tt.escape+" "+tt.text, func(t *testing.T) {
			f, err := accesslog.CompileNginx(tt.text, tt.options)
			if tt.json {
				f, err = accesslog.JSON(accesslog.CompileOptions{}), nil
			}
			if err != nil {
				t.Fatal(err)
			}
			log := logOf(t, d, fmt.Sprintf("f%d.log", i), len(want))
			checkLog(t, f, log, want)
			if tt.json {
				detects(t, log, "json", len(want))
			}
		})
	}
	t.Run("detected", func(t *testing.T) { detects(t, logOf(t, d, "f0.log", len(want)), "combined", len(want)) })
}
