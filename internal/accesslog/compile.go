package accesslog

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// maxFormat bounds the text of a format, and maxSteps its directives.
const (
	maxFormat = 16 << 10
	maxSteps  = 256
)

// compiler collects the steps of a format and the text between them.
type compiler struct {
	f       *Format
	pending strings.Builder // literal text since the last step
	header  string
}

func newCompiler(text string, opts CompileOptions) (*compiler, error) {
	if len(text) > maxFormat {
		return nil, fmt.Errorf("accesslog: the log format is longer than %d bytes", maxFormat)
	}
	c := &compiler{f: &Format{name: opts.Name, text: text, location: opts.Location}, header: strings.ToLower(opts.ClientHeader)}
	if c.f.name == "" {
		c.f.name = text
	}
	if c.f.location == nil {
		c.f.location = time.UTC
	}
	return c, nil
}

// add appends a step behind the text collected so far.
func (c *compiler) add(s step) error {
	if n := len(c.f.steps); n > 0 && c.pending.Len() == 0 && joins(c.f.steps[n-1].kind, s.kind) {
		c.f.steps[n-1].directive += s.directive
		return nil
	}
	if len(c.f.steps) == maxSteps {
		return fmt.Errorf("accesslog: the log format has more than %d directives", maxSteps)
	}
	s.lit = c.pending.String()
	c.pending.Reset()
	c.f.steps = append(c.f.steps, s)
	return nil
}

// joins reports whether a text that touches the one before it, as %U%q and
// $uri$is_args$args do, is simply more of it.
func joins(before, k kind) bool {
	return (before == kindPath || before == kindText) && (k == kindText || k == kindQuery)
}

// finish decides where each value ends and which step gives which field.
func (c *compiler) finish() (*Format, error) {
	f := c.f
	f.tail = c.pending.String()
	if len(f.steps) == 0 {
		return nil, errors.New("accesslog: the log format has no directive")
	}
	for i := range f.steps {
		s := &f.steps[i]
		last := i == len(f.steps)-1
		s.next = f.tail
		if !last {
			s.next = f.steps[i+1].lit
		}
		if strings.IndexByte(s.next, '\n') >= 0 {
			return nil, errors.New("accesslog: the log format spreads a record over several lines, which is not read")
		}
		switch {
		case s.kind.timed():
			s.end = endSelf
		case s.next == "" && last:
			s.end = endLine
		case s.next == "" && s.kind == kindVHost && f.steps[i+1].kind == kindPath: // $host$request_uri
			s.end, s.next = endText, "/"
		case s.next == "":
			return nil, fmt.Errorf("accesslog: %s and %s touch in the log format: nothing tells where the first ends", s.directive, f.steps[i+1].directive)
		case s.next[0] == '"' && f.escape != EscapeNone:
			s.end = endQuote
		case s.next[0] == ':' && (s.kind.bit() == FieldClient || s.kind == kindPeer || s.kind == kindVHost):
			s.end = endColon
		default:
			s.end = endText
		}
	}
	if strings.IndexByte(f.steps[0].lit, '\n') >= 0 {
		return nil, errors.New("accesslog: the log format spreads a record over several lines, which is not read")
	}
	c.choose()
	for i := range f.steps {
		if s := &f.steps[i]; s.next != "" {
			s.stop = s.next[0]
			s.dash = s.end == endText && len(s.next) == 1 || s.end == endQuote
			s.dash = s.dash && s.kind != kindConnStatus
			s.plain = !s.off && (s.kind == kindRequest || s.kind == kindReferer || s.kind == kindUserAgent)
		}
	}
	f.shape = f.findShape()
	return f, nil
}

// choose leaves one step on for each field: of several the one that says most.
func (c *compiler) choose() {
	f := c.f
	c.chooseTime()
	var best [kindEpoch + 1]int // step + 1
	rank := func(s *step) int64 {
		switch {
		case s.kind == kindDuration:
			return -int64(s.unit) // the finest
		case s.kind == kindStatus && strings.Contains(s.directive, ">"),
			s.kind == kindBytes && (strings.HasSuffix(s.directive, "b") || strings.HasSuffix(s.directive, "B") || s.directive == "$body_bytes_sent"):
			return 1
		}
		return 0
	}
	has := func(k kind) bool {
		for i := range f.steps {
			if f.steps[i].kind == k {
				return true
			}
		}
		return false
	}
	named := has(kindHost) && has(kindAddr)
	for i := range f.steps {
		s := &f.steps[i]
		if s.kind == kindHost && named {
			s.kind = kindName
		}
		if s.kind.bit() == 0 && s.kind != kindReferer && s.kind != kindUserAgent || s.kind.timed() {
			continue
		}
		if b := best[s.kind]; b == 0 || rank(s) > rank(&f.steps[b-1]) {
			if b != 0 {
				f.steps[b-1].off = true
			}
			best[s.kind] = i + 1
		} else {
			s.off = true
		}
	}
	for i := range f.steps {
		if s := &f.steps[i]; !s.off {
			f.fields |= s.kind.bit()
		}
	}
	// The parts of the request line are better known from itself.
	if has(kindRequest) {
		for i := range f.steps {
			if k := f.steps[i].kind; k == kindMethod || k == kindPath || k == kindProtocol {
				f.steps[i].off = true
			}
		}
	}
}

// chooseTime turns off the time steps of the end where the log has those of
// the beginning too, and says what the time is of.
func (c *compiler) chooseTime() {
	f := c.f
	begin, end, on := false, false, 0
	isEnd := func(s *step) bool { return strings.Contains(s.directive, "{end:") }
	for i := range f.steps {
		if s := &f.steps[i]; s.kind.timed() {
			begin = begin || !isEnd(s)
			end = end || isEnd(s)
		}
	}
	if end && !begin {
		f.moment = Completed
	}
	offset, whole := false, false
	for i := range f.steps {
		s := &f.steps[i]
		if !s.kind.timed() {
			continue
		}
		if s.off = begin && isEnd(s); s.off {
			continue
		}
		on++
		f.soleCLF = s.kind == kindCLF || s.kind == kindBracketed
		whole = whole || f.soleCLF || s.kind == kindEpoch && !s.fraction || dated(s.layout)
		offset = offset || f.soleCLF || s.kind == kindEpoch && !s.fraction || zoned(s.layout)
	}
	f.soleCLF = f.soleCLF && on == 1
	f.zoneless = on > 0 && !offset
	if on > 0 && !whole { // a time of day is no time
		for i := range f.steps {
			if f.steps[i].kind.timed() {
				f.steps[i].off = true
			}
		}
		f.zoneless = false
	}
}
