package worlds

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/whyslow/whyslow/internal/simnet"
	"github.com/whyslow/whyslow/internal/wire"
	"github.com/whyslow/whyslow/reports"
)

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

func lossBig(w *world) { w.web.size = 60000 + w.rng.IntN(200000); lossy(w, 0.04, 0.15, true) }

func lossSmall(w *world) { w.web.size = 500 + w.rng.IntN(10000); lossy(w, 0.05, 0.2, true) }

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

// policer is a thin link with hardly a queue: what it can't carry is lost.
func policer(w *world) {
	w.spread(w.dur(5*ms, 40*ms))
	i := w.anyLink()
	r := int64(w.logDur(4000*ms, 12000*ms) / ms * 1000)
	w.back[i].Rate, w.back[i].Queue = r, 8000+w.rng.IntN(8000)
	w.web.size = 1_500_000 + w.rng.IntN(1_500_000)
	w.link = i
	w.is(reports.Network, "bandwidth", "link %d carries %d kbit/s and queues %d bytes, page %d", i, r/1000, w.back[i].Queue, w.web.size)
}

func thinBig(w *world) { thin(w, 100000+w.rng.IntN(150000)) }

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

func v6Broken(w *world) {
	w.extraRecords = []string{"@ 300 IN AAAA 2001:db8:2::dead"}
	w.dual = true
	w.spread(w.dur(5*ms, 60*ms))
	w.is(reports.Network, "address-family", "the AAAA leads nowhere")
	w.is(reports.Network, "unreachable", "")
}

// firewall lets nothing of ICMP through to the server.
func (w *world) firewall() {
	last := &w.routers[len(w.routers)-1]
	last.Filters = append(last.Filters, simnet.Filter{Proto: wire.ICMP})
}

func fwOK(w *world) { near(w); w.firewall() }

func fwSlowLink(w *world) { slowLink(w); w.firewall() }

func fwLoss(w *world) { lossBig(w); w.firewall() }

func fwMTU(w *world) { mtuBody(w); w.firewall() }

func jitterLittle(w *world) {
	w.spread(w.dur(20*ms, 70*ms))
	i := w.anyLink()
	w.back[i].Jitter = w.dur(2*ms, 15*ms)
	w.is(reports.None, "healthy", "link %d jitters %v", i, w.back[i].Jitter)
}

func slowLinkThink(w *world) {
	slowLink(w)
	d := w.dur(1000*ms, 3000*ms)
	w.web.think = fixed(d)
	w.link = -1
	w.is(reports.Server, "think-time", "slow link and think %v", d)
}

func slowLinkThin(w *world) {
	slowLink(w)
	i := w.anyLink()
	w.there[i].Rate, w.back[i].Rate = 600_000, 600_000
	w.web.size = 80000
	w.link = -1
	w.is(reports.Network, "bandwidth", "slow link and a thin one at %d", i)
}
