package main

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/whyslow/whyslow/dnscheck"
	"github.com/whyslow/whyslow/internal/netlab"
	"github.com/whyslow/whyslow/internal/netlab/labtest"
	"github.com/whyslow/whyslow/internal/netlab/servers"
	"github.com/whyslow/whyslow/internal/simnet"
)

// The whole tree for real: nsd for the root, a top-level domain and a zone of
// three servers, of which one is dead and one does not have the zone; unbound
// resolves in it for the client.
func TestDelegationWalk(t *testing.T) {
	labtest.Need(t, "nsd", "unbound")
	names := []string{"resolver", "root", "tld", "good", "lame", "dead"}
	addr := map[string]netip.Addr{"resolver": resolverAddr}
	for i, n := range names[1:] {
		addr[n] = netip.AddrFrom4([4]byte{203, 0, 113, byte(101 + i)})
	}
	l := newTreeLab(t, names, addr)
	at := func(n string) []netip.AddrPort { return []netip.AddrPort{netip.AddrPortFrom(addr[n], 53)} }
	nsd := func(n string, z ...servers.Zone) {
		d, err := servers.StartNSD(t.Context(), l.places[n], servers.NSDConfig{Addrs: at(n), Zones: z})
		closeAfter(t, d, err)
	}
	nsd("root", servers.Zone{Origin: ".", Records: []string{
		". 3600 IN NS a.root.", "a.root. 3600 IN A " + addr["root"].String(),
		"shops. 86400 IN NS ns.shops.", "ns.shops. 86400 IN A " + addr["tld"].String(),
		"arpa. 86400 IN NS ns.shops."}},
	)
	nsd("tld", servers.Zone{Origin: "shops", Records: []string{
		"@ 86400 IN NS ns", "ns 86400 IN A " + addr["tld"].String(),
		"big 3600 IN NS good.big", "big 3600 IN NS lame.big", "big 3600 IN NS dead.big",
		"good.big 3600 IN A " + addr["good"].String(), "lame.big 3600 IN A " + addr["lame"].String(), "dead.big 3600 IN A " + addr["dead"].String()}},
		// The cut to this one cannot be seen: one server holds all of it.
		servers.Zone{Origin: "arpa", Records: []string{"@ 86400 IN NS ns.shops.", "113.0.203.in-addr 3600 IN NS ns.shops."}},
		servers.Zone{Origin: "113.0.203.in-addr.arpa", Records: []string{"@ 3600 IN NS ns.shops.", "80 60 IN PTR www.big.shops."}},
	)
	nsd("good", servers.Zone{Origin: "big.shops", Records: []string{
		"@ 600 IN NS good", "@ 600 IN NS lame", "@ 600 IN NS dead", "good IN A " + addr["good"].String(),
		"lame IN A " + addr["lame"].String(), "dead IN A " + addr["dead"].String(),
		"www 60 IN A " + webAddr.String(), "shop 60 IN CNAME www"}})
	nsd("lame", servers.Zone{Origin: "other.test", Records: []string{"www IN A 192.0.2.1"}})
	dead, err := servers.StartAuthority(servers.AuthorityConfig{Place: l.places["dead"], Addrs: at("dead"), Faults: []servers.DNSFault{{Action: servers.Drop}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dead.Close() })
	u, err := servers.StartUnbound(t.Context(), l.places["resolver"], servers.UnboundConfig{
		Addrs: at("resolver"), Stubs: []servers.Forward{{Zone: ".", Servers: at("root")}}})
	closeAfter(t, u, err)

	p, forms := l.forms(t, "dns", "shop.big.shops", "--no-hosts", "--root", addr["root"].String())
	if p.status() != 0 {
		t.Fatalf("status %d\n%s%s", p.status(), &p.out, &p.err)
	}
	var r dnscheck.Result
	if err := json.Unmarshal([]byte(forms["json"]), &r); err != nil {
		t.Fatal(err)
	}
	if !r.Stub.Found() {
		t.Errorf("unbound found nothing: %+v", r.Stub)
	}
	got := map[string]string{}
	for _, z := range r.Delegation {
		for _, a := range z.Servers {
			got[z.Name+" "+strings.Join(a.Names, ",")] = a.Status
			if a.Status == "ok" && (!a.UDP.Median.Known() || !a.TCP.Median.Known()) {
				t.Errorf("%s has no times: %+v", a.Addr, a)
			}
		}
	}
	want := map[string]string{
		". a.root": "ok", "shops ns.shops": "ok", "big.shops good.big.shops": "ok",
		"big.shops lame.big.shops": "lame", "big.shops dead.big.shops": "dead",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the states of servers (-want +got):\n%s", diff)
	}
	if w := r.Walk; w.Outcome != "answered" || len(w.Aliases) != 1 || len(w.Answers) != 1 || w.Answers[0] != webAddr.String() || w.Security != "unsigned" {
		t.Errorf("the walk: %+v", w)
	}
	for _, form := range []string{"text", "markdown", "html"} {
		for _, want := range []string{"dead.big.shops (" + addr["dead"].String() + ")", "answers REFUSED", "from the root to shop.big.shops"} {
			if !strings.Contains(strings.ToLower(strings.Join(strings.Fields(forms[form]), " ")), strings.ToLower(want)) {
				t.Errorf("the %s form lacks %q:\n%s", form, want, forms[form])
			}
		}
	}

	p = l.run(t, "dns", "203.0.113.80", "--no-hosts", "--root", addr["root"].String(), "--json")
	r = dnscheck.Result{}
	if err := json.Unmarshal(p.out.Bytes(), &r); err != nil {
		t.Fatalf("%v\n%s%s", err, &p.out, &p.err)
	}
	if w := r.Walk; w == nil || w.Outcome != "answered" || w.Type != "PTR" || w.Zone != "113.0.203.in-addr.arpa" || len(w.Answers) != 1 {
		t.Errorf("the reverse walk: %+v", w)
	}
}

// treeLab is a client and servers around one router, 2 ms apart.
type treeLab struct {
	*lab
	places map[string]*netlab.Namespace
}

func newTreeLab(t *testing.T, names []string, addr map[string]netip.Addr) *treeLab {
	t.Helper()
	n := simnet.New(1)
	r := n.AddRouter(simnet.Router{Name: "r", Addr4: netip.MustParseAddr("198.51.100.1")})
	link := simnet.Link{Delay: 500 * time.Microsecond}
	cfg := netlab.Config{Net: n}
	add := func(name string, a netip.Addr) simnet.NodeID {
		id := n.AddHost(simnet.Host{Name: name, Addrs: []netip.Addr{a}})
		n.Connect(id, r, link, link)
		cfg.Ends = append(cfg.Ends, netlab.End{Node: id, Name: name, Addrs: []netip.Addr{a}})
		return id
	}
	cfg.Client = add("client", clientAddr)
	ids := map[string]simnet.NodeID{}
	for _, name := range names {
		ids[name] = add(name, addr[name])
	}
	made, err := netlab.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := made.Close(); err != nil {
			t.Error(err)
		}
	})
	l := &treeLab{lab: &lab{Lab: made}, places: map[string]*netlab.Namespace{}}
	for name, id := range ids {
		l.places[name] = made.Server(id)
	}
	if l.conf, err = made.WriteFile("resolv.conf", []byte("nameserver "+addr["resolver"].String()+"\n")); err != nil {
		t.Fatal(err)
	}
	return l
}

func closeAfter(t *testing.T, d *servers.Daemon, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(d.Log())
		}
		_ = d.Close()
	})
}
