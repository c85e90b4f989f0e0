package trace

import (
	"net/netip"
	"time"

	"github.com/whyslow/whyslow/internal/millis"
	"github.com/whyslow/whyslow/internal/wire"
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
	// Service is a sample by TCP connects to the port of the service, each a
	// flow of its own: what clients meet, where echoes may be treated otherwise
	// or take another of several paths. Null if not taken, as where echoes were
	// not lost and the trace was not by TCP.
	Service *Sampled `json:"service"`
	// Loaded is the same while a transfer ran, taken by SampleLoaded.
	Loaded *Sampled `json:"loaded,omitempty"`
	// NAT is the first hop that saw the probes translated; null if none did,
	// or if it cannot be seen.
	NAT *Place `json:"nat"`
	// MSSClamp is where the MSS of SYNs was lowered; null if nowhere visible.
	MSSClamp *MSSClamp `json:"mss_clamp"`
	// TOSChange is where the DSCP or ECN bits of the probes were first changed;
	// null if nowhere visible.
	TOSChange *TOSChange `json:"tos_change"`
	// Epochs are the routes seen one after the other; empty if it never
	// changed. Hops then tells of the last.
	Epochs []Epoch `json:"epochs,omitempty"`
	// Paths are the parallel paths that Discover found; null if not asked for.
	Paths    *Paths     `json:"paths,omitempty"`
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
	// Shared says that the answers are those another trace of a Group got:
	// the paths have the hop in common, and it was asked for one of them.
	Shared bool `json:"shared,omitempty"`
	// Waited is how long answers of a silent hop were waited for; absent if the
	// hop is not silent, or if that is not known.
	Waited millis.Value `json:"waited_ms,omitzero"`
	// Sent and Received count the probes of this TTL and their answers.
	Sent     int `json:"sent"`
	Received int `json:"received"`
	// MTU is the path MTU from the source up to and including this hop, bytes; null if not measured.
	MTU     *int      `json:"mtu"`
	Loss    float64   `json:"loss"` // share of probes without an answer, 0…1; 1 if silent
	Replies []Replier `json:"replies"`
	// Overall are the times of all answers, where several addresses answered.
	Overall *Times `json:"overall,omitempty"`
	// Limit is the pace to which the hop limits its errors; null if none shows.
	Limit *Limit `json:"limit,omitempty"`
	// Ebbed says that the answers stopped: of its few probes each that was
	// answered left before each that was not. A router whose errors are spent
	// looks so.
	Ebbed bool `json:"ebbed,omitempty"`
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
	Last     millis.Value   `json:"last_ms"`
	Mean     millis.Value   `json:"mean_ms"`
	StdDev   millis.Value   `json:"stddev_ms"`         // of the sample; null below two
	RTTs     []millis.Value `json:"rtts_ms,omitempty"` // the latest 120, in order of sending
	ReplyTTL int            `json:"reply_ttl"`         // TTL of its replies on arrival; 0 means unknown
	// ICMP is the answer in words: "time exceeded", "echo reply", "port
	// unreachable", "administratively prohibited", "syn-ack" …
	ICMP string `json:"icmp"`
	// ICMPType and ICMPCode are the same in numbers; null if the answer was
	// no ICMP.
	ICMPType *int `json:"icmp_type"`
	ICMPCode *int `json:"icmp_code"`
	// Jitter is the mean difference between one round trip and the next.
	Jitter millis.Value `json:"jitter_ms"`
	// HopsBack is the length of the way back by ReplyTTL; null if unknown. One
	// that differs from the hop's TTL is a way back of another length.
	HopsBack *int `json:"hops_back"`
	// Labels are the MPLS labels (RFC 4950) its errors carried, top first.
	Labels []wire.Label `json:"labels,omitempty"`
	// Quote is what its latest error showed of the probe; null if nothing.
	Quote *Quote `json:"quote,omitempty"`
	// AS is the autonomous system of Addr; null if not asked for or unknown.
	AS *AS `json:"as,omitempty"`
}

// Times sums up round trips. Median and P95 are exact up to 2048 of them and
// within 1 % beyond; the rest is exact always.
type Times struct {
	Min    millis.Value `json:"min_ms"`
	Median millis.Value `json:"median_ms"`
	P95    millis.Value `json:"p95_ms"`
	Max    millis.Value `json:"max_ms"`
	Last   millis.Value `json:"last_ms"`
	Mean   millis.Value `json:"mean_ms"`
	StdDev millis.Value `json:"stddev_ms"` // of the sample; null below two
	Jitter millis.Value `json:"jitter_ms"` // as in Replier
}

// Limit is a limit on ICMP errors, as the times of a hop's answers show it.
type Limit struct {
	Burst int          `json:"burst"`    // answers in a row before it set in; 0 means not seen
	Every millis.Value `json:"every_ms"` // least time between two answers since
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
// (R1 to R10, N1 to N5, docs/reading.md) that it rests on.
type Sentence struct {
	Rule string `json:"rule"`
	Text string `json:"text"`
}

// Place is a hop and, if it answered, its address.
type Place struct {
	TTL  int        `json:"ttl"`
	Addr netip.Addr `json:"addr,omitzero"`
}

// MSSClamp is a lowered MSS option. The clamp sits on the link to the hop, or
// in the router before it: the hop's error is the first that quotes the lower
// value.
type MSSClamp struct {
	Place
	From int `json:"from"` // bytes, as sent
	To   int `json:"to"`
}

// TOSChange is a rewritten IPv4 TOS or IPv6 traffic class octet. Where it was
// done is as with MSSClamp.
type TOSChange struct {
	Place
	From int `json:"from"` // as sent
	To   int `json:"to"`
}

// Epoch is a time in which the route did not change.
type Epoch struct {
	Started time.Time `json:"started"`
	// Rounds is how many rounds it lasted.
	Rounds int `json:"rounds"`
	// Hops are the addresses by TTL, from 1; the zero Addr where nobody
	// answered.
	Hops []netip.Addr `json:"hops"`
}
