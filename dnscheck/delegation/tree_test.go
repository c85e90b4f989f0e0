package delegation

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"

	"github.com/whyslow/whyslow/dnscheck"
	"github.com/whyslow/whyslow/internal/millis"
)

func ip(s string) netip.Addr { return netip.MustParseAddr(s) }

func TestBounds(t *testing.T) {
	for _, tt := range []struct {
		name string
		o    Options
		want string
	}{
		{"zones", Options{MaxZones: 2}, "limit"},
		{"queries", Options{MaxQueries: 3}, "limit"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSite(t, false)
				r := s.walk(t.Context(), "www.site.test", dns.TypeA, tt.o)
				if r.Walk.Outcome != tt.want || r.Walk.Conclusive {
					t.Errorf("%+v", r.Walk)
				}
				if tt.o.MaxQueries > 0 && s.all > tt.o.MaxQueries {
					t.Errorf("%d queries", s.all)
				}
			})
		})
	}
}

// A delegation in a circle has no way in: neither zone's servers have an
// address that could be asked for.
func TestCircleOfDelegations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, false)
		s.tld.rrs = append(s.tld.rrs, s.rr("one.test. NS ns.two.test."), s.rr("two.test. NS ns.one.test."))
		r := s.walk(t.Context(), "www.one.test", dns.TypeA, Options{})
		if r.Walk.Outcome != "cycle" || len(r.Findings) == 0 || !strings.Contains(r.Findings[0].Text, "circle") {
			t.Errorf("%s", brief(r))
		}
		if s.all > 30 {
			t.Errorf("%d queries", s.all)
		}
	})
}

// A chain of aliases that never ends is left.
func TestEndlessAliases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, false)
		endless := func(q dnscheck.Query, _ int) (*dns.Msg, dnscheck.Outcome, bool) {
			if q.Type != dns.TypeA {
				return nil, "", false
			}
			m := reply4(q, dns.RcodeSuccess)
			m.Authoritative = true
			m.Answer = []dns.RR{s.rr(q.Name + " CNAME x" + fmt.Sprint(len(q.Name)) + ".site.test.")}
			if len(q.Name) > 200 {
				t.Fatal("followed for ever")
			}
			m.Answer[0].(*dns.CNAME).Target = "x" + q.Name
			return m, "", true
		}
		s.ns1.fault, s.ns2.fault = endless, endless
		r := s.walk(t.Context(), "a.site.test", dns.TypeA, Options{})
		if r.Walk.Outcome != "limit" || len(r.Walk.Aliases) != maxAliases+1 {
			t.Errorf("%s after %d aliases", r.Walk.Outcome, len(r.Walk.Aliases))
		}
	})
}

// What fails towards every server alike is the way, not the servers.
func TestTheWayIsNotTheServers(t *testing.T) {
	six := func(s *site) {
		s.root.rrs = append(s.root.rrs, s.rr("a.root. AAAA 2001:db8:1::1"), s.rr("ns.test. AAAA 2001:db8:2::2"))
		s.tld.rrs = append(s.tld.rrs, s.rr("ns.test. AAAA 2001:db8:2::2"), s.rr("ns1.site.test. AAAA 2001:db8:3::53"))
		s.zone.rrs = append(s.zone.rrs, s.rr("ns1.site.test. AAAA 2001:db8:3::53"))
	}
	all := func(s *site, f func(dnscheck.Query, int) (*dns.Msg, dnscheck.Outcome, bool)) {
		for _, h := range s.servers {
			h.fault = f
		}
	}
	for _, tt := range []struct {
		name    string
		change  func(*site)
		warning string
		status  map[string]string // by address
	}{
		{"no answer over IPv6", six, "over IPv6", map[string]string{"2001:db8:3::53": "unreached", "192.0.2.53": "ok"}},
		{"no route for IPv6", func(s *site) {
			six(s)
			for _, a := range []string{"2001:db8:1::1", "2001:db8:2::2", "2001:db8:3::53"} {
				s.serve(a).fault = outcome(dnscheck.Unreachable)
			}
		}, "", map[string]string{"2001:db8:3::53": "unreached", "192.0.2.53": "ok"}},
		{"IPv6 works, one server's does not", func(s *site) {
			six(s)
			s.serve("2001:db8:1::1", s.root)
			s.serve("2001:db8:2::2", s.tld)
		}, "", map[string]string{"2001:db8:3::53": "dead", "192.0.2.53": "ok"}},
		{"TCP is filtered", func(s *site) {
			all(s, func(q dnscheck.Query, _ int) (*dns.Msg, dnscheck.Outcome, bool) {
				if q.TCP {
					return nil, dnscheck.Timeout, true
				}
				return nil, "", false
			})
		}, "over TCP", map[string]string{"192.0.2.53": "ok", "203.0.113.53": "ok"}},
		{"EDNS is dropped", func(s *site) {
			all(s, func(q dnscheck.Query, _ int) (*dns.Msg, dnscheck.Outcome, bool) {
				if q.EDNS > 0 && !q.TCP {
					return nil, dnscheck.Timeout, true
				}
				return nil, "", false
			})
		}, "with EDNS", map[string]string{"192.0.2.53": "ok", "203.0.113.53": "ok"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSite(t, false)
				tt.change(s)
				r := s.walk(t.Context(), "www.site.test", dns.TypeA, Options{})
				warned := strings.Join(r.Warnings, "\n")
				if tt.warning == "" && warned != "" || !strings.Contains(warned, tt.warning) {
					t.Errorf("warnings %q, want %q", warned, tt.warning)
				}
				for addr, want := range tt.status {
					for _, a := range r.Zones[len(r.Zones)-1].Servers {
						if a.Addr == ip(addr) && a.Status != want {
							t.Errorf("%s is %s (%s), want %s", addr, a.Status, a.Reason, want)
						}
					}
				}
				for _, f := range r.Findings {
					blamed := f.Component == dnscheck.AuthorityDown || f.Component == dnscheck.Truncation
					if blamed && tt.warning != "" {
						t.Errorf("blamed: %s", f.Text)
					}
				}
			})
		})
	}
}

func TestNoRoot(t *testing.T) {
	public := publicRoots()
	for _, tt := range []struct {
		name    string
		change  func(*world)
		o       Options
		ask     string
		outcome string
		note    string
	}{
		{"port 53 is filtered", func(*world) {}, Options{Roots: public}, "www.site.test.example.com", "filtered", "filtered on the way"},
		{"no route", func(w *world) {
			for _, a := range public {
				w.serve(a.String()).fault = outcome(dnscheck.Unreachable)
			}
		}, Options{Roots: public}, "www.example.com", "filtered", "no route"},
		{"a resolver answers instead", func(w *world) {
			for _, a := range public {
				w.serve(a.String()).fault = func(q dnscheck.Query, _ int) (*dns.Msg, dnscheck.Outcome, bool) {
					m := reply4(q, dns.RcodeSuccess)
					m.RecursionAvailable = true
					m.Answer = []dns.RR{w.rr(". NS a.root-servers.net.")}
					return m, "", true
				}
			}
		}, Options{Roots: public}, "www.example.com", "intercepted", "in place of the root"},
		{"a private name", func(*world) {}, Options{Roots: public}, "printer.local", "skipped", "was not asked"},
		{"a private address", func(*world) {}, Options{Roots: public}, "10.1.2.3", "skipped", "was not asked"},
		{"a name of one label", func(*world) {}, Options{Roots: public}, "printer", "skipped", "was not asked"},
		{"no root server", func(w *world) { w.serve("198.51.100.1") }, Options{}, "www.site.test", "broken", "is none: 198.51.100.1 answers REFUSED"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				tt.change(w)
				r := w.walk(t.Context(), tt.ask, dns.TypeA, tt.o)
				if r.Walk.Outcome != tt.outcome || !strings.Contains(r.Walk.Note, tt.note) || r.Walk.Conclusive {
					t.Errorf("%+v", r.Walk)
				}
				if d := r.Walk.Elapsed.Duration(); d > 0 && strings.Contains(tt.note, "no route") {
					t.Errorf("waited %v for what cannot come", d)
				}
				if d := r.Walk.Elapsed.Duration(); d > rootWait && tt.outcome != "broken" {
					t.Errorf("it took %v", d)
				}
				if tt.outcome == "skipped" && w.all > 0 {
					t.Errorf("%d queries", w.all)
				}
				if tt.outcome != "broken" && len(r.Findings) > 0 {
					t.Errorf("findings %v", r.Findings)
				}
			})
		})
	}
}

// A resolver that knows a name which the public tree does not is a split
// horizon, not a fault: the walk must not say that the name does not exist.
func TestSplitHorizon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, false)
		w := s.walk(t.Context(), "intranet.site.test", dns.TypeA, Options{})
		r := &dnscheck.Result{Stub: &dnscheck.Stub{Rcode: "NOERROR", Source: "dns", Addrs: []netip.Addr{ip("10.1.2.3")}, Elapsed: millis.Of(time.Millisecond)}}
		Join(r, w)
		if r.Walk.Conclusive || r.Walk.Outcome != "nxdomain" {
			t.Errorf("%+v", r.Walk)
		}
		if len(r.Findings) != 1 || r.Findings[0].Component != dnscheck.Delegation || r.Findings[0].Confirmed || !strings.Contains(r.Findings[0].Text, "split horizon") {
			t.Errorf("%+v", r.Findings)
		}
	})
}

// An interrupted walk gives what it has, soon, and blames nobody.
func TestInterruptedWalk(t *testing.T) {
	for _, after := range []time.Duration{0, 15 * time.Millisecond, 45 * time.Millisecond, 400 * time.Millisecond} {
		t.Run(after.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSite(t, false)
				delete(s.servers, ip("203.0.113.53"))
				ctx, cancel := context.WithTimeout(t.Context(), after)
				defer cancel()
				began := time.Now()
				r := s.walk(ctx, "www.site.test", dns.TypeA, Options{})
				if d := time.Since(began); d > after+20*time.Millisecond {
					t.Errorf("it took %v", d)
				}
				for _, f := range r.Findings {
					t.Errorf("blamed: %s", f.Text)
				}
				if r.Walk.Outcome == "" {
					t.Error("no outcome")
				}
			})
		})
	}
}

// Lost packets are told from a dead server, and one of them is not told.
func TestLoss(t *testing.T) {
	for _, tt := range []struct {
		lost   int
		status string
	}{{1, "ok"}, {2, "lossy"}} {
		t.Run(fmt.Sprint(tt.lost), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSite(t, false)
				var n atomic.Int32
				s.ns2.fault = func(q dnscheck.Query, _ int) (*dns.Msg, dnscheck.Outcome, bool) {
					if q.Type == dns.TypeSOA && !q.TCP && q.EDNS > 0 && strings.HasPrefix(q.Name, "site") {
						if int(n.Add(1)) <= tt.lost {
							return nil, dnscheck.Timeout, true
						}
					}
					return nil, "", false
				}
				r := s.walk(t.Context(), "www.site.test", dns.TypeA, Options{})
				i := slices.IndexFunc(r.Zones[2].Servers, func(a dnscheck.Authority) bool { return a.Addr == ip("203.0.113.53") })
				if got := r.Zones[2].Servers[i].Status; got != tt.status {
					t.Errorf("%s, want %s\n%s", got, tt.status, brief(r))
				}
			})
		})
	}
}

// Folding the events is the result of Run.
func TestEventsFold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, true)
		o := Options{Exchanger: s, Roots: []netip.Addr{ip("198.51.100.1")}, Anchors: s.anchors(), Now: at}
		var folded dnscheck.Result
		for e, err := range Events(t.Context(), "www.site.test", dns.TypeA, o) {
			if err != nil {
				t.Fatal(err)
			}
			folded.Apply(e)
		}
		r, err := Run(t.Context(), "www.site.test", dns.TypeA, o)
		if err != nil {
			t.Fatal(err)
		}
		r.Walk.Elapsed = folded.Walk.Elapsed
		if diff := cmp.Diff(*folded.Walk, r.Walk); diff != "" {
			t.Errorf("walks differ:\n%s", diff)
		}
		if diff := cmp.Diff(folded.Delegation, r.Zones, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
			t.Errorf("zones differ:\n%s", diff)
		}
		if diff := cmp.Diff(r.Findings, Find(&folded)); diff != "" {
			t.Errorf("findings differ:\n%s", diff)
		}
	})
}

func TestOptions(t *testing.T) {
	for _, o := range []Options{{Wait: -1}, {Wait: time.Hour}, {Deadline: time.Hour}, {MaxZones: -1}, {MaxQueries: 1e6}, {Samples: 21}, {Roots: []netip.Addr{{}}}} {
		if _, err := NewWalker(o); err == nil {
			t.Errorf("accepted %+v", o)
		}
	}
	if _, err := Run(t.Context(), "a..b", dns.TypeA, Options{Exchanger: newWorld(t)}); err == nil {
		t.Error("accepted a name that is none")
	}
	w, err := NewWalker(Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Reverse(t.Context(), netip.Addr{}); err == nil {
		t.Error("accepted no address")
	}
}

func TestWildcard(t *testing.T) {
	yes, no := true, false
	for _, signed := range []bool{false, true} {
		for name, want := range map[string]*bool{"x.wild.site.test": &yes, "www.site.test": &no, "nope.site.test": nil} {
			t.Run(fmt.Sprint(name, signed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newSite(t, signed)
					r := s.walk(t.Context(), name, dns.TypeA, Options{Anchors: s.anchors()})
					if diff := cmp.Diff(want, r.Walk.Wildcard); diff != "" {
						t.Errorf("(-want +got):\n%s", diff)
					}
				})
			})
		}
	}
}

// Name servers whose addresses were not looked for any more were called
// "without address".
func TestBoundsBlameNobody(t *testing.T) {
	for _, limit := range []int{4, 5, 6} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSite(t, false)
				for i := range 8 {
					name := fmt.Sprintf("z%d.test.", i)
					s.tld.rrs = append(s.tld.rrs, s.rr(name+" NS ns."+name), s.rr("ns."+name+" A 192.0.2.53"), s.rr("far.test. NS ns."+name))
				}
				r := s.walk(t.Context(), "www.far.test", dns.TypeA, Options{MaxZones: limit})
				for _, f := range r.Findings {
					if f.Component == dnscheck.Delegation && strings.Contains(f.Text, "address") {
						t.Errorf("blamed: %s", f.Text)
					}
				}
			})
		})
	}
}
