package trace

import (
	"net/netip"
	"time"

	"github.com/whyslow/whyslow/internal/millis"
	"github.com/whyslow/whyslow/internal/wire"
)

// EventKind says what an Event tells.
type EventKind string

// The kinds of event.
const (
	Begin   EventKind = "begin"   // a method is tried: Target, Method, Socket, FlowStable
	Sent    EventKind = "sent"    // a probe left: Seq, TTL
	Replied EventKind = "replied" // a probe was answered: Seq, TTL, Addr, RTT, ReplyTTL, Role, Answer, ICMPType, ICMPCode, Quote, Labels
	Counted EventKind = "counted" // a probe counts for another TTL than it was sent with, or for none (0): Seq, TTL, Round
	Shared  EventKind = "shared"  // an answer to another trace of a group stands here too: Seq and as Replied
	Named   EventKind = "named"   // a name was found: Addr, Text
	Origin  EventKind = "origin"  // an autonomous system was found: Addr, AS
	Warned  EventKind = "warned"  // something a reader should know: Text
	End     EventKind = "end"     // all probes were waited for
)

// Role is what an answer means for the path.
type Role string

// The roles.
const (
	RoleRouter      Role = "router"      // the probe died on the way
	RoleDestination Role = "destination" // the probe arrived
	RoleRefusal     Role = "refusal"     // someone said that nothing goes on from there
)

// Event is something that happened in a trace. Which fields are set depends on
// Kind. Events are plain data: a recorded run folds into the same Result.
type Event struct {
	Kind EventKind `json:"event"`
	At   time.Time `json:"at"`
	// Trace says which of a group's traces the event belongs to, from 0.
	Trace int `json:"trace,omitempty"`
	// View counts the methods tried, from 0: each is a view of the path of
	// its own, and the Result shows the best.
	View       int          `json:"view,omitempty"`
	Target     *Target      `json:"target,omitempty"`
	Method     string       `json:"method,omitempty"`
	Socket     string       `json:"socket,omitempty"`
	FlowStable bool         `json:"flow_stable,omitempty"`
	Seq        uint16       `json:"seq,omitempty"`
	TTL        int          `json:"ttl,omitempty"`
	Addr       netip.Addr   `json:"addr,omitzero"`
	RTT        millis.Value `json:"rtt_ms,omitzero"`
	ReplyTTL   int          `json:"reply_ttl,omitempty"`
	Role       Role         `json:"role,omitempty"`
	Answer     string       `json:"answer,omitempty"` // in words
	// ICMPType and ICMPCode are those of the answer; nil if it was no ICMP.
	ICMPType *int   `json:"icmp_type,omitempty"`
	ICMPCode *int   `json:"icmp_code,omitempty"`
	Text     string `json:"text,omitempty"`
	// Round counts the waves of a trace, from 0: of Sent.
	Round int `json:"round,omitempty"`
	// Quote is what a router's error showed of the probe; nil means nothing.
	Quote *Quote `json:"quote,omitempty"`
	// Labels are the MPLS labels the error carried, top first.
	Labels []wire.Label `json:"labels,omitempty"`
	// AS is the origin of Addr: of Origin.
	AS *AS `json:"as,omitempty"`
}

// AS is the autonomous system that announces an address, as a mapping service
// in the DNS tells it.
type AS struct {
	Number uint32 `json:"number"`
	Name   string `json:"name,omitempty"`   // as it came: escape it when shown
	Prefix string `json:"prefix,omitempty"` // the announced prefix
}
