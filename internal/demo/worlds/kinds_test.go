package worlds

import (
	"context"
	"fmt"
	"io"
	"math"
	"net/netip"
	"time"

	"github.com/miekg/dns"

	"github.com/whyslow/whyslow/internal/netlab"
	"github.com/whyslow/whyslow/internal/netlab/servers"
	"github.com/whyslow/whyslow/internal/simnet"
	"github.com/whyslow/whyslow/reports"
)

func mathPow(r, f float64) float64 { return math.Pow(r, f) }

var kinds = map[string]func(*world){}

func init() {
	for name, f := range map[string]func(*world){
		"slow-link": slowLink, "far": far, "ocean": ocean, "near": near, "loopback": loopbackLike,
		"loss-big": lossBig, "loss-small": lossSmall, "loss-oneway": lossOneWay, "jitter": jitter, "thin-big": thinBig, "thin-small": thinSmall,
		"mtu-body": mtuBody, "mtu-cert": mtuCert, "mtu-v6": mtuV6,
		"dead-one": deadOne, "dead-two": deadTwo, "dead-closed": deadClosed, "slow-resolver": slowResolver, "slow-authority": slowAuthority,
		"authority-dead": authorityDead, "servfail": servfail, "aaaa-dropped": aaaaDropped, "search-list": searchList, "truncation": truncation,
		"lookup-before": lookupBefore, "lookup-log": lookupLog, "apache-log": apacheLog, "apache-require": apacheRequire, "apache-dead": apacheDead, "apache-ok": apacheOK, "nginx-ok": nginxOK,
		"think": think, "think-jitter": thinkJitter, "think-all": thinkAll, "think-far": thinkFar, "think-plus-noise": thinkNoise,
		"drip": drip, "trickle": trickle, "rate": rate, "pause": pauseBody, "tls12": slowTLS12, "tls13": slowTLS13, "accept": accept, "accept-serial": acceptSerial,
		"refused": refused, "redirects": redirectChain, "redirect-one": redirectOne, "redirect-slow": redirectSlow, "status": status, "status-slow": statusSlow, "h2-think": h2Think, "v6": v6Near, "v6-far": v6Far,
		"big-page": bigPage, "cold-cache": coldCache, "no-keepalive": noKeepAlive, "no-keepalive-think": noKeepThink, "odd-routers": oddRouters, "icmp-dead": icmpDead, "slow-control-dst": slowControl,
	} {
		kinds[name] = f
	}
}

func slowLink(w *world) {
	w.spread(w.logDur(ms, 60*ms))
	i := w.anyLink()
	d := w.dur(120*ms, 600*ms)
	w.there[i].Delay += d / 2
	w.back[i].Delay += d / 2
	w.odd(0.3)
	w.link = i
	w.is(reports.Network, "latency", "link %d adds %v, %d routers", i, d, len(w.routers))
}

func far(w *world) {
	rtt := w.dur(95*ms, 280*ms)
	for len(w.there) < 6 {
		*w = *newWorldLike(w)
	}
	w.spread(rtt)
	w.odd(0.15)
	w.is(reports.None, "distance", "%v over %d links", rtt, len(w.there))
}

// newWorldLike draws a longer chain.
func newWorldLike(w *world) *world {
	for i := len(w.routers); i < 9; i++ {
		w.routers = append(w.routers, simnet.Router{Name: fmt.Sprintf("x%d", i), Addr4: netip.AddrFrom4([4]byte{172, 20, byte(i), 1}),
			Addr6: netip.MustParseAddr(fmt.Sprintf("2001:db8:f:%x::1", i+1))})
		w.there, w.back = append(w.there, w.there[0]), append(w.back, w.back[0])
	}
	return w
}

func ocean(w *world) {
	rtt := w.dur(20*ms, 60*ms)
	w.spread(rtt)
	i := w.anyLink()
	d := w.dur(60*ms, 90*ms)
	w.there[i].Delay += d / 2
	w.back[i].Delay += d / 2
	w.odd(0.15)
	w.is(reports.None, "distance", "%v + ocean %v", rtt, d)
	if rtt+d < 95*ms {
		w.is(reports.None, "healthy", "")
	}
}

func near(w *world) {
	w.spread(w.dur(5*ms, 80*ms))
	w.is(reports.None, "healthy", "near")
}

func loopbackLike(w *world) {
	for i := range w.there {
		w.there[i], w.back[i] = simnet.Link{}, simnet.Link{}
	}
	w.is(reports.None, "healthy", "no delay at all")
}

func lossy(w *world, lo, hi float64, both bool) {
	w.spread(w.dur(10*ms, 80*ms))
	i := w.anyLink()
	p := lo + (hi-lo)*w.rng.Float64()
	w.back[i].Loss = p
	if both || w.rng.IntN(2) == 0 {
		w.there[i].Loss = p
	}
	if w.rng.IntN(3) == 0 {
		w.resAt = len(w.routers) - 1
	}
	w.odd(0.15)
	w.link = i
	w.is(reports.Network, "loss", "link %d loses %.1f%% there %.1f%% back, page %d, resolver at %d", i, 100*w.there[i].Loss, 100*w.back[i].Loss, w.web.size, w.resAt)
	if p < 0.05 {
		w.is(reports.None, "healthy", "") // often nothing of a visit is hit
	}
}

func lossBig(w *world)    { w.web.size = 60000 + w.rng.IntN(200000); lossy(w, 0.04, 0.15, true) }
func lossSmall(w *world)  { w.web.size = 500 + w.rng.IntN(10000); lossy(w, 0.05, 0.2, true) }
func lossOneWay(w *world) { w.web.size = 20000 + w.rng.IntN(150000); lossy(w, 0.03, 0.15, false) }

func jitter(w *world) {
	w.spread(w.dur(5*ms, 40*ms))
	i := w.anyLink()
	d := w.dur(120*ms, 350*ms)
	w.back[i].Jitter = d
	w.link = i
	w.is(reports.Network, "queueing", "link %d jitters up to %v on the way back", i, d)
}

func thin(w *world, size int) {
	w.spread(w.dur(5*ms, 60*ms))
	i := w.anyLink()
	r := int64(w.logDur(256*ms, 4000*ms) / ms * 1000)
	w.there[i].Rate, w.back[i].Rate = r, r
	if w.rng.IntN(2) == 0 {
		w.back[i].Queue = 20000 + w.rng.IntN(60000)
	}
	w.web.size = size
	w.link = i
	tx := time.Duration(float64(size) * 8 / float64(r) * float64(time.Second))
	w.is(reports.Network, "bandwidth", "link %d carries %d kbit/s, page %d needs %v, queue %d", i, r/1000, size, tx, w.back[i].Queue)
	if tx < 250*ms {
		w.is(reports.None, "healthy", "")
	}
}

func thinBig(w *world)   { thin(w, 100000+w.rng.IntN(150000)) }
func thinSmall(w *world) { thin(w, 5000+w.rng.IntN(40000)) }

func mtu(w *world, lo int) {
	w.spread(w.dur(5*ms, 60*ms))
	i := 1 + w.rng.IntN(len(w.there)-1) // not the client's own: its kernel would know
	if i == len(w.there)-1 {
		i--
	}
	i = max(i, 1)
	m := lo + w.rng.IntN(1493-lo)
	w.there[i].MTU, w.back[i].MTU = m, m
	w.routers[i].TooBig = simnet.Absent
	w.link = -1
	w.is(reports.Network, "mtu-blackhole", "link %d carries %d bytes, %s page %d", i, m, w.https(), w.web.size)
}

func mtuBody(w *world) { w.web.size = 3000 + w.rng.IntN(60000); mtu(w, 1280) }
func mtuCert(w *world) {
	w.web.tls, w.web.certNames, w.web.size = true, 60, 400
	mtu(w, 1280)
}
func mtuV6(w *world) { w.v6 = true; w.web.size = 3000 + w.rng.IntN(60000); mtu(w, 1280) }

func deadOne(w *world) {
	w.conf = "nameserver 10.7.1.1\nnameserver 10.7.1.2\n"
	w.noResolver[res1IP] = "silent"
	w.place = "10.7.1.1"
	w.is(reports.DNS, "resolver-down", "first is dead")
}

func deadTwo(w *world) {
	w.conf = "nameserver 10.7.1.1\nnameserver 10.7.1.2\nnameserver 10.7.1.3\noptions timeout:2\n"
	w.noResolver[res1IP], w.noResolver[res2IP] = "silent", "silent"
	w.is(reports.DNS, "resolver-down", "first two are dead")
}

func deadClosed(w *world) {
	w.conf = "nameserver 10.7.1.1\nnameserver 10.7.1.2\n"
	w.noResolver[res1IP] = "closed"
	w.is(reports.None, "healthy", "first refuses at once")
}

func slowResolver(w *world) {
	d := w.logDur(150*ms, 2000*ms)
	w.resFaults = []servers.DNSFault{{Delay: d}}
	w.place = "10.7.1.1"
	w.is(reports.DNS, "resolver-slow", "resolver takes %v", d)
}

func slowAuthority(w *world) {
	d := w.logDur(150*ms, 3500*ms)
	w.authFaults = []servers.DNSFault{{Suffix: host, Delay: d}}
	w.is(reports.DNS, "authority-slow", "authority takes %v", d)
}

func authorityDead(w *world) {
	w.authFaults = []servers.DNSFault{{Suffix: host, Action: servers.Drop}}
	w.is(reports.DNS, "authority-down", "authority silent")
}

func servfail(w *world) {
	w.resFaults = []servers.DNSFault{{Suffix: host, Action: servers.ServFail}}
	w.is(reports.DNS, "servfail", "SERVFAIL")
}

func aaaaDropped(w *world) {
	w.resFaults = []servers.DNSFault{{Types: []uint16{dns.TypeAAAA}, Action: servers.Drop}}
	w.is(reports.DNS, "aaaa-blocked", "AAAA dropped")
}

func searchList(w *world) {
	w.conf = "nameserver 10.7.1.1\nsearch a.corp.example b.corp.example c.corp.example corp.example\noptions ndots:5\n"
	d := w.dur(60*ms, 250*ms)
	w.authFaults = []servers.DNSFault{{Suffix: "corp.example", Delay: d}}
	w.is(reports.DNS, "search-list", "4 wrong names at %v", d)
}

func truncation(w *world) {
	rtt := w.dur(80*ms, 200*ms)
	w.resLink.Delay = rtt / 2
	w.resFaults = []servers.DNSFault{{Suffix: host, Transport: "udp", Action: servers.Truncate}}
	w.is(reports.DNS, "truncation", "answers truncated, resolver at %v", rtt)
}

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
	w.web.think = func() time.Duration { return time.Duration(float64(d) * (0.7 + 0.6*w.rng.Float64())) }
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
	w.web.think = func() time.Duration { return d + time.Duration(w.rng.ExpFloat64()*float64(d)/2) }
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

func v6Near(w *world) {
	w.v6 = true
	w.spread(w.dur(5*ms, 80*ms))
	w.is(reports.None, "healthy", "IPv6 near")
}

func v6Far(w *world) {
	w.v6 = true
	newWorldLike(w)
	w.spread(w.dur(100*ms, 250*ms))
	w.is(reports.None, "distance", "IPv6 far")
}

func bigPage(w *world) {
	w.spread(w.dur(10*ms, 80*ms))
	w.web.size = 400000 + w.rng.IntN(1000000)
	w.is(reports.None, "healthy", "page of %d", w.web.size)
}

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

func oddRouters(w *world) {
	w.spread(w.dur(5*ms, 80*ms))
	w.odd(0.9)
	w.is(reports.None, "healthy", "nearly every router is odd")
}

func icmpDead(w *world) {
	w.spread(w.dur(5*ms, 60*ms))
	for i := range w.routers {
		w.routers[i].Silent = true
	}
	d := w.logDur(300*ms, 2000*ms)
	w.web.think = fixed(d)
	w.is(reports.Server, "think-time", "no router answers; thinks %v", d)
}

func slowControl(w *world) {
	w.spread(w.dur(5*ms, 60*ms))
	for i := range w.routers {
		w.routers[i].ControlDelay = w.dur(100*ms, 400*ms)
	}
	w.is(reports.None, "healthy", "every router answers late, the way is quick")
}
