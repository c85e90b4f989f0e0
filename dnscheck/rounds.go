package dnscheck

import (
	"strings"
	"time"
)

// round is one wait of the stub: the steps that ran side by side.
type round struct {
	steps    []Step
	at, took time.Duration
	last     bool // the one that ended the resolution
}

// rounds cuts the stub's time into its waits. Each lasts until the next one
// begins, the last until the end, so that they add up to the whole.
func rounds(s *Stub) []round {
	var out []round
	for _, st := range s.Steps {
		if n := len(out); n > 0 && out[n-1].steps[0].Round == st.Round {
			out[n-1].steps = append(out[n-1].steps, st)
			continue
		}
		out = append(out, round{steps: []Step{st}, at: st.At.Duration()})
	}
	for i := range out {
		end := s.Elapsed.Duration()
		if i+1 < len(out) {
			end = out[i+1].at
		} else {
			out[i].last = true
		}
		out[i].took = max(0, end-out[i].at)
	}
	return out
}

func (r *round) server() string    { return r.steps[0].Server }
func (r *round) name() string      { return r.steps[0].Name }
func (r *round) tcp() bool         { return r.steps[0].Transport == "tcp" }
func (r *round) is(rc string) bool { return r.find(func(s *Step) bool { return s.Rcode == rc }) != nil }

func (r *round) find(ok func(*Step) bool) *Step {
	for i := range r.steps {
		if ok(&r.steps[i]) {
			return &r.steps[i]
		}
	}
	return nil
}

// silent is a step that was waited for in vain.
func silent(s *Step) bool {
	return s.Rcode == string(Timeout) || s.Rcode == string(Mismatch)
}

// unreachable is a step that failed at once.
func unreachable(s *Step) bool {
	return s.Rcode == string(Refused) || s.Rcode == string(Unreachable) || s.Rcode == string(Closed)
}

// rejected is a step whose answer sends the stub to the next server.
func rejected(s *Step) bool {
	return s.Rcode == "SERVFAIL" || s.Rcode == "REFUSED" || s.Rcode == "NOTIMP" || s.Referral
}

// slowest is the time of the slowest answer in the round.
func (r *round) slowest() time.Duration {
	var d time.Duration
	for i := range r.steps {
		if r.steps[i].answered() {
			d = max(d, r.steps[i].Elapsed.Duration())
		}
	}
	return d
}

// same compares names.
func same(a, b string) bool {
	return strings.EqualFold(strings.TrimSuffix(a, "."), strings.TrimSuffix(b, "."))
}
