package httpcheck

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/whyslow/whyslow/internal/millis"
)

func TestParseServerTiming(t *testing.T) {
	ms := func(f float64) millis.Value { return millis.Of(time.Duration(f * float64(time.Millisecond))) }
	tests := []struct {
		name string
		in   []string
		want []Timing
	}{
		{"none", nil, nil},
		{"empty", []string{""}, nil},
		{"name alone", []string{"miss"}, []Timing{{Name: "miss"}}},
		{"the specification's example", []string{`miss, db;dur=53, app;dur=47.2`}, []Timing{{Name: "miss"}, {Name: "db", Dur: ms(53)}, {Name: "app", Dur: ms(47.2)}}},
		{"two fields", []string{"a;dur=1", "b;dur=2"}, []Timing{{Name: "a", Dur: ms(1)}, {Name: "b", Dur: ms(2)}}},
		{"description", []string{`cache;desc="Cache, \"Read\"";dur=23.2`}, []Timing{{Name: "cache", Desc: `Cache, "Read"`, Dur: ms(23.2)}}},
		{"spaces and case", []string{" a ; DUR = 1 ; Desc=x , b"}, []Timing{{Name: "a", Dur: ms(1), Desc: "x"}, {Name: "b"}}},
		{"the first of two counts", []string{"a;dur=1;dur=2"}, []Timing{{Name: "a", Dur: ms(1)}}},
		{"unknown parameters", []string{"a;x;y=1;dur=3"}, []Timing{{Name: "a", Dur: ms(3)}}},
		{"quoted duration", []string{`a;dur="4"`}, []Timing{{Name: "a", Dur: ms(4)}}},
		{"no number", []string{"a;dur=x, b;dur=NaN, c;dur=-1, d;dur=Inf, e;dur=1e30"}, []Timing{{Name: "a"}, {Name: "b"}, {Name: "c"}, {Name: "d"}, {Name: "e"}}},
		{"empty metrics", []string{",, a,;dur=1,"}, []Timing{{Name: "a"}}},
		{"quote without end", []string{`a;desc="x, b`}, []Timing{{Name: "a", Desc: "x, b"}}},
		{"rubbish after the name", []string{`a b;dur=1, c`}, []Timing{{Name: "a", Dur: ms(1)}, {Name: "c"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, ParseServerTiming(tt.in)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func FuzzParseServerTiming(f *testing.F) {
	for _, s := range []string{"", "miss, db;dur=53", `c;desc="a\"b";dur=1.5`, ";;,,==\"", `a;desc="\`, "a\x1b[31m;dur=1e9"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := ParseServerTiming([]string{s, s})
		if len(got) > maxTimings {
			t.Errorf("%d metrics", len(got))
		}
		for _, m := range got {
			// Replacing invalid bytes may lengthen text threefold.
			if m.Name == "" || strings.ContainsAny(m.Name, " \t,;=\"") || len(m.Name) > 3*maxTimingText || len(m.Desc) > 3*maxTimingText {
				t.Errorf("metric %+v", m)
			}
			if !utf8.ValidString(m.Name) || !utf8.ValidString(m.Desc) {
				t.Errorf("not UTF-8: %+v", m)
			}
			if d, ok := m.Dur.Get(); ok && (d < 0 || d > 24*time.Hour) {
				t.Errorf("duration %v", d)
			}
		}
	})
}
