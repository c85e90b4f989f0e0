package dnscheck

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"
	"github.com/vishvananda/netlink"
)

// These tests hold the stub against the real glibc: getent and this package
// resolve the same name by the same resolv.conf from the same faulty servers,
// in a network namespace of their own. What the servers were asked, and how
// long it took, must agree.

// glibcCase is one resolv.conf and name. timeout:1 keeps the waits short.
type glibcCase struct {
	Name, Conf, Query string
	// Database is getent's: ahosts for AF_UNSPEC, ahostsv4 and ahostsv6.
	Database string
}

var glibcCases = []glibcCase{
	{"healthy", "nameserver 127.0.1.2", "www.example.com", "ahosts"},
	{"one dead", "nameserver 127.0.1.1\noptions timeout:1", "www.example.com", "ahosts"},
	{"two dead", "nameserver 127.0.1.1\nnameserver 127.0.1.20\noptions timeout:1", "www.example.com", "ahosts"},
	{"three dead", "nameserver 127.0.1.1\nnameserver 127.0.1.20\nnameserver 127.0.1.21\noptions timeout:1", "www.example.com", "ahosts"},
	{"three dead of 2 s, one attempt", "nameserver 127.0.1.1\nnameserver 127.0.1.20\nnameserver 127.0.1.21\noptions timeout:2 attempts:1", "www.example.com", "ahosts"},
	{"first dead", "nameserver 127.0.1.1\nnameserver 127.0.1.2\noptions timeout:1", "www.example.com", "ahosts"},
	{"first closed", "nameserver 127.0.1.8\nnameserver 127.0.1.2\noptions timeout:1", "www.example.com", "ahosts"},
	{"servfail first", "nameserver 127.0.1.3\nnameserver 127.0.1.2\noptions timeout:1", "www.example.com", "ahosts"},
	{"servfail only", "nameserver 127.0.1.3\nsearch a.example b.example\noptions timeout:1", "www", "ahosts"},
	{"refused first", "nameserver 127.0.1.4\nnameserver 127.0.1.2\noptions timeout:1", "www.example.com", "ahosts"},
	{"AAAA dropped", "nameserver 127.0.1.5\noptions timeout:1", "www.example.com", "ahosts"},
	{"A dropped", "nameserver 127.0.1.6\noptions timeout:1", "www.example.com", "ahosts"},
	{"AAAA dropped, then another server", "nameserver 127.0.1.6\nnameserver 127.0.1.2\noptions timeout:1", "www.example.com", "ahosts"},
	{"AAAA lost once", "nameserver 127.0.1.13\noptions timeout:1", "www.example.com", "ahosts"},
	{"truncated", "nameserver 127.0.1.7\noptions timeout:1", "www.example.com", "ahosts"},
	{"referral first", "nameserver 127.0.1.9\nnameserver 127.0.1.2\noptions timeout:1", "www.example.com", "ahosts"},
	{"slow", "nameserver 127.0.1.10\noptions timeout:1", "www.example.com", "ahosts"},
	{"slow with another dead", "nameserver 127.0.1.10\nnameserver 127.0.1.1\noptions timeout:1", "www.example.com", "ahosts"},
	{"AAAA servfail", "nameserver 127.0.1.11\noptions timeout:1", "www.example.com", "ahosts"},
	{"garbage", "nameserver 127.0.1.12\nnameserver 127.0.1.2\noptions timeout:1", "www.example.com", "ahosts"},
	{"search", "nameserver 127.0.1.2\nsearch a.example b.example", "www.example.com", "ahosts"},
	{"ndots", "nameserver 127.0.1.2\nsearch a.example b.example\noptions ndots:5", "www.example.com", "ahosts"},
	{"not there", "nameserver 127.0.1.2\nsearch a.example b.example", "no.example.com", "ahosts"},
	{"short not there", "nameserver 127.0.1.2\nsearch a.example b.example", "no", "ahosts"},
	{"search root", "nameserver 127.0.1.2\nsearch .", "no.example.com", "ahosts"},
	{"dead with search", "nameserver 127.0.1.1\nsearch a.example b.example\noptions timeout:1 attempts:1", "www.example.com", "ahosts"},
	{"absolute", "nameserver 127.0.1.2\nsearch a.example\noptions ndots:5", "www.example.com.", "ahosts"},
	{"v4", "nameserver 127.0.1.2", "www.example.com", "ahostsv4"},
	{"single-request", "nameserver 127.0.1.2\noptions single-request", "www.example.com", "ahosts"},
	{"single-request and servfail", "nameserver 127.0.1.3\nnameserver 127.0.1.2\noptions single-request timeout:1", "www.example.com", "ahosts"},
	{"use-vc", "nameserver 127.0.1.2\noptions use-vc", "www.example.com", "ahosts"},
	{"no-aaaa", "nameserver 127.0.1.2\noptions no-aaaa", "www.example.com", "ahosts"},
	{"edns0", "nameserver 127.0.1.2\noptions edns0", "www.example.com", "ahosts"},
	{"edns0 formerr", "nameserver 127.0.1.15\noptions edns0 timeout:1", "www.example.com", "ahosts"},
	{"edns0 formerr with its question", "nameserver 127.0.1.16\nnameserver 127.0.1.2\noptions edns0 timeout:1", "www.example.com", "ahosts"},
	{"odd file", " nameserver 127.0.1.1\n# x\nnameserver 127.1.2 trailing\nnameserver 127.0.258 x\nnameserver nonsense\ndomain a.example b.example", "no", "ahosts"},
}

// glibcRun is what the servers saw, and how long it took.
type glibcRun struct {
	Queries []string
	Found   bool // a name with an address; not told by getent's status
	Elapsed time.Duration
}

func TestAgainstGlibc(t *testing.T) {
	if os.Getenv("WHYSLOW_GLIBC_CASE") != "" {
		t.Skip("the child runs TestGlibcChild")
	}
	if testing.Short() {
		t.Skip("takes seconds")
	}
	if out, err := exec.Command("getconf", "GNU_LIBC_VERSION").Output(); err != nil || !strings.HasPrefix(string(out), "glibc 2.36") {
		t.Skipf("the model is of glibc 2.36, this host has %q", strings.TrimSpace(string(out)))
	}
	// The children wait rather than work, so many may run on few processors.
	results := make([]glibcPair, len(glibcCases))
	slots := make(chan struct{}, 8)
	var wg sync.WaitGroup
	for i := range glibcCases {
		dirs := [2]string{t.TempDir(), t.TempDir()}
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			// A loaded machine tears waits apart; a wrong model does so every
			// time.
			for range 3 {
				results[i] = runPair(t.Context(), i, dirs)
				if results[i].err != nil || results[i].diff() == "" {
					break
				}
			}
		})
	}
	wg.Wait()
	for i, c := range glibcCases {
		t.Run(c.Name, func(t *testing.T) {
			r := results[i]
			switch {
			case errors.Is(r.err, errNoNamespaces) && os.Getenv("WHYSLOW_REQUIRE_LAB") == "":
				t.Skip(r.err)
			case r.err != nil:
				t.Fatal(r.err)
			}
			if d := r.diff(); d != "" {
				t.Error(d)
			}
		})
	}
}

// glibcPair is one case done by both.
type glibcPair struct {
	glibc, stub glibcRun
	err         error
}

func runPair(ctx context.Context, i int, dirs [2]string) glibcPair {
	var p glibcPair
	var other error
	var wg sync.WaitGroup
	wg.Go(func() { p.glibc, p.err = stubChild(ctx, "TestGlibcChild", i, "glibc", dirs[0]) })
	wg.Go(func() { p.stub, other = stubChild(ctx, "TestGlibcChild", i, "stub", dirs[1]) })
	wg.Wait()
	if p.err == nil {
		p.err = other
	}
	return p
}

// diff says where the two disagree, "" if nowhere. Waits are whole seconds, so
// that half a second tells them apart.
func (p glibcPair) diff() string {
	if d := cmp.Diff(p.glibc.Queries, p.stub.Queries); d != "" {
		return "queries (-glibc +stub):\n" + d
	}
	if (p.glibc.Elapsed - p.stub.Elapsed).Abs() > 600*time.Millisecond {
		return fmt.Sprintf("glibc took %v, the stub %v", p.glibc.Elapsed, p.stub.Elapsed)
	}
	return ""
}

var errNoNamespaces = errors.New("no namespaces")

// stubChild runs one case in new namespaces, by a real resolver or by the stub:
// the test named does it.
func stubChild(ctx context.Context, test string, i int, who, dir string) (run glibcRun, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^"+test+"$", "-test.v=false")
	cmd.Env = append(os.Environ(), fmt.Sprintf("WHYSLOW_GLIBC_CASE=%d", i), "WHYSLOW_GLIBC_DIR="+dir, "WHYSLOW_GLIBC_WHO="+who)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	if err != nil && !errors.As(err, new(*exec.ExitError)) {
		return run, fmt.Errorf("%w: %w", errNoNamespaces, err)
	}
	_, body, ok := strings.Cut(string(out), "RESULT ")
	if line, _, _ := strings.Cut(body, "\n"); !ok || json.Unmarshal([]byte(line), &run) != nil {
		return run, fmt.Errorf("child: %v: %s", err, out)
	}
	return run, nil
}

// TestGlibcChild is not a test of its own: it is the child of TestAgainstGlibc.
func TestGlibcChild(t *testing.T) {
	i, ok := childCase()
	if !ok {
		t.Skip("run by TestAgainstGlibc")
	}
	c := glibcCases[i]
	enterCase(t, c.Conf)
	reportRun(t, new(bool), func() {
		if os.Getenv("WHYSLOW_GLIBC_WHO") == "glibc" {
			// Its status says whether the name was found, which is not compared.
			exec.Command("getent", c.Database, c.Query).Run()
			return
		}
		o := Options{Name: c.Query, NoHosts: true}
		if c.Database == "ahostsv4" {
			o.Family = IPv4
		}
		if _, err := Resolve(t.Context(), o); err != nil {
			t.Error(err)
		}
	})
}

// childCase is the number of the case that a child is to do.
func childCase() (i int, ok bool) {
	_, err := fmt.Sscan(os.Getenv("WHYSLOW_GLIBC_CASE"), &i)
	return i, err == nil
}

// reportRun runs f beside the faulty servers and tells the parent.
func reportRun(t *testing.T, found *bool, f func()) {
	run := observed(t, f)
	run.Found = *found
	b, _ := json.Marshal(run)
	fmt.Printf("RESULT %s\n", b)
}

// enterCase gives the new namespaces their addresses and files.
func enterCase(t *testing.T, resolvConf string) {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		t.Fatal(err)
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		t.Fatal(err)
	}
	// getent asks with AI_ADDRCONFIG, for which loopback addresses do not
	// count: without an IPv6 address it would not ask for AAAA.
	for _, a := range []string{"192.0.2.200/32", "2001:db8::200/128"} {
		own, err := netlink.ParseAddr(a)
		if err != nil {
			t.Fatal(err)
		}
		own.Flags = syscall.IFA_F_NODAD
		if err := netlink.AddrAdd(lo, own); err != nil {
			t.Fatal(err)
		}
	}
	dir := os.Getenv("WHYSLOW_GLIBC_DIR")
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"resolv.conf": resolvConf + "\n", "hosts": "127.0.0.1 localhost\n", "nsswitch.conf": "hosts: files dns\n"} {
		f := filepath.Join(dir, name)
		if err := os.WriteFile(f, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Mount(f, "/etc/"+name, "", syscall.MS_BIND, ""); err != nil {
			t.Fatal(err)
		}
	}
}

// observed runs f beside the faulty servers.
func observed(t *testing.T, f func()) glibcRun {
	var mu sync.Mutex
	var log []string
	// Queries of one wait may arrive in any order: they are sorted within it.
	last := time.Time{}
	wave := 0
	record := func(s string) {
		mu.Lock()
		defer mu.Unlock()
		if now := time.Now(); now.Sub(last) > 300*time.Millisecond {
			wave++
			last = now
		}
		log = append(log, fmt.Sprintf("%d %s", wave, s))
	}
	stop := faultyServers(t, record)
	began := time.Now()
	f()
	r := glibcRun{Elapsed: time.Since(began)}
	flush(t)
	stop()
	log = slices.DeleteFunc(log, func(s string) bool { return strings.Contains(s, flushName) })
	slices.Sort(log)
	r.Queries = log
	return r
}

const flushName = "flush.example."

// flush has the servers read what still lies in their sockets: a question of
// its own, behind the others.
func flush(t *testing.T) {
	for _, last := range []int{2, 10} {
		m := new(dns.Msg).SetQuestion(flushName, dns.TypeA)
		c := &dns.Client{Timeout: 5 * time.Second}
		if _, _, err := c.Exchange(m, fmt.Sprintf("127.0.1.%d:53", last)); err != nil {
			t.Error(err)
		}
	}
}

// faultyServers starts one server for each fault, on 127.0.1.x port 53.
func faultyServers(t *testing.T, record func(string)) (stop func()) {
	var stops []func()
	for last, h := range faults() {
		addr := fmt.Sprintf("127.0.1.%d:53", last)
		for _, network := range []string{"udp", "tcp"} {
			handler := dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
				edns := ""
				if q.IsEdns0() != nil {
					edns = " edns"
				}
				record(fmt.Sprintf("%s %s %s %s%s", addr, network, strings.ToLower(q.Question[0].Name), dns.TypeToString[q.Question[0].Qtype], edns))
				h(w, q, network)
			})
			srv := &dns.Server{Addr: addr, Net: network, Handler: handler}
			ready := make(chan struct{})
			srv.NotifyStartedFunc = func() { close(ready) }
			done := make(chan error, 1)
			go func() { done <- srv.ListenAndServe() }()
			select {
			case <-ready:
			case err := <-done:
				t.Fatal(err)
			}
			stops = append(stops, func() {
				ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
				defer cancel()
				srv.ShutdownContext(ctx)
				<-done
			})
		}
	}
	return func() {
		for _, s := range stops {
			s()
		}
	}
}

// faults are the servers by the last byte of their address.
func faults() map[int]func(w dns.ResponseWriter, q *dns.Msg, network string) {
	good := func(w dns.ResponseWriter, q *dns.Msg) {
		m := new(dns.Msg).SetReply(q)
		m.RecursionAvailable = true
		switch name := strings.ToLower(q.Question[0].Name); {
		case name != "www.example.com.":
			m.Rcode = dns.RcodeNameError
		case q.Question[0].Qtype == dns.TypeA:
			m.Answer = []dns.RR{&dns.A{Hdr: dns.RR_Header{Name: q.Question[0].Name, Rrtype: dns.TypeA, Class: 1, Ttl: 60}, A: net.IPv4(192, 0, 2, 1)}}
		case q.Question[0].Qtype == dns.TypeAAAA:
			m.Answer = []dns.RR{&dns.AAAA{Hdr: dns.RR_Header{Name: q.Question[0].Name, Rrtype: dns.TypeAAAA, Class: 1, Ttl: 60}, AAAA: net.ParseIP("2001:db8::1")}}
		}
		w.WriteMsg(m)
	}
	rcode := func(rc int) func(dns.ResponseWriter, *dns.Msg, string) {
		return func(w dns.ResponseWriter, q *dns.Msg, _ string) { w.WriteMsg(new(dns.Msg).SetRcode(q, rc)) }
	}
	silent := func(dns.ResponseWriter, *dns.Msg, string) {}
	without := func(drop uint16) func(dns.ResponseWriter, *dns.Msg, string) {
		return func(w dns.ResponseWriter, q *dns.Msg, _ string) {
			if q.Question[0].Qtype != drop {
				good(w, q)
			}
		}
	}
	var mu sync.Mutex
	lost := false
	return map[int]func(w dns.ResponseWriter, q *dns.Msg, network string){
		1: silent, 20: silent, 21: silent,
		2: func(w dns.ResponseWriter, q *dns.Msg, _ string) { good(w, q) },
		3: rcode(dns.RcodeServerFailure),
		4: rcode(dns.RcodeRefused),
		5: without(dns.TypeAAAA),
		6: without(dns.TypeA),
		7: func(w dns.ResponseWriter, q *dns.Msg, network string) {
			if network == "tcp" {
				good(w, q)
				return
			}
			m := new(dns.Msg).SetReply(q)
			m.RecursionAvailable, m.Truncated = true, true
			w.WriteMsg(m)
		},
		9: func(w dns.ResponseWriter, q *dns.Msg, _ string) { w.WriteMsg(new(dns.Msg).SetReply(q)) },
		10: func(w dns.ResponseWriter, q *dns.Msg, _ string) {
			time.Sleep(1500 * time.Millisecond) // the fault itself, not synchronisation
			good(w, q)
		},
		11: func(w dns.ResponseWriter, q *dns.Msg, _ string) {
			if q.Question[0].Qtype == dns.TypeAAAA {
				w.WriteMsg(new(dns.Msg).SetRcode(q, dns.RcodeServerFailure))
				return
			}
			good(w, q)
		},
		12: func(w dns.ResponseWriter, q *dns.Msg, _ string) {
			m := new(dns.Msg).SetReply(q)
			m.RecursionAvailable = true
			b, _ := m.Pack()
			b[7] = 1 // an answer whose name points to itself
			at := len(b)
			w.Write(append(b, 0xc0|byte(at>>8), byte(at), 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, 1, 2, 3, 4))
		},
		13: func(w dns.ResponseWriter, q *dns.Msg, _ string) {
			mu.Lock()
			drop := q.Question[0].Qtype == dns.TypeAAAA && !lost
			lost = lost || drop
			mu.Unlock()
			if !drop {
				good(w, q)
			}
		},
		15: func(w dns.ResponseWriter, q *dns.Msg, _ string) {
			if q.IsEdns0() != nil {
				m := new(dns.Msg)
				m.Id, m.Response, m.Rcode = q.Id, true, dns.RcodeFormatError
				w.WriteMsg(m)
				return
			}
			good(w, q)
		},
		17: func(w dns.ResponseWriter, q *dns.Msg, network string) {
			if network == "udp" {
				m := new(dns.Msg).SetReply(q)
				m.RecursionAvailable, m.Truncated = true, true
				w.WriteMsg(m)
			}
		},
		16: func(w dns.ResponseWriter, q *dns.Msg, _ string) {
			if q.IsEdns0() != nil {
				w.WriteMsg(new(dns.Msg).SetRcode(q, dns.RcodeFormatError))
				return
			}
			good(w, q)
		},
	}
}
