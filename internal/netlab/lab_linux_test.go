package netlab_test

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/whyslow/whyslow/internal/netlab"
	"github.com/whyslow/whyslow/internal/netlab/labtest"
	"github.com/whyslow/whyslow/internal/simnet"
)

func TestLabsOneAfterAnother(t *testing.T) {
	carriers(t, func(t *testing.T, c netlab.Carrier) {
		var before resources
		for round := range 5 {
			n := simnet.New(1)
			client := n.AddHost(simnet.Host{Addrs: []netip.Addr{client4}})
			router := n.AddRouter(simnet.Router{Addr4: netip.MustParseAddr("192.0.2.1")})
			server := n.AddHost(simnet.Host{Addrs: []netip.Addr{server4}})
			n.Connect(client, router, simnet.Link{}, simnet.Link{})
			n.Connect(router, server, simnet.Link{MTU: 1400}, simnet.Link{MTU: 1400})
			lab, err := netlab.New(netlab.Config{Net: n, Client: client, Carrier: c, Ends: []netlab.End{
				{Node: client, Addrs: []netip.Addr{client4}}, {Node: server, Addrs: []netip.Addr{server4}},
			}})
			if err != nil {
				t.Fatalf("lab %d: %v", round, err)
			}
			if got := cachedMTU(t, server4); got != 1500 {
				t.Errorf("lab %d starts with a cached path MTU of %d", round, got)
			}
			if _, err := probe(server4, 64, 1500); err != nil {
				t.Error(err)
			}
			if got := cachedMTU(t, server4); got != 1400 {
				t.Errorf("lab %d: cached path MTU %d after a packet too big, want 1400", round, got)
			}
			if err := lab.Close(); err != nil {
				t.Fatalf("closing lab %d: %v", round, err)
			}
			if _, err := net.InterfaceByName("lab0"); err == nil {
				t.Fatalf("lab %d left its interface", round)
			}
			// The first lab leaves what the runtime keeps: idle threads, the
			// poller's descriptors.
			if round == 0 {
				before = used(t)
			} else if after := used(t); after.files > before.files || after.threads > before.threads+3 {
				t.Errorf("after lab %d: %+v, after the first %+v", round, after, before)
			}
		}
	})
}

type resources struct{ files, threads int }

func used(t *testing.T) resources {
	t.Helper()
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	return resources{len(files), len(threads)}
}

// cachedMTU is the path MTU that the kernel believes in.
func cachedMTU(t *testing.T, dst netip.Addr) int {
	t.Helper()
	c, err := net.Dial("udp", netip.AddrPortFrom(dst, 9).String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	raw, err := c.(*net.UDPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	mtu := 0
	if e := raw.Control(func(fd uintptr) {
		mtu, err = unix.GetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_MTU)
	}); e != nil || err != nil {
		t.Fatal(e, err)
	}
	return mtu
}

func TestProcessInNamespace(t *testing.T) {
	labtest.Need(t)
	lab, ns := pair(t, netlab.AutoCarrier, simnet.Link{})
	if err := ns.SetFiles(netlab.Files{ResolvConf: []byte("nameserver 192.0.2.53\n")}); err != nil {
		t.Fatal(err)
	}
	p, err := ns.Start(netlab.Command{Path: "sh", Args: []string{"-c", "cat /etc/resolv.conf /proc/net/dev; exit 3"}})
	if err != nil {
		t.Fatal(err)
	}
	if got := exitCode(p.Wait(t.Context())); got != 3 {
		t.Errorf("exit status %d, want 3", got)
	}
	if out := p.Output(); !strings.Contains(out, "nameserver 192.0.2.53") || !strings.Contains(out, "eth0:") {
		t.Errorf("the process sees neither its resolv.conf nor its interface:\n%s", out)
	}
	if b, err := os.ReadFile("/etc/resolv.conf"); err == nil && strings.Contains(string(b), "192.0.2.53") {
		t.Error("the server's resolv.conf shows outside its namespace")
	}
	path, err := lab.WriteFile("../resolv.conf", []byte("shared"))
	if err != nil || !strings.HasPrefix(path, lab.Dir()+"/") {
		t.Fatalf("wrote %q, %v", path, err)
	}
	if p, err = ns.Start(netlab.Command{Path: "cat", Args: []string{path}}); err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(t.Context()); err != nil || p.Output() != "shared" {
		t.Errorf("a shared file reads %q, %v", p.Output(), err)
	}
	if err := lab.Client.SetFiles(netlab.Files{ResolvConf: []byte("x")}); err == nil {
		t.Error("replaced the files of the client")
	}
	if _, err := ns.Start(netlab.Command{Path: "no-such-program"}); err == nil {
		t.Error("started a program that does not exist")
	}
}

func TestKillTakesDescendants(t *testing.T) {
	labtest.Need(t)
	_, ns := pair(t, netlab.AutoCarrier, simnet.Link{})
	out := make(lines, 1)
	p, err := ns.Start(netlab.Command{
		Path: "sh", Output: out,
		Args: []string{"-c", "(trap '' TERM; echo up; sleep 3141.59; sleep 3141.59) & trap '' TERM; wait; sleep 3141.59"},
	})
	if err != nil {
		t.Fatal(err)
	}
	<-out
	p.Stop(time.Millisecond) // both ignore the request
	found := 0
	tasks, _ := os.ReadDir("/proc")
	for _, e := range tasks {
		b, _ := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		if strings.Contains(string(b), "sleep\x003141.59") {
			found++
		}
	}
	if found > 0 {
		t.Errorf("%d descendants live on", found)
	}
}

// lines is a Writer that tells when something was written.
type lines chan struct{}

func (l lines) Write(b []byte) (int, error) {
	select {
	case l <- struct{}{}:
	default:
	}
	return len(b), nil
}

func TestModelChangesLive(t *testing.T) {
	labtest.Need(t)
	lab, ns := pair(t, netlab.AutoCarrier, simnet.Link{})
	at := greeter(t, ns, server4)
	dial := func() time.Duration {
		start := time.Now()
		c, err := net.DialTimeout("tcp", at, 10*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		_ = c.Close()
		return time.Since(start)
	}
	dial()
	err := lab.Model(func(n *simnet.Net) { n.SetLink(1, 2, simnet.Link{Delay: 300 * time.Millisecond}) })
	if err != nil {
		t.Fatal(err)
	}
	if took := dial(); took < 300*time.Millisecond {
		t.Errorf("connecting took %v after the link was made 300ms long", took)
	}
	if tr := lab.Traffic(); tr.In == 0 || tr.Out == 0 {
		t.Errorf("no traffic counted: %+v", tr)
	}
	if err := lab.Close(); err != nil {
		t.Fatal(err)
	}
	if err := lab.Model(func(*simnet.Net) {}); err == nil {
		t.Error("the model of a closed lab was still there")
	}
	if _, err := ns.Listen("tcp", at); err == nil {
		t.Error("listened in a namespace that is gone")
	}
}

func TestIdleLabSleeps(t *testing.T) {
	carriers(t, func(t *testing.T, c netlab.Carrier) {
		pair(t, c, simnet.Link{Delay: time.Millisecond})
		cpu := func() time.Duration {
			var ru unix.Rusage
			if err := unix.Getrusage(unix.RUSAGE_SELF, &ru); err != nil {
				t.Fatal(err)
			}
			return time.Duration(ru.Utime.Nano() + ru.Stime.Nano())
		}
		before := cpu()
		<-time.After(500 * time.Millisecond) // the measurement itself, nothing to wait for
		if spent := cpu() - before; spent > 250*time.Millisecond {
			t.Errorf("an idle lab used %v of processor time in 500ms", spent)
		}
	})
}

func TestDelayIsNeverShort(t *testing.T) {
	carriers(t, func(t *testing.T, c netlab.Carrier) {
		const delay = 5 * time.Millisecond
		_, ns := pair(t, c, simnet.Link{Delay: delay})
		errs, err := delayErrors(ns, delay, 200)
		if err != nil {
			t.Fatal(err)
		}
		// The benchmark says how exact; this must hold on a busy machine.
		if errs[0] < -50*time.Microsecond {
			t.Errorf("a packet came %v early", -errs[0])
		}
		if m := quantile(errs, 0.5); m > 20*time.Millisecond {
			t.Errorf("half the packets came %v late", m)
		}
	})
}

func TestForwardingIsNotSlow(t *testing.T) {
	carriers(t, func(t *testing.T, c netlab.Carrier) {
		lab, ns := pair(t, c, simnet.Link{Delay: time.Millisecond, Queue: 4 << 20})
		const size = 16 << 20
		start := time.Now()
		if err := transfer(ns, size); err != nil {
			t.Fatal(err)
		}
		if rate := size * 8 / time.Since(start).Seconds() / 1e6; rate < 20 {
			t.Errorf("forwarded %.1f Mbit/s (%+v)", rate, lab.Traffic())
		}
	})
}

func TestConfigIsChecked(t *testing.T) {
	n := simnet.New(1)
	id := n.AddHost(simnet.Host{Addrs: []netip.Addr{client4}})
	end := netlab.End{Node: id, Addrs: []netip.Addr{client4}}
	with := func(f func(*netlab.End)) netlab.End {
		e := end
		f(&e)
		return e
	}
	for name, cfg := range map[string]netlab.Config{
		"no model":     {Client: id, Ends: []netlab.End{end}},
		"no client":    {Net: n, Client: id + 1, Ends: []netlab.End{end}},
		"twice":        {Net: n, Client: id, Ends: []netlab.End{end, end}},
		"no address":   {Net: n, Client: id, Ends: []netlab.End{with(func(e *netlab.End) { e.Addrs = nil })}},
		"zone":         {Net: n, Client: id, Ends: []netlab.End{with(func(e *netlab.End) { e.Addrs = []netip.Addr{netip.MustParseAddr("fe80::1%eth0")} })}},
		"absurd MTU":   {Net: n, Client: id, Ends: []netlab.End{with(func(e *netlab.End) { e.MTU = 1 << 20 })}},
		"mapped":       {Net: n, Client: id, Ends: []netlab.End{with(func(e *netlab.End) { e.Addrs = []netip.Addr{netip.MustParseAddr("::ffff:192.0.2.1")} })}},
		"no addresses": {},
	} {
		t.Run(name, func(t *testing.T) {
			if lab, err := netlab.New(cfg); err == nil {
				_ = lab.Close()
				t.Error("accepted")
			}
		})
	}
	for _, c := range []netlab.ChainConfig{{}, {Client: []netip.Addr{client4}, Server: []netip.Addr{server4}, MTUs: []int{1500, 1500}}} {
		if _, err := netlab.NewKernelChain(c); err == nil {
			t.Errorf("accepted %s", fmt.Sprint(c))
		}
	}
}
