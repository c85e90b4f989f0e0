package trace

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// recording is a trace as JSON lines, without its result.
func recording(t *testing.T) (lines string, res *Result) {
	t.Helper()
	var b bytes.Buffer
	inLab(t, plan{routers: 5}, func(t *testing.T, l *lab) {
		var err error
		res, err = Follow(context.Background(), Options{Network: l.Network, Dst: l.dst}, func(ev Event) {
			if err := json.NewEncoder(&b).Encode(ev); err != nil {
				t.Error(err)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
	})
	return b.String(), res
}

func TestReplayLines(t *testing.T) {
	lines, want := recording(t)
	got, err := Replay(strings.NewReader(lines))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(asJSON(t, want), asJSON(t, got[0])); diff != "" {
		t.Errorf("events alone (-live +replayed):\n%s", diff)
	}
	want.Warnings = []string{"sampled after the events"}
	last, err := json.Marshal(Line{Event: Event{Kind: ResultLine}, Result: want})
	if err != nil {
		t.Fatal(err)
	}
	if got, err = Replay(strings.NewReader(lines + string(last) + "\n")); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(asJSON(t, want), asJSON(t, got[0])); diff != "" {
		t.Errorf("with the result (-recorded +replayed):\n%s", diff)
	}
}

func TestReplayNamesTheLine(t *testing.T) {
	good := `{"event":"begin","at":"2026-01-02T03:04:05Z","target":{"name":"x","addr":"192.0.2.1"}}` + "\n"
	for in, want := range map[string]string{
		"":                      "no events",
		"\n\n":                  "no events",
		good + "{\n":            "line 2",
		good + good + "[]":      "line 3",
		good + `{"at":"x"}`:     "line 2",
		good + `{"no":"event"}`: "line 2: it is no event",
		good + `{"event":"sent","ttl":1000000000}`:                            "TTL 1000000000",
		good + `{"event":"sent","trace":1000000}`:                             "line 2: trace 1000000",
		good + `{"event":"sent","view":-1}`:                                   "line 2",
		good + `{"event":"begin","x":"` + strings.Repeat("x", maxLine) + `"}`: "too long",
	} {
		if _, err := Replay(strings.NewReader(in)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %v, want %q", in, err, want)
		}
	}
}

// A crash or a full disk cuts a recording anywhere.
func TestReplayOfACutRecording(t *testing.T) {
	lines, _ := recording(t)
	first := strings.IndexByte(lines, '\n') + 1
	for _, n := range []int{first, first + 1, len(lines) / 2, len(lines) - 2, len(lines) - 1} {
		if _, err := Replay(strings.NewReader(lines[:n])); err != nil {
			t.Errorf("cut after %d of %d bytes: %v", n, len(lines), err)
		}
	}
}

// Events of several traces come as they happen; each is told for itself.
func TestReplaySeveral(t *testing.T) {
	lines, want := recording(t)
	second := strings.ReplaceAll(lines, `{"event":`, `{"trace":1,"event":`)
	got, err := Replay(strings.NewReader(lines + second))
	if err != nil || len(got) != 2 {
		t.Fatalf("%d results, %v", len(got), err)
	}
	for i := range got {
		if diff := cmp.Diff(asJSON(t, want), asJSON(t, got[i])); diff != "" {
			t.Errorf("trace %d (-live +replayed):\n%s", i, diff)
		}
	}
}

func FuzzReplay(f *testing.F) {
	f.Add(`{"event":"begin","at":"2026-01-02T03:04:05Z"}` + "\n" + `{"event":"sent","seq":1,"ttl":3}` + "\n" +
		`{"event":"replied","seq":1,"ttl":3,"addr":"192.0.2.1","rtt_ms":1.5,"role":"router"}` + "\n" + `{"event":"end"}`)
	f.Fuzz(func(t *testing.T, in string) {
		results, err := Replay(strings.NewReader(in))
		if err == nil && len(results) == 0 {
			t.Error("neither a result nor an error")
		}
		for _, res := range results {
			if len(res.Hops) > 255 && res.Schema == "" {
				t.Errorf("%d hops", len(res.Hops))
			}
		}
	})
}
