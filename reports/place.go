package reports

import (
	"fmt"
	"net/netip"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/whyslow/whyslow/internal/millis"
	"github.com/whyslow/whyslow/trace"
)

// linkPlace names the link between two hops: the address that answers behind
// it, and the hops. The link is named, never the router: a delay belongs to
// what lies between two answers.
func linkPlace(from, to int, addr netip.Addr) string {
	link := fmt.Sprintf("link %d-%d", from, to)
	if !addr.IsValid() {
		return link
	}
	return fmt.Sprintf("%s (hop %d), %s", addr, to, link)
}

func segmentPlace(s trace.Segment) string { return linkPlace(s.FromTTL, s.ToTTL, s.To) }

// limiterPlace is where the path towards the server narrows; the way back
// usually narrows at the same link.
func (v *view) limiterPlace() string {
	p := v.r.PMTU
	if p == nil || p.Limiter == nil {
		return "between " + v.r.Target.Host + " and this host"
	}
	return linkPlace(p.Limiter.TTL, p.Limiter.TTL+1, p.Limiter.Addr)
}

// narrowPlace is where a link that limits the transfer may be: unknown without
// a trace under load.
func (v *view) narrowPlace() string { return "on the path" }

// ms writes a duration for people.
func ms(d time.Duration) string { return millis.Of(d).String() }

func lowerFirst(s string) string {
	r, n := utf8.DecodeRuneInString(s)
	next, _ := utf8.DecodeRuneInString(s[n:])
	if unicode.IsUpper(next) { // an acronym
		return s
	}
	return string(unicode.ToLower(r)) + s[n:]
}

func upperFirst(s string) string {
	r, n := utf8.DecodeRuneInString(s)
	if n == 0 {
		return s
	}
	return string(unicode.ToUpper(r)) + s[n:]
}

func trimStop(s string) string { return strings.TrimRight(s, ". ") }
