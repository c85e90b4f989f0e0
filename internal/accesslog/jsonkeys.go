package accesslog

import (
	"bytes"
	"time"
)

// found stores the value b[from:to] of a key, if the key is known. quoted
// tells a string from a number. It reports whether to go on.
func (s *scan) found(parent, key []byte, from, to int, quoted bool, depth int) bool {
	v := s.b[from:to]
	if len(key) == 0 || len(v) == 0 || len(v) == 1 && v[0] == '-' {
		return true
	}
	if isHeaders(parent) {
		if k := string(key); !s.header(key, v) && (k == "referer" || k == "useragent") {
			return s.plain(parent, key, v)
		}
		return true
	}
	if s.header(key, v) || s.duration(parent, key, v, quoted) || s.clock(key, v) {
		return s.fail == NoFault
	}
	rank := 0
	switch string(key) {
	case "clientip", "clientaddr", "clientaddress", "clienthost":
		rank = 6
	case "remoteaddr", "remoteip", "remotehost", "remoteaddress", "ipaddress", "srcip", "sourceip", "peerip":
		rank = 5
	case "ip", "address":
		rank = 4
	case "client", "remote", "h", "a":
		rank = 3
	case "host", "hostname":
		if _, _, ok := parseAddrPort(v); ok {
			rank = 1
		} else {
			setText(kindVHost, v, s.rec)
			return true
		}
	case "vhost", "virtualhost", "servername", "requesthost", "clientrequesthost", "httphost":
		setText(kindVHost, v, s.rec)
	default:
		return s.plain(parent, key, v)
	}
	s.client(rank, depth, from, v)
	return true
}

// client stores the client's address or name; of the same key twice that of
// the outermost object. Where a log has two addresses under different keys,
// the lesser one is the peer's, as Caddy's remote_ip beside client_ip.
func (s *scan) client(best, depth, from int, v []byte) {
	if best == 0 || len(v) > 1024 {
		return
	}
	a, port, ok := parseAddrPort(v)
	if !ok && (best < 5 || bytes.IndexByte(v, ' ') >= 0) {
		return // "client" may be an object's or a browser's name
	}
	r := s.rec
	rank := best*2*maxDepth - depth
	if rank <= s.rank {
		if ok && s.best > best && best > 3 && !r.Has.Has(FieldPeer) {
			r.Peer = a
			r.Has |= FieldPeer
		}
		return
	}
	if s.best > 3 && best > s.best && r.Client.IsValid() && ok {
		r.Peer = r.Client
		r.Has |= FieldPeer
	}
	s.rank, s.best = rank, best
	r.Client, r.Name = a, nil
	if !ok {
		r.Name = v
	}
	r.hostAt = [2]int{from, from + len(v)}
	r.Has |= FieldClient
	if port != 0 && !r.Has.Has(FieldRemotePort) {
		r.RemotePort = port
		r.Has |= FieldRemotePort
	}
}

// header takes the header that lists a proxy's clients.
func (s *scan) header(key, v []byte) bool {
	want := s.p.f.header
	if string(key) == want || len(key) == len(want)+4 && string(key[:4]) == "http" && string(key[4:]) == want ||
		want == "xforwardedfor" && (string(key) == "xff" || string(key) == "forwardedfor") {
		setText(kindForwarded, v, s.rec)
		return true
	}
	return false
}

// plain takes the keys that need no thought.
func (s *scan) plain(parent, key, v []byte) bool {
	k := kindText
	st := step{}
	switch string(key) {
	case "request", "requestline", "firstline", "r":
		k = kindRequest
	case "requestmethod", "method", "httpmethod", "verb", "clientrequestmethod":
		k = kindMethod
	case "requesturi", "uri", "path", "requestpath", "url", "clientrequesturi", "clientrequestpath", "requesturl", "original":
		if string(parent) == "useragent" {
			k = kindUserAgent
		} else {
			k = kindPath
		}
	case "serverprotocol", "protocol", "proto", "httpversion", "requestprotocol", "clientrequestprotocol":
		k = kindProtocol
	case "status", "statuscode", "responsecode", "downstreamstatus", "edgeresponsestatus", "responsestatus":
		k = kindStatus
	case "bodybytessent", "bytessent", "bytes", "size", "responsesize", "downstreamcontentsize", "edgeresponsebytes", "bodybytes":
		k = kindBytes
		st.off = s.rec.Has.Has(FieldBytes) && string(key) != "bodybytessent"
	case "remoteport", "clientport", "clientsrcport":
		k = kindRemotePort
	case "port":
		if p := string(parent); p == "client" || p == "source" || p == "remote" {
			k = kindRemotePort
		}
	case "connectionrequests":
		k, st.less = kindKeepAlive, 1
	case "keepalives", "keepalive":
		k = kindKeepAlive
	case "connection":
		k = kindConnection
	case "referer", "httpreferer", "referrer", "httpreferrer", "requestreferer", "clientrequestreferer":
		k = kindReferer
	case "useragent", "httpuseragent", "requestuseragent", "agent", "clientrequestuseragent":
		k = kindUserAgent
	}
	switch k {
	case kindText:
	case kindStatus, kindBytes, kindRemotePort, kindKeepAlive, kindConnection:
		st.kind = k
		// A field of the same name may be something else ("connection":
		// "keep-alive"): what is no number is no fault.
		_ = setNumber(&st, v, s.rec)
	case kindRequest:
		setText(k, v, s.rec)
	default:
		if k.bit() != FieldRequest || s.rec.Request == nil {
			setText(k, v, s.rec)
		}
	}
	return true
}

// duration takes keys whose name or value says the unit: "request_time" is
// nginx's and in seconds, a bare "duration" is Caddy's if it has a fraction.
func (s *scan) duration(parent, key, v []byte, quoted bool) bool {
	unit := time.Duration(0)
	switch string(key) {
	case "requesttime", "durations", "elapseds", "durationseconds", "requesttimes":
		unit = time.Second
	case "durationms", "elapsedms", "responsetimems", "requesttimems", "latencyms", "timetakenms", "tookms", "originresponsedurationms":
		unit = time.Millisecond
	case "durationus", "elapsedus", "responsetimeus", "requesttimeus", "latencyus", "timetakenus", "microseconds", "requesttimemicros":
		unit = time.Microsecond
	case "durationns", "elapsedns", "latencyns", "requesttimens":
		unit = time.Nanosecond
	case "duration", "latency", "elapsed", "responsetime":
		switch {
		case string(parent) == "event": // the Elastic Common Schema
			unit = time.Nanosecond
		case quoted:
			v, unit = suffixed(v)
		case bytes.IndexByte(v, '.') >= 0:
			unit = time.Second
		}
		if unit == 0 {
			return true
		}
	default:
		return false
	}
	if d, ok := parseDuration(v, unit); ok {
		s.rec.Duration = d
		s.rec.Has |= FieldDuration
	}
	return true
}

// suffixed takes "0.012s", "12ms" apart.
func suffixed(v []byte) ([]byte, time.Duration) {
	for _, u := range [...]struct {
		suffix string
		unit   time.Duration
	}{{"ms", time.Millisecond}, {"µs", time.Microsecond}, {"us", time.Microsecond}, {"ns", time.Nanosecond}, {"s", time.Second}} {
		if bytes.HasSuffix(v, []byte(u.suffix)) {
			return bytes.TrimSpace(v[:len(v)-len(u.suffix)]), u.unit
		}
	}
	return v, 0
}

// clock takes the keys of times. Of several the beginning of the request is
// the best.
func (s *scan) clock(key, v []byte) bool {
	rank, moment := 0, Completed
	switch string(key) {
	case "startutc", "startlocal", "edgestarttimestamp", "requestreceivedtime", "starttime":
		rank, moment = 4, Received
	case "msec":
		rank = 3
	case "timeiso8601", "ts", "timestamp":
		rank = 2
	case "time", "timelocal", "datetime", "date", "t":
		rank = 1
	default:
		return false
	}
	if rank <= s.when {
		return true
	}
	t, ok := s.p.anyTime(v)
	if !ok {
		if rank > 1 { // a "date" may be a day only
			s.fail = FaultTime
		}
		return true
	}
	s.when = rank
	s.rec.Time, s.rec.moment = t, moment
	s.rec.Has |= FieldTime
	return true
}

// spacedLayout is a date and a time as databases write them.
var spacedLayout = []layoutItem{{conv: 'Y'}, {text: '-'}, {conv: 'm'}, {text: '-'}, {conv: 'd'}, {text: ' '},
	{conv: 'H'}, {text: ':'}, {conv: 'M'}, {text: ':'}, {conv: 'S'}, {conv: 'f'}}

// anyTime reads the forms that JSON logs have: RFC 3339, the common form, and
// numbers since 1970 in a unit that their size tells.
func (p *Parser) anyTime(v []byte) (t time.Time, ok bool) {
	v = bytes.Trim(v, "[] ")
	if len(v) >= 20 && v[2] == '/' {
		t, ok = p.clf.read(v)
		return t, ok
	}
	var c clock
	if len(v) >= 19 && v[4] == '-' {
		if c.read(isoLayout, v) == len(v) {
			t, ok = c.time(p.f.location)
			return t, ok
		}
		c = clock{}
		n := c.read(spacedLayout, v)
		if n < 0 {
			c = clock{}
			n = c.read(isoLayout[:len(isoLayout)-1], v)
		}
		if n < 0 {
			return t, false
		}
		if m, offset := zone(bytes.TrimLeft(v[n:], " ")); m > 0 {
			c.offset, c.hasOffset = offset, true
		}
		t, ok = c.time(p.f.location)
		return t, ok
	}
	if digits(v, 19) == 19 && len(v) == 19 { // nanoseconds, beyond what parseUint takes
		u, _ := parseUint(v[:18])
		return time.Unix(int64(u/1e8), int64(u%1e8*10)).UTC(), true
	}
	n := digits(v, 18)
	if n < 0 {
		return t, false
	}
	u, _ := parseUint(v[:n])
	e := int64(u)
	switch {
	case e >= 1e17:
		return time.Unix(0, e).UTC(), true
	case e >= 1e15:
		return time.UnixMicro(e).UTC(), true
	case e >= 1e12:
		return time.UnixMilli(e).UTC(), true
	}
	m := c.fraction(v[n:])
	if m < 0 || n+m != len(v) {
		return t, false
	}
	return time.Unix(e, int64(c.nano)).UTC(), true
}
