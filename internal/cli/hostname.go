package cli

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"strconv"
	"strings"

	"golang.org/x/net/idna"
)

// Bounds of a name in the DNS (RFC 1035, 2.3.4), in bytes.
const (
	maxName  = 253 // in writing, without the trailing dot
	maxLabel = 63
)

// checkHost refuses what is no address and what no resolver could be asked
// for. The error says what is wrong and does not repeat the host.
func checkHost(h string) error {
	if h == "" {
		return errors.New("holds no host")
	}
	if _, err := netip.ParseAddr(h); err == nil {
		return nil
	}
	if err := checkLegacy(h); err != nil {
		return err
	}
	if !isASCII(h) {
		ascii, err := idna.Lookup.ToASCII(h)
		if err != nil {
			return errors.New("holds no valid international name (RFC 5891)")
		}
		h = ascii
	}
	name := strings.TrimSuffix(h, ".") // an absolute name
	if len(name) > maxName {
		return fmt.Errorf("holds a name of %d bytes, and the DNS has none above %d", len(name), maxName)
	}
	for label := range strings.SplitSeq(name, ".") {
		if err := checkLabel(label); err != nil {
			return err
		}
	}
	if strings.HasPrefix(h, "-") {
		return errors.New("is no host; a flag in the wrong place?")
	}
	return nil
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}

// checkLabel wants letters, digits, hyphens, and the underscore that names of
// services have (RFC 8552).
func checkLabel(label string) error {
	switch {
	case label == "":
		return errors.New("holds a name with nothing before a dot, or with two dots in a row")
	case len(label) > maxLabel:
		return fmt.Errorf("holds a label of %d bytes between two dots, and the DNS has none above %d", len(label), maxLabel)
	}
	for _, r := range label {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		if !letter && (r < '0' || r > '9') && r != '-' && r != '_' {
			return fmt.Errorf("holds %q, which no host name can", r)
		}
	}
	return nil
}

// checkLegacy refuses a host of numbers alone that is no address as RFC 3986
// has it. Some are what inet_aton and browsers take for one ("127.1",
// "0x7f.1", "2130706433"); what is meant is then better said in full.
func checkLegacy(h string) error {
	parts := strings.Split(strings.TrimSuffix(h, "."), ".")
	var n []uint64
	for _, p := range parts {
		v, ok := legacyNumber(p)
		if !ok {
			return nil // a name
		}
		n = append(n, v)
	}
	if a, ok := inetAton(n); ok {
		return fmt.Errorf("holds an address in short: write it in full, %s", a)
	}
	return errors.New("holds numbers that are no IPv4 address")
}

// legacyNumber reads a number as C does: decimal, octal after 0, hexadecimal
// after 0x.
func legacyNumber(s string) (uint64, bool) {
	digits, base := s, 10
	switch {
	case strings.HasPrefix(s, "0x"), strings.HasPrefix(s, "0X"):
		digits, base = s[2:], 16
	case len(s) > 1 && s[0] == '0':
		digits, base = s[1:], 8
	}
	n, err := strconv.ParseUint(digits, base, 64)
	if errors.Is(err, strconv.ErrRange) {
		return math.MaxUint64, true // a number, and too large
	}
	if err != nil && base == 8 {
		n, err = strconv.ParseUint(digits, 10, 64) // 08 is a number to people
	}
	return n, err == nil
}

// inetAton makes an address of one to four numbers, the last of which fills
// the bytes that are left.
func inetAton(n []uint64) (netip.Addr, bool) {
	if len(n) > 4 {
		return netip.Addr{}, false
	}
	last := len(n) - 1
	var a uint64
	for _, v := range n[:last] {
		if v > 255 {
			return netip.Addr{}, false
		}
		a = a<<8 | v
	}
	bits := 32 - 8*last
	if n[last] >= 1<<bits {
		return netip.Addr{}, false
	}
	a = a<<bits | n[last]
	return netip.AddrFrom4([4]byte{byte(a >> 24), byte(a >> 16), byte(a >> 8), byte(a)}), true
}
