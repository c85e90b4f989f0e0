package worlds

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/miekg/dns"

	"github.com/whyslow/whyslow/internal/netlab"
	"github.com/whyslow/whyslow/internal/netlab/servers"
	"github.com/whyslow/whyslow/internal/simnet"
	"github.com/whyslow/whyslow/reports"
)

func lookups(w *world) {
	w.ptrDelay = w.logDur(200*ms, 5000*ms)
	w.ptrSeen = w.rng.IntN(2) == 0
}

func lookupBefore(w *world) {
	lookups(w)
	w.web.perConn = w.ptrDelay
	if w.ptrSeen {
		w.authFaults = []servers.DNSFault{{Suffix: "arpa", Delay: w.ptrDelay}}
	}
	w.is(reports.Server, "hostname-lookups", "on every path before, %v, seen %v", w.ptrDelay, w.ptrSeen)
}

func lookupLog(w *world) {
	lookups(w)
	w.web.secondConn = w.ptrDelay
	if w.ptrSeen {
		w.authFaults = []servers.DNSFault{{Suffix: "arpa", Delay: w.ptrDelay}}
	}
	w.is(reports.Server, "hostname-lookups", "while logging, %v, seen %v", w.ptrDelay, w.ptrSeen)
}

// apache is a real httpd whose resolver is a DNS server of its own at the web
// host; its PTR answers take as long as the world says.
func apache(w *world, cfg servers.ApacheConfig, delay time.Duration, conf string, drop bool) {
	w.web.tls = false
	w.v6 = false
	w.path = "/"
	w.ptrDelay = max(delay, 1)
	w.real = func(ctx context.Context, w *world, lab *netlab.Lab, node simnet.NodeID) (func() error, error) {
		ns := lab.Server(node)
		f := []servers.DNSFault{{Types: []uint16{dns.TypePTR}, Delay: delay}}
		if drop {
			f[0].Action = servers.Drop
		}
		d, err := servers.StartAuthority(servers.AuthorityConfig{Place: ns, Addrs: []netip.AddrPort{netip.AddrPortFrom(webIP, 53)}, Faults: f,
			Zones: []servers.Zone{{Origin: "7.10.in-addr.arpa", Records: []string{"10.0 0 IN PTR visitor.home.example."}},
				{Origin: "home.example", Records: []string{"visitor 0 IN A " + clientIP.String()}}}})
		if err != nil {
			return nil, err
		}
		if err := ns.SetFiles(netlab.Files{ResolvConf: []byte("nameserver " + webIP.String() + "\n" + conf)}); err != nil {
			return d.Close, err
		}
		cfg.Addrs = []netip.AddrPort{netip.AddrPortFrom(webIP, 80)}
		cfg.Host = host
		a, err := servers.StartApache(ctx, ns, cfg)
		if err != nil {
			return d.Close, err
		}
		return func() error { _ = a.Close(); return d.Close() }, nil
	}
}

func html(n int) map[string][]byte {
	return map[string][]byte{"index.html": make([]byte, n)}
}

func apacheLog(w *world) {
	d := w.logDur(200*ms, 4000*ms)
	apache(w, servers.ApacheConfig{Files: html(w.web.size), HostnameLookups: "On", LogFormat: `%h %l %u %t "%r" %>s %b`}, d, "", false)
	w.is(reports.Server, "hostname-lookups", "apache logs names, PTR %v", d)
}

func apacheRequire(w *world) {
	d := w.logDur(200*ms, 4000*ms)
	apache(w, servers.ApacheConfig{Files: html(w.web.size), RequireHost: "home.example"}, d, "", false)
	w.is(reports.Server, "hostname-lookups", "apache Require host, PTR %v", d)
}

func apacheDead(w *world) {
	apache(w, servers.ApacheConfig{Files: html(w.web.size), HostnameLookups: "On", LogFormat: `%h %l %u %t "%r" %>s %b`}, 0, "options timeout:1 attempts:2\n", true)
	w.is(reports.Server, "hostname-lookups", "apache logs names, PTR dead")
}

func apacheOK(w *world) {
	apache(w, servers.ApacheConfig{Files: html(w.web.size)}, 2*time.Second, "", false)
	w.spread(w.dur(ms, 80*ms))
	w.is(reports.None, "healthy", "apache, lookups off")
}

func nginxOK(w *world) {
	w.web.tls = false
	w.path = "/"
	w.spread(w.dur(ms, 80*ms))
	w.real = func(ctx context.Context, w *world, lab *netlab.Lab, node simnet.NodeID) (func() error, error) {
		a, err := servers.StartNginx(ctx, lab.Server(node), servers.NginxConfig{Addrs: []netip.AddrPort{netip.AddrPortFrom(webIP, 80)}, Files: html(w.web.size)})
		if err != nil {
			return nil, err
		}
		return a.Close, nil
	}
	w.is(reports.None, "healthy", "nginx")
}

func fixed(d time.Duration) func() time.Duration { return func() time.Duration { return d } }

func think(w *world) {
	w.spread(w.logDur(ms, 80*ms))
	d := w.logDur(150*ms, 5000*ms)
	w.web.think = fixed(d)
	w.is(reports.Server, "think-time", "thinks %v", d)
}

func thinkJitter(w *world) {
	w.spread(w.logDur(ms, 80*ms))
	d := w.logDur(200*ms, 4000*ms)
	w.web.think = func() time.Duration { return time.Duration(float64(d) * (0.7 + 0.6*rand.Float64())) }
	w.is(reports.Server, "think-time", "thinks %v ± 30 %%", d)
}

func thinkAll(w *world) {
	w.spread(w.logDur(ms, 80*ms))
	d := w.logDur(150*ms, 3000*ms)
	w.web.think, w.web.thinkAll = fixed(d), true
	w.is(reports.Server, "think-time", "every path thinks %v", d)
}

func thinkFar(w *world) {
	newWorldLike(w)
	rtt := w.dur(90*ms, 250*ms)
	w.spread(rtt)
	d := w.dur(900*ms, 2500*ms)
	w.web.think = fixed(d)
	w.odd(0.2)
	w.is(reports.Server, "think-time", "thinks %v at %v", d, rtt)
}

func thinkNoise(w *world) {
	w.spread(w.logDur(ms, 80*ms))
	d := w.logDur(200*ms, 2000*ms)
	w.web.think = func() time.Duration { return d + time.Duration(rand.ExpFloat64()*float64(d)/2) }
	w.is(reports.Server, "think-time", "thinks %v and a tail", d)
}

func drip(w *world) {
	w.spread(w.logDur(ms, 60*ms))
	n, d := 3+w.rng.IntN(20), w.dur(40*ms, 250*ms)
	w.web.size = 8000 + w.rng.IntN(60000)
	w.web.pace = pieces(n, d)
	w.is(reports.Server, "body", "%d pieces %v apart", n, d)
}

func trickle(w *world) {
	w.spread(w.logDur(ms, 60*ms))
	w.web.size = 8000 + w.rng.IntN(20000)
	n := 60 + w.rng.IntN(100)
	d := w.dur(5*ms, 20*ms)
	w.web.pace = pieces(n, d)
	w.is(reports.Server, "body", "%d crumbs %v apart", n, d)
	w.is(reports.Server, "rate-limit", "")
}

func rate(w *world) {
	w.spread(w.logDur(ms, 60*ms))
	w.web.size = 60000 + w.rng.IntN(100000)
	r := 20000 + w.rng.IntN(150000)
	w.web.pace = constant(r)
	w.is(reports.Server, "rate-limit", "%d bytes at %d B/s", w.web.size, r)
	w.is(reports.Server, "body", "")
}

func pauseBody(w *world) {
	w.spread(w.logDur(ms, 60*ms))
	w.web.size = 20000 + w.rng.IntN(100000)
	d := w.dur(300*ms, 3000*ms)
	w.web.pace = func(o io.Writer, flush func(), b []byte) {
		_, _ = o.Write(b[:len(b)/3])
		flush()
		time.Sleep(d)
		_, _ = o.Write(b[len(b)/3:])
	}
	w.is(reports.Server, "body", "pause of %v in the middle", d)
}

func tlsSlow(w *world, v uint16) {
	w.spread(w.logDur(ms, 80*ms))
	w.web.tls, w.web.tlsMax = true, v
	d := w.logDur(150*ms, 2500*ms)
	w.web.handshake = d
	w.is(reports.Server, "tls", "handshake %v", d)
}

func slowTLS12(w *world) { tlsSlow(w, 0x0303) }

func slowTLS13(w *world) { tlsSlow(w, 0) }

func accept(w *world) {
	w.spread(w.logDur(ms, 80*ms))
	d := w.logDur(150*ms, 2000*ms)
	w.web.accept, w.web.parallel = d, true
	w.is(reports.Server, "accept", "%s, each accepted %v late", w.https(), d)
}

func acceptSerial(w *world) {
	accept(w)
	w.web.parallel = false
}

func refused(w *world) { w.refused = true; w.is(reports.Server, "refused", "nothing listens") }

func redirectChain(w *world) {
	w.spread(w.dur(40*ms, 85*ms))
	w.web.redirects = 3 + w.rng.IntN(5)
	w.path = fmt.Sprintf("/hop/%d", w.web.redirects)
	w.web.noKeep = w.rng.IntN(3) == 0
	w.is(reports.Server, "redirects", "%d redirects", w.web.redirects)
}

func redirectOne(w *world) {
	w.spread(w.dur(5*ms, 80*ms))
	w.path = "/hop/1"
	w.is(reports.None, "healthy", "one redirect")
}

func redirectSlow(w *world) {
	w.spread(w.dur(5*ms, 60*ms))
	w.path = "/hop/1"
	w.web.slowHop = w.logDur(300*ms, 2000*ms)
	w.is(reports.Server, "think-time", "one redirect that thinks %v", w.web.slowHop)
}

func status(w *world) {
	w.spread(w.dur(5*ms, 80*ms))
	w.web.status = []int{404, 500, 403}[w.rng.IntN(3)]
	w.is(reports.None, "healthy", "status %d", w.web.status)
}

func statusSlow(w *world) {
	w.spread(w.dur(5*ms, 80*ms))
	w.web.status = []int{404, 500}[w.rng.IntN(2)]
	d := w.logDur(200*ms, 3000*ms)
	w.web.think = fixed(d)
	w.is(reports.Server, "think-time", "status %d after %v", w.web.status, d)
}

func h2Think(w *world) { w.web.tls, w.web.h2 = true, true; think(w) }

func coldCache(w *world) {
	w.spread(w.dur(5*ms, 60*ms))
	w.web.coldFirst = w.dur(300*ms, 2500*ms)
	w.is(reports.None, "healthy", "only the very first request took %v", w.web.coldFirst)
}

func noKeepAlive(w *world) {
	w.spread(w.dur(5*ms, 80*ms))
	w.web.noKeep, w.web.h2 = true, false
	w.is(reports.None, "healthy", "Connection: close")
}

func noKeepThink(w *world) {
	w.web.noKeep, w.web.h2 = true, false
	think(w)
}

// undecided adds a verdict that admits not to know.
func (w *world) orUnknown() { w.is(reports.Inconclusive, "null", "") }

func acceptPTR(w *world) {
	accept(w)
	w.authFaults = []servers.DNSFault{{Suffix: "arpa", Delay: 1500 * ms}}
	w.ptrDelay = 1
}

func lookupClose(w *world) {
	lookupBefore(w)
	w.web.noKeep, w.web.h2 = true, false
}

func acceptClose(w *world) {
	accept(w)
	w.web.noKeep, w.web.h2 = true, false
}

func intermittent(w *world) {
	w.spread(w.logDur(ms, 60*ms))
	d := w.logDur(800*ms, 4000*ms)
	w.web.think = func() time.Duration {
		if rand.IntN(3) == 0 {
			return d
		}
		return 5 * ms
	}
	w.is(reports.Server, "intermittent", "one request of three takes %v", d)
	w.is(reports.Server, "think-time", "")
	w.orUnknown()
}

func think80(w *world) {
	w.spread(w.logDur(ms, 30*ms))
	w.web.think = fixed(w.dur(70*ms, 140*ms))
	w.is(reports.Server, "think-time", "thinks about 100 ms")
	w.is(reports.None, "healthy", "")
}

func thinkAllJitter(w *world) { thinkJitter(w); w.web.thinkAll = true }
