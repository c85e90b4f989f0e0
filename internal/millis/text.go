package millis

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// How durations are written for people is decided here and nowhere else, so
// that one length reads the same in the verdict, in its evidence and in the
// instruments' own words.

const unmeasured = "–"

// String formats the value for people: "–" if unmeasured, else as many digits
// as the size deserves. Below 10 s the unit is the millisecond, as in the JSON
// form: two decimals below 10 ms, one below 100 ms, none above. From 10 s on it
// is the second, then the minute and the hour.
func (v Value) String() string {
	if !v.known {
		return unmeasured
	}
	if v.d < 0 {
		return "−" + Of(-max(v.d, -math.MaxInt64)).String()
	}
	ms := v.Float()
	switch {
	case v.d == 0:
		return "0 ms"
	case ms < 0.005:
		return "<0.01 ms"
	// The bounds are those after rounding: 9.996 ms is 10.0 ms, not 10.00 ms.
	case ms < 9.995:
		return fmt.Sprintf("%.2f ms", ms)
	case ms < 99.95:
		return fmt.Sprintf("%.1f ms", ms)
	case ms < 9999.5:
		return fmt.Sprintf("%.0f ms", ms)
	case ms < 59_950:
		return fmt.Sprintf("%.1f s", ms/1000)
	}
	return long(v.d)
}

// long formats what lasts a minute or more.
func long(d time.Duration) string {
	big, small := time.Minute, time.Second
	bigName, smallName := "min", "s"
	if d.Round(time.Second) >= time.Hour {
		big, small, bigName, smallName = time.Hour, time.Minute, "h", "min"
	}
	d = d.Round(small)
	if d%big == 0 {
		return fmt.Sprintf("%d %s", d/big, bigName)
	}
	return fmt.Sprintf("%d %s %d %s", d/big, bigName, d%big/small, smallName)
}

// Column returns how to format the values of columns headed "ms": all with one
// decimal, so that the points stand below each other, or with two where none
// reaches 10 ms.
func Column(all ...Value) func(Value) string {
	decimals, least := 2, "<0.01"
	for _, v := range all {
		if v.known && v.d >= 9995*time.Microsecond {
			decimals, least = 1, "<0.1"
		}
	}
	bound := 0.5 * math.Pow10(-decimals)
	return func(v Value) string {
		ms := v.Float()
		switch abs := math.Abs(ms); {
		case !v.known:
			return unmeasured
		case abs != 0 && abs < bound:
			return least
		}
		return strconv.FormatFloat(ms, 'f', decimals, 64)
	}
}

// OfFloat returns milliseconds as a measured value; unmeasured if no
// time.Duration can hold them.
func OfFloat(ms float64) Value {
	ns := ms * float64(time.Millisecond)
	if math.IsNaN(ns) || math.Abs(ns) >= math.MaxInt64 {
		return Value{}
	}
	return Of(time.Duration(math.Round(ns)))
}
