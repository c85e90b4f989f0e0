package accesslog

import (
	"bytes"
	"time"
)

// maxTries is how many ends of values are tried in one line.
const maxTries = 512

// search tries later ends for the values that may hold the text behind them:
// a user's name with a space, a quote that an old server did not escape. It
// returns the fault of the straight reading if none fits.
func (p *Parser) search(line []byte, rec *Record, first Fault) Fault {
	p.budget = maxTries
	p.clock = clock{}
	if p.match(0, 0, line, rec) {
		return NoFault
	}
	return first
}

func (p *Parser) match(i, pos int, line []byte, rec *Record) bool {
	if i == len(p.f.steps) {
		return p.f.ending(line[pos:]) == NoFault
	}
	s := &p.f.steps[i]
	if !hasPrefix(line[pos:], s.lit) {
		return false
	}
	pos += len(s.lit)
	if s.end == endSelf {
		saved := p.clock
		n, fault := p.timeStep(s, line[pos:], rec)
		if fault == NoFault && p.match(i+1, pos+n, line, rec) {
			return true
		}
		p.clock = saved
		return false
	}
	n := s.first(line[pos:])
	if i == len(p.f.steps)-1 && n >= 0 && s.kind.free() && !p.f.rest {
		// The last value ends where the line does, but for the tail.
		n = max(n, len(line)-pos-len(p.f.tail))
	}
	for ; n >= 0; n = s.after(line[pos:], n) {
		if p.budget--; p.budget < 0 {
			return false
		}
		if p.set(s, line, pos, pos+n, rec) == NoFault && p.match(i+1, pos+n, line, rec) {
			return true
		}
		if !s.kind.free() {
			return false
		}
	}
	return false
}

// after returns the next end of a value beyond n, -1 if there is none.
func (s *step) after(b []byte, n int) int {
	if s.end == endLine || n+1 >= len(b) {
		return -1
	}
	m := bytes.Index(b[n+1:], []byte(s.next))
	if m < 0 {
		return -1
	}
	return n + 1 + m
}

// timeStep takes a time from the beginning of b and returns its length.
func (p *Parser) timeStep(s *step, b []byte, rec *Record) (int, Fault) {
	if len(b) > 0 && b[0] == '-' && (len(b) == 1 || b[1] == ' ' || b[1] == '"') {
		return 1, NoFault // a condition of the directive was not met
	}
	switch s.kind {
	case kindBracketed:
		if len(b) < clfLen+2 {
			return 0, FaultCutShort
		}
		if b[0] != '[' || b[clfLen+1] != ']' {
			return 0, FaultTime
		}
		fault := p.common(s, b[1:], rec)
		return clfLen + 2, fault
	case kindCLF:
		return clfLen, p.common(s, b, rec)
	case kindLayout:
		c := &p.clock
		if s.off {
			c = new(clock)
		}
		n := c.read(s.layout, b)
		if n < 0 {
			return 0, FaultTime
		}
		return n, NoFault
	}
	return p.epoch(s, b)
}

func (p *Parser) common(s *step, b []byte, rec *Record) Fault {
	t, ok := p.clf.read(b)
	if !ok {
		return FaultTime
	}
	switch {
	case s.off:
	case p.f.soleCLF:
		rec.Time = t
		rec.Has |= FieldTime
	case !p.clock.hasEpoch:
		p.clock.epoch, p.clock.hasEpoch = t.Unix(), true
	}
	return NoFault
}

// epoch takes a number of units since 1970 or within the second.
func (p *Parser) epoch(s *step, b []byte) (int, Fault) {
	n := digits(b, 18)
	if n < 0 {
		return 0, FaultTime
	}
	u, _ := parseUint(b[:n])
	v := int64(u)
	if s.fraction {
		if v >= int64(time.Second/s.unit) {
			return 0, FaultTime
		}
		if !s.off {
			p.clock.nano = int(v) * int(s.unit)
		}
		return n, NoFault
	}
	per := int64(time.Second / s.unit)
	var c clock
	c.epoch, c.hasEpoch = v/per, true
	c.nano = int(v%per) * int(s.unit)
	if m := c.fraction(b[n:]); s.unit == time.Second && m > 0 { // nginx's $msec
		n += m
	}
	if !s.off && c.epoch < 1<<38 {
		p.clock.epoch, p.clock.hasEpoch = c.epoch, true
		if c.nano != 0 {
			p.clock.nano = c.nano
		}
	}
	return n, NoFault
}

// finishTime assembles the time of a line from its steps.
func (p *Parser) finishTime(rec *Record) Fault {
	if p.f.soleCLF || !p.f.fields.Has(FieldTime) {
		return NoFault
	}
	if p.clock == (clock{}) {
		return NoFault // every step was "-"
	}
	t, ok := p.clock.time(p.f.location)
	if !ok {
		return FaultTime
	}
	rec.Time = t
	rec.Has |= FieldTime
	return NoFault
}
