package accesslog

import (
	"bytes"
	"net/netip"
)

// parseAddr reads an IPv4 or IPv6 address and nothing else. An IPv4 address
// mapped into IPv6 becomes IPv4, a zone is dropped: it names an interface of
// the server. netip.ParseAddr would want a string and allocate its errors.
func parseAddr(b []byte) (netip.Addr, bool) {
	if len(b) < 2 || len(b) > 64 {
		return netip.Addr{}, false
	}
	// Four digits at most stand before an IPv6 address's first colon.
	if bytes.IndexByte(b[:min(len(b), 5)], ':') < 0 {
		v4, ok := parse4(b)
		return netip.AddrFrom4(v4), ok
	}
	if i := bytes.IndexByte(b, '%'); i > 0 && i < len(b)-1 {
		b = b[:i]
	}
	v6, ok := parse6(b)
	if !ok {
		return netip.Addr{}, false
	}
	return netip.AddrFrom16(v6).Unmap(), true
}

// parse4 reads four decimal numbers without leading zeros: "7" is no address,
// and "010.0.0.1" is one to some programs and another to others.
func parse4(b []byte) (a [4]byte, ok bool) {
	if len(b) < 7 || len(b) > 15 {
		return a, false
	}
	a, n := prefix4(b)
	return a, n == len(b)
}

// prefix4 reads the IPv4 address that b begins with, up to the first byte that
// is neither digit nor dot, and returns its length; 0 if there is none.
func prefix4(b []byte) (a [4]byte, length int) {
	var n uint
	part, digits := 0, 0
	for length = 0; length < len(b); length++ {
		c := b[length]
		if d := c - '0'; d <= 9 {
			if digits > 0 && n == 0 {
				return a, 0
			}
			if n = n*10 + uint(d); n > 255 {
				return a, 0
			}
			digits++
			continue
		}
		if c != '.' {
			break
		}
		if digits == 0 || part == 3 {
			return a, 0
		}
		a[part] = byte(n)
		part++
		n, digits = 0, 0
	}
	if part != 3 || digits == 0 {
		return a, 0
	}
	a[3] = byte(n)
	return a, length
}

// parse6 reads the text forms of RFC 4291 section 2.2.
func parse6(b []byte) (a [16]byte, ok bool) {
	at, gap := 0, -1 // bytes filled, and where "::" stood
	if len(b) >= 2 && b[0] == ':' && b[1] == ':' {
		gap = 0
		b = b[2:]
	}
	for len(b) > 0 {
		if at == 16 {
			return a, false
		}
		var n uint
		i := 0
		for ; i < len(b) && i < 5; i++ {
			d, hex := hexDigit(b[i])
			if !hex {
				break
			}
			n = n<<4 | uint(d)
		}
		if i == 0 || i > 4 {
			return a, false
		}
		if i < len(b) && b[i] == '.' { // the last 32 bits as IPv4
			v4, fine := parse4(b)
			if !fine || at > 12 {
				return a, false
			}
			copy(a[at:], v4[:])
			at += 4
			break
		}
		a[at], a[at+1] = byte(n>>8), byte(n)
		at += 2
		if b = b[i:]; len(b) == 0 {
			break
		}
		if b[0] != ':' || len(b) == 1 {
			return a, false
		}
		if b = b[1:]; b[0] == ':' {
			if gap >= 0 {
				return a, false
			}
			gap = at
			b = b[1:]
		}
	}
	if at == 16 {
		return a, gap < 0
	}
	if gap < 0 {
		return a, false
	}
	moved := copy(a[16-(at-gap):], a[gap:at])
	clear(a[gap : 16-moved])
	return a, true
}

func hexDigit(c byte) (byte, bool) {
	switch {
	case c-'0' <= 9:
		return c - '0', true
	case c|0x20 >= 'a' && c|0x20 <= 'f':
		return c | 0x20 - 'a' + 10, true
	}
	return 0, false
}

// parseAddrPort reads what logs and headers hold where an address belongs:
// an address, a:port, [v6], [v6]:port. The port is 0 if there is none.
func parseAddrPort(b []byte) (netip.Addr, uint16, bool) {
	if a, ok := parseAddr(b); ok {
		return a, 0, true
	}
	if len(b) > 2 && b[0] == '[' {
		end := bytes.IndexByte(b, ']')
		if end < 0 {
			return netip.Addr{}, 0, false
		}
		a, ok := parseAddr(b[1:end])
		rest := b[end+1:]
		if !ok || len(rest) == 0 {
			return a, 0, ok
		}
		port, fine := parsePort(rest)
		return a, port, fine
	}
	if i := bytes.IndexByte(b, ':'); i > 0 && i == bytes.LastIndexByte(b, ':') {
		a, ok := parseAddr(b[:i])
		port, fine := parsePort(b[i:])
		if ok && fine {
			return a, port, true
		}
	}
	return netip.Addr{}, 0, false
}

// parsePort reads ":port".
func parsePort(b []byte) (uint16, bool) {
	if len(b) < 2 || len(b) > 6 || b[0] != ':' {
		return 0, false
	}
	n, ok := parseUint(b[1:])
	return uint16(n), ok && n <= 65535
}

// parseUint reads decimal digits, at most 18 so that nothing overflows.
func parseUint(b []byte) (uint64, bool) {
	if len(b) == 0 || len(b) > 18 {
		return 0, false
	}
	var n uint64
	for _, c := range b {
		d := c - '0'
		if d > 9 {
			return 0, false
		}
		n = n*10 + uint64(d)
	}
	return n, true
}

// Rightmost returns the client that a list of addresses as in X-Forwarded-For
// names: the rightmost that trusted does not know as one of our own proxies.
// Each proxy appends the address it was called from, so all left of the first
// stranger is what that stranger claims. Elements may be a:port, [v6]:port,
// mapped, zoned or quoted; at one that is no address ("unknown", a name) the
// search ends with the last trusted address seen, since nobody vouches for
// what is left of it. False if there is no address at all. A nil trusted
// trusts nobody.
func Rightmost(list []byte, trusted func(netip.Addr) bool) (netip.Addr, bool) {
	var last netip.Addr
	for len(list) > 0 {
		element := list
		if i := bytes.LastIndexByte(list, ','); i >= 0 {
			element, list = list[i+1:], list[:i]
		} else {
			list = nil
		}
		element = bytes.Trim(element, " \t\"\\")
		if len(element) == 0 {
			continue
		}
		a, _, ok := parseAddrPort(element)
		if !ok {
			break
		}
		last = a
		if trusted == nil || !trusted(a) {
			break
		}
	}
	return last, last.IsValid()
}
