package live

import (
	"fmt"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/whyslow/whyslow/internal/millis"
	"github.com/whyslow/whyslow/trace"
)

func TestKeys(t *testing.T) {
	r := slowLink(12)
	tests := []struct {
		keys   []Key
		action Action // of the last key
		want   string // on the screen
		not    string
	}{
		{[]Key{"q"}, Quit, "", ""},
		{[]Key{KeyCtrlC}, Quit, "", ""},
		{[]Key{KeyCtrlL}, Redraw, "", ""},
		{[]Key{KeyCtrlZ}, Suspend, "", ""},
		{[]Key{"p"}, Pause, "paused", ""},
		{[]Key{" ", " "}, Pause, "", "paused"},
		{[]Key{"x"}, Nothing, "", ""},
		{[]Key{"n"}, Changed, " 198.51.100.4 ", "r4.transit.example"},
		{[]Key{"n", "n"}, Changed, "r4.transit.example", ""},
		{[]Key{KeyDown, KeyDown}, Changed, "▸  2", ""},
		{[]Key{"j", "j", "k"}, Changed, "▸  1", ""},
		{[]Key{KeyUp}, Changed, "▸  9", ""},
		{[]Key{KeyEnd, KeyDown}, Changed, "▸  9", ""},
		{[]Key{KeyHome, KeyUp}, Changed, "▸  1", ""},
		{[]Key{"G", KeyEscape}, Changed, "", "▸"},
		{[]Key{"d"}, Changed, "Hop 9", "R1"},
		{[]Key{KeyDown, KeyEnter}, Changed, "Hop 1", ""},
		{[]Key{KeyDown, KeyEnter, KeyEnter}, Changed, "R1", "Hop 1"},
		{[]Key{"d", KeyEscape}, Changed, "▸  9", "Hop 9"},
		{[]Key{"c"}, Changed, "stddev", "recent"},
		{[]Key{"c", "c"}, Changed, "answer", "recent"},
		{[]Key{"c", "c", "c"}, Changed, "recent", "median"},
		{[]Key{"c", "c", "c", "c"}, Changed, "median", ""},
		{[]Key{"f"}, Changed, "--paths", ""},
		{[]Key{"f", "f"}, Changed, "R1", "--paths"},
		{[]Key{"?"}, Changed, "Ctrl-C", ""},
		{[]Key{"h", "h"}, Changed, "R1", "Ctrl-C"},
		{[]Key{"?", "f"}, Changed, "--paths", "Ctrl-C"},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprint(tt.keys), func(t *testing.T) {
			m := r.model(Options{})
			var got Action
			for _, k := range tt.keys {
				m.Draw(120, 40)
				got = m.Key(k)
			}
			screen := Text(m.Draw(120, 40))
			if got != tt.action {
				t.Errorf("action %d, want %d", got, tt.action)
			}
			if !strings.Contains(screen, tt.want) || tt.not != "" && strings.Contains(screen, tt.not) {
				t.Errorf("want %q and not %q in:\n%s", tt.want, tt.not, screen)
			}
		})
	}
}

// A key before the first hop is known must not point into nothing.
func TestKeysOfAnEmptyView(t *testing.T) {
	m := NewModel(Options{Target: trace.Target{Name: "www.shop.example", Addr: webAddr}})
	for _, k := range []Key{KeyDown, "d", "f", "?", KeyEscape, "r", "c", "p", KeyPageDown, KeyEnd} {
		m.Key(k)
		m.Draw(80, 24)
	}
	if screen := Text(m.Draw(80, 24)); !strings.Contains(screen, "www.shop.example (203.0.113.80)") {
		t.Errorf("no target:\n%s", screen)
	}
}

// Whatever the size, nothing is wider or higher than it, and nothing panics.
func TestResizeStorm(t *testing.T) {
	r := slowLink(5)
	m := r.model(Options{})
	for i, keys := 0, []Key{"", "d", "f", "?", "c", KeyPageDown, KeyDown, "n", "p", KeyEscape, KeyEscape, "c"}; i < 4000; i++ {
		width, height := 1+i*7%131, 1+i*5%47
		m.Key(keys[i/40%len(keys)])
		lines := m.Draw(width, height)
		if len(lines) != height {
			t.Fatalf("%dx%d: %d lines", width, height, len(lines))
		}
		for _, l := range lines {
			if w := columns(l.String()); w > width {
				t.Fatalf("%dx%d: %d columns: %q", width, height, w, l)
			}
		}
	}
	for _, size := range [][2]int{{0, 0}, {-1, 5}, {1 << 30, 1 << 30}} {
		m.Draw(size[0], size[1])
	}
}

// A PTR record held an escape sequence that set the terminal's title.
func TestHostileNames(t *testing.T) {
	r := slowLink(4)
	r.name = func(ttl int) string {
		return fmt.Sprintf("\x1b]0;owned\x07r%d\u202egnp.\u009b31m\n日本語\u0301\u0301\u0301\u0301\u0301.example", ttl)
	}
	for _, key := range []Key{"", "d", "f", "c"} {
		m := r.model(Options{})
		m.Draw(120, 40)
		m.Key(key)
		for _, l := range m.Draw(120, 40) {
			if s := l.String(); strings.ContainsAny(s, "\x1b\x07\n\r\u202e\u009b") {
				t.Errorf("not harmless: %q", s)
			}
		}
	}
}

// Names in wide characters moved the figures behind them to the left.
func TestWideCharacters(t *testing.T) {
	r := slowLink(4)
	r.name = func(ttl int) string { return strings.Repeat("路", ttl*3) + ".example" }
	for _, width := range []int{50, 80, 81, 120} {
		m := r.model(Options{})
		var edge int
		for i, l := range m.table(m.Result(), width).visible(0, 20) {
			s := l.String()
			at := strings.Index(s, " %")
			if at < 0 {
				continue // a second address of a hop
			}
			if at = columns(s[:at]); edge == 0 {
				edge = at
			} else if at != edge {
				t.Errorf("%d columns, row %d: loss ends at %d, above at %d: %q", width, i, at, edge, s)
			}
		}
		if edge == 0 {
			t.Errorf("%d columns: no figures", width)
		}
	}
}

// The counts are those of the whole run, however little of it is kept.
func TestHoursOfSixtyFourHops(t *testing.T) {
	const rounds = 2 * 3600
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	r := recorded{routers: 63, rounds: rounds, seed: 3, hop: func(ttl, round int, a *answer) {
		a.lost = ttl == 40 && round%4 == 0
		if ttl == 20 && round == 17 {
			a.rtt = 900 * time.Millisecond // an extreme of long ago
		}
	}}
	m := r.model(Options{})
	for range 3 {
		m.Draw(120, 70)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if used := (int64(after.HeapAlloc) - int64(before.HeapAlloc)) >> 20; used > 20 {
		t.Errorf("%d MiB are kept", used)
	} else {
		t.Logf("%d MiB", used)
	}
	res := m.Result()
	if len(res.Hops) != 64 || res.HopCount == nil || *res.HopCount != 64 {
		t.Fatalf("%d hops, destination at %v", len(res.Hops), res.HopCount)
	}
	for _, h := range res.Hops {
		got, want := h.Received, rounds
		if h.TTL == 40 {
			want = rounds * 3 / 4
		}
		if h.Sent != rounds || got != want || h.Replies[0].Received != want || h.Replies[0].Name == "" {
			t.Errorf("hop %d: sent %d, received %d by %+v, want %d of %d", h.TTL, h.Sent, got, h.Replies[0], want, rounds)
		}
	}
	if most := res.Hops[19].Replies[0].Max; most != millis.Of(900*time.Millisecond) {
		t.Errorf("the greatest round trip is forgotten: %v", most)
	}
	if off := rounds*time.Second - res.Elapsed.Duration(); off < 0 || off > time.Second || !res.Started.Equal(epoch) {
		t.Errorf("started %v, lasted %v", res.Started, res.Elapsed)
	}
	runtime.KeepAlive(m)
}

// A probe is lost when its answer is overdue, not before, and no more when the
// answer comes after all.
func TestProbesUnderWayAreNotLost(t *testing.T) {
	m := NewModel(Options{})
	m.Add(trace.Event{Kind: trace.Begin, At: epoch, Method: "icmp", Target: &trace.Target{Addr: webAddr}})
	probe := func(seq int, at time.Duration) {
		m.Add(trace.Event{Kind: trace.Sent, At: epoch.Add(at), Seq: uint16(seq), TTL: 1, Round: seq})
	}
	answer := func(seq int, at, rtt time.Duration) {
		m.Add(trace.Event{Kind: trace.Replied, At: epoch.Add(at), Seq: uint16(seq), TTL: 1, Addr: webAddr, RTT: millis.Of(rtt),
			Role: trace.RoleDestination, Answer: "echo reply", ReplyTTL: 64})
	}
	check := func(what string, sent, received int, chart string) {
		t.Helper()
		h := m.Result().Hops[0]
		got := sparkline(m.trails[0].recent(1, keep, m.latest), 4).String()
		if h.Sent != sent || h.Received != received || strings.TrimSpace(got) != chart {
			t.Errorf("%s: %d of %d, chart %q, want %d of %d, %q", what, h.Received, h.Sent, got, received, sent, chart)
		}
	}
	probe(0, 0)
	answer(0, 20*time.Millisecond, 20*time.Millisecond)
	check("one answered", 1, 1, "▁")
	probe(1, time.Second)
	check("the next under way", 1, 1, "▁")
	probe(2, 2*time.Second)
	check("the next but one under way", 2, 1, "▁×")
	answer(1, 2100*time.Millisecond, 1100*time.Millisecond)
	check("a late answer", 2, 2, "▁█")
	answer(1, 2200*time.Millisecond, 1200*time.Millisecond)
	check("a duplicate", 2, 2, "▁█")
	// A destination that had no errors left lost nothing, though it did not
	// answer: it stood as lost in the chart beside a loss of 0 %.
	probe(3, 3*time.Second)
	probe(4, 9*time.Second)
	check("two that were not answered", 4, 2, "▁█××")
	m.Add(trace.Event{Kind: trace.Counted, At: epoch.Add(9 * time.Second), Seq: 3})
	check("one of them counts for nothing", 3, 2, "▁█×")
}

// After r the last known path stays on the screen, without its figures.
func TestResetCountsAnew(t *testing.T) {
	r := slowLink(10)
	m := r.model(Options{})
	m.Draw(80, 24)
	m.Key("r")
	if hops := m.Result().Hops; len(hops) != 0 {
		t.Errorf("still counted: %+v", hops)
	}
	screen := Text(m.Draw(120, 24))
	for _, want := range []string{"round 0 · 0:09", "4 r4.transit.example     –    0      –", "9 www.shop.example       –    0      –"} {
		if !strings.Contains(screen, want) {
			t.Errorf("the screen lacks %q:\n%s", want, screen)
		}
	}
	next := slowLink(1)
	next.started = r.end()
	first := true
	next.each(func(ev trace.Event) bool {
		if !first { // the method began long ago
			ev.Round += 10
			m.Add(ev)
		}
		first = false
		return true
	})
	res := m.Result()
	if h := res.Hops[len(res.Hops)-1]; h.TTL != 9 || h.Sent != 1 || h.Received != 1 {
		t.Errorf("after one more round: %d of %d", h.Received, h.Sent)
	}
	if screen := Text(m.Draw(80, 24)); !strings.Contains(screen, "round 1 ") {
		t.Errorf("rounds are not counted anew:\n%s", screen)
	}
}

// Until more is measured than is kept, the view and a plain fold say the same.
func TestResultIsThatOfAFold(t *testing.T) {
	r := recorded{routers: 5, rounds: 20, seed: 9, hop: func(ttl, round int, a *answer) { a.lost = ttl == 3 && round%5 == 2 }}
	var fold trace.Fold
	r.each(func(ev trace.Event) bool { fold.Add(ev); return true })
	fold.Add(trace.Event{Kind: trace.End, At: r.end()})
	want, got := fold.Result(), r.model(Options{}).Result()
	if diff := cmp.Diff(want.Hops, got.Hops, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
		t.Errorf("hops differ (-fold +view):\n%s", diff)
	}
}
