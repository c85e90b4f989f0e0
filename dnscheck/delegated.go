package dnscheck

import (
	"net/netip"
	"time"

	"github.com/whyslow/whyslow/internal/millis"
)

// This file holds what a walk from the root found; package delegation, which
// lies above this one, walks.

// Walk says how following a name from the root ended.
type Walk struct {
	Name string `json:"name"` // asked, without trailing dot
	Type string `json:"type"`
	// Outcome is "answered", "nxdomain", "nodata"; "broken" where no server
	// of a zone answers for it; "cycle" of delegations or aliases; "limit" of
	// zones or queries; "filtered" where no root server answers at all,
	// "intercepted" where something else answers in their place; "interrupted";
	// "skipped" for a name that the public root does not know.
	Outcome string `json:"outcome"`
	// Conclusive says that Outcome is what the world sees. It is false where
	// the walk could not go on, or where this host's resolver knows better.
	Conclusive bool   `json:"conclusive"`
	Note       string `json:"note,omitempty"` // one sentence on why not, or on where it ended
	// Zone is the last zone reached.
	Zone    string   `json:"zone"`
	Answers []string `json:"answers"` // of the type asked, at most 16
	TTL     *int     `json:"ttl"`     // the authority's own, s
	Aliases []Alias  `json:"aliases,omitempty"`
	// Wildcard says that the answer was made from a wildcard; null if not
	// checked.
	Wildcard *bool `json:"wildcard"`
	// Security is "secure", "unsigned", "bogus" (a validating resolver answers
	// SERVFAIL), "unsupported" (an algorithm that is not checked here), or
	// "unchecked".
	Security string `json:"security"`
	// Reason says why Security is not "secure".
	Reason  string       `json:"reason,omitempty"`
	Queries int          `json:"queries"`
	Elapsed millis.Value `json:"elapsed_ms"`
}

// Alias is one link of the chain that a name leads along.
type Alias struct {
	Name   string `json:"name"`
	Type   string `json:"type"` // "CNAME" or "DNAME"
	Target string `json:"target"`
	Zone   string `json:"zone"` // that holds it
	TTL    *int   `json:"ttl"`
}

// Zone is one zone on the way, as its parent and its own servers describe it.
type Zone struct {
	Name string `json:"zone"` // without trailing dot; "." is the root
	// Last says that the name, or an alias on its way, is in this zone: its
	// servers were timed, the others only asked.
	Last bool `json:"last,omitempty"`
	// ParentNS and ChildNS are the names of its servers as the parent and the
	// zone itself have them. ParentNS is empty for the root, and where one
	// server holds parent and child so that no cut can be seen.
	ParentNS  []string `json:"parent_ns"`
	ChildNS   []string `json:"child_ns"`
	ParentTTL *int     `json:"parent_ttl"` // of the NS records, s
	ChildTTL  *int     `json:"child_ttl"`
	// NegativeTTL is how long a resolver keeps "no such name", s: the lesser
	// of the SOA's own TTL and its MINIMUM (RFC 2308, section 5).
	NegativeTTL *int `json:"negative_ttl"`
	// Servers are all its name servers' addresses, and those names that have none.
	Servers []Authority `json:"servers"`
	DNSSEC  Signatures  `json:"dnssec"`
	// Remarks are facts that are no fault by themselves.
	Remarks []string `json:"remarks,omitempty"`
}

// Authority is one address of one server of a zone.
type Authority struct {
	Names []string `json:"names"` // of the server, usually one
	// Addr is the zero address for a name that has none.
	Addr netip.Addr `json:"addr"`
	// Status is "ok"; "lame" (it answers, but not for this zone), "dead"
	// (nothing came), "refused" (its port is closed), "lossy"; "broken" where
	// its answers cannot be read; "no-address"; "unreached" where this host
	// cannot tell, as for IPv6 without a route; "unasked".
	Status string `json:"status"`
	Reason string `json:"reason,omitempty"`
	// Listed is "both", "parent" or "child": whose NS records name it; empty
	// where one of them is not known.
	Listed string `json:"listed,omitempty"`
	// Glue is "same", "differs" or "missing": the parent's address for the
	// name against the zone's own; empty if there was nothing to compare.
	Glue string `json:"glue,omitempty"`

	UDP AuthorityTimes `json:"udp"`
	TCP AuthorityTimes `json:"tcp"`
	// EDNS is "ok", "refused" (FORMERR, NOTIMP or BADVERS) or "dropped": no
	// answer to queries with EDNS, but to one without. Empty if not known.
	EDNS   string  `json:"edns,omitempty"`
	Serial *uint32 `json:"serial"`
	// Signatures says what is wrong with the signatures this server gave for
	// its SOA; empty if nothing is, or if there should be none.
	Signatures string `json:"signatures,omitempty"`
}

// AuthorityTimes are the queries to an authority over one transport.
type AuthorityTimes struct {
	Sent     int          `json:"sent"`
	Answered int          `json:"answered"`
	Rcode    string       `json:"rcode"` // as in Step, of the last query
	Min      millis.Value `json:"min_ms"`
	Median   millis.Value `json:"median_ms"`
	Max      millis.Value `json:"max_ms"`
}

// Signatures is how a zone is signed and how its parent vouches for it.
type Signatures struct {
	// Status is as Walk.Security, for this zone.
	Status string   `json:"status"`
	Reason string   `json:"reason,omitempty"`
	DS     []string `json:"ds,omitempty"`   // "tag algorithm digest-type", at the parent (or the trust anchors)
	Keys   []string `json:"keys,omitempty"` // "tag algorithm flags", at the zone
	// Expires is when the first of the signatures seen ends; null if none was.
	Expires *time.Time `json:"expires"`
}
