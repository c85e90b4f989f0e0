package cli

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/miekg/dns"

	"github.com/whyslow/whyslow/dnscheck/lookups"
)

// reverseServer answers for 192.0.2.0/24: an odd address has a name that leads
// back to it, but that of .9, which leads elsewhere; even ones have none. It
// returns its port and a resolv.conf that names it.
func reverseServer(t *testing.T) (port, conf string) {
	t.Helper()
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ready := make(chan struct{})
	srv := &dns.Server{PacketConn: pc, NotifyStartedFunc: func() { close(ready) }, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) {
		m := new(dns.Msg).SetReply(r)
		q := r.Question[0]
		var n int
		soa := &dns.SOA{Hdr: dns.RR_Header{Name: ".", Rrtype: dns.TypeSOA, Class: dns.ClassINET, Ttl: 600}, Ns: ".", Mbox: ".", Minttl: 600}
		switch {
		case q.Qtype == dns.TypePTR:
			if _, err := fmt.Sscanf(q.Name, "%d.2.0.192.in-addr.arpa.", &n); err != nil || n%2 == 0 {
				m.Rcode, m.Ns = dns.RcodeNameError, []dns.RR{soa}
			} else {
				m.Answer = []dns.RR{&dns.PTR{Hdr: dns.RR_Header{Name: q.Name, Rrtype: q.Qtype, Class: dns.ClassINET, Ttl: 3600}, Ptr: fmt.Sprintf("host%d.example.", n)}}
			}
		case q.Qtype == dns.TypeA:
			if _, err := fmt.Sscanf(q.Name, "host%d.example.", &n); err == nil {
				if n == 9 {
					n = 10
				}
				m.Answer = []dns.RR{&dns.A{Hdr: dns.RR_Header{Name: q.Name, Rrtype: q.Qtype, Class: dns.ClassINET, Ttl: 3600}, A: net.IPv4(192, 0, 2, byte(n))}}
			}
		default:
			m.Ns = []dns.RR{soa}
		}
		_ = w.WriteMsg(m) // the asker may be gone
	})}
	var wg sync.WaitGroup
	wg.Go(func() { _ = srv.ActivateAndServe() })
	<-ready
	t.Cleanup(func() { _ = srv.Shutdown(); wg.Wait() })
	_, port, _ = net.SplitHostPort(pc.LocalAddr().String())
	conf = filepath.Join(t.TempDir(), "resolv.conf")
	if err := os.WriteFile(conf, []byte("nameserver 127.0.0.1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return port, conf
}

// accessLog has for each of the addresses .1 to .20 two requests, a minute
// apart, on connections of their own, and a broken line.
func accessLog(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	for i := range 40 {
		fmt.Fprintf(&b, "192.0.2.%d - - [30/Nov/2026:12:%02d:%02d +0000] \"GET / HTTP/1.1\" 200 12 \"-\" \"x\"\n", i%20+1, i/20, i%20)
	}
	b.WriteString("nonsense\n")
	path := filepath.Join(t.TempDir(), "access.log")
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestLookupsOfALog(t *testing.T) {
	port, conf := reverseServer(t)
	log := accessLog(t)
	got := run(t, "lookups", log, "--resolv-conf", conf, "-p", port, "--workers", "10", "--json")
	if got.status != statusOK {
		t.Fatalf("status %d: %s", got.status, got.err)
	}
	var res lookups.Result
	if err := json.Unmarshal([]byte(got.out), &res); err != nil {
		t.Fatal(err)
	}
	on, double := res.Scenarios["on"], res.Scenarios["double"]
	if res.Requests != 40 || res.Addresses != 20 || res.Probed != 20 || res.Broken != 1 || on.Lookups != 40 || on.LookupsLow != 40 {
		t.Errorf("%+v\non %+v", res, on)
	}
	// 20 names are fetched once; of 10 the addresses too.
	if on.Queries != 40 || on.Upstream != 20 || double.Queries != 80 || double.Upstream != 40 {
		t.Errorf("queries %v, upstream %v; double %v, %v", on.Queries, on.Upstream, double.Queries, double.Upstream)
	}
	if r := res.Rcodes["NXDOMAIN"]; r == nil || r.Addresses != 0.5 || res.Confirmed == nil || *res.Confirmed != 0.9 {
		t.Errorf("rcodes %+v, confirmed %v", res.Rcodes, res.Confirmed)
	}
	saved := filepath.Join(t.TempDir(), "r.json")
	if err := os.WriteFile(saved, []byte(got.out), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, form := range []string{"text", "markdown", "html"} {
		if shown := run(t, "show", saved, "--format", form); shown.status != statusOK || !strings.Contains(shown.out, "workers kept busy") {
			t.Errorf("%s: status %d\n%s%s", form, shown.status, shown.out, shown.err)
		}
	}
}

// logresolve's work: only names that lead back are written, and nothing else of
// the log changes.
func TestLookupsWriteTheLogWithNames(t *testing.T) {
	port, conf := reverseServer(t)
	log, named := accessLog(t), filepath.Join(t.TempDir(), "named.log")
	got := run(t, "lookups", log, "--resolv-conf", conf, "-p", port, "--write-resolved", named)
	if got.status != statusOK || !strings.Contains(got.err, "wrote 41 lines: 18 with a name, 22 whose address has none that leads back, 1 without an address") {
		t.Fatalf("status %d: %s", got.status, got.err)
	}
	before, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	after, err := os.ReadFile(named)
	if err != nil {
		t.Fatal(err)
	}
	want := string(before)
	for i := 1; i < 20; i += 2 {
		if i != 9 {
			want = strings.ReplaceAll(want, fmt.Sprintf("192.0.2.%d -", i), fmt.Sprintf("host%d.example -", i))
		}
	}
	if string(after) != want {
		t.Errorf("got\n%s\nwant\n%s", after, want)
	}
}

func TestLookupsOfAList(t *testing.T) {
	port, conf := reverseServer(t)
	list := filepath.Join(t.TempDir(), "list")
	if err := os.WriteFile(list, []byte("192.0.2.1\n# nobody\n192.0.2.2:80\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	got := run(t, "lookups", "--addresses", list, "--resolv-conf", conf, "-p", port)
	if got.status != statusOK || !strings.Contains(got.out, "2 requests") || !strings.Contains(got.out, "NXDOMAIN") {
		t.Errorf("status %d\n%s%s", got.status, got.out, got.err)
	}
}

func TestLookupsMistakes(t *testing.T) {
	log := accessLog(t)
	refused(t, []string{"lookups"}, "give access logs, or --addresses FILE")
	refused(t, []string{"lookups", log, "--addresses", log}, "give access logs, or --addresses FILE")
	refused(t, []string{"lookups", filepath.Join(t.TempDir(), "nosuch.log")}, "no such file")
	refused(t, []string{"lookups", t.TempDir()}, "is a directory")
	refused(t, []string{"lookups", log, "--log-format", "%"}, "--log-format:")
	refused(t, []string{"lookups", "-", "--write-resolved", "x"}, "reads the logs twice")
	refused(t, []string{"lookups", log, "--write-resolved", "/nosuch/x"}, "--write-resolved: /nosuch/x")
}

// The configuration gives the format of a log that nothing else tells, and says
// which lines ask for names.
func TestLookupsReadTheServersConfiguration(t *testing.T) {
	port, conf := reverseServer(t)
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("envvars", "export APACHE_LOG_DIR="+filepath.ToSlash(dir)+"\n")
	apache := write("apache2.conf", "LoadModule mpm_event_module x\nMaxRequestWorkers 7\nHostnameLookups Double\n"+
		"LogFormat \"%k|%h|%{%s}t|%U\" odd\nCustomLog ${APACHE_LOG_DIR}/odd.log odd\n")
	log := write("odd.log.1", "0|192.0.2.1|1700000000|/a\n1|192.0.2.1|1700000001|/b\n")
	got := run(t, "lookups", log, "--apache-conf", apache, "--resolv-conf", conf, "-p", port, "--json")
	var res lookups.Result
	if err := json.Unmarshal([]byte(got.out), &res); err != nil {
		t.Fatalf("%v: %s%s", err, got.out, got.err)
	}
	if res.Requests != 2 || !res.Exact || res.Workers != 7 || res.Apache == nil || len(res.Apache.Findings) != 2 || !res.Apache.Findings[0].Costs {
		t.Errorf("%+v\n%+v", res, res.Apache)
	}
	for _, form := range []string{"text", "markdown", "html"} {
		got := run(t, "lookups", log, "--apache-conf", apache, "--resolv-conf", conf, "-p", port, "--format", form)
		if flat := strings.Join(strings.Fields(got.out), " "); !strings.Contains(flat, "in the format of") || !strings.Contains(flat, "HostnameLookups Double") {
			t.Errorf("%s: status %d\n%s%s", form, got.status, got.out, got.err)
		}
	}
	if got := run(t, "lookups", log, "--apache-conf", filepath.Join(dir, "none.conf")); got.status != statusUsage || !strings.Contains(got.err, "none.conf") {
		t.Errorf("no such configuration: status %d: %s", got.status, got.err)
	}
}
