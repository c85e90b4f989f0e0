package httpcheck

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// full listens on addr with an accept queue that takes no more connections, so
// that the kernel drops each further SYN. drain makes room again.
func full(t *testing.T, addr netip.AddrPort) (port int, drain func(serve serveFunc)) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if err := unix.Bind(fd, &unix.SockaddrInet4{Port: int(addr.Port()), Addr: addr.Addr().As4()}); err != nil {
		t.Fatal(err)
	}
	if err := unix.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	port = name.(*unix.SockaddrInet4).Port
	target := netip.AddrPortFrom(addr.Addr(), uint16(port)).String()
	for n := 0; ; n++ {
		c, err := net.DialTimeout("tcp", target, 300*time.Millisecond)
		if err != nil {
			break
		}
		if n > 4 {
			t.Skip("this kernel's accept queue does not fill")
		}
		t.Cleanup(func() { c.Close() })
	}
	return port, func(serve serveFunc) {
		for {
			nfd, _, err := unix.Accept(fd)
			if err != nil {
				return
			}
			go func() { // ends with the client
				f := os.NewFile(uintptr(nfd), "accepted")
				defer f.Close()
				if c, err := net.FileConn(f); err == nil {
					defer c.Close()
					serve(0, c)
				}
			}()
		}
	}
}

func TestHappyEyeballs(t *testing.T) {
	port, _ := full(t, netip.MustParseAddrPort("127.0.0.1:0"))
	live := func(t *testing.T) { newServerOn(t, fmt.Sprintf("127.0.0.2:%d", port)).start(answer(okAlways)) }
	addrs := []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("127.0.0.2")}
	t.Run("silent, then live", func(t *testing.T) {
		live(t)
		o := options(fmt.Sprintf("http://www.example.com:%d/", port))
		o.Addrs = addrs
		x := onlyExchange(t, run(t, o))
		within(t, "connect", x.Phases.Connect, attemptDelay)
		if len(x.Attempts) != 2 || !x.Attempts[1].Won || x.Attempts[0].Won || x.Attempts[0].Error != "superseded" {
			t.Errorf("attempts: %+v", x.Attempts)
		}
		if want := fmt.Sprintf("127.0.0.2:%d", port); x.Remote != want {
			t.Errorf("remote: got %s, want %s", x.Remote, want)
		}
		within(t, "start of the second", x.Attempts[1].At, attemptDelay)
	})
	t.Run("silent, and nothing else", func(t *testing.T) {
		o := options(fmt.Sprintf("http://www.example.com:%d/", port))
		o.ConnectTimeout = 600 * time.Millisecond
		r := run(t, o)
		wantFailure(t, r, "connect", "timeout")
		within(t, "in phase", r.Failure.InPhase, 600*time.Millisecond)
	})
	t.Run("silent, then refused", func(t *testing.T) {
		o := options(fmt.Sprintf("http://www.example.com:%d/", port))
		o.Addrs = addrs
		o.ConnectTimeout = 600 * time.Millisecond
		wantFailure(t, run(t, o), "connect", "refused")
	})
}

// A host whose first address refuses is not slower for it (and no error, which
// it once was in other tools).
func TestFirstAddressRefused(t *testing.T) {
	s := serve(t, answer(okAlways))
	o := options(s.url("http", "/"))
	o.Addrs = []netip.Addr{netip.MustParseAddr("::1"), netip.MustParseAddr("127.0.0.1")}
	x := onlyExchange(t, run(t, o))
	if x.Failure != nil || x.Phases.Connect.Duration() > 200*time.Millisecond {
		t.Fatalf("failure %+v, connect %v", x.Failure, x.Phases.Connect)
	}
	if len(x.Attempts) != 2 || x.Attempts[0].Kind == "" || !x.Attempts[1].Won {
		t.Errorf("attempts: %+v", x.Attempts)
	}
}

// A lost SYN shows in connect and in TCP_INFO.
func TestLostSYN(t *testing.T) {
	port, drain := full(t, netip.MustParseAddrPort("127.0.0.1:0"))
	go func() { // ends when the listener is closed
		time.Sleep(300 * time.Millisecond) // the SYN is sent long before
		drain(answer(okAlways))
	}()
	o := options(fmt.Sprintf("http://www.example.com:%d/", port))
	x := onlyExchange(t, run(t, o))
	if x.Failure != nil {
		t.Fatal(x.Failure)
	}
	within(t, "connect", x.Phases.Connect, 900*time.Millisecond)
	if x.TCPStart.Retrans < 1 || x.TCPStart.RTOs == 0 {
		t.Errorf("TCP_INFO: %+v, want a SYN sent again", *x.TCPStart)
	}
	if x.Phases.Wait.Duration() > 500*time.Millisecond {
		t.Errorf("wait: got %v", x.Phases.Wait)
	}
}

// segment returns the server's segment size towards the client.
func segment(t *testing.T, c net.Conn) int {
	rc, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Error(err)
		return 0
	}
	var mss int
	_ = rc.Control(func(fd uintptr) {
		if info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			mss = int(info.Snd_mss)
		}
	})
	return mss
}

// A server that only small segments reach us from: the stalled fetch is
// compared with a clamped one, which decides, and is not waited for to the end.
func TestStallIsClamped(t *testing.T) {
	s := newServer(t)
	s.start(afterRequest(func(c net.Conn) {
		if segment(t, c) > clampedMSS {
			s.pause(time.Minute)
			return
		}
		fmt.Fprint(c, ok("x"))
	}))
	o := options(s.url("http", "/"))
	o.Cold, o.PerConnection = 5, 3
	c := client(t, o)
	c.stallAfter, c.abandonAfter = 200*time.Millisecond, 400*time.Millisecond
	r := c.NewResult()
	for e, err := range c.Events(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		r.Add(e)
	}
	c.Finish(r)
	wantFailure(t, r, "wait", "timeout")
	if !strings.Contains(r.Failure.Text, "small segments") {
		t.Errorf("text: %q", r.Failure.Text)
	}
	if len(r.Samples) != 2 {
		t.Errorf("%d samples, want one more to see the stall again", len(r.Samples))
	}
	if len(r.Controls) != 1 || r.Controls[0].Name != "mss-clamp" || r.Controls[0].Exchange.Failure != nil {
		t.Fatalf("controls: %+v", r.Controls)
	}
	if tcp := r.Controls[0].Exchange.TCP; tcp == nil || tcp.SndMSS > clampedMSS {
		t.Errorf("the control was not clamped: %+v", tcp)
	}
}

// A server that is slow for every client is not abandoned.
func TestSlowServerIsNotAbandoned(t *testing.T) {
	s := newServer(t)
	s.start(answer(func(_, _ int, _ *http.Request) string {
		s.pause(700 * time.Millisecond)
		return ok("x")
	}))
	c := client(t, options(s.url("http", "/")))
	c.stallAfter, c.abandonAfter = 100*time.Millisecond, 200*time.Millisecond
	for e, err := range c.Events(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Sample != nil && e.Sample.Failure != nil {
			t.Errorf("sample failed: %+v", e.Sample.Failure)
		}
		if e.Control != nil && e.Control.Exchange.Phases.Total.Known() {
			t.Errorf("the control was no faster, and is none: %+v", e.Control)
		}
	}
}

func TestInterfaceAndSource(t *testing.T) {
	s := serve(t, answer(okAlways))
	o := options(s.url("http", "/"))
	o.Source, o.Interface = netip.MustParseAddr("127.0.0.3"), "lo"
	r := run(t, o)
	if f := r.Failure; f != nil {
		if strings.Contains(f.Text, unix.EPERM.Error()) {
			t.Skip("binding to an interface is not permitted here")
		}
		t.Fatal(f)
	}
	if x := onlyExchange(t, r); !strings.HasPrefix(x.Local, "127.0.0.3:") {
		t.Errorf("local: %s", x.Local)
	}
	o.Interface = "whyslow-none"
	r = run(t, o)
	if r.Failure == nil || !strings.Contains(r.Failure.Text, "whyslow-none") {
		t.Errorf("an interface that does not exist: %+v", r.Failure)
	}
}
