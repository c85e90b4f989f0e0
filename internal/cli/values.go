package cli

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
)

// The flag values. Each has its own type because a wrong value must be refused
// before anything is measured, with a sentence that says what is right.

// durationValue reads a duration as curl and traceroute do, in plain seconds
// ("5", "0.25"), or with a unit ("250ms", "1m30s").
type durationValue struct {
	d        *time.Duration
	min, max time.Duration
}

func newDuration(d *time.Duration, least, most time.Duration) *durationValue {
	return &durationValue{d: d, min: least, max: most}
}

func (v *durationValue) String() string {
	if v.d == nil || *v.d == 0 {
		return ""
	}
	return v.d.String()
}

func (v *durationValue) Type() string { return "SECONDS" }

func (v *durationValue) Set(s string) error {
	d, err := parseDuration(s)
	if err != nil {
		return err
	}
	if d < v.min || d > v.max {
		return fmt.Errorf("%q is outside %v to %v", s, v.min, v.max)
	}
	*v.d = d
	return nil
}

func parseDuration(s string) (time.Duration, error) {
	if sec, err := strconv.ParseFloat(s, 64); err == nil {
		if math.IsNaN(sec) || math.Abs(sec) > 1e9 {
			return 0, fmt.Errorf("%q is no duration: give seconds (\"5\") or a unit (\"250ms\")", s)
		}
		return time.Duration(sec * float64(time.Second)), nil
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, fmt.Errorf("%q is no duration: give seconds (\"5\") or a unit (\"250ms\")", s)
	}
	return d, nil
}

// addrValue reads an IP address.
type addrValue struct{ a *netip.Addr }

func (v addrValue) String() string {
	if v.a == nil || !v.a.IsValid() {
		return ""
	}
	return v.a.String()
}

func (v addrValue) Type() string { return "ADDR" }

func (v addrValue) Set(s string) error {
	a, err := netip.ParseAddr(s)
	if err != nil {
		return fmt.Errorf("%q is no IP address", s)
	}
	*v.a = a.Unmap()
	return nil
}

// portValue reads a port number, 1 to 65535.
type portValue struct{ p *uint16 }

func (v portValue) String() string {
	if v.p == nil || *v.p == 0 {
		return ""
	}
	return strconv.Itoa(int(*v.p))
}

func (v portValue) Type() string { return "PORT" }

func (v portValue) Set(s string) error {
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil || n == 0 {
		return fmt.Errorf("%q is no port: give a number from 1 to 65535", s)
	}
	*v.p = uint16(n)
	return nil
}

// countValue reads a whole number within bounds.
type countValue struct {
	n        *int
	min, max int
}

func (v countValue) String() string {
	if v.n == nil || *v.n == 0 {
		return ""
	}
	return strconv.Itoa(*v.n)
}

func (v countValue) Type() string { return "N" }

func (v countValue) Set(s string) error {
	n, err := strconv.Atoi(s)
	if err != nil || n < v.min || n > v.max {
		return fmt.Errorf("%q is not a number from %d to %d", s, v.min, v.max)
	}
	*v.n = n
	return nil
}

// textValue reads a text that is not empty: that would be taken for a flag not
// given, though a script meant to give it.
type textValue struct {
	s    *string
	kind string
}

func (v textValue) String() string {
	if v.s == nil {
		return ""
	}
	return *v.s
}

func (v textValue) Type() string { return v.kind }

func (v textValue) Set(s string) error {
	if s == "" {
		return fmt.Errorf("is empty; give a %s or leave the flag out", v.kind)
	}
	*v.s = s
	return nil
}

// methodValue reads a request method, a token as a header's name is.
type methodValue struct{ textValue }

func (v methodValue) Set(s string) error {
	if !httpguts.ValidHeaderFieldName(s) {
		return fmt.Errorf("%q is no method (RFC 9110, 9.1)", s)
	}
	return v.textValue.Set(s)
}

// enumValue reads one of a few words.
type enumValue struct {
	s     *string
	words []string
}

func (v enumValue) String() string {
	if v.s == nil {
		return ""
	}
	return *v.s
}

func (v enumValue) Type() string { return strings.Join(v.words, "|") }

func (v enumValue) Set(s string) error {
	if !slices.Contains(v.words, s) {
		return fmt.Errorf("%q is not one of %s", s, strings.Join(v.words, ", "))
	}
	*v.s = s
	return nil
}

// header is one field of a request, as curl's -H takes it.
type header struct{ name, value string }

// headerValue reads "Name: value", repeatable.
type headerValue struct{ h *[]header }

func (v headerValue) String() string { return "" }

func (v headerValue) Type() string { return "'NAME: VALUE'" }

func (v headerValue) Set(s string) error {
	name, value, ok := strings.Cut(s, ":")
	name, value = strings.TrimSpace(name), strings.TrimSpace(value)
	switch {
	case !ok:
		return errors.New("the header has no colon: give 'Name: value'") // it may be a secret
	case !httpguts.ValidHeaderFieldName(name):
		return fmt.Errorf("%q is no header name (RFC 9110, 5.1)", name)
	case !httpguts.ValidHeaderFieldValue(value):
		return fmt.Errorf("the value of %s holds a control character", name)
	case framing[http.CanonicalHeaderKey(name)]:
		return fmt.Errorf("%s cannot be set: whyslow makes the connections itself, and sends no body", name)
	}
	if strings.EqualFold(name, "Host") {
		if err := v.checkHost(value); err != nil {
			return err
		}
	}
	*v.h = append(*v.h, header{name, value})
	return nil
}

// framing are the headers that httpcheck does not pass on: the protocol writes
// them (RFC 9110, 7.6.1, 8.6, 10.1.1).
var framing = map[string]bool{
	"Connection": true, "Content-Length": true, "Transfer-Encoding": true, "Trailer": true,
	"Keep-Alive": true, "Upgrade": true, "Te": true, "Expect": true, "Proxy-Connection": true,
}

// checkHost permits one Host, as curl does: what virtual host is asked for,
// while the URL says where.
func (v headerValue) checkHost(value string) error {
	for _, h := range *v.h {
		if strings.EqualFold(h.name, "Host") {
			return errors.New("Host is given twice")
		}
	}
	t, err := parseTarget(value)
	switch {
	case err == nil && (t.url == "https://"+value || t.url == "http://"+value):
		return nil
	case value == "":
		return errors.New("Host is empty; a request must name one")
	}
	return fmt.Errorf("Host: %q is no host with or without a port", value)
}

// outputsValue reads the files of -o, repeatable; the format follows the
// extension.
type outputsValue struct {
	files   *[]output
	formats []format
}

// output is one file to write and its format.
type output struct{ path, format string }

func (v outputsValue) String() string { return "" }

func (v outputsValue) Type() string { return "FILE" }

func (v outputsValue) Set(s string) error {
	ext := strings.ToLower(strings.TrimPrefix(filepath.Ext(s), "."))
	for _, f := range v.formats {
		if slices.Contains(f.extensions, ext) {
			*v.files = append(*v.files, output{path: s, format: f.name})
			return nil
		}
	}
	return fmt.Errorf("%q: no format has that extension: use %s", s, alternatives(extensions(v.formats)))
}
