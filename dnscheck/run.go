package dnscheck

import (
	"context"
	"iter"
	"net/netip"
	"slices"
	"time"

	"github.com/whyslow/whyslow/internal/millis"
)

// Event is one thing learned. Exactly one field is set.
type Event struct {
	Config  *ConfigView `json:"config,omitempty"`
	Stub    *Stub       `json:"stub,omitempty"`
	Server  *Server     `json:"server,omitempty"`
	Cold    *Server     `json:"cold,omitempty"`
	Control *Server     `json:"control,omitempty"`
	Reverse *Reverse    `json:"reverse,omitempty"`
	Zone    *Zone       `json:"zone,omitempty"`
	Walk    *Walk       `json:"walk,omitempty"`
	Warning string      `json:"warning,omitempty"`
}

// Apply adds what e says to r. Folding the events of one run, in any order,
// and then calling Find gives the Result of Run.
func (r *Result) Apply(e Event) {
	switch {
	case e.Config != nil:
		r.Config = *e.Config
	case e.Stub != nil:
		// The contract has no stub for a literal, which nobody resolves.
		if e.Stub.Source != sourceLiteral {
			r.Stub = e.Stub
		}
	case e.Server != nil:
		r.Servers = append(r.Servers, *e.Server)
	case e.Cold != nil:
		r.Cold = append(r.Cold, *e.Cold)
	case e.Control != nil:
		r.Controls = append(r.Controls, *e.Control)
	case e.Reverse != nil:
		r.Reverse = append(r.Reverse, *e.Reverse)
	case e.Zone != nil:
		r.Delegation = append(r.Delegation, *e.Zone)
	case e.Walk != nil:
		r.Walk = e.Walk
	case e.Warning != "":
		r.Warnings = append(r.Warnings, e.Warning)
	}
}

// sourceLiteral is the Source of a Stub that had nothing to resolve.
const sourceLiteral = "literal"

// Resolve does the stub's part alone: what a program on this host would wait
// for the name, and the addresses it would get. A literal address costs
// nothing and is its own result, with Source "literal". The error is of the
// options or the resolv.conf.
func Resolve(ctx context.Context, o Options) (*Stub, error) {
	s, err := newSession(o)
	if err != nil {
		return nil, err
	}
	return s.resolve(ctx), nil
}

func (s *session) resolve(ctx context.Context) *Stub {
	if a := s.target.addr; a.IsValid() {
		return &Stub{
			Model: string(s.model), Source: sourceLiteral, Elapsed: millis.Of(0), Rcode: "NOERROR",
			Addrs: []netip.Addr{a}, Steps: []Step{},
		}
	}
	return s.stub(ctx, s.target.name)
}

// Events measures everything Run does and yields what it learns: the
// configuration first, then the stub (Source "literal" for an address), then
// the rest in the order it arrives. The one possible error, of the options or
// the resolv.conf, comes first and alone. A caller that stops early stops the
// measurement.
func Events(ctx context.Context, o Options) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		s, err := newSession(o)
		if err != nil {
			yield(Event{}, err)
			return
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		events := make(chan Event)
		go func() {
			defer close(events)
			s.measureAll(ctx, func(e Event) { events <- e })
		}()
		stopped := false
		for e := range events {
			if !stopped && !yield(e, nil) {
				stopped = true
				cancel() // and drain, so that the goroutine ends
			}
		}
	}
}

// Run measures the resolution of o.Name and judges it. The error is of the
// options or the resolv.conf alone: a name that does not resolve is a Result.
// When ctx ends the Result holds what is known, and says Interrupted.
func Run(ctx context.Context, o Options) (*Result, error) {
	began := time.Now()
	r := &Result{
		Schema: Schema, Name: o.Name, Started: began.UTC(),
		Servers: []Server{}, Delegation: []Zone{}, Findings: []Finding{},
	}
	for e, err := range Events(ctx, o) {
		if err != nil {
			return nil, err
		}
		r.Apply(e)
	}
	r.Elapsed = millis.Of(time.Since(began))
	r.Interrupted = ctx.Err() != nil
	r.sort()
	r.Findings = Find(r)
	return r, nil
}

// sort puts the rows into the order of the configuration, whatever the order
// of their arrival, so that two runs can be compared.
func (r *Result) sort() {
	rank := func(addr string) int {
		if i := slices.Index(r.Config.Nameservers, addr); i >= 0 {
			return i
		}
		return len(r.Config.Nameservers)
	}
	for _, rows := range [][]Server{r.Servers, r.Cold, r.Controls} {
		slices.SortStableFunc(rows, func(a, b Server) int {
			if d := rank(a.Addr) - rank(b.Addr); d != 0 {
				return d
			}
			for _, p := range [][2]string{{b.Transport, a.Transport}, {a.Type, b.Type}, {a.Name, b.Name}} {
				if p[0] != p[1] {
					if p[0] < p[1] {
						return -1
					}
					return 1
				}
			}
			return 0
		})
	}
	slices.SortStableFunc(r.Reverse, func(a, b Reverse) int {
		if a.Of != b.Of { // "server" before "client"
			if a.Of > b.Of {
				return -1
			}
			return 1
		}
		return a.Addr.Compare(b.Addr)
	})
}
