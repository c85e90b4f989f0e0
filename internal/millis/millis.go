// Package millis holds a duration as reports write it: milliseconds with
// microsecond resolution, or null where nothing was measured.
//
// A plain time.Duration cannot say "never ran", and a zero that means it is
// the oldest lie of timing tools; the zero Value here is "unmeasured".
package millis

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"
)

// Value is a duration that may be unmeasured. The zero Value is unmeasured and
// marshals as null; Of(0) is a measured zero and marshals as 0.
type Value struct {
	d     time.Duration
	known bool
}

// Of returns d as a measured value, rounded to the microsecond, so that a value
// shown and the same one saved, read and shown again are alike.
func Of(d time.Duration) Value { return Value{d: d.Round(time.Microsecond), known: true} }

// Known reports whether the value was measured.
func (v Value) Known() bool { return v.known }

// IsZero reports whether the value is unmeasured, for the omitzero JSON option.
func (v Value) IsZero() bool { return !v.known }

// Get returns the duration and whether it was measured.
func (v Value) Get() (time.Duration, bool) { return v.d, v.known }

// Duration returns the duration, 0 if unmeasured. Use Get where 0 and
// "unmeasured" lead to different conclusions.
func (v Value) Duration() time.Duration { return v.d }

// Float returns milliseconds, NaN if unmeasured.
func (v Value) Float() float64 {
	if !v.known {
		return math.NaN()
	}
	return float64(v.d) / float64(time.Millisecond)
}

// Equal reports whether both are unmeasured or both hold the same duration.
func (v Value) Equal(w Value) bool { return v == w }

// MarshalJSON writes milliseconds rounded to a microsecond, or null.
func (v Value) MarshalJSON() ([]byte, error) {
	if !v.known {
		return []byte("null"), nil
	}
	us := math.Round(float64(v.d) / float64(time.Microsecond))
	return strconv.AppendFloat(nil, us/1000, 'f', -1, 64), nil
}

// UnmarshalJSON reads milliseconds or null. It refuses numbers that no
// time.Duration can hold.
func (v *Value) UnmarshalJSON(b []byte) error {
	var ms *float64
	if err := json.Unmarshal(b, &ms); err != nil {
		return fmt.Errorf("millis: %w", err)
	}
	if ms == nil {
		*v = Value{}
		return nil
	}
	if *v = OfFloat(*ms); !v.known {
		return fmt.Errorf("millis: %v ms is out of range", *ms)
	}
	return nil
}
