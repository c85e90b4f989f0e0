package trace

import (
	"github.com/whyslow/whyslow/internal/netprobe"
	"github.com/whyslow/whyslow/internal/wire"
)

// Quote is how a probe looked when a router quoted it: what was changed on the
// way there. A nil pointer means not visible.
type Quote struct {
	TTL *int `json:"ttl,omitempty"` // normally 1
	TOS *int `json:"tos,omitempty"` // DSCP and ECN; sent as 0
	MSS *int `json:"mss,omitempty"` // of a SYN, bytes
	// Translated says that a NAT changed the probe before it came there.
	Translated *bool `json:"translated,omitempty"`
}

// quoteOf is what a reply shows of the probe, nil if nothing. A quoted header
// is seen with privilege only, but a SYN that is quoted up to its checksum
// tells of translation and clamping to everyone.
func quoteOf(r wire.Reply, m netprobe.Method) *Quote {
	if r.QuotedLen == 0 {
		return nil
	}
	var q Quote
	if r.QuotedTTL >= 0 {
		ttl := r.QuotedTTL
		q.TTL = &ttl
		if r.QuotedTOS >= 0 {
			tos := r.QuotedTOS
			q.TOS = &tos
		}
	}
	if r.QuotedMSS > 0 && m == netprobe.TCP {
		mss := r.QuotedMSS
		q.MSS = &mss
	}
	if seen := checksumSeen(r, m); seen || r.Translated {
		translated := r.Translated
		q.Translated = &translated
	}
	if q == (Quote{}) {
		return nil
	}
	return &q
}

// checksumSeen reports whether the quote reaches so far that a translation
// would show: no NAT can change an address or a port and leave the checksum,
// but the one that translates the error back repairs what else it quotes.
func checksumSeen(r wire.Reply, m netprobe.Method) bool {
	switch m {
	case netprobe.TCP:
		return r.QuotedLen >= 18
	case netprobe.ICMP, netprobe.UDP:
		return r.QuotedTTL >= 0 && r.QuotedLen >= 8
	}
	return false
}
