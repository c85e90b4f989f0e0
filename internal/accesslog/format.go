package accesslog

import "time"

// Escape is how a server writes bytes that its format cannot hold as they are.
type Escape uint8

// The escapes.
const (
	EscapeApache Escape = iota // \" \\ \n \t … and \xhh
	EscapeNginx                // \xHH for the quote, the backslash, and what is not printable ASCII
	EscapeJSON                 // as RFC 8259, and \xHH where nginx writes JSON with its default escape
	EscapeNone                 // nothing is escaped
)

// Format is a compiled description of a log's lines. It does not change and
// may be shared; a [Parser] reads lines by it.
type Format struct {
	name, text string
	escape     Escape
	steps      []step
	tail       string // text after the last step
	// rest permits anything after the tail: a known format with something
	// appended to it.
	rest   bool
	json   bool   // JSON lines by their keys, steps unused
	header string // of JSON lines: the normal form of the key of Forwarded
	fields Fields
	moment Moment
	// separator of a log that declares its fields itself; 0 if it is none.
	separator byte
	// soleCLF: the time is one step in the common form, which needs no
	// assembling.
	soleCLF  bool
	shape    shape
	location *time.Location
	// zoneless: the time has no offset, location says what it is.
	zoneless bool
}

// kind is what a step's value means.
type kind uint8

const (
	kindText      kind = iota // anything, not kept, may hold spaces
	kindToken                 // the same without spaces
	kindNumber                // a number, not kept
	kindHost                  // %h, $remote_addr: an address or a name
	kindName                  // %h beside %a: kept if it is a name
	kindAddr                  // %a: an address, or host:port
	kindPeer                  // the connection's other end
	kindForwarded             // the header the caller asked for
	kindRequest               // the request line
	kindMethod
	kindPath
	kindQuery // appended to the path by the server, not kept
	kindProtocol
	kindStatus
	kindBytes
	kindDuration
	kindKeepAlive
	kindRemotePort
	kindVHost
	kindConnStatus
	kindConnection
	kindReferer
	kindUserAgent
	kindCLF       // 10/Oct/2000:13:55:36 -0700, self-delimiting
	kindBracketed // the same in brackets, or "-"
	kindLayout    // strftime, self-delimiting
	kindEpoch     // a number of units since 1970, or of a fraction, self-delimiting
)

// timed reports whether a step of this kind finds its own end and gives time.
func (k kind) timed() bool { return k >= kindCLF }

// free reports whether a value may hold the text that ends it.
func (k kind) free() bool {
	switch k {
	case kindText, kindRequest, kindPath, kindQuery, kindReferer, kindUserAgent, kindForwarded:
		return true
	}
	return false
}

// bit is the field a kind gives.
func (k kind) bit() Fields {
	switch k {
	case kindHost, kindName, kindAddr:
		return FieldClient
	case kindPeer:
		return FieldPeer
	case kindForwarded:
		return FieldForwarded
	case kindRequest, kindMethod, kindPath, kindProtocol:
		return FieldRequest
	case kindStatus:
		return FieldStatus
	case kindBytes:
		return FieldBytes
	case kindDuration:
		return FieldDuration
	case kindKeepAlive:
		return FieldKeepAlive
	case kindRemotePort:
		return FieldRemotePort
	case kindVHost:
		return FieldVHost
	case kindConnStatus:
		return FieldConnStatus
	case kindConnection:
		return FieldConnection
	case kindCLF, kindBracketed, kindLayout, kindEpoch:
		return FieldTime
	}
	return 0
}

// step is one value of a line and the text before it.
type step struct {
	lit  string
	kind kind
	end  endKind
	// stop is next's first byte, 0 if none; dash: "-" before it is a value
	// that is absent.
	stop byte
	dash bool
	// plain: the value is kept as it is, see setText.
	plain bool
	// strict: a client that is no address is a fault.
	strict bool
	// off: parsed to find its end, but another step gives the field.
	off  bool
	next string // text after the value, if end is endText, endQuote or endColon
	// directive as written, for messages.
	directive string

	// unit of a duration or an epoch.
	unit time.Duration
	// fraction: an epoch step holds only the part below a second.
	fraction bool
	// less is taken off a keep-alive count: nginx counts from 1.
	less int64
	// layout of kindLayout.
	layout []layoutItem
}

// endKind is how a value's end is found.
type endKind uint8

const (
	endText  endKind = iota // where next begins
	endQuote                // at the next quote that is not escaped
	endLine                 // with the line
	endColon                // at the last colon of a name or address
	endSelf                 // by the value's own form
)

// Name is what the format is called: "combined", or its text.
func (f *Format) Name() string { return f.name }

// Text is the LogFormat or log_format, empty for JSON lines.
func (f *Format) Text() string { return f.text }

// Fields are those that lines of this format can have.
func (f *Format) Fields() Fields { return f.fields }

// Moment is what the time of its lines is of.
func (f *Format) Moment() Moment { return f.moment }

// Zoneless reports whether its times have no offset, so that the location
// given when it was compiled decides.
func (f *Format) Zoneless() bool { return f.zoneless }

// DurationIncludesLookup reports whether the duration stands behind the
// client's name in the format. Apache httpd fills a line from left to right,
// looking the name up when it comes to it, and takes the duration when it comes
// to that: %D before %h excludes the lookup, behind it includes it.
func (f *Format) DurationIncludesLookup() bool {
	name := false
	for i := range f.steps {
		switch s := &f.steps[i]; {
		case s.kind == kindHost || s.kind == kindName:
			name = f.moment == Received
		case s.kind == kindDuration && !s.off:
			return name
		}
	}
	return false
}

// Escape is how its values are escaped.
func (f *Format) Escape() Escape { return f.escape }

// CompileOptions are what a format's text does not say.
type CompileOptions struct {
	// Name of the format. Empty means its text.
	Name string
	// ClientHeader is the request header, or nginx variable, that lands in
	// Record.Forwarded. Empty means X-Forwarded-For (and nginx's
	// $proxy_add_x_forwarded_for).
	ClientHeader string
	// Location of times without an offset. Nil means UTC.
	Location *time.Location
	// Escape of nginx's values: log_format's parameter escape=.
	Escape Escape
}

// escapes maps what follows a backslash.
var escapes = [256]byte{'"': '"', '\\': '\\', '/': '/', 'a': '\a', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t', 'v': '\v'}

// Unescape appends to dst what the server had before it escaped it to v.
// What is no escape stays as it is.
func (f *Format) Unescape(dst, v []byte) []byte {
	if f.escape == EscapeNone {
		return append(dst, v...)
	}
	for i := 0; i < len(v); i++ {
		c := v[i]
		if c != '\\' || i+1 == len(v) {
			dst = append(dst, c)
			continue
		}
		switch e := v[i+1]; {
		case e == 'x' && i+3 < len(v):
			hi, ok1 := hexDigit(v[i+2])
			lo, ok2 := hexDigit(v[i+3])
			if !ok1 || !ok2 {
				dst = append(dst, c)
				continue
			}
			dst = append(dst, hi<<4|lo)
			i += 3
		case e == 'u' && f.escape == EscapeJSON:
			n, r := jsonRune(v[i:])
			if n == 0 {
				dst = append(dst, c)
				continue
			}
			dst = appendRune(dst, r)
			i += n - 1
		case escapes[e] != 0 && f.escape != EscapeNginx:
			dst = append(dst, escapes[e])
			i++
		default:
			dst = append(dst, c)
		}
	}
	return dst
}
