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

// segmentPhrase is segmentPlace within a sentence.
func segmentPhrase(s trace.Segment) string {
	from := fmt.Sprintf("hop %d", s.FromTTL)
	if s.FromTTL == 0 {
		from = "this host"
	}
	to := fmt.Sprintf("hop %d", s.ToTTL)
	if s.To.IsValid() {
		to += fmt.Sprintf(" (%s)", s.To)
	}
	if s.ToTTL-s.FromTTL > 1 {
		return fmt.Sprintf("the way from %s to %s", from, to)
	}
	return fmt.Sprintf("the link between %s and %s", from, to)
}

// limiterPlace is where the path towards the server narrows; the way back
// usually narrows at the same link.
func (v *view) limiterPlace() string {
	p := v.r.PMTU
	if p == nil || p.Limiter == nil {
		return "between " + v.r.Target.Host + " and this host"
	}
	behind := p.Limiter.TTL + 1
	var addr netip.Addr
	if v.r.Trace != nil {
		for _, h := range v.r.Trace.Hops {
			if h.TTL == behind && len(h.Replies) > 0 {
				addr = h.Replies[0].Addr
			}
		}
	}
	return linkPlace(p.Limiter.TTL, behind, addr)
}

// narrowPlace is the link whose queue a transfer fills: from there on, and not
// before, round trips grow while it runs.
func (v *view) narrowPlace() string {
	t := v.r.Trace
	if t == nil || t.Loaded == nil {
		return anywhere
	}
	grown, ok := growth(t.Destination, t.Loaded)
	if !ok {
		return anywhere
	}
	from, to := 0, 0
	for _, h := range t.Hops {
		own, ok := growth(h.Direct, h.Loaded)
		switch {
		case !ok:
		case own < grown/2:
			from, to = h.TTL, 0
		case to == 0:
			to = h.TTL
		}
	}
	if to == 0 && t.HopCount != nil {
		to = *t.HopCount
	}
	if to == 0 {
		return anywhere
	}
	return fmt.Sprintf("link %d-%d", from, to)
}

// growth is by how much a round trip grew under load.
func growth(idle, loaded *trace.Sampled) (time.Duration, bool) {
	if idle == nil || loaded == nil {
		return 0, false
	}
	before, ok1 := idle.Median.Get()
	during, ok2 := loaded.Median.Get()
	return during - before, ok1 && ok2
}

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
