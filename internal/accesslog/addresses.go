package accesslog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/netip"
)

// Addresses reads a bare list: an address a line, also as a:port or [v6]:port;
// what follows it behind white space or a comma is left aside, so are empty
// lines and what follows a "#". A line that is no address is yielded as an
// error that names the line, and does not end the list; so is a network,
// which is many addresses.
func Addresses(name string, r io.Reader) iter.Seq2[netip.Addr, error] {
	return func(yield func(netip.Addr, error) bool) {
		text, _, err := decompress(name, r)
		if err != nil {
			yield(netip.Addr{}, err)
			return
		}
		if c, ok := text.(io.Closer); ok {
			defer c.Close()
		}
		var l lines
		l.reset(text)
		if head := l.head(512, true); bytes.HasPrefix(head, []byte(utf8BOM)) {
			l.start += 3
		} else if kind := notText(head); kind != "" {
			yield(netip.Addr{}, &ContentError{Name: name, Kind: kind})
			return
		}
		for {
			line, fault, err := l.next()
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				yield(netip.Addr{}, fmt.Errorf("accesslog: reading %s after line %d: %w", name, l.number, err))
				return
			}
			field := bareField(line)
			if len(field) == 0 && fault == NoFault {
				continue
			}
			a, err := bareAddress(field)
			if err != nil {
				err = &AddressError{Name: name, Number: l.number, Text: bytes.Clone(field[:min(len(field), 100)]), Network: errors.Is(err, errNetwork)}
			}
			if !yield(a, err) {
				return
			}
		}
	}
}

// AddressError is a line of a list that is no address.
type AddressError struct {
	Name   string
	Number int
	Text   []byte // hostile, at most 100 bytes
	// Network: it is one, as 192.0.2.0/24.
	Network bool
}

func (e *AddressError) Error() string {
	if e.Network {
		return fmt.Sprintf("accesslog: %s:%d: %q is a network, not an address", e.Name, e.Number, e.Text)
	}
	return fmt.Sprintf("accesslog: %s:%d: %q is no address", e.Name, e.Number, e.Text)
}

var (
	errNetwork   = errors.New("a network")
	errNoAddress = errors.New("no address")
)

// bareField is what stands first in a line.
func bareField(line []byte) []byte {
	if i := bytes.IndexByte(line, '#'); i >= 0 {
		line = line[:i]
	}
	line = bytes.TrimSpace(line)
	if i := bytes.IndexAny(line, " \t,;"); i >= 0 {
		line = line[:i]
	}
	return bytes.Trim(line, `"'`)
}

func bareAddress(field []byte) (netip.Addr, error) {
	if a, _, ok := parseAddrPort(field); ok {
		return a, nil
	}
	if i := bytes.IndexByte(field, '/'); i > 0 {
		if _, ok := parseAddr(field[:i]); ok {
			return netip.Addr{}, errNetwork
		}
	}
	return netip.Addr{}, errNoAddress
}
