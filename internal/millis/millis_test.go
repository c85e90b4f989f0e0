package millis

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"
)

func TestJSON(t *testing.T) {
	tests := []struct {
		name string
		v    Value
		want string
	}{
		{"unmeasured", Value{}, "null"},
		{"measured zero", Of(0), "0"},
		{"whole", Of(5 * time.Second), "5000"},
		{"microseconds", Of(1234567 * time.Nanosecond), "1.235"},
		{"negative", Of(-1500 * time.Microsecond), "-1.5"},
		{"long", Of(40 * 24 * time.Hour), "3456000000"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := json.Marshal(tt.v)
			if err != nil || string(got) != tt.want {
				t.Fatalf("Marshal = %s, %v; want %s", got, err, tt.want)
			}
			var back Value
			if err := json.Unmarshal(got, &back); err != nil {
				t.Fatal(err)
			}
			if back.Known() != tt.v.Known() || (back.Duration()-tt.v.Duration()).Abs() > time.Microsecond/2 {
				t.Errorf("round trip gives %v, want %v", back, tt.v)
			}
		})
	}
}

func TestUnmarshalRefuses(t *testing.T) {
	for _, in := range []string{`"12"`, `1e300`, `-1e300`, `{}`, `[1]`, `true`, ``} {
		var v Value
		if err := json.Unmarshal([]byte(in), &v); err == nil {
			t.Errorf("%q is accepted as %v", in, v)
		}
	}
}

func TestUnmeasuredIsNoNumber(t *testing.T) {
	if f := (Value{}).Float(); !math.IsNaN(f) {
		t.Errorf("Float = %v, want NaN", f)
	}
	if _, ok := (Value{}).Get(); ok {
		t.Error("the zero Value is measured")
	}
	b, err := json.Marshal(struct {
		V Value `json:"v,omitzero"`
	}{})
	if err != nil || strings.Contains(string(b), "v") {
		t.Errorf("omitzero keeps an unmeasured value: %s, %v", b, err)
	}
}

// A report that was saved and read again showed other last digits than before:
// the saved form has microseconds, and the kept one had nanoseconds.
func TestSavedValuesAreTheSame(t *testing.T) {
	for _, d := range []time.Duration{0, 1, 499, 500, 17_549, 7304_549_700, -1500} {
		v := Of(d)
		b, err := v.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		var again Value
		if err := again.UnmarshalJSON(b); err != nil {
			t.Fatal(err)
		}
		if again != v {
			t.Errorf("%d ns: %v before, %v after", d, v.Duration(), again.Duration())
		}
	}
}
