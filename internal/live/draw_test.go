package live

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/whyslow/whyslow/internal/millis"
	"github.com/whyslow/whyslow/trace"
)

var update = flag.Bool("update", false, "rewrite the golden screens")

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.ReplaceAll(string(want), "\r\n", "\n"), got); diff != "" {
		t.Errorf("%s differs (-want +got):\n%s", path, diff)
	}
}

// press sends keys, drawing between them as the terminal does.
func press(m *Model, width, height int, keys ...Key) {
	for _, k := range keys {
		m.Draw(width, height)
		m.Key(k)
	}
}

// read stands for trace.Read in golden screens, which are not about its words.
func read(res *trace.Result) []trace.Sentence {
	if !res.Reached {
		return nil
	}
	return []trace.Sentence{
		{Rule: "R1", Text: "the largest step is 115 ms on the way from hop 5 to hop 6 (198.51.100.6): 92 % of the 125 ms to the end of the path"},
		{Rule: "R1", Text: "hop 4 (198.51.100.4) answers after 229 ms, but hops behind it answer after 6.00 ms: it is slow to answer, not to forward, and delays nothing"},
		{Rule: "R4", Text: "hop 7 answers no probe, but what lies behind does: silent, not broken"},
		{Rule: "R10", Text: "the destination answered all of 42 probes: what single hops show besides does no harm"},
	}
}

// Flows that were followed are compared, and the bad one stands out.
func TestFlows(t *testing.T) {
	r := slowLink(5)
	m := r.model(Options{Paths: true})
	m.read = read
	m.Draw(80, 24)
	m.Key("f")
	if screen := Text(m.Draw(80, 24)); !strings.Contains(screen, "being looked for") {
		t.Errorf("what is not there yet:\n%s", screen)
	}
	four, ms := 4, func(n int) millis.Value { return millis.Of(time.Duration(n) * time.Millisecond) }
	m.Amend(func(res *trace.Result) {
		res.Paths = &trace.Paths{Method: "udp", FlowCount: 16, Probes: 412, Reading: []trace.Sentence{{Rule: "R7", Text: "one member is bad"}}}
		for i := range 4 {
			f := trace.FlowPath{Flow: i, Key: fmt.Sprintf("port %d", 33434+i), Reached: true, HopCount: &four,
				Sample: &trace.Sampled{Sent: 100, Received: 100, Min: ms(10), Median: ms(11), P95: ms(12), Max: ms(19)}}
			if i == 2 {
				f.Sample.Received, f.Sample.Loss = 75, 0.25
			}
			res.Paths.Flows = append(res.Paths.Flows, f)
		}
	})
	golden(t, "flows-found-80x26.txt", Text(m.Draw(80, 26)))
}

func TestScreens(t *testing.T) {
	r := slowLink(42)
	tests := []struct {
		name          string
		width, height int
		keys          []Key
	}{
		{"overview", 60, 24, nil}, {"overview", 80, 24, nil}, {"overview", 120, 40, nil}, {"overview", 200, 50, nil},
		{"tiny", 20, 5, nil}, {"narrow", 38, 12, nil},
		{"times", 80, 24, []Key{"c"}}, {"times", 120, 30, []Key{"c"}},
		{"path", 80, 24, []Key{"c", "c"}}, {"course", 120, 24, []Key{"c", "c", "c"}},
		{"details", 80, 24, []Key{KeyDown, "j", "j", "j", "j", KeyEnter}}, {"details", 120, 30, []Key{KeyUp, "d"}},
		{"flows", 80, 24, []Key{"f"}}, {"help", 80, 30, []Key{"?"}}, {"paused", 80, 24, []Key{"p", "n"}},
		{"reset", 80, 24, []Key{"r"}},
	}
	for _, tt := range tests {
		name := fmt.Sprintf("%s-%dx%d.txt", tt.name, tt.width, tt.height)
		t.Run(name, func(t *testing.T) {
			m := r.model(Options{})
			m.read = read
			pmtu := 1500
			m.Amend(func(res *trace.Result) { res.PMTU = &pmtu })
			press(m, tt.width, tt.height, tt.keys...)
			lines := m.Draw(tt.width, tt.height)
			if len(lines) != tt.height {
				t.Errorf("%d lines, want %d", len(lines), tt.height)
			}
			for i, l := range lines {
				if w := columns(l.String()); w > tt.width {
					t.Errorf("line %d is %d wide: %q", i+1, w, l)
				}
			}
			golden(t, name, Text(lines))
		})
	}
}

// A drawing of the longest path, which may come ten times a second.
func BenchmarkDraw(b *testing.B) {
	m := recorded{routers: 63, rounds: 500, seed: 1}.model(Options{})
	for b.Loop() {
		m.Draw(160, 80)
	}
}
