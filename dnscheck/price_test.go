package dnscheck

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"
)

// fateNet is an Exchanger whose servers have fates. Where late is set an
// answer to the first question serves the same question asked again.
type fateNet struct {
	fates []Fate
	late  bool

	mu    sync.Mutex
	asked map[string]time.Time
	names map[string]bool
	n     int
}

func (n *fateNet) Exchange(ctx context.Context, q Query) (*Answer, error) {
	f := n.fates[q.Server.Addr().As4()[3]-1]
	key := fmt.Sprint(q.Server, q.ID)
	n.mu.Lock()
	n.n++
	n.names[q.Name] = true
	since, again := n.asked[key]
	if !again {
		since = time.Now()
		n.asked[key] = since
	}
	n.mu.Unlock()
	after := f.After
	if n.late && !q.TCP {
		after = time.Until(since.Add(f.After))
	}
	if f.Outcome == Refused {
		return nil, &OutcomeError{Outcome: Refused, Server: q.Server}
	}
	if f.Outcome == Timeout || !sleep(ctx, after) {
		<-ctx.Done()
		return nil, &OutcomeError{Outcome: outcomeOf(ctx.Err()), Server: q.Server}
	}
	if f.Rcode == dns.RcodeSuccess {
		return &Answer{Msg: answer(q, 0, q.Name+". 60 IN PTR www.example.com.")}, nil
	}
	return &Answer{Msg: answer(q, f.Rcode)}, nil
}

// What Price calculates is what the engine does, whatever the servers do; and
// a PTR lookup never goes through the search list.
func TestPriceIsWhatTheStubWaits(t *testing.T) {
	rnd := rand.New(rand.NewPCG(4, 12))
	rcodes := []int{dns.RcodeSuccess, dns.RcodeSuccess, dns.RcodeNameError, dns.RcodeServerFailure, dns.RcodeRefused, dns.RcodeNotImplemented}
	options := []string{"", " rotate", " use-vc", " rotate timeout:9", " single-request edns0"}
	seen := map[string]int{}
	for i := range 1500 {
		m := Models()[i%3]
		servers := 1 + rnd.IntN(3)
		text := strings.Split(threeServers, "\n")[:servers]
		text = append(text, "search a.example b.example",
			fmt.Sprintf("options ndots:15 timeout:%d attempts:%d%s", 1+rnd.IntN(3), rnd.IntN(5), options[rnd.IntN(len(options))]))
		c := conf(t, strings.Join(text, "\n")+"\n")
		var fates []Fate
		for range servers {
			f := Fate{After: time.Duration(rnd.Int64N(int64(6 * time.Second))), Rcode: rcodes[rnd.IntN(len(rcodes))]}
			switch rnd.IntN(5) {
			case 0:
				f = Fate{Outcome: Timeout}
			case 1:
				f = Fate{Outcome: Refused}
			case 2:
				f.After /= 1000
			}
			fates = append(fates, f)
		}
		first := rnd.IntN(servers)
		want := c.Price(m, fates, first)
		synctest.Test(t, func(t *testing.T) {
			n := &fateNet{fates: fates, late: m == Glibc, asked: map[string]time.Time{}, names: map[string]bool{}}
			r := &stubRun{model: m, ex: n, cfg: c.As(m), port: 53, start: time.Now(), rotation: first}
			const name = "7.2.0.192.in-addr.arpa"
			q := r.query(t.Context(), name, []uint16{dns.TypePTR})
			got := Price{Blocked: time.Since(r.start), Rcode: r.outcome(q), Queries: n.n}
			if d := cmp.Diff(want, got); d != "" {
				t.Fatalf("%d: %s, %q, first %d, %+v (-price +stub):\n%s\n%v", i, m, text, first, fates, d, trail(&Stub{Steps: r.steps}))
			}
			if len(n.names) > 1 || n.n > 0 && !n.names[name] {
				t.Fatalf("%d: names asked: %v", i, n.names)
			}
		})
		seen[want.Rcode]++
	}
	for _, rc := range []string{"NOERROR", "NXDOMAIN", "SERVFAIL", "REFUSED", "timeout", "refused"} {
		if seen[rc] == 0 {
			t.Errorf("no case ended in %s: %v", rc, seen)
		}
	}
}

// The figures that are measured of Apache httpd with glibc: 10, 20 and 28 s.
func TestPriceOfDeadServers(t *testing.T) {
	silent := []Fate{{Outcome: Timeout}, {Outcome: Timeout}, {Outcome: Timeout}}
	for i, text := range []string{oneServer, twoServers, threeServers} {
		var got []time.Duration
		for _, m := range Models() {
			got = append(got, conf(t, text).Price(m, silent[:i+1], 0).Blocked/time.Second)
		}
		want := [][]time.Duration{{10, 5, 10}, {20, 5, 20}, {28, 5, 30}}[i]
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%d dead, glibc, musl, Go (-want +got):\n%s", i+1, d)
		}
	}
}
