package render

import (
	"math"
	"net/netip"
	"reflect"
	"time"
)

// rewrite returns a deep copy of v in which every string has gone through text,
// every time is UTC, every share and probability has at most four decimals
// (nothing here is known better than that), and every list that is nil is empty instead, so that JSON
// has [] where null would say "unmeasured". A nil pointer stays nil: that is
// what unmeasured means.
//
// It works by reflection because a new field must not be able to slip past it:
// what a program elsewhere forgets to escape is escaped here.
func rewrite[T any](v *T, text func(string) string) *T {
	out := rewriteValue(reflect.ValueOf(v), text).Interface().(*T)
	return out
}

// rounded is x with at most four decimals.
func rounded(x float64) float64 {
	const digits = 1e4
	if math.Abs(x) > math.MaxInt64/digits {
		return x // has none, or is no number
	}
	return math.Round(x*digits) / digits
}

func rewriteValue(v reflect.Value, text func(string) string) reflect.Value {
	out := reflect.New(v.Type()).Elem()
	out.Set(v)
	switch x := v.Interface().(type) {
	case netip.Addr:
		// A zone is free text, and an address read from a file may carry one.
		if zone := x.Zone(); zone != "" {
			out.Set(reflect.ValueOf(x.WithZone(text(zone))))
		}
		return out
	case time.Time:
		out.Set(reflect.ValueOf(x.UTC()))
		return out
	}
	switch v.Kind() {
	case reflect.Float64:
		out.SetFloat(rounded(v.Float()))
	case reflect.String:
		out.SetString(text(v.String()))
	case reflect.Pointer:
		if !v.IsNil() {
			p := reflect.New(v.Type().Elem())
			p.Elem().Set(rewriteValue(v.Elem(), text))
			out.Set(p)
		}
	case reflect.Slice:
		s := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		for i := range v.Len() {
			s.Index(i).Set(rewriteValue(v.Index(i), text))
		}
		out.Set(s)
	case reflect.Map:
		m := reflect.MakeMapWithSize(v.Type(), v.Len())
		for key, val := range v.Seq2() {
			m.SetMapIndex(rewriteValue(key, text), rewriteValue(val, text))
		}
		out.Set(m)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				out.Field(i).Set(rewriteValue(v.Field(i), text))
			}
		}
	}
	return out
}
