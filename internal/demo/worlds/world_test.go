package worlds

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/whyslow/whyslow/internal/diagnose"
	"github.com/whyslow/whyslow/internal/netlab"
	"github.com/whyslow/whyslow/internal/netlab/servers"
	"github.com/whyslow/whyslow/internal/simnet"
	"github.com/whyslow/whyslow/reports"
)

const ms = time.Millisecond

var (
	clientIP = netip.MustParseAddr("10.7.0.10")
	res1IP   = netip.MustParseAddr("10.7.1.1")
	res2IP   = netip.MustParseAddr("10.7.1.2")
	res3IP   = netip.MustParseAddr("10.7.1.3")
	authIP   = netip.MustParseAddr("198.51.100.9")
	webIP    = netip.MustParseAddr("203.0.113.7")
	client6  = netip.MustParseAddr("2001:db8:1::10")
	web6     = netip.MustParseAddr("2001:db8:2::7")
)

const host = "store.example"

// answer is a verdict that is right.
type answer struct {
	layer     reports.Layer
	component string
}

// world is a network with a known fault.
type world struct {
	kind  string
	seed  uint64
	rng   *rand.Rand
	story string
	right []answer
	link  int // the guilty link, -1 if it is none
	place string

	routers     []simnet.Router
	there, back []simnet.Link
	v6          bool
	dual        bool // the client has IPv6 too

	resAt, authAt int // index of the router they hang on
	resLink       simnet.Link
	conf          string
	resFaults     []servers.DNSFault
	authFaults    []servers.DNSFault
	noResolver    map[netip.Addr]string // "silent" or "closed"
	extraRecords  []string

	web     web
	path    string
	refused bool
	real    func(ctx context.Context, w *world, lab *netlab.Lab, web simnet.NodeID) (func() error, error)

	ptrDelay time.Duration
	ptrSeen  bool
}

func newWorld(kind string, seed uint64) *world {
	var h uint64
	for _, c := range kind {
		h = h*131 + uint64(c)
	}
	w := &world{kind: kind, seed: seed, rng: rand.New(rand.NewPCG(seed, h)), link: -1, path: "/shop", noResolver: map[netip.Addr]string{}}
	n := 2 + w.rng.IntN(11)
	for i := range n {
		w.routers = append(w.routers, simnet.Router{Name: fmt.Sprintf("x%d", i), Addr4: netip.AddrFrom4([4]byte{172, 20, byte(i), 1}),
			Addr6: netip.MustParseAddr(fmt.Sprintf("2001:db8:f:%x::1", i+1))})
	}
	for range n + 1 {
		l := simnet.Link{Delay: w.dur(20*time.Microsecond, 3*ms), Jitter: w.dur(0, 300*time.Microsecond)}
		w.there, w.back = append(w.there, l), append(w.back, l)
	}
	w.resAt = w.rng.IntN(min(2, n))
	w.authAt = w.rng.IntN(n)
	w.resLink = simnet.Link{Delay: w.dur(50*time.Microsecond, 2*ms)}
	w.web = web{tls: w.rng.IntN(2) == 0, size: 300 + w.rng.IntN(40000), h2: w.rng.IntN(4) == 0}
	if w.rng.IntN(3) == 0 {
		w.web.tlsMax = 0x0303
	}
	t := w.dur(0, 10*ms)
	w.web.think = func() time.Duration { return t }
	kinds()[kind](w)
	return w
}

func (w *world) dur(lo, hi time.Duration) time.Duration {
	return lo + time.Duration(w.rng.Int64N(int64(hi-lo)+1))
}

// logDur draws evenly over magnitudes.
func (w *world) logDur(lo, hi time.Duration) time.Duration {
	f := w.rng.Float64()
	return time.Duration(float64(lo) * math.Pow(float64(hi)/float64(lo), f))
}

func (w *world) anyLink() int { return w.rng.IntN(len(w.there)) }
func (w *world) is(l reports.Layer, c string, story string, args ...any) {
	w.right = append(w.right, answer{l, c})
	if story != "" {
		w.story = fmt.Sprintf(story, args...)
	}
}

// spread puts a round trip on the links.
func (w *world) spread(rtt time.Duration) {
	weights := make([]float64, len(w.there))
	sum := 0.0
	for i := range weights {
		weights[i] = 0.3 + w.rng.Float64()
		sum += weights[i]
	}
	for i := range weights {
		d := time.Duration(float64(rtt) / 2 * weights[i] / sum)
		w.there[i].Delay, w.back[i].Delay = d, d
	}
}

// odd makes routers answer slowly, rarely or not at all.
func (w *world) odd(share float64) {
	for i := range w.routers {
		if w.rng.Float64() > share {
			continue
		}
		r := &w.routers[i]
		switch w.rng.IntN(5) {
		case 0:
			r.ControlDelay = w.dur(20*ms, 700*ms)
		case 1:
			r.Silent = true
		case 2:
			r.ErrorBurst, r.ErrorEvery = 1, 2*time.Second
		case 3:
			r.EchoSilent = true
		case 4:
			r.ControlJitter = w.dur(20*ms, 200*ms)
		}
	}
}

func (w *world) https() string {
	if w.web.tls {
		return "https"
	}
	return "http"
}

// stand builds the world and returns the diagnosis's options for it.
func (w *world) stand(ctx context.Context) (opt diagnose.Options, done func() error, err error) {
	var closers []func() error
	done = func() error {
		var errs []error
		for i := len(closers) - 1; i >= 0; i-- {
			errs = append(errs, closers[i]())
		}
		return errors.Join(errs...)
	}
	n := simnet.New(w.seed)
	cAddrs, wAddrs := []netip.Addr{clientIP}, []netip.Addr{webIP}
	if w.v6 {
		cAddrs, wAddrs = append(cAddrs, client6), []netip.Addr{web6}
	}
	if w.dual {
		cAddrs = append(cAddrs, client6)
	}
	h := func(name string, a ...netip.Addr) simnet.NodeID {
		return n.AddHost(simnet.Host{Name: name, Addrs: a})
	}
	client, webN, authN := h("client", cAddrs...), h("web", wAddrs...), h("auth", authIP)
	chain := []simnet.NodeID{client}
	for _, r := range w.routers {
		chain = append(chain, n.AddRouter(r))
	}
	chain = append(chain, webN)
	for i := range w.there {
		n.Connect(chain[i], chain[i+1], w.there[i], w.back[i])
	}
	if w.dual { // the address exists and takes everything, but says nothing
		mute := h("mute", netip.MustParseAddr("2001:db8:2::dead"))
		n.Connect(chain[len(chain)-2], mute, simnet.Link{}, simnet.Link{})
		n.Attach(mute, func(time.Time, []byte) {})
	}
	ends := []netlab.End{{Node: client, Name: "client", Addrs: cAddrs}, {Node: webN, Name: "web", Addrs: wAddrs}, {Node: authN, Name: "auth", Addrs: []netip.Addr{authIP}}}
	n.Connect(chain[1+w.authAt], authN, simnet.Link{Delay: 500 * time.Microsecond}, simnet.Link{Delay: 500 * time.Microsecond})
	live := map[netip.Addr]simnet.NodeID{}
	if w.conf == "" {
		w.conf = "nameserver 10.7.1.1\n"
	}
	for _, a := range []netip.Addr{res1IP, res2IP, res3IP} {
		if !strings.Contains(w.conf, a.String()) {
			continue
		}
		node := h("res"+a.String(), a)
		n.Connect(chain[1+w.resAt], node, w.resLink, w.resLink)
		switch w.noResolver[a] {
		case "silent":
			n.Attach(node, func(time.Time, []byte) {})
		default:
			live[a] = node
			ends = append(ends, netlab.End{Node: node, Name: a.String(), Addrs: []netip.Addr{a}})
		}
	}
	lab, err := netlab.New(netlab.Config{Net: n, Client: client, Ends: ends})
	if err != nil {
		return opt, done, err
	}
	closers = append(closers, lab.Close)
	at := func(a netip.Addr) []netip.AddrPort { return []netip.AddrPort{netip.AddrPortFrom(a, 53)} }
	arpaTTL := 300
	if w.ptrDelay > 0 {
		arpaTTL = 0
	}
	rec := "@ 300 IN A " + webIP.String()
	if w.v6 {
		rec = "@ 300 IN AAAA " + web6.String()
	}
	zones := []servers.Zone{{Origin: host, Records: append([]string{rec}, w.extraRecords...)},
		{Origin: "home.example", Records: []string{"visitor 0 IN A " + clientIP.String()}},
		{Origin: "other.example", Records: []string{"img 300 IN " + strings.TrimPrefix(rec, "@ 300 IN ")}},
		{Origin: "corp.example", Records: []string{"intranet 300 IN A 10.7.9.9"}},
		{Origin: "7.10.in-addr.arpa", Records: []string{fmt.Sprintf("10.0 %d IN PTR visitor.home.example.", arpaTTL)}},
		{Origin: "113.0.203.in-addr.arpa", Records: []string{"7 300 IN PTR store.example."}}}
	auth, err := servers.StartAuthority(servers.AuthorityConfig{Place: lab.Server(authN), Addrs: at(authIP), Zones: zones, Faults: w.authFaults, Seed: w.seed})
	if err != nil {
		return opt, done, err
	}
	closers = append(closers, auth.Close)
	for a, node := range live {
		if w.noResolver[a] == "closed" {
			continue
		}
		r, err := servers.StartResolver(servers.ResolverConfig{Place: lab.Server(node), Addrs: at(a), Timeout: 5 * time.Second,
			Forwards: []servers.Forward{{Zone: ".", Servers: at(authIP)}}, Faults: w.resFaults, Seed: w.seed})
		if err != nil {
			return opt, done, err
		}
		closers = append(closers, r.Close)
	}
	if opt.ResolvConf, err = lab.WriteFile("resolv.conf", []byte(w.conf)); err != nil {
		return opt, done, err
	}
	opt.URL = fmt.Sprintf("%s://%s%s", w.https(), host, w.path)
	if w.refused {
		return opt, done, nil
	}
	if w.real != nil {
		stop, err := w.real(ctx, w, lab, webN)
		if stop != nil {
			closers = append(closers, stop)
		}
		return opt, done, err
	}
	port := uint16(80)
	if w.web.tls {
		port = 443
	}
	l, err := lab.Server(webN).Listen("tcp", netip.AddrPortFrom(wAddrs[0], port).String())
	if err != nil {
		return opt, done, err
	}
	if w.web.tls {
		cert, pool, err := issue(host, net.IP(wAddrs[0].AsSlice()), w.web.certNames)
		if err != nil {
			return opt, done, err
		}
		opt.RootCAs = pool
		closers = append(closers, w.web.serve(l, cert))
	} else {
		closers = append(closers, w.web.serve(l, nil))
	}
	return opt, done, nil
}
