package accesslog

import (
	"bytes"
	"time"
	"unicode/utf8"
)

// JSON returns the format of logs with one JSON object a line, read by the
// names of its keys: those of nginx configurations, Caddy, Traefik, Cloudflare,
// the Elastic Common Schema and Google's load balancer. Where nginx writes
// JSON with its default escape, values hold \xXX, which no JSON parser takes;
// this one does.
//
// Of a time's key only some say when it is taken: Record.Received knows those
// of Traefik and Cloudflare as receipt, and takes all others for completion.
func JSON(opts CompileOptions) *Format {
	f := &Format{name: "json", json: true, escape: EscapeJSON, location: opts.Location, moment: Completed}
	if opts.Name != "" {
		f.name = opts.Name
	}
	if f.location == nil {
		f.location = time.UTC
	}
	header := opts.ClientHeader
	if header == "" {
		header = "X-Forwarded-For"
	}
	f.header = string(normal(nil, []byte(header)))
	f.fields = FieldClient | FieldPeer | FieldForwarded | FieldTime | FieldRequest | FieldStatus | FieldBytes |
		FieldDuration | FieldKeepAlive | FieldRemotePort | FieldVHost | FieldConnection
	return f
}

// maxDepth of objects within each other, and maxKey bytes of a key's name.
const (
	maxDepth = 16
	maxKey   = 64
)

// scan reads one JSON object. pos is -1 once it is broken.
type scan struct {
	b    []byte
	pos  int
	p    *Parser
	rec  *Record
	rank int // how good the client's field found so far is
	best int // the same without the depth
	when int // the same of the time
	fail Fault
}

func (p *Parser) parseJSON(line []byte, rec *Record) Fault {
	s := scan{b: line, p: p, rec: rec}
	s.space()
	if s.peek() != '{' {
		return FaultJSON
	}
	if !s.object(nil, 0, true) {
		if s.fail != NoFault {
			return s.fail
		}
		return FaultJSON
	}
	if s.space(); s.pos < len(s.b) {
		return FaultJSON
	}
	return NoFault
}

func (s *scan) peek() byte {
	if s.pos < len(s.b) {
		return s.b[s.pos]
	}
	return 0
}

func (s *scan) space() {
	for s.pos < len(s.b) && (s.b[s.pos] == ' ' || s.b[s.pos] == '\t' || s.b[s.pos] == '\r') {
		s.pos++
	}
}

// object reads from "{" to "}". parent is the normal form of its own key, and
// known says that it and all around it are objects whose keys have a meaning.
func (s *scan) object(parent []byte, depth int, known bool) bool {
	if depth == maxDepth {
		return false
	}
	s.pos++
	var store [maxKey]byte
	for first := true; ; first = false {
		s.space()
		if s.peek() == '}' && first {
			s.pos++
			return true
		}
		from, to, ok := s.text()
		if !ok {
			return false
		}
		key := normal(store[:0], s.b[from:to])
		s.space()
		if s.peek() != ':' {
			return false
		}
		s.pos++
		if s.space(); !s.value(parent, key, depth, known) {
			return false
		}
		s.space()
		switch s.peek() {
		case ',':
			s.pos++
		case '}':
			s.pos++
			return true
		default:
			return false
		}
	}
}

// value reads any value and, unless it is an object, hands it on.
func (s *scan) value(parent, key []byte, depth int, known bool) bool {
	switch c := s.peek(); {
	case c == '"':
		from, to, ok := s.text()
		return ok && (!known || s.found(parent, key, from, to, true, depth))
	case c == '{':
		return s.object(key, depth+1, known && meant(parent, key))
	case c == '[':
		from := s.pos + 1
		if !s.array(depth + 1) {
			return false
		}
		// Caddy has a header's values as a list; of one value the quotes go.
		to := s.pos - 1
		if v := s.b[from:to]; len(v) >= 2 && v[0] == '"' && bytes.IndexByte(v[1:], '"') == len(v)-2 {
			from, to = from+1, to-1
		}
		return !known || s.found(parent, key, from, to, true, depth)
	}
	from := s.pos
	for s.pos < len(s.b) {
		c := s.b[s.pos]
		if c != '-' && c != '+' && c != '.' && c-'0' > 9 && c|0x20-'a' > 25 {
			break
		}
		s.pos++
	}
	v := s.b[from:s.pos]
	switch {
	case len(v) == 0:
		return false
	case string(v) == "null":
		return true
	case v[0] == '-' && len(v) > 1, v[0]-'0' <= 9, string(v) == "true", string(v) == "false":
		return !known || s.found(parent, key, from, s.pos, false, depth)
	}
	return false
}

// meant reports whether an object under this key, within one under parent,
// holds what a server says of a request. All others may be the client's own
// words: arguments, cookies, a body, where "client_ip" is what it claims.
func meant(parent, key []byte) bool {
	switch string(key) {
	case "request", "response", "http", "httprequest", "client", "source", "remote", "url", "event", "useragent",
		"network", "nginx", "access", "jsonpayload", "connection", "headers", "requestheaders":
		return !isHeaders(parent)
	case "body": // of the Elastic Common Schema
		return string(parent) == "response"
	}
	return false
}

// isHeaders tells the object of a request's headers, all of which the client
// chose.
func isHeaders(key []byte) bool { return string(key) == "headers" || string(key) == "requestheaders" }

// array steps over "[…]".
func (s *scan) array(depth int) bool {
	if depth == maxDepth {
		return false
	}
	s.pos++
	for first := true; ; first = false {
		s.space()
		if s.peek() == ']' && first {
			s.pos++
			return true
		}
		if !s.value(nil, nil, depth, false) {
			return false
		}
		s.space()
		switch s.peek() {
		case ',':
			s.pos++
		case ']':
			s.pos++
			return true
		default:
			return false
		}
	}
}

// text reads a string and returns where its inside stands.
func (s *scan) text() (from, to int, ok bool) {
	if s.peek() != '"' {
		return 0, 0, false
	}
	from = s.pos + 1
	n := quote(s.b[from:])
	if n < 0 {
		return 0, 0, false
	}
	s.pos = from + n + 1
	return from, from + n, true
}

// normal appends a key in lower case without what separates its words:
// remote_addr, remoteAddr and Remote-Addr are one.
func normal(dst, key []byte) []byte {
	for _, c := range key {
		switch {
		case c-'A' <= 25:
			c |= 0x20
		case c == '_' || c == '-' || c == '@' || c == '.' || c == ' ' || c == '$':
			continue
		}
		if len(dst) == maxKey {
			break
		}
		dst = append(dst, c)
	}
	return dst
}

// jsonRune reads \uXXXX, of a surrogate pair both halves, and returns how long
// it was; 0 if it is none.
func jsonRune(v []byte) (int, rune) {
	one := func(v []byte) (rune, bool) {
		if len(v) < 6 || v[0] != '\\' || v[1] != 'u' {
			return 0, false
		}
		var r rune
		for _, c := range v[2:6] {
			d, ok := hexDigit(c)
			if !ok {
				return 0, false
			}
			r = r<<4 | rune(d)
		}
		return r, true
	}
	r, ok := one(v)
	if !ok {
		return 0, 0
	}
	if r >= 0xD800 && r < 0xDC00 {
		if low, ok := one(v[6:]); ok && low >= 0xDC00 && low < 0xE000 {
			return 12, (r-0xD800)<<10 + (low - 0xDC00) + 0x10000
		}
	}
	return 6, r
}

func appendRune(dst []byte, r rune) []byte { return utf8.AppendRune(dst, r) }
