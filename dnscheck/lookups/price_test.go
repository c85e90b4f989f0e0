package lookups

import (
	"math"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"

	"github.com/whyslow/whyslow/dnscheck"
	"github.com/whyslow/whyslow/dnscheck/bulk"
	"github.com/whyslow/whyslow/internal/accesslog"
)

// What a program waits, as measured with glibc 2.36: 10, 20 and 28 s for one, two
// and three silent nameservers, 3 s for three with timeout:1 attempts:1, 5.01 s
// on top for a silent first one; refused and SERVFAIL cost nothing.
func TestChargesAreThoseOfTheStub(t *testing.T) {
	answered := bulk.Answer{Outcome: bulk.Answered, Took: 10 * time.Millisecond, TTL: time.Minute, Known: true}
	for _, tt := range []struct {
		name    string
		servers int
		options func(*dnscheck.Config)
		answer  bulk.Answer
		want    Cost
	}{
		{"an answer", 1, nil, answered, Cost{Measured: 10 * time.Millisecond, Cold: 10 * time.Millisecond, Warm: 10 * time.Millisecond, Keeps: time.Minute}},
		{"one silent", 1, nil, bulk.Answer{Outcome: bulk.Timeout, Silent: 1}, Cost{Cold: 10 * time.Second, Warm: 10 * time.Second}},
		{"two silent", 2, nil, bulk.Answer{Outcome: bulk.Timeout, Silent: 3}, Cost{Cold: 20 * time.Second, Warm: 20 * time.Second}},
		{"three silent", 3, nil, bulk.Answer{Outcome: bulk.Timeout, Silent: 7}, Cost{Cold: 28 * time.Second, Warm: 28 * time.Second}},
		{"three silent, timeout:1 attempts:1", 3, func(c *dnscheck.Config) { c.Timeout, c.Attempts = time.Second, 1 },
			bulk.Answer{Outcome: bulk.Timeout, Silent: 7}, Cost{Cold: 3 * time.Second, Warm: 3 * time.Second}},
		{"the first silent", 2, nil, bulk.Answer{Outcome: bulk.Answered, Took: 10 * time.Millisecond, Server: 1, Silent: 1, TTL: time.Minute, Known: true},
			Cost{Measured: 10 * time.Millisecond, Cold: 5010 * time.Millisecond, Warm: 5010 * time.Millisecond, Keeps: time.Minute}},
		{"an attempt lost", 1, nil, bulk.Answer{Outcome: bulk.Answered, Took: 10 * time.Millisecond, Lost: 1, TTL: time.Minute, Known: true},
			Cost{Measured: 10 * time.Millisecond, Cold: 5010 * time.Millisecond, Warm: 5010 * time.Millisecond, Keeps: time.Minute}},
		{"refused", 2, nil, bulk.Answer{Outcome: bulk.Refused}, Cost{}},
		{"SERVFAIL is not cached", 1, nil, bulk.Answer{Outcome: bulk.Answered, Rcode: dns.RcodeServerFailure, Took: 10 * time.Millisecond, TTL: time.Minute, Known: true},
			Cost{Measured: 10 * time.Millisecond, Cold: 10 * time.Millisecond, Warm: 10 * time.Millisecond}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			conf := dnscheck.DefaultConfig()
			conf.Nameservers = nil
			for i := range tt.servers {
				conf.Nameservers = append(conf.Nameservers, netip.AddrFrom4([4]byte{192, 0, 2, byte(i + 1)}))
			}
			if tt.options != nil {
				tt.options(conf)
			}
			p := prober{o: &ProbeOptions{Config: conf}}
			if diff := cmp.Diff(tt.want, p.cost(&tt.answer)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// fatesOf gives all visitors of a log one fate.
func fatesOf(l *Log, f Fate) []Fate {
	var out []Fate
	for _, v := range l.Visitors() {
		f.Chosen = Chosen{Visitor: v, Weight: 1}
		out = append(out, f)
	}
	return out
}

// Four workers and lookups of 500 ms serve 8 requests a second, whatever they
// did before: measured with Apache httpd as 7.94.
func TestLittlesLaw(t *testing.T) {
	l := NewLog(LogOptions{PerRequest: true})
	for i := range 1000 {
		l.Add(request(float64(i)/10, func(r *accesslog.Record) {
			r.Duration = time.Millisecond
			r.Has |= accesslog.FieldDuration
		}))
	}
	res := Price(l, fatesOf(l, Fate{Outcome: "SERVFAIL", Reverse: Cost{Measured: 500 * time.Millisecond, Cold: 500 * time.Millisecond, Warm: 500 * time.Millisecond}}), PriceOptions{Workers: 4})
	on := res.Scenarios["on"]
	if on.Capacity == nil || math.Abs(float64(*on.Capacity)-7.98) > 0.05 {
		t.Errorf("capacity %v, want 8", on.Capacity)
	}
	if off := res.Scenarios["off"]; off.Capacity == nil || math.Abs(float64(*off.Capacity)-4000) > 1 || off.Lookups != 0 {
		t.Errorf("off: %+v", off)
	}
	// 10 requests a second that wait 0.5 s each keep 5 busy.
	if on.BusyWorkers == nil || math.Abs(float64(*on.BusyWorkers)-5) > 0.1 {
		t.Errorf("busy %v, want 5", on.BusyWorkers)
	}
	if on.Affected != 1 || on.AddedMS.P50.Duration() != 500*time.Millisecond {
		t.Errorf("%+v", on)
	}
	if !strings.Contains(res.summary(), "On would add 500 ms to the median request") {
		t.Errorf("summary %q", res.summary())
	}
}

// Where nothing tells connections apart the truth lies between both bounds.
func TestBracket(t *testing.T) {
	exact, unknown := NewLog(LogOptions{}), NewLog(LogOptions{})
	for i := range 300 { // connections of three requests, one every two seconds
		for k := range 3 {
			at := float64(6*i + 2*k)
			exact.Add(request(at, nth(int64(k))))
			unknown.Add(request(at))
		}
	}
	fate := Fate{Outcome: "NXDOMAIN", Reverse: Cost{Cold: 40 * time.Millisecond, Warm: time.Millisecond, Keeps: time.Minute}}
	truth := Price(exact, fatesOf(exact, fate), PriceOptions{}).Scenarios["on"]
	b := Price(unknown, fatesOf(unknown, fate), PriceOptions{}).Scenarios["on"]
	if truth.Lookups != 300 || b.LookupsLow > truth.Lookups || b.Lookups < truth.Lookups || b.Lookups != 900 {
		t.Errorf("%v lookups, bracket %v to %v", truth.Lookups, b.LookupsLow, b.Lookups)
	}
	if *b.BusyWorkersLow > *truth.BusyWorkers || *b.BusyWorkers < *truth.BusyWorkers {
		t.Errorf("%v busy, bracket %v to %v", *truth.BusyWorkers, *b.BusyWorkersLow, *b.BusyWorkers)
	}
}

// A sample has to stand for all: the estimate of a total is right on average,
// and what is large is in it for certain.
func TestSampleStandsForAll(t *testing.T) {
	var all []Visitor
	total := 0.0
	for i := range 5000 {
		n := 1 + 20000/(i+1)
		all = append(all, Visitor{Addr: netip.AddrFrom4([4]byte{93, 1, byte(i >> 8), byte(i)}), High: n})
		total += float64(n)
	}
	// A property that has nothing to do with the size: one address in five.
	truth := 0.0
	for i, v := range all {
		if i%5 == 0 {
			truth += float64(v.High)
		}
	}
	sum, runs := 0.0, 200
	for seed := range runs {
		s := Sample(all, 300, uint64(seed))
		if len(s) < 299 || len(s) > 301 || s[0].Weight != 1 || s[0].High != all[0].High {
			t.Fatalf("%d chosen, first %+v", len(s), s[0])
		}
		est := 0.0
		for _, c := range s {
			est += c.Weight * float64(c.High)
		}
		if math.Abs(est-total) > total/100 {
			t.Fatalf("the total is estimated as %v, is %v", est, total)
		}
		for _, c := range s {
			if o := c.Addr.As4(); (int(o[2])<<8|int(o[3]))%5 == 0 {
				sum += c.Weight * float64(c.High)
			}
		}
	}
	if got := sum / float64(runs); math.Abs(got-truth) > truth/50 {
		t.Errorf("a share is estimated as %v on average, is %v", got, truth)
	}
	if s := Sample(all[:10], 300, 1); len(s) != 10 || s[3].Weight != 1 {
		t.Errorf("a small log is sampled: %+v", s)
	}
}
