package diagnose

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/miekg/dns"

	"github.com/whyslow/whyslow/dnscheck"
	"github.com/whyslow/whyslow/trace"
)

const (
	// originZone is Team Cymru's mapping of addresses to autonomous systems:
	// <reversed address>.origin.<zone> and .origin6.<zone> hold "number |
	// prefix | country | registry | date", AS<number>.<zone> the number, three
	// more fields and the name.
	originZone = "asn.cymru.com"

	maxOrigins   = 4096 // prefixes remembered
	maxASName    = 128  // bytes
	maxOriginTXT = 16   // records read of one answer: a prefix may have several origins
)

// Origins looks up the autonomous systems of addresses in the DNS. It tells the zone's owner whom somebody traces, so it is for those who ask
// for it. What is told is the network of an address, the first 24 bits of it or
// 48, and each only once. Addresses that no registry assigns to anybody are not
// asked for; a zone of one's own is asked for private ones too.
type Origins struct {
	asker
	zone string
	own  bool // the zone is not the public one

	mu       sync.Mutex
	networks map[netip.Prefix]*network
	names    map[uint32]string
	asked    int // prefixes asked for
	answered int // of these, by anybody
}

// NewOrigins asks the configured resolvers, at a port of which zero is none, in
// a zone, by default Team Cymru's.
func NewOrigins(ex dnscheck.Exchanger, conf *dnscheck.Config, port uint16, zone string) *Origins {
	zone = strings.ToLower(strings.Trim(zone, "."))
	return &Origins{asker: asker{ex, conf, port}, zone: cmp.Or(zone, originZone), own: zone != "" && zone != originZone,
		networks: make(map[netip.Prefix]*network), names: make(map[uint32]string)}
}

// Zone is the zone that is asked.
func (o *Origins) Zone() string { return o.zone }

// Unanswered reports whether something was asked for and nobody has answered
// anything: then that no origin is known says nothing of the addresses.
func (o *Origins) Unanswered() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.asked > 0 && o.answered == 0
}

// network is what is known of the addresses that share a question.
type network struct {
	done chan struct{} // closed once as is known
	as   *trace.AS
	lost bool // nobody answered: ask again
}

// copy is for the caller alone.
func (n *network) copy() *trace.AS {
	if n.as == nil {
		return nil
	}
	as := *n.as
	return &as
}

// Find returns the origin of an address, nil where it has none or nobody answers.
// It suits trace.Options.Origin.
func (o *Origins) Find(ctx context.Context, addr netip.Addr) *trace.AS {
	addr = addr.Unmap().WithZone("")
	if !o.asks(addr) {
		return nil
	}
	bits := 48
	if addr.Is4() {
		bits = 24
	}
	prefix, err := addr.Prefix(bits)
	if err != nil {
		return nil
	}
	for ctx.Err() == nil {
		o.mu.Lock()
		n, known := o.networks[prefix]
		if !known {
			if len(o.networks) >= maxOrigins {
				clear(o.networks) // those under way still end
			}
			n = &network{done: make(chan struct{})}
			o.networks[prefix] = n
		}
		o.mu.Unlock()
		if !known {
			o.ask(ctx, prefix, n)
		}
		select {
		case <-n.done:
		case <-ctx.Done():
			return nil
		}
		if !n.lost || !known {
			return n.copy()
		}
	}
	return nil
}

// asks reports whether an address can have an origin.
func (o *Origins) asks(a netip.Addr) bool {
	if !a.IsGlobalUnicast() || a.IsLoopback() {
		return false
	}
	return o.own || !a.IsPrivate() && !unassigned(a)
}

// special are the blocks that no registry assigns to a network: RFC 6890 and
// its updates.
var special = [...]netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("198.18.0.0/15"), netip.MustParsePrefix("198.51.100.0/24"),
	netip.MustParsePrefix("203.0.113.0/24"), netip.MustParsePrefix("240.0.0.0/4"),
	netip.MustParsePrefix("2001::/23"), netip.MustParsePrefix("2001:db8::/32"), netip.MustParsePrefix("2002::/16"),
	netip.MustParsePrefix("3fff::/20"),
}

func unassigned(a netip.Addr) bool {
	for _, p := range special {
		if p.Contains(a) {
			return true
		}
	}
	return a.Is6() && a.As16()[0]&0xe0 != 0x20 // outside 2000::/3 nothing is
}

// ask fills n and forgets it again if nobody answered.
func (o *Origins) ask(ctx context.Context, prefix netip.Prefix, n *network) {
	m := o.any(ctx, originName(prefix.Addr(), o.zone), dns.TypeTXT)
	o.mu.Lock()
	o.asked++
	if m != nil {
		o.answered++
	}
	o.mu.Unlock()
	if m != nil {
		n.as = originOf(m, prefix.Addr())
	}
	if n.as != nil {
		n.as.Name = o.name(ctx, n.as.Number)
	}
	if n.lost = m == nil; n.lost {
		o.mu.Lock()
		if o.networks[prefix] == n {
			delete(o.networks, prefix)
		}
		o.mu.Unlock()
	}
	close(n.done)
}

// name is the name of an autonomous system, "" if unknown.
func (o *Origins) name(ctx context.Context, number uint32) string {
	o.mu.Lock()
	name, known := o.names[number]
	o.mu.Unlock()
	if known {
		return name
	}
	m := o.any(ctx, fmt.Sprintf("AS%d.%s.", number, o.zone), dns.TypeTXT)
	if m == nil {
		return ""
	}
	name = asNameOf(m, number)
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.names) >= maxOrigins {
		clear(o.names)
	}
	o.names[number] = name
	return name
}

// originName is where the zone tells of an address.
func originName(a netip.Addr, zone string) string {
	arpa, _ := dns.ReverseAddr(a.String()) // an address cannot fail
	if a.Is4() {
		return strings.TrimSuffix(arpa, "in-addr.arpa.") + "origin." + zone + "."
	}
	return strings.TrimSuffix(arpa, "ip6.arpa.") + "origin6." + zone + "."
}

// originOf is the origin with the longest prefix that holds an address.
func originOf(m *dns.Msg, a netip.Addr) *trace.AS {
	var best *trace.AS
	longest := -1
	for _, f := range fields(m) {
		as, bits := parseOrigin(f, a)
		if as != nil && bits > longest {
			best, longest = as, bits
		}
	}
	return best
}

// parseOrigin reads "64500 64501 | 192.0.2.0/24 | …". Of several origins of
// one prefix the first is named.
func parseOrigin(f []string, a netip.Addr) (as *trace.AS, bits int) {
	if len(f) < 2 {
		return nil, 0
	}
	first, _, _ := strings.Cut(f[0], " ")
	number := asNumber(first)
	prefix, err := netip.ParsePrefix(f[1])
	if number == 0 || err != nil || !prefix.Contains(a) {
		return nil, 0
	}
	return &trace.AS{Number: number, Prefix: prefix.Masked().String()}, prefix.Bits()
}

// asNameOf reads "64500 | US | arin | 2000-01-01 | EXAMPLE-NET - Example, US".
func asNameOf(m *dns.Msg, number uint32) string {
	for _, f := range fields(m) {
		if len(f) < 5 || asNumber(f[0]) != number {
			continue
		}
		name := strings.Join(f[4:], " | ")
		if len(name) > maxASName {
			name = name[:maxASName]
			for !utf8.ValidString(name) && len(name) > maxASName-utf8.UTFMax {
				name = name[:len(name)-1] // not in the middle of a character
			}
		}
		return strings.ToValidUTF8(name, "\ufffd")
	}
	return ""
}

func asNumber(s string) uint32 {
	n, err := strconv.ParseUint(strings.TrimPrefix(s, "AS"), 10, 32)
	if err != nil {
		return 0
	}
	return uint32(n)
}

// fields are the texts of an answer, each split at its bars.
func fields(m *dns.Msg) [][]string {
	var all [][]string
	for _, rr := range m.Answer {
		txt, ok := rr.(*dns.TXT)
		if !ok {
			continue
		}
		f := strings.Split(strings.Join(txt.Txt, ""), "|")
		for i := range f {
			f[i] = strings.TrimSpace(f[i])
		}
		if all = append(all, f); len(all) == maxOriginTXT {
			break
		}
	}
	return all
}
