package httpcheck

import (
	"strconv"
	"strings"
	"time"

	"github.com/whyslow/whyslow/internal/millis"
)

// Bounds of what is kept of Server-Timing.
const (
	maxTimings    = 64
	maxTimingText = 128
	// maxTimingMS is a day: longer durations are mistakes or mischief.
	maxTimingMS = 24 * 60 * 60 * 1000
)

// ParseServerTiming reads the values of the Server-Timing header field
// (W3C Server Timing §3): metrics separated by commas, each a name with
// parameters. A metric that cannot be read is left out, a duration that
// cannot be is unmeasured; of a parameter given twice the first counts.
func ParseServerTiming(values []string) []Timing {
	var out []Timing
	for _, v := range values {
		s := scanner(v)
		for len(out) < maxTimings {
			t, ok, more := s.metric()
			if ok {
				out = append(out, t)
			}
			if !more {
				break
			}
		}
	}
	return out
}

// scanner is the rest of a field value.
type scanner string

// metric reads one metric and the comma after it.
func (s *scanner) metric() (t Timing, ok, more bool) {
	t.Name = s.token()
	ok = t.Name != ""
	t.Name = bounded(t.Name, maxTimingText)
	var dur, desc bool
	for {
		s.space()
		switch {
		case *s == "":
			return t, ok, false
		case (*s)[0] == ',':
			*s = (*s)[1:]
			return t, ok, true
		case (*s)[0] != ';':
			// Not a separator: the rest of the metric means nothing.
			s.skip()
			continue
		}
		*s = (*s)[1:]
		name, value := s.param()
		switch {
		case strings.EqualFold(name, "dur") && !dur:
			dur = true
			t.Dur = durationOf(value)
		case strings.EqualFold(name, "desc") && !desc:
			desc = true
			t.Desc = bounded(value, maxTimingText)
		}
	}
}

// param reads "name", "name=token" or "name="quoted"".
func (s *scanner) param() (name, value string) {
	s.space()
	name = s.token()
	s.space()
	if !strings.HasPrefix(string(*s), "=") {
		return name, ""
	}
	*s = (*s)[1:]
	s.space()
	if strings.HasPrefix(string(*s), `"`) {
		return name, s.quoted()
	}
	return name, s.token()
}

// token reads up to a separator.
func (s *scanner) token() string {
	s.space()
	i := strings.IndexAny(string(*s), " \t,;=\"")
	if i < 0 {
		i = len(*s)
	}
	t := string((*s)[:i])
	*s = (*s)[i:]
	return t
}

// quoted reads a quoted string, RFC 9110 §5.6.4. One without an end ends with
// the value.
func (s *scanner) quoted() string {
	var b strings.Builder
	for i := 1; i < len(*s); i++ {
		switch c := (*s)[i]; {
		case c == '"':
			*s = (*s)[i+1:]
			return b.String()
		case c == '\\' && i+1 < len(*s):
			i++
			b.WriteByte((*s)[i])
		default:
			b.WriteByte(c)
		}
	}
	*s = ""
	return b.String()
}

// skip goes to the next separator, at least one byte on.
func (s *scanner) skip() {
	i := strings.IndexAny(string((*s)[1:]), ",;")
	if i < 0 {
		*s = ""
		return
	}
	*s = (*s)[i+1:]
}

func (s *scanner) space() { *s = scanner(strings.TrimLeft(string(*s), " \t")) }

// durationOf reads a number of milliseconds.
func durationOf(s string) millis.Value {
	ms, err := strconv.ParseFloat(s, 64)
	if err != nil || !(ms >= 0 && ms <= maxTimingMS) { // also refuses NaN
		return millis.Value{}
	}
	return millis.Of(time.Duration(ms * float64(time.Millisecond)))
}
