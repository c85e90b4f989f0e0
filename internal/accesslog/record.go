// Package accesslog reads the access logs of web servers: Apache httpd's in
// any LogFormat, nginx's in any log_format, JSON lines, plain or compressed,
// rotated, followed while they grow.
//
// Opinions: a log line is hostile text, written by whoever sent the request.
// Values are therefore slices of the line exactly as logged, escapes included,
// and bounded by [MaxLine]; a line that does not fit is counted and shown on
// request, and never ends the reading. What a line does not say is absent, and
// absent is not 0. Nothing is allocated for a line, so that the disk or the
// decompressor is what limits.
//
// Limits: a record is one line. Server-local times without an offset are taken
// in the location the caller names.
package accesslog

import (
	"net/netip"
	"time"
)

// Fields is a set of the values a record may have. Those with a valid zero
// (Bytes, Duration, KeepAlive) cannot be told absent in another way.
type Fields uint32

// The fields of a record. FieldClient is there also where only a name was
// logged: then Record.Client is not valid and Record.Name is set.
const (
	FieldClient Fields = 1 << iota
	FieldPeer
	FieldForwarded
	FieldTime
	FieldRequest
	FieldStatus
	FieldBytes
	FieldDuration
	FieldKeepAlive
	FieldRemotePort
	FieldVHost
	FieldConnStatus
	FieldConnection
)

// fieldNames is in the order of the bits.
var fieldNames = [...]string{"client", "peer", "forwarded", "time", "request", "status", "bytes", "duration",
	"keepalive", "remote-port", "vhost", "connection-status", "connection"}

// Has reports whether all of g are in f.
func (f Fields) Has(g Fields) bool { return f&g == g }

// Names lists the fields of the set.
func (f Fields) Names() []string {
	var names []string
	for i, n := range fieldNames {
		if f.Has(1 << i) {
			names = append(names, n)
		}
	}
	return names
}

// Record is what one line of a log says. Its slices are the line's own bytes,
// as logged (see [Format.Unescape]), valid until the next record is read;
// [Record.Clone] keeps one longer.
type Record struct {
	// Line is the whole line without its line end.
	Line []byte
	// File is the index of the source it came from, Number its line there,
	// from 1.
	File, Number int

	// Has says which of the fields below the line had: "-" is absent.
	Has Fields

	// Client is the address the server took for the client's (%a, %h,
	// $remote_addr), without zone, IPv4 never mapped into IPv6. It is not
	// valid where the log holds a name instead, or nothing.
	Client netip.Addr
	// Name is what stood in the client's place and is no address: the name
	// that HostnameLookups found, or "unix:". Nil otherwise.
	Name []byte
	// Peer is the address of the connection's other end, where that is logged
	// besides (%{c}a, $realip_remote_addr): a proxy before the server.
	Peer netip.Addr
	// Forwarded is the value of the header that lists the addresses a proxy
	// saw, see [Rightmost]. Nil if absent.
	Forwarded []byte

	// Time is an instant in UTC; the zero Time if absent. [Format.Moment] says
	// of what: Apache httpd logs when the request was received, nginx when it
	// was done. See [Record.Received].
	Time time.Time

	// Request is the request line. Method, Path and Protocol are its parts;
	// all but Request are nil where it is no request line, such as a TLS hello
	// sent to a plain port. Path has the query, as it was sent.
	Request, Method, Path, Protocol []byte
	// Status of the response, 0 if absent.
	Status int
	// Bytes sent, the body's (%b) where the log has them, else all (%O).
	Bytes int64
	// Duration from receipt to the end, by the finest of the log's values;
	// Apache's ends when it is logged.
	Duration time.Duration
	// KeepAlive is how many requests the connection had served before this
	// one: 0 is the first of a connection (%k, $connection_requests less one).
	KeepAlive int64
	// RemotePort is the client's port, which tells connections apart.
	RemotePort uint16
	// Connection is nginx's serial number of the connection ($connection).
	Connection uint64
	// VHost is the server's name, with :port where the log has it so.
	VHost []byte
	// ConnStatus is %X: 'X' aborted, '+' may be kept alive, '-' closed; 0 if
	// absent.
	ConnStatus byte

	// Referer and UserAgent as logged; nil if absent.
	Referer, UserAgent []byte

	// hostAt is where in Line the client's field stands, for the Rewriter:
	// from, to. Both 0 if it has none.
	hostAt [2]int
	// moment is what Time is of.
	moment Moment
}

// Moment says at which point of a request a log takes its time.
type Moment uint8

// The moments.
const (
	Received  Moment = iota // when the request line had been read
	Completed               // when the line was written
)

func (m Moment) String() string {
	if m == Completed {
		return "completed"
	}
	return "received"
}

// Received returns when the request was received: Time, or Time less the
// Duration where the log has the end of a request and how long it took. False
// where that is unknown; a completion without a duration is then the best
// there is, and Time has it.
func (r *Record) Received() (time.Time, bool) {
	switch {
	case !r.Has.Has(FieldTime):
		return time.Time{}, false
	case r.moment == Received:
		return r.Time, true
	case r.Has.Has(FieldDuration):
		return r.Time.Add(-r.Duration), true
	}
	return r.Time, false
}

// place is the time by which records are put in order: of the receipt, or the
// nearest to it that is known.
func (r *Record) place() (time.Time, bool) {
	t, _ := r.Received()
	return t, r.Has.Has(FieldTime)
}

// HTTP2 reports whether the request came over HTTP/2 or 3, whose requests
// share a connection without waiting for each other. False also if unknown.
func (r *Record) HTTP2() bool {
	return len(r.Protocol) >= len("HTTP/2") && (r.Protocol[5] == '2' || r.Protocol[5] == '3')
}

// reset empties r for another line. Field by field is several times quicker
// than assigning a Record, whose pointers need write barriers either way.
func (r *Record) reset(line []byte, m Moment) {
	r.Line, r.moment, r.Has = line, m, 0
	r.Client, r.Peer = netip.Addr{}, netip.Addr{}
	r.Name, r.Forwarded, r.VHost, r.Referer, r.UserAgent = nil, nil, nil, nil, nil
	r.Request, r.Method, r.Path, r.Protocol = nil, nil, nil, nil
	r.Time = time.Time{}
	r.Status, r.Bytes, r.Duration, r.KeepAlive, r.Connection = 0, 0, 0, 0, 0
	r.RemotePort, r.ConnStatus, r.hostAt = 0, 0, [2]int{}
}

// Clone returns a copy that shares no memory with r.
func (r *Record) Clone() *Record {
	c := new(Record)
	r.copyTo(c, nil)
	return c
}

// copyTo makes c a copy of r whose text lies in buf, which grows if need be
// and is returned.
func (r *Record) copyTo(c *Record, buf []byte) []byte {
	text := [...]*[]byte{&c.Line, &c.Name, &c.Forwarded, &c.Request, &c.Method, &c.Path, &c.Protocol, &c.VHost, &c.Referer, &c.UserAgent}
	*c = *r
	n := 0
	for _, s := range text {
		n += len(*s)
	}
	if cap(buf) < n {
		buf = make([]byte, 0, n)
	}
	buf = buf[:0]
	for _, s := range text {
		if *s == nil {
			continue
		}
		at := len(buf)
		buf = append(buf, *s...)
		*s = buf[at:len(buf):len(buf)]
	}
	return buf
}
