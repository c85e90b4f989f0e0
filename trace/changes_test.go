package trace

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whyslow/whyslow/internal/netprobe"
	"github.com/whyslow/whyslow/internal/wire"
)

func ptr[T any](v T) *T { return &v }

// quoting gives the hops of a path these quotes, in order; nil is none.
func quoting(res *Result, quotes ...*Quote) *Result {
	for i, q := range quotes {
		if len(res.Hops[i].Replies) > 0 {
			res.Hops[i].Replies[0].Quote = q
		}
	}
	return res
}

func TestTranslation(t *testing.T) {
	as, changed, unseen := &Quote{Translated: ptr(false)}, &Quote{Translated: ptr(true)}, &Quote{TTL: ptr(1)}
	for _, tt := range []struct {
		name   string
		quotes []*Quote
		want   int // TTL, 0 is nil
	}{
		{"nothing is quoted", nil, 0},
		{"untranslated", []*Quote{as, as, as}, 0},
		{"second hop", []*Quote{as, changed, changed}, 2},
		{"a hop between that shows nothing", []*Quote{as, nil, unseen, changed}, 4},
		{"the source's own unfinished checksums are no NAT", []*Quote{changed, changed, changed}, 0},
		{"not visible is not untranslated", []*Quote{unseen, changed}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := translation(quoting(path(1, 2, 3, 4), tt.quotes...).Hops)
			if got == nil && tt.want != 0 || got != nil && (got.TTL != tt.want || got.Addr != hopAddr(tt.want)) {
				t.Errorf("NAT at %v, want hop %d", got, tt.want)
			}
		})
	}
}

func TestClampAndTOS(t *testing.T) {
	mss := func(n int) *Quote { return &Quote{MSS: &n} }
	tos := func(n int) *Quote { return &Quote{TOS: &n} }
	res := quoting(path(1, 2, 3, 4), mss(1460), nil, mss(1360), mss(1300))
	want := &MSSClamp{Place: Place{TTL: 3, Addr: hopAddr(3)}, From: 1460, To: 1360}
	if diff := cmp.Diff(want, clamp(res.Hops), cmp.Comparer(samePlace)); diff != "" {
		t.Errorf("clamp (-want +got):\n%s", diff)
	}
	if got := clamp(quoting(path(1, 2), mss(1460), mss(1460)).Hops); got != nil {
		t.Errorf("a clamp is seen where there is none: %v", got)
	}
	res = quoting(path(1, 2, 3, 4), tos(0), tos(0), tos(0x28), tos(0))
	change := &TOSChange{Place: Place{TTL: 3, Addr: hopAddr(3)}, To: 0x28}
	if diff := cmp.Diff(change, tosChange(res.Hops), cmp.Comparer(samePlace)); diff != "" {
		t.Errorf("TOS (-want +got):\n%s", diff)
	}
}

func samePlace(a, b Place) bool { return a == b }

// What a router quotes is taken only as far as it can be seen.
func TestQuoteOf(t *testing.T) {
	for _, tt := range []struct {
		name   string
		reply  wire.Reply
		method netprobe.Method
		want   *Quote
	}{
		{"an echo reply quotes nothing", wire.Reply{Kind: wire.EchoReply, QuotedTTL: -1}, netprobe.ICMP, nil},
		{"header hidden from the unprivileged", wire.Reply{QuotedLen: 16, QuotedTTL: -1}, netprobe.ICMP, nil},
		{"whole header", wire.Reply{QuotedLen: 8, QuotedTTL: 1, QuotedTOS: 4}, netprobe.UDP,
			&Quote{TTL: ptr(1), TOS: ptr(4), Translated: ptr(false)}},
		{"header without TOS", wire.Reply{QuotedLen: 8, QuotedTTL: 0, QuotedTOS: -1}, netprobe.UDP,
			&Quote{TTL: ptr(0), Translated: ptr(false)}},
		{"SYN cut before its checksum", wire.Reply{QuotedLen: 8, QuotedTTL: -1}, netprobe.TCP, nil},
		{"SYN without privilege", wire.Reply{QuotedLen: 24, QuotedTTL: -1, QuotedMSS: 1360, Translated: true}, netprobe.TCP,
			&Quote{MSS: ptr(1360), Translated: ptr(true)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, quoteOf(tt.reply, tt.method)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
