package trace

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/whyslow/whyslow/internal/wire"
)

// reads checks that the reading holds these sentences, as "rule: words", and no
// other of the same rules.
func reads(t *testing.T, res *Result, want ...string) {
	t.Helper()
	got := Read(res)
	expected := make(map[string]int)
	for _, w := range want {
		rule, words, _ := strings.Cut(w, ": ")
		expected[rule]++
		found := false
		for _, s := range got {
			found = found || s.Rule == rule && strings.Contains(s.Text, words)
		}
		if !found {
			t.Errorf("no sentence %q in %q", w, got)
		}
	}
	for rule, n := range rules(got) {
		if strings.HasPrefix(rule, "N") && expected[rule] != n {
			t.Errorf("%d sentences of %s, want %d: %q", n, rule, expected[rule], got)
		}
	}
}

func TestNotes(t *testing.T) {
	ttl := func(n int) *Quote { return &Quote{TTL: &n} }
	tos := func(n int) *Quote { return &Quote{TOS: &n} }
	withTOS := func(n int) *Result {
		res := quoting(path(1, 2, 3), tos(0), tos(n), tos(n))
		res.TOSChange = tosChange(res.Hops)
		return res
	}
	label := func(left uint8) []wire.Label { return []wire.Label{{Value: 16001, Bottom: true, TTL: left}} }
	for _, tt := range []struct {
		name string
		res  func() *Result
		want []string
	}{
		{"nothing was done", func() *Result { return quoting(path(1, 2, 3), ttl(1), ttl(1), ttl(1)) }, nil},
		{"translated", func() *Result {
			res := quoting(path(1, 2, 3, 4), &Quote{Translated: ptr(false)}, nil, &Quote{Translated: ptr(true)})
			res.NAT = translation(res.Hops)
			return res
		}, []string{"N2: on the way from hop 1 to hop 3 (192.0.2.3)"}},
		// NTrace-dev#204: the answer came from another address than was asked.
		{"the destination has another address", func() *Result {
			res := path(1, 2, 3)
			res.Target.Addr = theEnd
			return res
		}, []string{"N2: the destination answers as 192.0.2.3, not as 192.0.2.200"}},
		{"clamped", func() *Result {
			res := quoting(path(1, 2, 3), &Quote{MSS: ptr(1460)}, &Quote{MSS: ptr(1380)})
			res.MSSClamp = clamp(res.Hops)
			return res
		}, []string{"N3: from 1460 to 1380 on the way from hop 1 to hop 2 (192.0.2.2): somebody there knows of a link that takes packets of 1420 bytes"}},
		{"DSCP", func() *Result { return withTOS(10 << 2) }, []string{"N4: DSCP of the probes is rewritten from 0 to 10 on the way from hop 1 to hop 2"}},
		{"DSCP and ECN", func() *Result { return withTOS(10<<2 | 1) }, []string{"N4: from 0 to 10, and their ECN bits from 0 to 1"}},
		{"ECN", func() *Result { return withTOS(2) }, []string{"N4: the ECN bits of the probes are rewritten from 0 to 2"}},
		{"congestion", func() *Result { return withTOS(3) }, []string{"N4: \"congestion experienced\""}},
		{"implicit tunnel", func() *Result { return quoting(path(1, 5, 5, 5, 5, 6), ttl(1), ttl(1), ttl(2), ttl(3), ttl(4), ttl(1)) },
			[]string{"N5: hops 2 to 5 quote the probes with TTLs up to 4"}},
		{"a TTL that stands still", func() *Result { return quoting(path(1, 5, 6), ttl(1), ttl(5), ttl(1)) },
			[]string{"N5: hop 2 (192.0.2.2) quotes the probe with a TTL of 5"}},
		{"a packet that should have been dropped", func() *Result { return quoting(path(1, 5, 5, 6), ttl(1), ttl(0), ttl(1)) },
			[]string{"N5: hop 2 (192.0.2.2) received the probe with a TTL of 0"}},
		{"labels that show explain the TTLs", func() *Result {
			res := quoting(path(1, 5, 5, 5, 6), ttl(1), ttl(1), ttl(2), ttl(3), ttl(1))
			for i := 1; i < 4; i++ {
				res.Hops[i].Replies[0].Labels = label(1)
			}
			return res
		}, []string{"R8: hops 2 to 4 are one MPLS path and answer after nearly the same time"}},
		{"opaque tunnel", func() *Result {
			res := path(1, 5, 6)
			res.Hops[1].Replies[0].Labels = label(252)
			return res
		}, []string{"N5: hop 2 (192.0.2.2) is the end of an MPLS tunnel that hides about 3 routers"}},
	} {
		t.Run(tt.name, func(t *testing.T) { reads(t, tt.res(), tt.want...) })
	}
}

func TestNoteOfChange(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	hops := func(last ...byte) []netip.Addr {
		var as []netip.Addr
		for _, b := range last {
			as = append(as, hopAddr(int(b)))
		}
		return as
	}
	res := path(1, 2, 3)
	res.Epochs = []Epoch{{Started: at, Rounds: 100, Hops: hops(1, 2, 200)}, {Started: at.Add(time.Minute), Rounds: 50, Hops: hops(1, 9, 3, 200)}}
	reads(t, res, "N1: the route changed once at 03:05:05.0 UTC, from hop 2 on (192.0.2.2 before, 192.0.2.9 since), and is 4 hops long instead of 3")
	res.Epochs = append(res.Epochs, Epoch{Started: at.Add(time.Hour), Rounds: 1, Hops: hops(1, 9, 3, 200)})
	res.Epochs[1].Rounds = 2
	reads(t, res, "N1: changed 2 times, the last time at 04:04:05.0 UTC")
	reads(t, res, "N1: do not rule out that packets of one flow take both ways")
}
