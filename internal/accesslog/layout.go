package accesslog

import (
	"fmt"
	"strings"
)

// layoutItem is one conversion of strftime, or a byte of text (conv 0).
type layoutItem struct {
	conv byte
	text byte
}

// isoLayout is $time_iso8601.
var isoLayout = []layoutItem{{conv: 'Y'}, {text: '-'}, {conv: 'm'}, {text: '-'}, {conv: 'd'}, {text: 'T'},
	{conv: 'H'}, {text: ':'}, {conv: 'M'}, {text: ':'}, {conv: 'S'}, {conv: 'f'}, {conv: 'z'}}

// layoutShort are conversions that stand for others, in the C locale, which is
// the one Apache httpd runs in.
var layoutShort = map[byte]string{
	'c': "%a %b %e %H:%M:%S %Y", 'D': "%m/%d/%y", 'F': "%Y-%m-%d", 'h': "%b", 'n': "\n", 'r': "%I:%M:%S %p",
	'R': "%H:%M", 't': "\t", 'T': "%H:%M:%S", 'x': "%m/%d/%y", 'X': "%H:%M:%S", '+': "%a %b %e %H:%M:%S %Z %Y",
}

// layoutConvs are the others: with a meaning, or with a form to step over.
const layoutConvs = "aAbBCdefgGHIjklmMpPsSuUVwWyYzZ"

// compileLayout reads the format of strftime(3).
func compileLayout(format string) ([]layoutItem, error) {
	var items []layoutItem
	for i := 0; i < len(format); i++ {
		if format[i] != '%' {
			items = append(items, layoutItem{text: format[i]})
			continue
		}
		i++
		for i < len(format) && strings.IndexByte("EO_-0^#", format[i]) >= 0 {
			i++ // modifiers of the form
		}
		if i == len(format) {
			return nil, fmt.Errorf("accesslog: the time format %.60q ends within a conversion", format)
		}
		c := format[i]
		switch long, short := layoutShort[c]; {
		case c == '%':
			items = append(items, layoutItem{text: '%'})
		case short:
			inner, err := compileLayout(long)
			if err != nil {
				return nil, err
			}
			items = append(items, inner...)
		case c != 'f' && strings.IndexByte(layoutConvs, c) >= 0:
			items = append(items, layoutItem{conv: c})
		default:
			return nil, fmt.Errorf("accesslog: the time format %.60q has a conversion %%%c that is not known", format, c)
		}
	}
	return items, nil
}

func hasConv(layout []layoutItem, convs string) bool {
	for _, it := range layout {
		if it.conv != 0 && strings.IndexByte(convs, it.conv) >= 0 {
			return true
		}
	}
	return false
}

// dated reports whether a layout says the day, zoned whether it says how far
// from UTC. %Z is a name, which means different offsets in different places.
func dated(layout []layoutItem) bool {
	return hasConv(layout, "s") || hasConv(layout, "yY") && (hasConv(layout, "j") || hasConv(layout, "mbB") && hasConv(layout, "de"))
}

func zoned(layout []layoutItem) bool { return hasConv(layout, "sz") }

// clock collects the parts of a time that a line's steps give.
type clock struct {
	year, month, day, yearDay int
	hour, min, sec, nano      int
	pm                        int8 // 1 AM, 2 PM
	epoch                     int64
	offset                    int
	hasEpoch, hasOffset       bool
}

// read takes a layout's value from the beginning of b and returns its length,
// -1 if b does not begin so.
func (c *clock) read(layout []layoutItem, b []byte) int {
	at := 0
	for _, it := range layout {
		if it.conv == 0 {
			if at == len(b) || b[at] != it.text {
				return -1
			}
			at++
			continue
		}
		n := c.item(it.conv, b[at:])
		if n < 0 {
			return -1
		}
		at += n
	}
	return at
}

func (c *clock) item(conv byte, b []byte) int {
	switch conv {
	case 'a', 'A':
		return letters(b)
	case 'b', 'B':
		n := letters(b)
		if n < 3 {
			return -1
		}
		if c.month = month(b); c.month == 0 {
			return -1
		}
		return n
	case 'p', 'P':
		if len(b) < 2 || b[1]|0x20 != 'm' || b[0]|0x20 != 'a' && b[0]|0x20 != 'p' {
			return -1
		}
		if c.pm = 1; b[0]|0x20 == 'p' {
			c.pm = 2
		}
		return 2
	case 'z':
		n, offset := zone(b)
		if n > 0 {
			c.offset, c.hasOffset = offset, true
		}
		return n
	case 'Z':
		n := letters(b)
		if n <= 0 { // "+03" is a zone's name too
			n, _ = zone(b)
			return n
		}
		if s := string(b[:n]); s == "UTC" || s == "GMT" {
			c.offset, c.hasOffset = 0, true
		}
		return n
	case 'f':
		return c.fraction(b)
	case 's':
		n := digits(b, 18)
		if n > 0 {
			v, _ := parseUint(b[:n])
			c.epoch, c.hasEpoch = int64(v), true
		}
		return n
	}
	return c.number(conv, b)
}

// fraction takes ".123", which may be missing.
func (c *clock) fraction(b []byte) int {
	if len(b) < 2 || b[0] != '.' && b[0] != ',' {
		return 0
	}
	n := digits(b[1:], 18)
	if n < 0 {
		return -1
	}
	c.nano = nanos(b[1 : 1+n])
	return 1 + n
}

// nanos reads the digits of a fraction of a second.
func nanos(b []byte) int {
	v := 0
	for i := range 9 {
		v *= 10
		if i < len(b) {
			v += int(b[i] - '0')
		}
	}
	return v
}

// number takes a conversion of digits, which may be padded by a space.
func (c *clock) number(conv byte, b []byte) int {
	skip, width := 0, 2
	if len(b) > 0 && b[0] == ' ' && strings.IndexByte("eklj", conv) >= 0 {
		skip = 1
	}
	switch conv {
	case 'Y', 'G':
		width = 4
	case 'j':
		width = 3
	case 'u', 'w':
		width = 1
	}
	n := digits(b[skip:], width)
	if n < 0 {
		return -1
	}
	u, _ := parseUint(b[skip : skip+n])
	v := int(u)
	switch conv {
	case 'Y':
		c.year = v
	case 'y':
		if c.year = 1900 + v; v < 69 { // POSIX
			c.year = 2000 + v
		}
	case 'm':
		c.month = v
	case 'd', 'e':
		c.day = v
	case 'j':
		c.yearDay = v
	case 'H', 'k', 'I', 'l':
		c.hour = v
	case 'M':
		c.min = v
	case 'S':
		c.sec = v
	}
	return skip + n
}

func letters(b []byte) int {
	n := 0
	for n < len(b) && n < 32 && b[n]|0x20-'a' <= 25 {
		n++
	}
	if n == 0 {
		return -1
	}
	return n
}

// digits returns how many digits b begins with, at most most; -1 if none.
func digits(b []byte, most int) int {
	n := 0
	for n < len(b) && n < most && b[n]-'0' <= 9 {
		n++
	}
	if n == 0 {
		return -1
	}
	return n
}

// zone takes +hhmm, +hh:mm, +hh or Z.
func zone(b []byte) (n, seconds int) {
	if len(b) > 0 && (b[0] == 'Z' || b[0] == 'z') {
		return 1, 0
	}
	if len(b) < 3 || b[0] != '+' && b[0] != '-' || digits(b[1:], 2) != 2 {
		return -1, 0
	}
	h, n := two(b[1:]), 3
	rest := b[3:]
	if len(rest) > 0 && rest[0] == ':' {
		rest = rest[1:]
		n = 4
	}
	m := 0
	if digits(rest, 2) == 2 {
		m = two(rest)
		n += 2
	} else {
		n = 3
	}
	if h > 23 || m > 59 {
		return -1, 0
	}
	seconds = h*3600 + m*60
	if b[0] == '-' {
		seconds = -seconds
	}
	return n, seconds
}

func two(b []byte) int { return int(b[0]-'0')*10 + int(b[1]-'0') }
