package httpcheck

import (
	"time"

	"github.com/whyslow/whyslow/internal/millis"
)

// Schema names the JSON form of a Result.
const Schema = "whyslow/http/1"

// Result is what fetching one URL costs, cold and warm.
type Result struct {
	Schema  string       `json:"schema"`
	URL     string       `json:"url"` // credentials removed
	Started time.Time    `json:"started"`
	Elapsed millis.Value `json:"elapsed_ms"`
	// Samples are in order of time. Warm samples follow the cold one whose
	// connection they use.
	Samples  []Sample  `json:"samples"`
	Controls []Control `json:"controls,omitempty"`
	Summary  Summary   `json:"summary"`
	Body     Body      `json:"body"`
	Requests int       `json:"requests"` // sent in all, controls included
	// Failure is set if no sample succeeded; it is the commonest failure.
	Failure  *Failure `json:"failure"`
	Warnings []string `json:"warnings,omitempty"`
}

// Sample is the URL fetched once. A cold sample starts at the URL and follows
// its redirects; so does the first warm one of a run. Later warm samples ask
// for the final URL alone.
type Sample struct {
	// Cold says that this sample opened the connection of its last exchange,
	// though an earlier exchange of the sample may have been first on it.
	Cold bool `json:"cold"`
	// Connection and Request are those of the last exchange.
	Connection int        `json:"connection"`
	Request    int        `json:"request"`
	Exchanges  []Exchange `json:"exchanges"`
	Failure    *Failure   `json:"failure"`
}

// Exchange is one request and its response.
type Exchange struct {
	URL    string `json:"url"`
	Method string `json:"method"`
	// Connection numbers the connections of the run from 1, Request the
	// requests on that connection from 1; 0 if it never got that far.
	Connection int `json:"connection"`
	Request    int `json:"request"`
	// At is when the exchange began, since the run began.
	At       millis.Value `json:"at_ms"`
	Status   int          `json:"status"` // 0 if no response came
	Protocol string       `json:"protocol"`
	Remote   string       `json:"remote"` // address:port
	Local    string       `json:"local"`
	Phases   Phases       `json:"phases"`
	// Network is the least the network needs for one round trip of this
	// connection (tcpi_min_rtt); Server is wait minus that, null if unknown.
	Network millis.Value `json:"network_ms"`
	Server  millis.Value `json:"server_ms"`
	Bytes   int64        `json:"bytes"` // body bytes as received, never decoded
	// Truncated is "size" or "time" if reading stopped at Options.MaxBody or
	// Options.BodyTime; receive and total are then lower bounds. "stream" is a
	// body that is meant not to end. Empty means it was read to its end.
	Truncated string `json:"truncated,omitempty"`
	// Interim counts the 1xx responses before the final one.
	Interim  int       `json:"interim,omitempty"`
	Attempts []Attempt `json:"attempts,omitempty"`
	TLS      *TLS      `json:"tls,omitempty"`
	TCP      *TCP      `json:"tcp"`       // at the end of the exchange; null where the platform has none
	TCPStart *TCP      `json:"tcp_start"` // just after connect, or before the request on a warm connection
	// Gaps describe the body's arrival.
	Gaps         *Gaps    `json:"gaps,omitempty"`
	ServerHeader string   `json:"server_header,omitempty"`
	ServerTiming []Timing `json:"server_timing,omitempty"`
	Location     string   `json:"location,omitempty"`
	ContentType  string   `json:"content_type,omitempty"`
	// ContentEncoding is as sent; Bytes are the encoded ones.
	ContentEncoding string   `json:"content_encoding,omitempty"`
	RetryAfter      string   `json:"retry_after,omitempty"`
	Failure         *Failure `json:"failure"`
}

// Phases of an exchange. A phase that did not happen or did not finish is null.
type Phases struct {
	Resolve millis.Value `json:"resolve_ms"`
	Connect millis.Value `json:"connect_ms"`
	TLS     millis.Value `json:"tls_ms"`
	Send    millis.Value `json:"send_ms"`
	Wait    millis.Value `json:"wait_ms"`    // request sent to first byte of the final response
	Receive millis.Value `json:"receive_ms"` // first byte to last
	Total   millis.Value `json:"total_ms"`
}

// Attempt is one address that was dialled (RFC 8305).
type Attempt struct {
	Addr    string       `json:"addr"`
	At      millis.Value `json:"at_ms"` // since the connect phase began
	Elapsed millis.Value `json:"elapsed_ms"`
	Error   string       `json:"error,omitempty"` // "superseded" for one that lost the race
	Kind    string       `json:"kind,omitempty"`  // as Failure.Kind; empty if it won or lost the race
	Won     bool         `json:"won"`
}

// TLS is what the handshake agreed on.
type TLS struct {
	Version    string    `json:"version"` // "TLS 1.3"
	Cipher     string    `json:"cipher"`
	Resumed    bool      `json:"resumed"`
	NotBefore  time.Time `json:"not_before"`
	NotAfter   time.Time `json:"not_after"`
	Subject    string    `json:"subject"`
	Issuer     string    `json:"issuer"`
	ChainBytes int       `json:"chain_bytes"`
	// RoundTrips is the number of network round trips the handshake needs.
	RoundTrips int `json:"round_trips"`
}

// TCP is the part of the kernel's TCP_INFO that tells the suspects apart.
type TCP struct {
	RTT        millis.Value `json:"rtt_ms"`
	MinRTT     millis.Value `json:"min_rtt_ms"`
	RcvRTT     millis.Value `json:"rcv_rtt_ms"`
	SndMSS     int          `json:"snd_mss"`
	RcvMSS     int          `json:"rcv_mss"`
	AdvMSS     int          `json:"adv_mss"`
	Timestamps bool         `json:"timestamps"` // in use (RFC 7323): 12 bytes of each segment are not in snd_mss and rcv_mss
	PMTU       int          `json:"pmtu"`
	Retrans    int          `json:"total_retrans"` // segments we sent again; on connect, SYNs lost
	RTOs       int          `json:"total_rto"`     // retransmission timeouts; -1 unknown
	OutOfOrder int          `json:"rcv_ooopack"`   // a flag of download loss or reordering, not a count
	RcvSpace   int          `json:"rcv_space"`
	BytesIn    int64        `json:"bytes_received"`
}

// Gaps tells how a body arrived. Pauses are spans without a byte longer than
// max(10 ms, RTT/2).
type Gaps struct {
	Reads        int          `json:"reads"`
	Pauses       int          `json:"pauses"`
	LongestPause millis.Value `json:"longest_pause_ms"`
	LongestAt    millis.Value `json:"longest_at_ms"` // its begin, since the first byte
	PausedTotal  millis.Value `json:"paused_ms"`
}

// Timing is one metric of a Server-Timing header.
type Timing struct {
	Name string       `json:"name"`
	Dur  millis.Value `json:"dur_ms"`
	Desc string       `json:"desc,omitempty"`
}

// Failure says how far an exchange came and why it ended there.
type Failure struct {
	// Phase is "resolve", "connect", "tls", "send", "wait", "receive" or
	// "redirect".
	Phase string `json:"phase"`
	// Kind is one of "nxdomain", "dns", "refused", "unreachable", "timeout",
	// "reset", "certificate", "tls", "closed", "protocol", "too-large",
	// "redirect-loop", "canceled", "other".
	Kind string `json:"kind"`
	Text string `json:"text"`
	// After is the time from the start of the exchange to the failure, InPhase
	// the part of it spent in the phase that failed.
	After   millis.Value `json:"after_ms"`
	InPhase millis.Value `json:"in_phase_ms"`
}

// Control is a variation of the request that separates two suspects.
type Control struct {
	// Name is "static", "not-found", "options", "mss-clamp", "canary",
	// "port", "ipv4", "ipv6".
	Name     string   `json:"name"`
	Why      string   `json:"why"` // what it is to decide, one clause
	Exchange Exchange `json:"exchange"`
	// Runs are further repetitions, if any.
	Runs []Exchange `json:"runs,omitempty"`
}

// Summary are medians over the samples that succeeded.
type Summary struct {
	Cold int `json:"cold"` // how many
	Warm int `json:"warm"`
	// ColdPhases and WarmPhases add up the exchanges of each sample, so a
	// redirect's time is in them; Steps has them apart. WarmPhases are over
	// the samples that went to the final URL in one exchange, if there are any.
	// Each phase is its own median over the samples it happened in. A host is
	// looked up once a run; Total is the median time without lookups, plus
	// Resolve, so that it is the time of a load that has to look up.
	ColdPhases Phases       `json:"cold_phases"`
	WarmPhases Phases       `json:"warm_phases"`
	MinRTT     millis.Value `json:"min_rtt_ms"` // the least of all connections to the final address
	// ColdServer, SecondServer and WarmServer are the server's part of the
	// wait for the first request on a connection, the second, and the third
	// and later (the second and later if no connection had three). A lookup
	// once a connection shows as ColdServer above WarmServer; one made while
	// the first request is logged, as SecondServer above both.
	ColdServer   millis.Value `json:"cold_server_ms"`
	WarmServer   millis.Value `json:"warm_server_ms"`
	SecondServer millis.Value `json:"second_server_ms"`
	// ByRequest has the same for each request number, the final URL and its
	// redirects apart.
	ByRequest []RequestStat `json:"by_request,omitempty"`
	// Steps are the exchanges of the cold samples in order, one without
	// redirects.
	Steps []Step `json:"steps,omitempty"`
	Bytes int64  `json:"bytes"` // of the final response
}

// RequestStat is the server's time for the n-th request of a connection.
type RequestStat struct {
	URL     string       `json:"url"`
	Request int          `json:"request"` // from 1
	Count   int          `json:"count"`
	Wait    millis.Value `json:"wait_ms"`   // median
	Server  millis.Value `json:"server_ms"` // median; null if unknown
	Min     millis.Value `json:"server_min_ms"`
	Max     millis.Value `json:"server_max_ms"`
}

// Step is one exchange of the way to the final URL, medians over the cold
// samples that went this way; the total as in Summary.
type Step struct {
	URL     string       `json:"url"`
	Status  int          `json:"status"`
	Count   int          `json:"count"`
	Phases  Phases       `json:"phases"`
	Network millis.Value `json:"network_ms"`
	Server  millis.Value `json:"server_ms"`
}

// Body classifies the transfer.
type Body struct {
	// Class is the commonest over the samples: "clean", "drip",
	// "link-limited", "loss", "undetermined", or "none" without a body.
	// Classify claims only those that one transfer can show.
	Class string `json:"class"`
	Text  string `json:"text,omitempty"`
}

// First returns the exchange of the control that opened its connection: what
// comes once a connection shows there. ok is false if none did.
func (c *Control) First() (x Exchange, ok bool) {
	for _, x := range append([]Exchange{c.Exchange}, c.Runs...) {
		if x.Request == 1 {
			return x, true
		}
	}
	return x, false
}
