package dnscheck

import (
	"net/netip"
	"time"

	"github.com/whyslow/whyslow/internal/millis"
)

// Schema names the JSON form of a Result.
const Schema = "whyslow/dns/1"

// Result is what resolving one name (or address) costs on this host.
type Result struct {
	Schema  string       `json:"schema"`
	Name    string       `json:"name"` // as given
	Started time.Time    `json:"started"`
	Elapsed millis.Value `json:"elapsed_ms"`
	Config  ConfigView   `json:"config"` // the resolver configuration in force
	// Stub is the resolution as a program on this host would have waited for it. Null for a literal address.
	Stub *Stub `json:"stub"`
	// Servers are the configured servers, each asked directly, a row per server, transport and type.
	Servers []Server `json:"servers"`
	// Cold are names that no cache can hold (a random label below the name's
	// zone), asked through each server that answers: the authority's cost.
	Cold []Server `json:"cold,omitempty"`
	// Controls are questions that a live resolver answers without asking
	// anybody (id.server, RFC 4892), and TCP handshakes: how far the server
	// is, and whether it lives at all.
	Controls []Server `json:"controls,omitempty"`
	// Reverse are the PTR lookups of the addresses found and of this host's own address.
	Reverse []Reverse `json:"reverse,omitempty"`
	// Walk is how the name was followed from the root, Delegation the zones on
	// the way, the root first. Walk is null where that was not done.
	Walk       *Walk  `json:"walk"`
	Delegation []Zone `json:"delegation"`

	Findings []Finding `json:"findings"`
	Warnings []string  `json:"warnings,omitempty"`
	// Interrupted says that ctx ended before everything was measured.
	Interrupted bool `json:"interrupted,omitempty"`
}

// ConfigView is the part of resolv.conf that decides how long a lookup takes.
type ConfigView struct {
	File        string       `json:"file"`
	Nameservers []string     `json:"nameservers"` // host:port
	Search      []string     `json:"search,omitempty"`
	Timeout     millis.Value `json:"timeout_ms"`
	Attempts    int          `json:"attempts"`
	Ndots       int          `json:"ndots"`
	Options     []string     `json:"options,omitempty"`
	// NameserverLines are the lines that named the nameservers, SearchLine and
	// OptionsLine those of the last search (or domain) and options line; 0
	// where the file has none and a default is in force.
	NameserverLines []int `json:"nameserver_lines,omitempty"`
	SearchLine      int   `json:"search_line,omitempty"`
	OptionsLine     int   `json:"options_line,omitempty"`
}

// Stub is one resolution by the rules of a stub resolver, really performed.
type Stub struct {
	Model   string       `json:"model"` // "glibc", "musl" or "go"
	Elapsed millis.Value `json:"elapsed_ms"`
	Addrs   []netip.Addr `json:"addrs"`
	CNAME   []string     `json:"cname,omitempty"` // the chain, in order
	Steps   []Step       `json:"steps"`
	// Rcode is the outcome: "NOERROR", "NODATA" (the name exists, without
	// addresses), "NXDOMAIN", "SERVFAIL", "timeout", "interrupted" …
	Rcode string `json:"rcode"`
	// Source is "hosts" where the hosts file answered, "dns" otherwise.
	Source string `json:"source"`
	// Name is the fully qualified name that Addrs belong to, any search
	// suffix included; empty if none was found.
	Name string `json:"name,omitempty"`
	// Notes are remarks on how this differs from what a program would see.
	Notes []string `json:"notes,omitempty"`
}

// Found reports whether there is an address to go on with.
func (s *Stub) Found() bool { return s != nil && len(s.Addrs) > 0 }

// Step is one query of a Stub, in the order a stub sends them.
type Step struct {
	Server  string       `json:"server"` // host:port
	Name    string       `json:"name"`   // with any search suffix
	Type    string       `json:"type"`
	At      millis.Value `json:"at_ms"` // since the stub began
	Elapsed millis.Value `json:"elapsed_ms"`
	// Rcode is the answer's, or "truncated", or an Outcome: "timeout",
	// "refused" (ICMP), "unreachable", "malformed", "mismatch", "closed",
	// "interrupted"; "abandoned" where the twin query decided the wait.
	Rcode     string `json:"rcode"`
	Transport string `json:"transport"` // "udp" or "tcp"
	Answers   int    `json:"answers"`
	TTL       *int   `json:"ttl"`     // the least TTL of the answer, s
	Attempt   int    `json:"attempt"` // 1-based round over the servers
	// Round numbers the waits of the stub, from 0: steps of one round ran side
	// by side, rounds one after the other, so the stub's time is the sum over
	// rounds.
	Round int `json:"round"`
	// EDE is the extended error of the answer (RFC 8914), if any.
	EDE string `json:"ede,omitempty"`
	// RecursionAvailable and Authoritative are the answer's RA and AA bits.
	RecursionAvailable bool `json:"ra,omitempty"`
	Authoritative      bool `json:"aa,omitempty"`
	// Referral says that the answer was empty, without recursion and without
	// authority, so that the stub went on.
	Referral bool `json:"referral,omitempty"`
}

// Server is a direct measurement of one server, for one type and transport.
type Server struct {
	Addr      string `json:"addr"`
	Transport string `json:"transport"`
	Name      string `json:"query"` // the name asked
	Type      string `json:"type"`
	Sent      int    `json:"sent"`
	Answered  int    `json:"answered"`
	Rcode     string `json:"rcode"` // the commonest outcome, as in Step
	// First is the time of the first query, which a cache may not have held;
	// the others are over the rest, which it does.
	First     millis.Value `json:"first_ms"`
	Min       millis.Value `json:"min_ms"`
	Median    millis.Value `json:"median_ms"`
	Max       millis.Value `json:"max_ms"`
	TTL       *int         `json:"ttl"`
	Answers   int          `json:"answers"`
	Truncated bool         `json:"truncated,omitempty"`
	// Wait is how long an unanswered query was waited for: Sent − Answered
	// times are censored at it and not in Min, Median, Max.
	Wait millis.Value `json:"wait_ms"`
	// Connect is the least TCP handshake time, also of refused handshakes,
	// which measure the way just as well; null for UDP.
	Connect millis.Value `json:"connect_ms,omitzero"`
	// Rcodes counts the outcomes.
	Rcodes map[string]int `json:"rcodes,omitempty"`
	// EDE is an extended error that was seen (RFC 8914).
	EDE string `json:"ede,omitempty"`
	// EDNS and CD say that the queries carried an OPT record, or the CD bit.
	EDNS bool `json:"edns,omitempty"`
	CD   bool `json:"cd,omitempty"`
	// Zone is the zone whose authority a cold question went to, as far as
	// the answers tell.
	Zone string `json:"zone,omitempty"`
	// Wildcard says that a random name was answered with records.
	Wildcard bool `json:"wildcard,omitempty"`
	// Lame says that the server answered without recursion and without
	// authority: a referral, or an empty answer with neither RA nor AA.
	Lame bool `json:"lame,omitempty"`
}

// Reverse is a PTR lookup.
type Reverse struct {
	Addr    netip.Addr   `json:"addr"`
	Of      string       `json:"of"` // "server" or "client"
	Names   []string     `json:"names"`
	Rcode   string       `json:"rcode"`
	Elapsed millis.Value `json:"elapsed_ms"`
	// Confirmed says that a name resolves back to the address (FCrDNS); null if not checked.
	Confirmed *bool `json:"confirmed"`
}

// Finding is one cause of slow or failing resolution, with its evidence.
type Finding struct {
	// Component is one of the dns components of the verdict contract.
	Component string `json:"component"`
	// Where is the guilty party: a server as resolv.conf names it (with its
	// port if that is not 53), a zone or name without its trailing dot, or the
	// search list.
	Where string `json:"where"`
	Text  string `json:"text"` // one sentence
	// Cost is what it added to the Stub's elapsed time; null if it added none
	// this time or is not known.
	Cost millis.Value `json:"cost_ms"`
	// Line is the guilty line of resolv.conf; 0 if there is none.
	Line int `json:"line,omitempty"`
	// Confirmed says that the direct measurements agree with what the stub
	// saw; false where only the stub saw it, once.
	Confirmed bool `json:"confirmed"`
}
