package millis

import (
	"math"
	"testing"
	"time"
)

const us, ms = time.Microsecond, time.Millisecond

// At the edges a length was given a digit too many ("10.00 ms"), none at all
// ("0.00 ms"), or a unit nobody counts in ("300.0 s").
func TestStringAtTheEdges(t *testing.T) {
	tests := []struct {
		v    Value
		want string
	}{
		{Value{}, "–"},
		{Of(0), "0 ms"},
		{Of(1), "0 ms"}, // values have microseconds
		{Of(4499 * time.Nanosecond), "<0.01 ms"},
		{Of(5 * us), "0.01 ms"},
		{Of(157300 * time.Nanosecond), "0.16 ms"},
		{Of(1234 * us), "1.23 ms"},
		{Of(9994 * us), "9.99 ms"},
		{Of(9996 * us), "10.0 ms"},
		{Of(12345 * us), "12.3 ms"},
		{Of(99960 * us), "100 ms"},
		{Of(123456 * us), "123 ms"},
		{Of(999960 * us), "1000 ms"},
		{Of(9999499 * us), "9999 ms"},
		{Of(9999600 * us), "10.0 s"},
		{Of(12345 * ms), "12.3 s"},
		{Of(59940 * ms), "59.9 s"},
		{Of(59990 * ms), "1 min"},
		{Of(60 * time.Second), "1 min"},
		{Of(90*time.Second + 400*ms), "1 min 30 s"},
		{Of(119*time.Second + 600*ms), "2 min"},
		{Of(59*time.Minute + 59*time.Second), "59 min 59 s"},
		{Of(59*time.Minute + 59600*ms), "1 h"},
		{Of(2*time.Hour + 5*time.Minute + 29*time.Second), "2 h 5 min"},
		{Of(-1500 * us), "−1.50 ms"},
		{Of(math.MinInt64), "−2562047 h 47 min"},
	}
	for _, tt := range tests {
		if got := tt.v.String(); got != tt.want {
			t.Errorf("%v: String = %q, want %q", tt.v.d, got, tt.want)
		}
	}
}

// One column had 0.04 below 0.1 below 5007.0, and on a short path all was "<0.1".
func TestColumnsHaveTheSameDecimals(t *testing.T) {
	tests := []struct {
		all, want []string
	}{
		{[]string{"0s", "40us", "50us", "94us", "9.996ms", "5006.972ms"}, []string{"0.0", "<0.1", "0.1", "0.1", "10.0", "5007.0"}},
		{[]string{"0s", "4us", "5us", "94us", "9.994ms"}, []string{"0.00", "<0.01", "0.01", "0.09", "9.99"}},
	}
	for _, tt := range tests {
		all := []Value{{}}
		for _, s := range tt.all {
			d, err := time.ParseDuration(s)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, Of(d))
		}
		format := Column(all...)
		for i, want := range append([]string{"–"}, tt.want...) {
			if got := format(all[i]); got != want {
				t.Errorf("%v among %v: %q, want %q", all[i].d, tt.all, got, want)
			}
		}
	}
}

func TestOfFloat(t *testing.T) {
	for _, x := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), 1e300} {
		if v := OfFloat(x); v.Known() {
			t.Errorf("%v is measured: %v", x, v)
		}
	}
	if got := OfFloat(12.3456789); got != Of(12345679*time.Nanosecond) {
		t.Errorf("got %v", got.Duration())
	}
}
