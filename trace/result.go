package trace

import (
	"net/netip"
	"time"

	"github.com/whyslow/whyslow/internal/millis"
)

// Schema names the JSON form of a Result.
const Schema = "whyslow/trace/1"

// Result is a finished (or interrupted) trace.
type Result struct {
	Schema     string       `json:"schema"`
	Target     Target       `json:"target"`
	Started    time.Time    `json:"started"`
	Elapsed    millis.Value `json:"elapsed_ms"`
	Method     string       `json:"method"` // "icmp", "udp", "tcp"
	Socket     string       `json:"socket"` // how the host sent them, see netprobe.Info
	FlowStable bool         `json:"flow_stable"`
	Reached    bool         `json:"reached"`
	// HopCount is the TTL at which the destination answered; null if it never did.
	HopCount *int `json:"hop_count"`
	// BackCount is the length of the way back, told by the TTL of the
	// destination's reply; null if unknown.
	BackCount *int `json:"back_count"`
	// PMTU is filled in by whoever measured it; null means not measured here.
	PMTU *int  `json:"pmtu"`
	Hops []Hop `json:"hops"`
	// Destination is the loss and latency sample of the destination itself:
	// echoes that no router's error limit touches. Null if not taken.
	Destination *Sampled `json:"destination"`
	// Loaded is the same while a transfer ran, taken by SampleLoaded.
	Loaded   *Sampled   `json:"loaded,omitempty"`
	Reading  []Sentence `json:"reading"`
	Warnings []string   `json:"warnings,omitempty"`
}

// Target is what was traced.
type Target struct {
	Name string     `json:"name"` // as given
	Addr netip.Addr `json:"addr"`
	Port uint16     `json:"port,omitempty"` // of the probes, udp and tcp only
}

// Hop is one TTL of the path.
type Hop struct {
	TTL    int  `json:"ttl"`
	Silent bool `json:"silent"` // nobody answered at this TTL
	// Sent and Received count the probes of this TTL and their answers.
	Sent     int `json:"sent"`
	Received int `json:"received"`
	// MTU is the path MTU from the source up to and including this hop, bytes; null if not measured.
	MTU     *int      `json:"mtu"`
	Loss    float64   `json:"loss"` // share of probes without an answer, 0…1; 1 if silent
	Replies []Replier `json:"replies"`
	// Direct is the loss and latency sample of the hop's address itself,
	// asked by echo (not by an expiring TTL), so that error limits do not
	// touch it. Null if not taken.
	Direct *Sampled `json:"direct,omitempty"`
	// Loaded is the same while a transfer ran, taken by SampleLoaded.
	Loaded *Sampled `json:"loaded,omitempty"`
}

// Replier is one address that answered at a hop.
type Replier struct {
	Addr netip.Addr `json:"addr"`
	Name string     `json:"name,omitempty"` // PTR, as it came: escape it when shown
	// Sent is the hop's count if only one address answered there. Of several,
	// nobody knows which one an unanswered probe met, and Sent is Received.
	Sent     int            `json:"sent"`
	Received int            `json:"received"`
	Min      millis.Value   `json:"min_ms"`
	Median   millis.Value   `json:"median_ms"`
	P95      millis.Value   `json:"p95_ms"`
	Max      millis.Value   `json:"max_ms"`
	RTTs     []millis.Value `json:"rtts_ms,omitempty"` // in order of sending
	ReplyTTL int            `json:"reply_ttl"`         // TTL of its replies on arrival; 0 means unknown
	// ICMP is the answer in words: "time exceeded", "echo reply", "port
	// unreachable", "administratively prohibited", "syn-ack" …
	ICMP string `json:"icmp"`
	// Labels are the MPLS labels (RFC 4950) its errors carried.
	Labels []int `json:"labels,omitempty"`
}

// Sampled is a run of direct probes to one address.
type Sampled struct {
	Sent     int          `json:"sent"`
	Received int          `json:"received"`
	Loss     float64      `json:"loss"` // 0…1
	Min      millis.Value `json:"min_ms"`
	Median   millis.Value `json:"median_ms"`
	P95      millis.Value `json:"p95_ms"`
	Max      millis.Value `json:"max_ms"`
	// Method is "icmp" or "tcp".
	Method string `json:"method"`
	// LossLow and LossHigh are the 95 % interval of the loss: 0 of 20 still
	// allows 16 %.
	LossLow  float64 `json:"loss_low"`
	LossHigh float64 `json:"loss_high"`
}

// Sentence is one conclusion about the path in plain language and the rule
// (R1 to R10, docs/reading.md) that it rests on.
type Sentence struct {
	Rule string `json:"rule"`
	Text string `json:"text"`
}
