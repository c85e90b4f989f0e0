package dnscheck

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/miekg/dns"
	"golang.org/x/net/idna"
)

// maxNameLen is the longest domain name in presentation format without its
// trailing dot (RFC 1035, section 2.3.4: 255 octets on the wire).
const maxNameLen = 253

// target is what Options.Name means.
type target struct {
	name string     // ASCII, trailing dot kept; "" for an address
	addr netip.Addr // for a literal or a name that stands for one
}

// parseTarget reads a name as a user gives it.
func parseTarget(s string) (target, error) {
	if s == "" {
		return target{}, errors.New("dnscheck: no name given")
	}
	if len(s) > 4*maxNameLen {
		return target{}, fmt.Errorf("dnscheck: name of %d bytes is too long", len(s))
	}
	lit := strings.TrimSuffix(strings.TrimPrefix(s, "["), "]")
	if a, err := netip.ParseAddr(lit); err == nil {
		return target{addr: a}, nil
	}
	if a, ok := parseArpa(s); ok {
		return target{addr: a}, nil
	}
	name, err := toASCII(s)
	if err != nil {
		return target{}, err
	}
	return target{name: name}, nil
}

// QueryName is the absolute name, in lower case, that a question about s asks:
// its reverse name for an address. A name is taken as it is, without search
// list.
func QueryName(s string) (string, error) {
	t, err := parseTarget(s)
	switch {
	case err != nil:
		return "", err
	case t.addr.IsValid():
		return reverseName(t.addr)
	}
	return fqdn(t.name), nil
}

// toASCII punycodes a Unicode name (RFC 5891, UTS 46 lookup profile) and
// leaves an ASCII one alone: names like _dmarc.example.com are no IDNA, but
// resolve.
func toASCII(s string) (string, error) {
	body, abs := strings.CutSuffix(s, ".")
	for _, r := range body {
		if r >= 0x80 {
			a, err := idna.Lookup.ToASCII(body)
			if err != nil {
				return "", fmt.Errorf("dnscheck: name %s: %w", quote(s), err)
			}
			body = a
			break
		}
	}
	if len(body) > maxNameLen || !validName(body) {
		return "", fmt.Errorf("dnscheck: %s is no domain name", quote(s))
	}
	if abs {
		body += "."
	}
	return body, nil
}

// validName reports whether s, without trailing dot, is a name that a query
// can hold: labels of 1 to 63 bytes of printable ASCII. Escapes are refused: no
// host name needs them.
func validName(s string) bool {
	for label := range strings.SplitSeq(s, ".") {
		if label == "" || len(label) > 63 {
			return false
		}
		for i := range len(label) {
			if c := label[i]; c <= ' ' || c >= 0x7f || c == '\\' || c == '"' || c == '(' || c == ')' || c == ';' || c == '@' {
				return false
			}
		}
	}
	return true
}

// parseArpa reads the address that a full reverse name stands for.
func parseArpa(s string) (netip.Addr, bool) {
	s = strings.ToLower(strings.TrimSuffix(s, "."))
	if v4, ok := strings.CutSuffix(s, ".in-addr.arpa"); ok {
		p := strings.Split(v4, ".")
		if len(p) != 4 {
			return netip.Addr{}, false
		}
		a, err := netip.ParseAddr(p[3] + "." + p[2] + "." + p[1] + "." + p[0])
		return a, err == nil
	}
	v6, ok := strings.CutSuffix(s, ".ip6.arpa")
	if !ok || len(v6) != 63 {
		return netip.Addr{}, false
	}
	var b [16]byte
	for i := range 32 {
		c := v6[62-2*i]
		if i > 0 && v6[63-2*i] != '.' {
			return netip.Addr{}, false
		}
		n := strings.IndexByte("0123456789abcdef", c)
		if n < 0 {
			return netip.Addr{}, false
		}
		b[i/2] = b[i/2]<<4 | byte(n)
	}
	return netip.AddrFrom16(b), true
}

// reverseName is the name whose PTR records name a. Zones are local and not
// part of it; an IPv4-mapped address is the IPv4 address.
func reverseName(a netip.Addr) (string, error) {
	return dns.ReverseAddr(a.WithZone("").Unmap().String())
}

// randomLabel is a label that no cache can hold.
func randomLabel() string {
	var b [8]byte
	rand.Read(b[:]) // never fails since Go 1.24
	return "whyslow-" + hex.EncodeToString(b[:])
}

// fqdn is the name with its trailing dot, in lower case, for comparisons.
func fqdn(s string) string { return strings.ToLower(dns.Fqdn(s)) }
