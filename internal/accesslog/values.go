package accesslog

import (
	"bytes"
	"strings"
	"time"
)

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
		unit := s.unit
		if bytes.IndexByte(v, '.') >= 0 {
			unit = time.Second // whatever the unit of one without a fraction
		}
		d, ok := parseDuration(v, unit)
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
	case s.strict || bytes.IndexByte(v, ' ') >= 0 || bytes.IndexByte(v, '"') >= 0 || len(v) > 1024:
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
