package pmtu

import (
	"net/netip"
	"time"

	"github.com/whyslow/whyslow/internal/millis"
)

// Schema names the JSON form of a Result.
const Schema = "whyslow/pmtu/1"

// Result is a measured path MTU. Sizes are bytes, IP header included; null
// means not measured or not known.
type Result struct {
	Schema       string       `json:"schema"`
	Target       Target       `json:"target"`
	Started      time.Time    `json:"started"`
	Elapsed      millis.Value `json:"elapsed_ms"`
	Method       string       `json:"method"`
	MTU          *int         `json:"mtu"`           // the largest size that passed
	AtLeast      *int         `json:"at_least"`      // the largest size seen to pass, confirmed as MTU or not
	InterfaceMTU *int         `json:"interface_mtu"` // of the first link
	ClaimedMTU   *int         `json:"claimed_mtu"`   // what a router said, true or not
	CachedMTU    *int         `json:"cached_mtu"`    // what the kernel had learned before
	Signalled    bool         `json:"signalled"`     // a router said "too big" where the path narrows
	BlackHole    bool         `json:"black_hole"`    // the path narrows and nobody says so
	Limiter      *Limiter     `json:"limiter"`
	// Tunnel is what the MTU, or that of a black hole on the way back, suggests
	// is on the way, the likeliest first: a guess, see Suggests.
	Tunnel   []string `json:"tunnel,omitempty"`
	Backward Backward `json:"backward"`
	Steps    []Step   `json:"steps,omitempty"` // the path MTU hop by hop, see HopMTU
	Packets  int      `json:"packets"`         // sent in all
	Locating int      `json:"locate_packets"`  // of these, sent to find the limiter
	Warnings []string `json:"warnings,omitempty"`
}

// Target is what was measured.
type Target struct {
	Name string     `json:"name"`
	Addr netip.Addr `json:"addr"`
}

// Limiter is the hop whose next link is the narrow one: the last hop that a
// packet of MTU+1 bytes reaches.
type Limiter struct {
	TTL  int        `json:"ttl"`
	Addr netip.Addr `json:"addr"` // the zero Addr (JSON "") if the hop is silent
}

// Backward is the direction server to client, which only an experiment over
// HTTP can test: a page is fetched with segments of several sizes. See
// Options.Fetch.
type Backward struct {
	MTU       *int  `json:"mtu"`        // the largest packet that is known to come through
	BlackHole *bool `json:"black_hole"` // larger ones vanish, though the server was free to send them
	// EchoLimit is the largest echo that came back although larger packets
	// arrive; null if there is no such difference.
	EchoLimit *int `json:"echo_limit"`
	// OurMSS is the largest segment we ask the server for, PeerMSS the largest
	// that it, or a box on the way, asks us for, as far as our own MTU lets it
	// be seen; LargestMSS is the largest that came. Bytes, TCP options
	// included; null if no connection stood.
	OurMSS     *int `json:"our_mss"`
	PeerMSS    *int `json:"peer_mss"`
	LargestMSS *int `json:"largest_mss"`
	// Fetches are the requests of the experiment, in order.
	Fetches []Fetched `json:"fetches,omitempty"`
	// Note says why the experiment told nothing; empty if it did.
	Note string `json:"note,omitempty"`
}
