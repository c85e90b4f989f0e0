package dnscheck

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/miekg/dns"
)

// Exchanger sends one query and returns the answer to it. It neither retries
// nor falls back to another transport or server: those are decisions of the
// stub. It must return soon after ctx ends, and be safe for concurrent use.
//
// Where nothing usable came back the error is, or wraps, an *OutcomeError.
type Exchanger interface {
	Exchange(ctx context.Context, q Query) (*Answer, error)
}

// Query is one question to one server. The zero value of everything but
// Server, Name and Type is useful.
type Query struct {
	Server netip.AddrPort
	Name   string // presentation format, absolute or not
	Type   uint16 // dns.TypeA …
	Class  uint16 // zero means IN
	TCP    bool
	// ID of the message; zero means a random one. A stub that asks again on
	// the same socket uses the same ID again, so that a late answer to the
	// first query serves.
	ID uint16
	// EDNS is the UDP size to advertise in an OPT record (RFC 6891). Zero
	// sends no OPT.
	EDNS uint16
	// DO asks for signatures (RFC 4035, section 3.2.1); it needs EDNS.
	DO bool
	// AD and CD are the header bits of RFC 4035; NoRD clears RD.
	AD, CD, NoRD bool
	// Flow, where not nil, is the socket to use: queries to one server with
	// one Flow leave from one port, as a stub's A and AAAA do. Nil means a
	// socket of its own.
	Flow *Flow
}

// Answer is a reply that belongs to its query: id and question are the same.
type Answer struct {
	// Msg is the reply. Where Truncated is set its sections may be incomplete.
	Msg *dns.Msg
	// Elapsed is the time from sending to receipt, handshake included in TCP.
	Elapsed time.Duration
	// Connect is the TCP handshake's part of Elapsed; 0 for UDP.
	Connect time.Duration
	// Truncated says that the reply does not hold everything: TC was set, or
	// the datagram ended inside a record.
	Truncated bool
	Size      int // bytes of the DNS message
	// Ignored counts replies that came before this one and belonged to no
	// query of ours.
	Ignored int
}

// Outcome is what became of a query that got no usable answer.
type Outcome string

// The outcomes. They appear as a Step's Rcode.
const (
	Timeout     Outcome = "timeout"     // nothing came before ctx ended
	Refused     Outcome = "refused"     // ICMP port unreachable, or TCP RST
	Unreachable Outcome = "unreachable" // ICMP host/net unreachable, no route, no such source
	Malformed   Outcome = "malformed"   // a reply to this query that cannot be read
	Mismatch    Outcome = "mismatch"    // replies came, but to other questions
	Closed      Outcome = "closed"      // a TCP peer that hung up
	Interrupted Outcome = "interrupted" // the caller's ctx ended
)

// OutcomeError says why there is no Answer.
type OutcomeError struct {
	Outcome Outcome
	Server  netip.AddrPort
	TCP     bool
	// Connect is the TCP handshake's time where there was one.
	Connect time.Duration
	Elapsed time.Duration
	Err     error // the cause, may be nil
}

// Error implements error.
func (e *OutcomeError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("dnscheck: asking %s: %s: %v", e.Server, e.Outcome, e.Err)
	}
	return fmt.Sprintf("dnscheck: asking %s: %s", e.Server, e.Outcome)
}

// Unwrap returns the cause.
func (e *OutcomeError) Unwrap() error { return e.Err }

// asOutcome returns the OutcomeError in err's chain, nil if there is none.
func asOutcome(err error) *OutcomeError {
	var oe *OutcomeError
	if errors.As(err, &oe) {
		return oe
	}
	return nil
}
