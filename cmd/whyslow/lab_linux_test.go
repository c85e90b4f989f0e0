package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/whyslow/whyslow/internal/netlab"
	"github.com/whyslow/whyslow/internal/netlab/labtest"
	"github.com/whyslow/whyslow/internal/netlab/servers"
	"github.com/whyslow/whyslow/internal/simnet"
	"github.com/whyslow/whyslow/reports"
)

// asProgram makes the test binary be the program itself: what is tested is the
// real main, with its signals and its exit status.
const asProgram = "WHYSLOW_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) == "1" {
		main()
		return
	}
	os.Exit(netlab.Main(m))
}

// The hosts of the test network, from the documentation ranges.
var (
	clientAddr   = netip.MustParseAddr("192.0.2.10")
	resolverAddr = netip.MustParseAddr("192.0.2.53")
	webAddr      = netip.MustParseAddr("203.0.113.80")
)

const site = "www.shop.example"

// lab is client – r1 – r2 – r3 – web, with a resolver at r1.
type lab struct {
	*netlab.Lab
	web, resolver *netlab.Namespace
	routers       []simnet.NodeID
	conf          string
	dns           *servers.DNS
	http          *servers.HTTP
}

func newLab(t *testing.T, rtt time.Duration) *lab {
	t.Helper()
	labtest.Need(t)
	n := simnet.New(1)
	host := func(name string, a netip.Addr) simnet.NodeID {
		return n.AddHost(simnet.Host{Name: name, Addrs: []netip.Addr{a}})
	}
	client, web, resolver := host("client", clientAddr), host("web", webAddr), host("resolver", resolverAddr)
	l := &lab{}
	for i := range 3 {
		l.routers = append(l.routers, n.AddRouter(simnet.Router{Name: fmt.Sprintf("r%d", i+1), Addr4: netip.AddrFrom4([4]byte{198, 51, 100, byte(i + 1)})}))
	}
	chain := append(append([]simnet.NodeID{client}, l.routers...), web)
	for i := range 4 {
		link := simnet.Link{Delay: rtt / 8}
		n.Connect(chain[i], chain[i+1], link, link)
	}
	near := simnet.Link{Delay: 200 * time.Microsecond}
	n.Connect(chain[1], resolver, near, near)
	var err error
	if l.Lab, err = netlab.New(netlab.Config{Net: n, Client: client, Ends: []netlab.End{
		{Node: client, Name: "client", Addrs: []netip.Addr{clientAddr}}, {Node: web, Name: "web", Addrs: []netip.Addr{webAddr}},
		{Node: resolver, Name: "resolver", Addrs: []netip.Addr{resolverAddr}}}}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	l.web, l.resolver = l.Server(web), l.Server(resolver)
	if l.conf, err = l.WriteFile("resolv.conf", []byte("nameserver "+resolverAddr.String()+"\n")); err != nil {
		t.Fatal(err)
	}
	return l
}

// zones are those of the site and of the addresses on the way.
func zones(extra ...servers.Zone) []servers.Zone {
	return append(extra,
		servers.Zone{Origin: "shop.example", Records: []string{"www 300 IN A " + webAddr.String()}},
		servers.Zone{Origin: "2.0.192.in-addr.arpa", Records: []string{"10 300 IN PTR visitor.isp.example."}},
	)
}

func (l *lab) serveDNS(t *testing.T, z []servers.Zone, faults ...servers.DNSFault) {
	t.Helper()
	d, err := servers.StartAuthority(servers.AuthorityConfig{Place: l.resolver, Zones: z, Faults: faults,
		Addrs: []netip.AddrPort{netip.AddrPortFrom(resolverAddr, 53)}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	l.dns = d
}

// serveHTTP starts the web server, on port 80 unless c says otherwise.
func (l *lab) serveHTTP(t *testing.T, c servers.HTTPConfig) {
	t.Helper()
	c.Place = l.web
	if c.Addrs == nil && c.TLSAddrs == nil {
		c.Addrs = []netip.AddrPort{netip.AddrPortFrom(webAddr, 80)}
	}
	s, err := servers.StartHTTP(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	l.http = s
}

// program is a run of whyslow.
type program struct {
	cmd      *exec.Cmd
	out, err bytes.Buffer
	done     chan struct{}
	ended    time.Time
}

// start starts whyslow in the client's namespace.
func (l *lab) start(t *testing.T, args ...string) *program {
	t.Helper()
	if args[0] != "demo" && args[0] != "show" {
		args = append(args, "--resolv-conf", l.conf)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	p := &program{cmd: exec.CommandContext(ctx, "/proc/self/exe", args...), done: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), asProgram+"=1")
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.err
	if err := p.cmd.Start(); err != nil {
		cancel()
		t.Fatal(err)
	}
	go func() {
		defer close(p.done)
		defer cancel()
		_ = p.cmd.Wait() // the status says it
		p.ended = time.Now()
	}()
	t.Cleanup(func() {
		cancel()
		<-p.done
	})
	return p
}

// interrupt sends what Ctrl-C sends, and returns how long the program took to
// end.
func (p *program) interrupt(t *testing.T) time.Duration {
	t.Helper()
	at := time.Now()
	if err := p.cmd.Process.Signal(syscall.SIGINT); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
	<-p.done
	return p.ended.Sub(at)
}

func (p *program) status() int { return p.cmd.ProcessState.ExitCode() }

// memory is the most the program had resident, in MiB.
func (p *program) memory() int64 {
	return p.cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss >> 10
}

// report reads the program's JSON.
func (p *program) report(t *testing.T) *reports.Report {
	t.Helper()
	r := new(reports.Report)
	if err := json.Unmarshal(p.out.Bytes(), r); err != nil {
		t.Errorf("no valid JSON: %v\n%s\n%s", err, &p.out, &p.err)
	}
	return r
}

// run runs whyslow to its end.
func (l *lab) run(t *testing.T, args ...string) *program {
	t.Helper()
	p := l.start(t, args...)
	<-p.done
	return p
}

// forms runs whyslow once and returns its result in every format.
func (l *lab) forms(t *testing.T, args ...string) (p *program, forms map[string]string) {
	t.Helper()
	dir := t.TempDir()
	forms = map[string]string{"text": "r.txt", "json": "r.json", "markdown": "r.md", "html": "r.html"}
	for _, name := range forms {
		args = append(args, "-o", filepath.Join(dir, name))
	}
	p = l.run(t, args...)
	for form, name := range forms {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatalf("%v\n%s", err, &p.err)
		}
		forms[form] = string(b)
	}
	forms["stdout"] = p.out.String()
	forms["stderr"] = p.err.String()
	return p, forms
}

// eventually waits until a condition outside the program holds.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	late := time.After(20 * time.Second)
	for !ok() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("never happened: %s", what)
		}
	}
}
