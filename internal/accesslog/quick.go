package accesslog

import (
	"bytes"
	"net/netip"
)

// shape is the form of lines that most logs of the world have.
type shape uint8

const (
	shapeOther    shape = iota
	shapeCommon         // client - user [time] "request" status bytes
	shapeCombined       // and "referer" "user agent"
)

// shapes are the kinds of steps and the text before each.
var shapes = []struct {
	shape shape
	kinds []kind
	lits  []string
	tail  string
}{
	{shapeCommon, []kind{kindHost, kindToken, kindText, kindBracketed, kindRequest, kindStatus, kindBytes},
		[]string{"", " ", " ", " ", ` "`, `" `, " "}, ""},
	{shapeCombined, []kind{kindHost, kindToken, kindText, kindBracketed, kindRequest, kindStatus, kindBytes, kindReferer, kindUserAgent},
		[]string{"", " ", " ", " ", ` "`, `" `, " ", ` "`, `" "`}, `"`},
	{shapeCommon, []kind{kindHost, kindText, kindCLF, kindRequest, kindStatus, kindBytes},
		[]string{"", " - ", " [", `] "`, `" `, " "}, ""},
	{shapeCombined, []kind{kindHost, kindText, kindCLF, kindRequest, kindStatus, kindBytes, kindReferer, kindUserAgent},
		[]string{"", " - ", " [", `] "`, `" `, " ", ` "`, `" "`}, `"`},
}

// findShape returns the form of a format's lines.
func (f *Format) findShape() shape {
	if f.rest || f.escape == EscapeNone || !f.soleCLF {
		return shapeOther
	}
next:
	for _, s := range shapes {
		if len(s.kinds) != len(f.steps) || s.tail != f.tail {
			continue
		}
		for i := range f.steps {
			if st := &f.steps[i]; st.kind != s.kinds[i] || st.lit != s.lits[i] || st.off {
				continue next
			}
		}
		return s.shape
	}
	return shapeOther
}

// quick reads a line of a usual shape with nothing unusual in it, at more than
// twice the speed. False means that it has to be read step by step; rec then
// needs a reset. What it accepts is what straight does, which FuzzParse holds
// it to.
func (p *Parser) quick(line []byte, rec *Record) bool {
	addr, n := prefix4(line)
	if n > 0 {
		rec.Client = netip.AddrFrom4(addr)
	} else {
		if n = bytes.IndexByte(line, ' '); n < 0 || n > 40 {
			return false
		}
		a, ok := parseAddr(line[:n])
		if !ok {
			return false
		}
		rec.Client = a
	}
	rec.hostAt[1] = n
	rest := line[n:]
	if len(rest) < len(` - - [10/Oct/2000:13:55:36 -0700] "" 200 -`) || rest[0] != ' ' || rest[1] != '-' || rest[2] != ' ' {
		return false
	}
	if rest[3] == '-' && rest[4] == ' ' {
		rest = rest[5:]
	} else {
		user := bytes.IndexByte(rest[3:], ' ')
		if user < 0 || len(rest)-user < 42 {
			return false
		}
		rest = rest[3+user+1:]
	}
	if rest[0] != '[' || rest[27] != ']' || rest[28] != ' ' || rest[29] != '"' {
		return false
	}
	t, ok := p.clf.read(rest[1:])
	if !ok {
		return false
	}
	rec.Time = t
	rest = rest[30:]
	q := bytes.IndexByte(rest, '"')
	if q <= 1 || rest[q-1] == '\\' {
		return false
	}
	rec.Request = rest[:q]
	rec.split()
	return p.quickTail(rest[q+1:], rec)
}

// quickTail reads what stands behind the request.
func (p *Parser) quickTail(rest []byte, rec *Record) bool {
	if len(rest) < len(" 200 -") || rest[0] != ' ' || rest[4] != ' ' {
		return false
	}
	d0, d1, d2 := rest[1]-'0', rest[2]-'0', rest[3]-'0'
	if d0-1 > 8 || d1 > 9 || d2 > 9 {
		return false
	}
	rec.Status = int(d0)*100 + int(d1)*10 + int(d2)
	rest = rest[5:]
	has := FieldClient | FieldTime | FieldRequest | FieldStatus
	v, n := prefixUint(rest)
	switch {
	case n > 0:
		rec.Bytes = int64(v)
		has |= FieldBytes
	case rest[0] == '-':
		n = 1
	default:
		return false
	}
	rec.Has = has
	rest = rest[n:]
	if p.f.shape == shapeCommon {
		return len(rest) == 0
	}
	if len(rest) < len(` "-" "-"`) || rest[0] != ' ' || rest[1] != '"' {
		return false
	}
	rest = rest[2:]
	q := bytes.IndexByte(rest, '"')
	if q < 1 || len(rest) < q+5 || rest[q-1] == '\\' || rest[q+1] != ' ' || rest[q+2] != '"' {
		return false
	}
	if q > 1 || rest[0] != '-' {
		rec.Referer = rest[:q]
	}
	rest = rest[q+3:]
	if q = bytes.IndexByte(rest, '"'); q != len(rest)-1 || q < 1 || rest[q-1] == '\\' {
		return false
	}
	if q > 1 || rest[0] != '-' {
		rec.UserAgent = rest[:q]
	}
	return true
}
