package accesslog

import (
	"bytes"
	"net/netip"
)

// MaxLine is how many bytes of a line are read. Apache httpd's default limit
// for each header is 8 KiB, so this is beyond what any server writes.
const MaxLine = 1 << 20

// Parser reads lines by a Format. It is not for several goroutines at once:
// it remembers the time of the last line.
type Parser struct {
	f     *Format
	clf   clfTime
	clock clock
	// budget bounds how many ends are tried in a line that does not fit at
	// once.
	budget int
}

// NewParser returns a parser of lines of this format.
func (f *Format) NewParser() *Parser { return &Parser{f: f} }

// Parse reads one line, given without its line end, into rec, whose File and
// Number stay as they are. After a fault the rest of rec is not to be used.
// It allocates nothing.
func (p *Parser) Parse(line []byte, rec *Record) Fault {
	rec.reset(line, p.f.moment)
	if p.f.json {
		return p.parseJSON(line, rec)
	}
	if p.f.shape != shapeOther {
		if p.quick(line, rec) {
			return NoFault
		}
		rec.reset(line, p.f.moment)
	}
	fault := p.straight(line, rec)
	if fault != NoFault {
		rec.reset(line, p.f.moment)
		fault = p.search(line, rec, fault)
	}
	if fault != NoFault {
		if bytes.IndexByte(line, 0) >= 0 {
			return FaultNUL
		}
		return fault
	}
	return p.finishTime(rec)
}

// straight takes for each value the first end that offers itself, which is
// right wherever the server escapes. rec is fresh. This is where the time of
// reading a log goes: the common cases are told at once, all else goes to set.
func (p *Parser) straight(line []byte, rec *Record) Fault {
	pos := 0
	if !p.f.soleCLF {
		p.clock = clock{}
	}
	for i := range p.f.steps {
		s := &p.f.steps[i]
		b := line[pos:]
		if len(b) < len(s.lit) {
			return FaultCutShort
		}
		if len(s.lit) > 0 && (b[0] != s.lit[0] || len(s.lit) > 1 && string(b[:len(s.lit)]) != s.lit) {
			return FaultText
		}
		pos += len(s.lit)
		b = b[len(s.lit):]
		if s.dash && len(b) > 1 && b[0] == '-' && b[1] == s.stop {
			pos++
			continue
		}
		n, fault := p.take(s, line, pos, rec)
		if fault != NoFault {
			return fault
		}
		pos += n
	}
	return p.f.ending(line[pos:])
}

// take reads the value that stands at pos and returns its length.
func (p *Parser) take(s *step, line []byte, pos int, rec *Record) (int, Fault) {
	b := line[pos:]
	switch s.kind {
	case kindHost, kindAddr:
		if a, n := prefix4(b); n > 0 && n < len(b) && b[n] == s.stop && !s.off {
			rec.hostAt = [2]int{pos, pos + n}
			rec.Client = netip.AddrFrom4(a)
			rec.Has |= FieldClient
			return n, NoFault
		}
	case kindNumber, kindStatus, kindBytes, kindKeepAlive, kindRemotePort, kindConnection:
		if v, n := prefixUint(b); n > 0 && (n < len(b) && b[n] == s.stop || n == len(b) && s.end == endLine) {
			return n, storeNumber(s, v, rec)
		}
	}
	var n int
	switch s.end {
	case endSelf:
		return p.timeStep(s, b, rec)
	case endQuote:
		// Not a quote that is escaped, not a value that is absent.
		if n = bytes.IndexByte(b, '"'); n > 1 && b[n-1] != '\\' && s.plain {
			setText(s.kind, b[:n], rec)
			return n, NoFault
		}
		n = quote(b)
	default:
		n = s.first(b)
	}
	if n < 0 {
		return 0, FaultCutShort
	}
	return n, p.set(s, line, pos, pos+n, rec)
}

// prefixUint reads the decimal number that b begins with; no digits or more
// than 18 are none.
func prefixUint(b []byte) (v uint64, n int) {
	for n < len(b) && n <= 18 {
		d := b[n] - '0'
		if d > 9 {
			break
		}
		v = v*10 + uint64(d)
		n++
	}
	if n > 18 {
		return 0, 0
	}
	return v, n
}

// ending checks what is left behind the last value.
func (f *Format) ending(rest []byte) Fault {
	if len(rest) < len(f.tail) {
		return FaultCutShort
	}
	if string(rest[:len(f.tail)]) != f.tail {
		return FaultText
	}
	if len(rest) > len(f.tail) && !f.rest {
		return FaultTrailing
	}
	return NoFault
}

// first returns where the value at the beginning of b ends, -1 if nowhere.
func (s *step) first(b []byte) int {
	switch s.end {
	case endLine:
		return len(b)
	case endQuote:
		return quote(b)
	case endColon:
		return colon(b)
	}
	n := bytes.IndexByte(b, s.next[0])
	if s.kind == kindForwarded {
		// "a, b": a list goes on after its commas.
		for n > 0 && b[n-1] == ',' && s.next[0] == ' ' {
			m := bytes.IndexByte(b[n+1:], ' ')
			if m < 0 {
				return -1
			}
			n += 1 + m
		}
		return n
	}
	if len(s.next) > 1 && n >= 0 && !hasPrefix(b[n:], s.next) {
		m := bytes.Index(b[n:], []byte(s.next))
		if m < 0 {
			return -1
		}
		n += m
	}
	return n
}

func hasPrefix(b []byte, s string) bool { return len(b) >= len(s) && string(b[:len(s)]) == s }

// quote finds the first quote that no backslash escapes.
func quote(b []byte) int {
	for at := 0; ; {
		n := bytes.IndexByte(b[at:], '"')
		if n < 0 {
			return -1
		}
		n += at
		if n == 0 || b[n-1] != '\\' {
			return n
		}
		slashes := 0
		for n-slashes > 0 && b[n-slashes-1] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			return n
		}
		at = n + 1
	}
}

// colon finds the last colon among what names and addresses are made of.
func colon(b []byte) int {
	last := -1
	for i, c := range b {
		switch {
		case c == ':':
			last = i
		case c <= ' ' || c == '"' || c == ',' || c == '/':
			return last
		}
	}
	return last
}

// strict parses without trying other ends: what Detect judges by.
func (p *Parser) strict(line []byte, rec *Record) Fault {
	if p.f.json {
		return p.Parse(line, rec)
	}
	rec.reset(line, p.f.moment)
	if fault := p.straight(line, rec); fault != NoFault {
		return fault
	}
	return p.finishTime(rec)
}
