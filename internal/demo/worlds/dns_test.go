package worlds

import (
	"github.com/miekg/dns"

	"github.com/whyslow/whyslow/internal/netlab/servers"
	"github.com/whyslow/whyslow/reports"
)

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

func redirectElsewhere(w *world) {
	w.spread(w.dur(5*ms, 60*ms))
	w.path = "/hop/1"
	w.web.elsewhere = "img.other.example"
	d := w.logDur(300*ms, 2000*ms)
	w.authFaults = []servers.DNSFault{{Suffix: "other.example", Delay: d}}
	w.is(reports.DNS, "authority-slow", "redirect to a host whose authority takes %v", d)
	w.orUnknown()
}

func farResolver(w *world) {
	w.spread(w.dur(5*ms, 60*ms))
	w.resLink.Delay = w.dur(100*ms, 200*ms)
	w.is(reports.DNS, "resolver-slow", "the resolver is far: %v", 2*w.resLink.Delay)
	w.is(reports.None, "healthy", "")
}

func farAuthority(w *world) {
	far(w)
	w.authAt = len(w.routers) - 1
}
