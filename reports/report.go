package reports

import (
	"time"

	"github.com/whyslow/whyslow/dnscheck"
	"github.com/whyslow/whyslow/httpcheck"
	"github.com/whyslow/whyslow/internal/millis"
	"github.com/whyslow/whyslow/pmtu"
	"github.com/whyslow/whyslow/trace"
)

// Schema names the JSON form of a Report.
const Schema = "whyslow/report/1"

// Report is everything that was seen of one target, and what it means. An
// instrument that did not run is nil.
type Report struct {
	Schema      string            `json:"schema"`
	Tool        Tool              `json:"tool"`
	Target      Target            `json:"target"`
	Started     time.Time         `json:"started"` // UTC
	Elapsed     millis.Value      `json:"elapsed_ms"`
	Interrupted bool              `json:"interrupted,omitempty"` // Ctrl-C or --max-time cut it short
	Verdict     Verdict           `json:"verdict"`
	HTTP        *httpcheck.Result `json:"http"`
	DNS         *dnscheck.Result  `json:"dns"`
	Trace       *trace.Result     `json:"trace"`
	PMTU        *pmtu.Result      `json:"pmtu"`
	Environment Environment       `json:"environment"`
}

// Tool identifies the program that made the report.
type Tool struct {
	Name    string   `json:"name"`
	Version string   `json:"version"`
	Argv    []string `json:"argv"`
}

// Target is what was diagnosed.
type Target struct {
	URL  string `json:"url"` // credentials and query values removed
	Host string `json:"host"`
	Port uint16 `json:"port"`
	Addr string `json:"addr,omitempty"` // the address that was measured
}

// Environment is what a reader at the other end asks first.
type Environment struct {
	Hostname string   `json:"hostname,omitempty"`
	OS       string   `json:"os"`
	Kernel   string   `json:"kernel,omitempty"`
	Source   string   `json:"source,omitempty"` // local address towards the target
	Resolver string   `json:"resolver,omitempty"`
	Notes    []string `json:"notes,omitempty"`
}

// Verdict is what a report means. The zero Verdict is no verdict yet.
type Verdict struct {
	Layer Layer `json:"layer"`
	// Component is one of the contract's components of the layer; nil if
	// inconclusive.
	Component *string `json:"component"`
	Where     string  `json:"where"`
	// Confidence is the probability, 0…1, that layer, component and place are
	// all right.
	Confidence float64 `json:"confidence"`
	Slow       bool    `json:"slow"`
	Mixed      bool    `json:"mixed"`
	Summary    string  `json:"summary"` // one sentence a manager can read
	Blame      []Blame `json:"blame"`
	// Typical is how long a cold load of the page took, Healthy how long it
	// would with every fault in Blame gone.
	Typical  millis.Value `json:"typical_ms"`
	Healthy  millis.Value `json:"healthy_ms"`
	Evidence []Evidence   `json:"evidence"`
	RuledOut []string     `json:"ruled_out"`
	Next     []string     `json:"next"`
	Warnings []string     `json:"warnings"`
	// Failed says that the target could not be measured at all: no such name,
	// refused, no route, bad certificate. Component says which.
	Failed bool `json:"failed,omitempty"`
}

// Layer is the party that a slow response is pinned on.
type Layer string

// The layers.
const (
	Network      Layer = "network"
	DNS          Layer = "dns"
	Server       Layer = "server"
	Client       Layer = "client"
	None         Layer = "none"
	Inconclusive Layer = "inconclusive"
)

// Blame is one component's part of the excess over a healthy response. The
// shares of a verdict sum to 1 where there is any excess.
type Blame struct {
	Layer     Layer   `json:"layer"`
	Component string  `json:"component"`
	Where     string  `json:"where"`
	MS        float64 `json:"ms"`    // its Shapley share of the excess, ms
	Share     float64 `json:"share"` // 0…1
	SavesMS   float64 `json:"saves_ms"`
}

// Evidence is one observation held against one rule.
type Evidence struct {
	Rule      string `json:"rule"` // identifier, see docs/verdict.md
	Claim     string `json:"claim"`
	Observed  string `json:"observed"`
	Threshold string `json:"threshold"`
	Supports  bool   `json:"supports"` // the verdict; false speaks against it
}
