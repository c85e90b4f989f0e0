package render

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
)

// locate finds the innermost value of the JSON text raw that does not fit its
// place in v, a pointer, and returns its path ("trace.hops[3].ttl") and what is
// wrong with it. It decodes again level by level, so it is for the case of an
// error only: encoding/json does not say where a type's own UnmarshalJSON
// failed.
func locate(raw []byte, v any) (path string, err error) {
	path, err = locateIn(raw, reflect.TypeOf(v).Elem())
	return strings.TrimPrefix(path, "."), err
}

func locateIn(raw []byte, t reflect.Type) (path string, err error) {
	target := reflect.New(t)
	if err = json.Unmarshal(raw, target.Interface()); err == nil {
		return "", nil
	}
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	_, custom := reflect.New(t).Interface().(json.Unmarshaler)
	switch {
	case custom:
	case t.Kind() == reflect.Struct:
		if path, inner := locateField(raw, t); inner != nil {
			return path, inner
		}
	case t.Kind() == reflect.Slice:
		var elems []json.RawMessage
		if json.Unmarshal(raw, &elems) != nil {
			break
		}
		for i, elem := range elems {
			if path, inner := locateIn(elem, t.Elem()); inner != nil {
				return fmt.Sprintf("[%d]%s", i, path), inner
			}
		}
	}
	return "", describe(raw, err)
}

func locateField(raw []byte, t reflect.Type) (path string, err error) {
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) != nil {
		return "", nil
	}
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		value, ok := fields[name]
		if !ok {
			continue
		}
		if path, err := locateIn(value, t.Field(i).Type); err != nil {
			return "." + name + path, err
		}
	}
	return "", nil
}

// describe words a mismatch of types for a reader who does not know the types.
func describe(raw []byte, err error) error {
	var mismatch *json.UnmarshalTypeError
	if !errors.As(err, &mismatch) {
		return err
	}
	want := mismatch.Type.String()
	switch mismatch.Type.Kind() {
	case reflect.Struct, reflect.Map:
		want = "an object"
	case reflect.Slice:
		want = "a list"
	case reflect.String:
		want = "a string"
	case reflect.Bool:
		want = "true or false"
	case reflect.Int, reflect.Int64:
		want = "a whole number"
	case reflect.Uint16:
		want = "a whole number from 0 to 65535"
	case reflect.Float64:
		want = "a number"
	}
	return fmt.Errorf("%s is not %s", Terminal(string(raw), 40), want)
}
