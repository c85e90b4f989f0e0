package accesslog

import (
	"bytes"
	"net/netip"
	"strings"
	"time"
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

// set stores the value line[from:to].
func (p *Parser) set(s *step, line []byte, from, to int, rec *Record) Fault {
	v := line[from:to]
	if len(v) == 1 && v[0] == '-' && s.kind != kindConnStatus || len(v) == 0 && s.kind != kindRequest {
		if !s.off {
			rec.clear(s.kind)
		}
		return NoFault
	}
	switch s.kind {
	case kindText, kindQuery:
		return NoFault
	case kindToken:
		if bytes.IndexByte(v, ' ') >= 0 {
			return FaultText
		}
		return NoFault
	case kindHost, kindName, kindAddr:
		return p.setClient(s, v, from, rec)
	case kindPeer:
		if a, _, ok := parseAddrPort(v); ok && !s.off {
			rec.Peer = a
			rec.Has |= FieldPeer
		}
		return NoFault
	case kindNumber, kindStatus, kindBytes, kindKeepAlive, kindRemotePort, kindConnection:
		return setNumber(s, v, rec)
	}
	if s.off {
		return NoFault
	}
	switch s.kind {
	case kindDuration:
		d, ok := parseDuration(v, s.unit)
		if !ok {
			return FaultNumber
		}
		rec.Duration = d
		rec.Has |= FieldDuration
	case kindConnStatus:
		if len(v) != 1 || v[0] != '-' && v[0] != '+' && v[0] != 'X' {
			return FaultText
		}
		rec.ConnStatus = v[0]
		rec.Has |= FieldConnStatus
	case kindMethod, kindProtocol:
		if bytes.IndexByte(v, ' ') >= 0 {
			return FaultText
		}
		fallthrough
	default:
		setText(s.kind, v, rec)
	}
	return NoFault
}

// setText stores what is kept as it was logged.
func setText(k kind, v []byte, rec *Record) {
	switch k {
	case kindRequest:
		rec.Has |= FieldRequest
		rec.Request = v
		rec.split()
		return
	case kindReferer:
		rec.Referer = v
		return
	case kindUserAgent:
		rec.UserAgent = v
		return
	}
	rec.Has |= k.bit()
	switch k {
	case kindForwarded:
		rec.Forwarded = v
	case kindMethod:
		rec.Method = v
	case kindPath:
		rec.Path = v
	case kindProtocol:
		rec.Protocol = v
	case kindVHost:
		rec.VHost = v
	}
}

// clear makes a field absent that another end of a value before had filled.
func (r *Record) clear(k kind) {
	switch k {
	case kindText, kindToken, kindNumber, kindQuery, kindName, kindMethod, kindProtocol, kindPath:
		return
	case kindReferer:
		r.Referer = nil
	case kindUserAgent:
		r.UserAgent = nil
	case kindRequest:
		r.Request, r.Method, r.Path, r.Protocol = nil, nil, nil, nil
	}
	r.Has &^= k.bit()
}

// setClient stores an address, or the name in its place.
func (p *Parser) setClient(s *step, v []byte, from int, rec *Record) Fault {
	if s.off {
		return NoFault
	}
	if s.kind != kindAddr || rec.hostAt == [2]int{} {
		rec.hostAt = [2]int{from, from + len(v)}
	}
	a, port, ok := parseAddrPort(v)
	switch {
	case s.kind == kindName:
		if !ok {
			rec.Name = v
		}
		return NoFault
	case ok:
		rec.Client = a
		if port != 0 && !rec.Has.Has(FieldRemotePort) {
			rec.RemotePort = port
			rec.Has |= FieldRemotePort
		}
	case bytes.IndexByte(v, ' ') >= 0 || bytes.IndexByte(v, '"') >= 0 || len(v) > 1024:
		return FaultAddress
	default:
		rec.Name = v
	}
	rec.Has |= FieldClient
	return NoFault
}

func setNumber(s *step, v []byte, rec *Record) Fault {
	n, ok := parseUint(v)
	if !ok {
		return FaultNumber
	}
	return storeNumber(s, n, rec)
}

// storeNumber stores the value of a step that is a number.
func storeNumber(s *step, n uint64, rec *Record) Fault {
	switch s.kind {
	case kindNumber:
		return NoFault
	case kindStatus:
		if n > 999 {
			return FaultNumber
		}
		if !s.off && n > 0 { // nginx writes 000 where it sent none
			rec.Status = int(n)
			rec.Has |= FieldStatus
		}
		return NoFault
	}
	if s.kind == kindRemotePort && n > 65535 {
		return FaultNumber
	}
	if s.off {
		return NoFault
	}
	rec.Has |= s.kind.bit()
	switch s.kind {
	case kindBytes:
		rec.Bytes = int64(n)
	case kindRemotePort:
		rec.RemotePort = uint16(n)
	case kindConnection:
		rec.Connection = n
	case kindKeepAlive:
		if rec.KeepAlive = int64(n) - s.less; rec.KeepAlive < 0 {
			rec.Has &^= FieldKeepAlive // 0 of nginx: no request came
		}
	}
	return NoFault
}

// parseDuration reads an integer or decimal number of units.
func parseDuration(v []byte, unit time.Duration) (time.Duration, bool) {
	whole, frac := v, []byte(nil)
	if i := bytes.IndexByte(v, '.'); i >= 0 {
		whole, frac = v[:i], v[i+1:]
		if len(frac) == 0 || len(frac) > 18 || digits(frac, 18) != len(frac) {
			return 0, false
		}
	}
	n, ok := parseUint(whole)
	if !ok || n > uint64(1<<62/unit) {
		return 0, false
	}
	d := time.Duration(n) * unit
	if frac != nil {
		d += time.Duration(float64(nanos(frac)) / 1e9 * float64(unit))
	}
	return d, true
}

// split takes the request line apart. Anything can be sent as one: it has
// parts only if it ends in a protocol or is a method with a path (HTTP/0.9).
func (r *Record) split() {
	v := r.Request
	r.Method, r.Path, r.Protocol = nil, nil, nil
	sp := bytes.IndexByte(v, ' ')
	if sp <= 0 || !token(v[:sp]) {
		return
	}
	rest := v[sp+1:]
	if n := len(rest) - len(" HTTP/1.1"); n >= 0 && string(rest[n:n+6]) == " HTTP/" && rest[n+6] != ' ' && rest[n+7] != ' ' && rest[n+8] != ' ' {
		r.Method, r.Path, r.Protocol = v[:sp], rest[:n], rest[n+1:]
		return
	}
	if last := bytes.LastIndexByte(rest, ' '); last >= 0 && hasPrefix(rest[last+1:], "HTTP/") {
		r.Method, r.Path, r.Protocol = v[:sp], rest[:last], rest[last+1:]
		return
	}
	if len(rest) > 0 && rest[0] == '/' {
		r.Method, r.Path = v[:sp], rest
	}
}

// token reports whether b can be a method (RFC 9110 section 5.6.2).
func token(b []byte) bool {
	for _, c := range b {
		if c-'A' > 25 && c-'a' > 25 && (c < '!' || c > '~' || strings.IndexByte(`"(),/:;<=>?@[\]{}`, c) >= 0) {
			return false
		}
	}
	return len(b) > 0
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
